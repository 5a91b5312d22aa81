import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { writeInto } from './testing/tree.ts';
import { listTree, readTreeFile, treeEntry } from './tree-files.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-tree-'));
  write('fleet/main.ts', 'main');
  write('fleet/b/c.txt', 'c');
  write('elsewhere/secret', 'secret');
});
afterEach(() => rmSync(root, { recursive: true }));

const write = (path: string, text: string): string => writeInto(root, path, text);

it('lists files of all depths, sorted', () => {
  write('fleet/b.txt', 'b');
  expect(listTree(root, 'fleet')).toEqual(['fleet/b/c.txt', 'fleet/b.txt', 'fleet/main.ts']);
  expect(listTree(root, 'fleet/main.ts')).toEqual(['fleet/main.ts']);
  expect(listTree(root, 'absent')).toEqual([]);
  expect(listTree(root, 'fleet/main.ts/below')).toEqual([]);
});

it('reads a file and reports what is there', () => {
  expect(readTreeFile(root, 'fleet/b/c.txt')).toBe('c');
  expect(treeEntry(root, 'fleet')?.isDirectory()).toBe(true);
  expect(treeEntry(root, 'fleet/nothing/at/all')).toBeUndefined();
});

describe('security 4: a link in the tree is refused, as the hub refuses it', () => {
  it.each([
    ['to a file outside', 'fleet/env.txt', '/proc/self/environ', 'fleet/env.txt'],
    ['to a file of the same tree', 'fleet/env.txt', 'main.ts', 'fleet/env.txt'],
    ['to nothing', 'fleet/env.txt', 'absent', 'fleet/env.txt'],
    ['to a folder', 'fleet/sub', '../elsewhere', 'fleet/sub'],
  ])('%s', (_, at, target, named) => {
    symlinkSync(target, join(root, at));
    expect(() => listTree(root, 'fleet')).toThrow(
      expect.objectContaining({ code: 'TreeSymlink', message: expect.stringContaining(`${named}:`) as unknown }),
    );
    expect(() => readTreeFile(root, at)).toThrow(expect.objectContaining({ code: 'TreeSymlink' }));
  });

  it('on the way to a file', () => {
    symlinkSync('elsewhere', join(root, 'linked'));
    expect(() => readTreeFile(root, 'linked/secret')).toThrow(expect.objectContaining({ code: 'TreeSymlink' }));
    expect(() => treeEntry(root, 'linked')).toThrow(expect.objectContaining({ code: 'TreeSymlink' }));
    expect(() => listTree(root, 'linked')).toThrow(expect.objectContaining({ code: 'TreeSymlink' }));
  });

  it('and so is a path that leads out', () => {
    expect(() => readTreeFile(join(root, 'fleet'), '../elsewhere/secret')).toThrow(expect.objectContaining({ code: 'TreeName' }));
    expect(() => listTree(join(root, 'fleet'), '..')).toThrow(expect.objectContaining({ code: 'TreeName' }));
  });
});

it.skipIf(process.platform === 'win32')('a pipe is refused and not waited for', () => {
  execFileSync('mkfifo', [join(root, 'fleet/pipe')]);
  expect(() => listTree(root, 'fleet')).toThrow(expect.objectContaining({ code: 'TreeMode' }));
  expect(() => readTreeFile(root, 'fleet/pipe')).toThrow(expect.objectContaining({ code: 'TreeMode' }));
});

describe('I3: a tree is refused at the bounds that the hub has for a commit, before it is read', () => {
  it('a file that is too large', () => {
    truncateSync(join(root, 'fleet/b/c.txt'), 500 * 2 ** 20);
    expect(() => readTreeFile(root, 'fleet/b/c.txt')).toThrow(
      expect.objectContaining({ code: 'TreeTooLarge', message: expect.stringContaining('fleet/b/c.txt:') as unknown }),
    );
  });

  it('files that are too large together', () => {
    for (let index = 0; index < 17; index++) {
      write(`fleet/${index}.txt`, '');
      truncateSync(join(root, `fleet/${index}.txt`), 4 * 2 ** 20);
    }
    expect(() => listTree(root, 'fleet')).toThrow(expect.objectContaining({ code: 'TreeTooLarge' }));
  });

  it('folders that are too deep', () => {
    write(`fleet/${'d/'.repeat(30)}f`, '');
    expect(() => listTree(root, 'fleet')).toThrow(expect.objectContaining({ code: 'TreeTooDeep' }));
  });
});
