import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ignoredBy } from './git-ignore.ts';
import { writeInto } from './testing/tree.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kubenode-ignore-'));
});
afterEach(() => rmSync(root, { recursive: true }));

const FILES = [
  'a',
  'b.ts',
  'b.js',
  '!bang',
  '#hash',
  'blank ',
  'a]b',
  'a-b',
  'back\\slash',
  'star*',
  'dir/a',
  'dir/b.ts',
  'dir/deep/a',
  'dir/deep/deeper/a.b.c',
  'other/dir/a',
  'other/b.ts',
  'build/out.ts',
  'build/keep/out.ts',
];

/** Of these files, by Git itself. */
function seenByGit(files: Readonly<Record<string, string>>, exclude = ''): string[] {
  const git = (...args: string[]): string =>
    execFileSync('git', ['-c', 'core.excludesFile=', '-c', 'safe.directory=*', ...args], { cwd: root, encoding: 'utf8' });
  git('init', '-q');
  for (const path of FILES) writeInto(root, path, '');
  for (const [path, text] of Object.entries(files)) writeInto(root, path, text);
  writeInto(root, '.git/info/exclude', exclude);
  return git('ls-files', '-z', '--others', '--exclude-standard')
    .split('\0')
    .filter((path) => FILES.includes(path))
    .sort();
}

function seen(files: Readonly<Record<string, string>>, exclude = ''): string[] {
  const ignored = ignoredBy((path) => files[path], { file: '.git/info/exclude', text: exclude });
  return FILES.filter((path) => !ignored(path, false)).sort();
}

describe('what Git leaves out', () => {
  it.each([
    ['a'],
    ['/a'],
    ['dir/a'],
    ['dir/'],
    ['a/'],
    ['*.ts'],
    ['*.ts\n!b.ts'],
    ['dir/*\n!dir/b.ts'],
    ['build\n!build/keep\n!build/keep/out.ts'],
    ['build/*\n!build/keep'],
    ['**/a'],
    ['dir/**'],
    ['dir/**/a'],
    ['**/deep/**'],
    ['**'],
    ['*'],
    ['/*\n!/dir'],
    ['/**/a'],
    ['dir/**/'],
    ['d**r/a'],
    ['?'],
    ['?.?s'],
    ['b.[jt]s'],
    ['b.[!t]s'],
    ['b.[^t]s'],
    ['b.[i-k]s'],
    ['a[]]b'],
    ['a[-]b'],
    ['a[a-]b'],
    ['a[,-.]b'],
    ['a[\\]]b'],
    ['[a'],
    ['a\\'],
    ['\\!bang'],
    ['!bang'],
    ['\\#hash'],
    ['#hash'],
    ['blank'],
    ['blank '],
    ['blank\\ '],
    ['blank\\\\ '],
    ['back\\\\slash'],
    ['star\\*'],
    ['a   '],
    ['a\r\nb.ts\r\n'],
    ['\ufeffa'],
    ['\n\n#\n/\n!\n'],
    ['*.*.*'],
    ['*a*'],
    ['deep/a'],
    ['deep'],
    ['//a'],
    ['A'],
    ['a\n!a\na'],
  ])('by the patterns %j, as Git does', (text) => {
    const files = { '.gitignore': text };
    expect(seen(files)).toEqual(seenByGit(files));
  });

  it.each([
    [{ '.gitignore': 'a', 'dir/.gitignore': '!a' }, ''],
    [{ '.gitignore': '!a', 'dir/.gitignore': '/a' }, ''],
    [{ 'dir/.gitignore': 'deep/a\n/b.ts' }, ''],
    [{ '.gitignore': 'dir', 'dir/.gitignore': '!*' }, ''],
    [{ '.gitignore': '!a' }, 'a\n*.ts'],
  ])('by files of patterns in folders, and of the repository: %j %j', (files, exclude) => {
    expect(seen(files, exclude)).toEqual(seenByGit(files, exclude));
  });

  it('by any patterns, as Git does', { timeout: 120_000 }, () => {
    const part = fc.string({
      unit: fc.constantFrom('a', 'b', 'd', 'i', 'r', '.', 't', 's', '*', '*', '?', '[', ']', '!', '-', '\\', ' '),
      maxLength: 6,
    });
    const glob = fc
      .array(fc.oneof(part, fc.constantFrom('**', 'dir', 'a', '*', 'deep')), { minLength: 1, maxLength: 4 })
      .map((parts) => parts.join('/'));
    fc.assert(
      fc.property(fc.array(glob, { minLength: 1, maxLength: 3 }), (globs) => {
        const files = { '.gitignore': `${globs.join('\n')}\n` };
        expect(seen(files)).toEqual(seenByGit(files));
      }),
      { numRuns: 60 },
    );
  });
});

describe('what patterns may cost', () => {
  const path = `fleet/${'a'.repeat(200)}`;

  it.each([
    ['many stars', `${'*a'.repeat(24)}b`],
    ['many stars of folders', `${'**/a/'.repeat(400)}b`],
    ['stars of both', `${'**/*a*a*a*a/'.repeat(200)}b`],
  ])('a pattern with %s is compared in few steps', (_, glob) => {
    expect(ignoredBy((file) => (file === '.gitignore' ? glob : undefined))(path, false)).toBe(false);
    const deep = Array.from({ length: 20 }, () => 'a'.repeat(200)).join('/');
    expect(ignoredBy((file) => (file === '.gitignore' ? glob : undefined))(deep, false)).toBe(false);
  });

  it.each([
    ['patterns', 'a\n'.repeat(1_000_000)],
    ['stars', `${'*a'.repeat(100)}b\n`.repeat(4000)],
    ['ranges of a class', `*[${'x-z'.repeat(1000)}]b\n`.repeat(300)],
    ['patterns of folders', 'b/\n'.repeat(300_000)],
  ])('too many %s are refused, with the file', (_, text) => {
    const ignored = ignoredBy((file) => (file === 'fleet/.gitignore' ? text : undefined));
    const all = (): void => {
      for (let index = 0; index < 20_000; index++) ignored(`${path}${index}`, false);
    };
    expect(all).toThrow(
      expect.objectContaining({
        code: 'PatternsTooCostly',
        message: expect.stringMatching(/^fleet\/\.gitignore: /),
        next: expect.stringContaining('fleet/.gitignore'),
      }),
    );
  });
});
