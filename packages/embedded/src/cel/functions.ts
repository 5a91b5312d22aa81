/** Functions that Kubernetes adds to CEL and the evaluator lacks: of its lists, regex and strings libraries. */
import type { Environment } from '@marcbachmann/cel-js';
import { findAll, matches } from '../regexp.ts';
import { BYTES_A_UNIT, spend } from './cost.ts';

/** Replaces functions of the evaluator: its `matches` uses the engine of JavaScript, its `join` may make a long text from a short one. */
export const REPLACED: Readonly<Record<string, string>> = { matches: 'matchesLinear', join: 'joinCounted' };

type Ordered = bigint | number | string | boolean;

const extreme = (name: string, better: (a: Ordered, b: Ordered) => boolean) => (list: Iterable<Ordered>) => {
  const [first, ...rest] = list;
  if (first === undefined) throw new RangeError(`${name} called on empty list`);
  return rest.reduce((best, item) => (better(item, best) ? item : best), first);
};

const isSorted = (list: Iterable<Ordered>) => {
  const items = [...list];
  return items.every((item, index) => index === 0 || (items[index - 1] ?? item) <= item);
};

function replace(text: string, from: string, to: string, limit: bigint): string {
  const most = limit < 0n ? text.length + 1 : Math.min(Number(limit), text.length + 1);
  spend((Math.min(most, text.split(from).length) * to.length) / BYTES_A_UNIT);
  if (limit < 0n) return text.replaceAll(from, () => to);
  let out = text;
  let at = 0;
  for (let left = limit; left > 0n; left--) {
    const found = out.indexOf(from, at);
    if (found < 0) break;
    out = out.slice(0, found) + to + out.slice(found + from.length);
    at = found + to.length;
  }
  return out;
}

function join(list: Iterable<unknown>, separator = ''): string {
  const items = [...list].map((item) => {
    if (typeof item !== 'string') throw new RangeError('no such overload');
    return item;
  });
  spend((items.length * separator.length) / BYTES_A_UNIT);
  return items.join(separator);
}

export function addFunctions(environment: Environment): void {
  for (const type of ['int', 'double', 'string', 'bool']) {
    environment.registerFunction(`list<${type}>.isSorted(): bool`, isSorted);
    environment.registerFunction(
      `list<${type}>.min(): ${type}`,
      extreme('min', (a, b) => a < b),
    );
    environment.registerFunction(
      `list<${type}>.max(): ${type}`,
      extreme('max', (a, b) => a > b),
    );
    environment.registerFunction(`list<${type}>.indexOf(${type}): int`, (list: Iterable<Ordered>, item: Ordered) =>
      BigInt([...list].indexOf(item)),
    );
    environment.registerFunction(`list<${type}>.lastIndexOf(${type}): int`, (list: Iterable<Ordered>, item: Ordered) =>
      BigInt([...list].lastIndexOf(item)),
    );
  }
  environment.registerFunction('list<int>.sum(): int', (list: Iterable<bigint>) => [...list].reduce((sum, item) => sum + item, 0n));
  environment.registerFunction('list<double>.sum(): double', (list: Iterable<number>) => [...list].reduce((sum, item) => sum + item, 0));
  environment.registerFunction('string.find(string): string', (text: string, pattern: string) => findAll(pattern, text, 1)[0] ?? '');
  environment.registerFunction('string.findAll(string): list<string>', (text: string, pattern: string) => findAll(pattern, text));
  environment.registerFunction('string.matchesLinear(string): bool', (text: string, pattern: string) => matches(pattern, text));
  environment.registerFunction('list<string>.joinCounted(): string', (list: Iterable<unknown>) => join(list));
  environment.registerFunction('list<string>.joinCounted(string): string', join);
  environment.registerFunction('string.charAt(int): string', (text: string, at: bigint) => Array.from(text)[Number(at)] ?? '');
  environment.registerFunction('string.replace(string, string): string', (text: string, from: string, to: string) =>
    replace(text, from, to, -1n),
  );
  environment.registerFunction('string.replace(string, string, int): string', replace);
}
