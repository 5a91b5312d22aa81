import { describe, expect, test } from 'vitest';
import { applied, mutantsOf } from './mutants.ts';

const mutated = (source: string): string[] => mutantsOf('x.ts', source).map((mutant) => applied(source, mutant));

describe('mutants of a source', () => {
  test('an operator becomes its neighbour, and a condition a constant', () => {
    expect(mutated('if (a < b) c();')).toEqual(['if (false) c();', 'if (true) c();', 'if (a <= b) c();', 'if (a < b) ;']);
  });

  test('what an expression falls back to, waits for or negates is dropped', () => {
    expect(mutated('const x = a ?? b;')).toEqual(['const x = a;']);
    expect(mutated('export const f = async () => await g();')).toEqual(['export const f = async () => (g());']);
    expect(mutated('const x = !a;')).toEqual(['const x = a;']);
  });

  test('a method becomes its opposite, and a filter lets everything through', () => {
    expect(mutated('const x = a.some(f);')).toEqual(['const x = a.every(f);']);
    expect(mutated('const x = a.filter(f);')).toEqual(['const x = a;']);
  });

  test('types, imports and joined text stay as they are', () => {
    expect(mutated("import a from 'b'; type T = 1 | true; interface I { a: 0 } const x: 1 | 2 = y as 0;")).toEqual([]);
    expect(mutated("const x = 'a' + b;")).toEqual([]);
  });

  test('a source that does not parse is refused', () => {
    expect(() => mutantsOf('x.ts', 'const = 1')).toThrow(/x\.ts does not parse/);
  });
});
