/** Functions that Kubernetes adds to CEL and the evaluator lacks: of its lists, regex and strings libraries. */
import type { Environment } from '@marcbachmann/cel-js';

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

const matches = (pattern: string, flags = ''): RegExp => new RegExp(pattern, `u${flags}`);

function replace(text: string, from: string, to: string, limit: bigint): string {
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
  environment.registerFunction('string.find(string): string', (text: string, pattern: string) => matches(pattern).exec(text)?.[0] ?? '');
  environment.registerFunction('string.findAll(string): list<string>', (text: string, pattern: string) =>
    [...text.matchAll(matches(pattern, 'g'))].map(([found]) => found),
  );
  environment.registerFunction('string.charAt(int): string', (text: string, at: bigint) => Array.from(text)[Number(at)] ?? '');
  environment.registerFunction('string.replace(string, string): string', (text: string, from: string, to: string) =>
    replace(text, from, to, -1n),
  );
  environment.registerFunction('string.replace(string, string, int): string', replace);
}
