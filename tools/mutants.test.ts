import { describe, expect, test } from 'vitest';
import { applied, mutantsOf } from './mutants.ts';
import { importersOf, stagesOf } from './teststages.ts';

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

describe('the tests that a mutant meets', () => {
  const sources = new Map([
    ['src/tar.ts', "import { join } from 'node:path';"],
    ['src/store.ts', "import { unpack } from './tar.ts';\nexport const tar = () => import('./lazy.ts');"],
    ['src/lazy.ts', "export { b } from './other/b.ts';"],
    ['src/other/b.ts', "import type { A } from '../tar.ts';"],
    ['src/tar.test.ts', "import { unpack } from './tar.ts';"],
    ['src/store.test.ts', "import {\n  store,\n} from './store.ts';"],
    ['src/alone.test.ts', "import { expect } from 'vitest';"],
  ]);

  test('are those that import its file, directly or through others', () => {
    expect([...importersOf('src/store.ts', sources)]).toEqual(['src/store.ts', 'src/store.test.ts']);
    expect([...importersOf('src/tar.ts', sources)].toSorted()).toEqual(
      [...sources.keys()].filter((file) => file !== 'src/alone.test.ts').toSorted(),
    );
  });

  test('the quick ones of them come first, all others after them, and none is left out', () => {
    const durations = new Map([
      ['slow', 90],
      ['second', 10],
      ['first', 5],
      ['third', 6],
      ['unrelated', 1],
    ]);
    expect(stagesOf(durations, new Set(['slow', 'first', 'second', 'third']))).toEqual([
      ['first', 'third', 'second'],
      ['slow', 'unrelated'],
    ]);
  });

  test('one file that imports it comes first, however slow; and all at once where none does', () => {
    expect(
      stagesOf(
        new Map([
          ['slow', 90],
          ['quick', 1],
        ]),
        new Set(['slow']),
      ),
    ).toEqual([['slow'], ['quick']]);
    expect(stagesOf(new Map([['slow', 90]]), new Set())).toEqual([['slow']]);
    expect(stagesOf(new Map([['slow', 90]]), new Set(['slow']))).toEqual([['slow']]);
  });
});
