/** What the child wrote was shaped by code of the fleet, which is not trusted: each value is checked. */
import type { KubeObject } from '../../api/wire.ts';
import { positionOf, type Finding } from './finding.ts';

export interface RenderedObject {
  object: KubeObject;
  /** `fleet/nodes.ts:12:3`. As the fleet reports it: hostile code can make it report another. */
  location: string;
  constructPath: string;
}

export interface RenderedCluster {
  name: string;
  /** The Cluster object for the hub. */
  object: KubeObject;
  location: string;
  objects: RenderedObject[];
}

export const MAX_DEPTH = 64;

export type Decoded = { clusters: RenderedCluster[]; findings: Finding[]; unsigned: Finding[] } | undefined;

/** undefined when it is not what the child writes at all. */
export function decode(text: string): Decoded {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  if (value['ok'] === false && Array.isArray(value['findings'])) {
    const findings = findingsOf(value['findings']);
    return findings.length === 0 ? undefined : { clusters: [], findings, unsigned: [] };
  }
  if (value['ok'] !== true || !Array.isArray(value['clusters']) || !Array.isArray(value['unsigned'])) return undefined;
  const findings: Finding[] = [];
  const clusters: RenderedCluster[] = [];
  for (const item of value['clusters'] as unknown[]) {
    if (!isRecord(item) || typeof item['name'] !== 'string' || !Array.isArray(item['objects'])) return undefined;
    const name = clean(item['name']);
    const location = locationOf(item['location']);
    const object = objectOf(item['object'], name, location, findings);
    const objects: RenderedObject[] = [];
    for (const each of item['objects'] as unknown[]) {
      if (!isRecord(each)) return undefined;
      const at = locationOf(each['location']);
      const found = objectOf(each['object'], name, at, findings);
      if (found !== undefined) objects.push({ object: found, location: at, constructPath: clean(String(each['path'])) });
    }
    if (object !== undefined) clusters.push({ name, object, location, objects });
  }
  return { clusters, findings, unsigned: findingsOf(value['unsigned']) };
}

function objectOf(value: unknown, cluster: string, location: string, findings: Finding[]): KubeObject | undefined {
  const report = (message: string, path?: string) => {
    findings.push({ ...positionOf(location), code: 'RenderValue', cluster, message, path });
    return undefined;
  };
  const bad = unfit(value);
  if (bad !== undefined) return report(bad);
  if (isKubeObject(value)) return value;
  return report('must have text in `apiVersion`, `kind` and `metadata.name`');
}

function isKubeObject(value: unknown): value is KubeObject {
  if (!isRecord(value) || !isRecord(value['metadata'])) return false;
  const { name, namespace } = value['metadata'];
  const texts = [value['apiVersion'], value['kind'], name];
  return texts.every((text) => typeof text === 'string' && text !== '') && (namespace === undefined || typeof namespace === 'string');
}

/** Without recursion: what is nested too deep must not overflow the stack here either. */
function unfit(value: unknown): string | undefined {
  const queue: { value: unknown; depth: number }[] = [{ value, depth: 0 }];
  for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
    if (next.value === null || typeof next.value !== 'object') continue;
    if (next.depth > MAX_DEPTH) return `must not be nested deeper than ${MAX_DEPTH}`;
    if (Object.hasOwn(next.value, '__proto__')) return 'must not have a key "__proto__"';
    for (const item of Array.isArray(next.value) ? next.value : Object.values(next.value)) {
      if (item === null && Array.isArray(next.value)) return 'must not have null in a list';
      queue.push({ value: item, depth: next.depth + 1 });
    }
  }
  return undefined;
}

const findingsOf = (values: unknown[]): Finding[] => values.slice(0, 1000).filter(isRecord).map(finding);

function finding(value: Record<string, unknown>): Finding {
  const text = (key: string) => (typeof value[key] === 'string' ? clean(value[key]) : undefined);
  const number = (key: string) => (typeof value[key] === 'number' && Number.isSafeInteger(value[key]) ? value[key] : undefined);
  const trace = Array.isArray(value['trace']) ? value['trace'].filter((each) => typeof each === 'string').map(clean) : undefined;
  return {
    code: text('code') ?? 'RenderThrew',
    message: text('message') ?? '',
    file: text('file'),
    line: number('line'),
    column: number('column'),
    cluster: text('cluster'),
    object: text('object'),
    path: text('path'),
    next: text('next'),
    trace: trace?.slice(0, 5),
  };
}

function locationOf(value: unknown): string {
  return typeof value === 'string' ? clean(value) : '';
}

/** One line, fit for a terminal, at most 1,000 characters. */
function clean(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, ' ').slice(0, 1000);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
