import { readFileSync } from 'node:fs';
import type { Json, JsonObject } from '../../src/api/wire.ts';

/** One path where two answers differ; `path` is dotted. */
export interface Difference {
  readonly path: string;
  readonly embedded: Json | undefined;
  readonly real: Json | undefined;
}

const isObject = (value: Json | undefined): value is JsonObject => value !== null && typeof value === 'object' && !Array.isArray(value);

/** All differences, each at the deepest path that both have. */
export function differences(embedded: Json | undefined, real: Json | undefined, path = ''): Difference[] {
  const at = (key: string | number): string => (path === '' ? String(key) : `${path}.${key}`);
  if (Array.isArray(embedded) && Array.isArray(real)) {
    return Array.from({ length: Math.max(embedded.length, real.length) }, (_, i) => differences(embedded[i], real[i], at(i))).flat();
  }
  if (isObject(embedded) && isObject(real)) {
    return [...new Set([...Object.keys(embedded), ...Object.keys(real)])].flatMap((key) => differences(embedded[key], real[key], at(key)));
  }
  return embedded === real ? [] : [{ path, embedded, real }];
}

/** The bodies of answers with different statuses have different kinds; their statuses and messages are enough. */
export function stepDifferences(embedded: readonly Json[], real: readonly Json[]): Difference[] {
  return Array.from({ length: Math.max(embedded.length, real.length) }, (_, i) => {
    const [ours, theirs] = [embedded[i], real[i]];
    if (!isObject(ours) || !isObject(theirs) || ours['status'] === theirs['status']) return differences(ours, theirs, String(i));
    return [{ path: `${i}.status`, embedded: briefly(ours), real: briefly(theirs) }];
  }).flat();
}

function briefly(step: JsonObject): Json {
  const body = isObject(step['body']) ? step['body'] : {};
  return `${JSON.stringify(step['status'])} ${JSON.stringify(body['message'] ?? body['kind'] ?? body['text'] ?? null)}`;
}

/** A difference that is known, and why it stays. */
export interface Known {
  readonly reason: string;
  /** By `file: sentence`: the paths that differ; `*` stands for one part of a path, `**` at its end for any rest. */
  readonly where: Readonly<Record<string, readonly string[]>>;
}

export const KNOWN = JSON.parse(readFileSync(new URL('known-differences.json', import.meta.url), 'utf8')) as readonly Known[];

function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('.');
  const found = path.split('.');
  if (wanted.at(-1) === '**') {
    wanted.pop();
    found.length = Math.min(found.length, wanted.length);
  }
  return wanted.length === found.length && wanted.every((part, i) => part === '*' || part === found[i]);
}

/** Splits what differs in one test into what is not known, and what is listed as known but does not differ. */
export function judge(test: string, found: readonly Difference[], known: readonly Known[]): { unknown: Difference[]; stale: string[] } {
  const patterns = known.flatMap(({ where }) => where[test] ?? []);
  return {
    unknown: found.filter(({ path }) => !patterns.some((pattern) => matches(pattern, path))),
    stale: patterns.filter((pattern) => !found.some(({ path }) => matches(pattern, path))),
  };
}
