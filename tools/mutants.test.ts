import { describe, expect, test } from 'vitest';
import { applied, mutantsOf } from './mutants.ts';
import { importersOf, stagesOf } from './test-stages.ts';

const mutated = (source: string): string[] => mutantsOf('x.ts', source).map((mutant) => applied(source, mutant));

describe('mutants of a source', () => {
  test('an operator becomes its neighbour, and a condition a constant', () => {
    expect(mutated('if (a < b) c();')).toEqual(['if (false) c();', 'if (true) c();', 'if (a <= b) c();', 'if (a < b) ;']);
  });

  test('what an expression falls back to, waits for or negates is dropped', () => {
    expect(mutated('const x = a ?? b;')).toEqual(['const x = a;']);
    expect(mutated('const x = await g();')).toEqual(['const x = (g());']);
    expect(mutated('const x = !a;')).toEqual(['const x = a;']);
  });

  test('an await before what is returned changes nothing, save in a try', () => {
    expect(mutated('const f = async () => await g();')).toEqual([]);
    expect(mutated('async function f() { return await g(); }')).toEqual([]);
    expect(mutated('const f = async () => { try { return await g(); } catch { h; } };')).toHaveLength(1);
    expect(mutated('try { h(async () => await g()); } catch { i; }').some((each) => each.includes('=> (g())'))).toBe(false);
  });

  test('what every object inherits is no opposite of a method', () => {
    expect(mutated('const x = a.toString();')).toEqual([]);
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

  const tests = new Map([
    ['src/tar.ts', ''],
    ['src/store.ts', "import './tar.ts';"],
    ['src/slow.test.ts', "import './tar.ts';"],
    ['src/direct.test.ts', "import './tar.ts';"],
    ['src/through.test.ts', "import './store.ts';"],
    ['src/costly.test.ts', "import './store.ts';"],
    ['src/unrelated.test.ts', ''],
  ]);

  test('the quick ones of them come first, those that import it directly before others, and none is left out', () => {
    const durations = new Map([
      ['src/slow.test.ts', 90],
      ['src/direct.test.ts', 10],
      ['src/through.test.ts', 5],
      ['src/costly.test.ts', 60],
      ['src/unrelated.test.ts', 1],
    ]);
    expect(stagesOf(durations, 'src/tar.ts', tests)).toEqual([
      ['src/direct.test.ts'],
      ['src/through.test.ts'],
      ['src/slow.test.ts', 'src/costly.test.ts', 'src/unrelated.test.ts'],
    ]);
  });

  test('one file that imports it comes first, however slow; and all at once where none does', () => {
    const both = new Map([
      ['src/slow.test.ts', 90],
      ['src/unrelated.test.ts', 1],
    ]);
    expect(stagesOf(both, 'src/tar.ts', tests)).toEqual([['src/slow.test.ts'], ['src/unrelated.test.ts']]);
    expect(stagesOf(both, 'src/nothing.ts', tests)).toEqual([['src/slow.test.ts', 'src/unrelated.test.ts']]);
    expect(stagesOf(new Map([['src/slow.test.ts', 90]]), 'src/tar.ts', tests)).toEqual([['src/slow.test.ts']]);
  });
});
