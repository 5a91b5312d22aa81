import {
  chmodSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createCleaner, DELETED_A_STEP, CHECKED_A_STEP } from './cleaner.ts';
import type { Cleaner, CleanerOptions } from './cleaner.ts';
import { nodeFiles } from '../ports/files.ts';
import type { Files } from '../ports/files.ts';
import type { OpenFolder } from '../ports/folders.ts';

/* On a real disk: a node's root, and beside it what is none of its business. */

const NOW = Date.now();
const DAY_MS = 86_400_000;
const DAY = { olderThanMs: DAY_MS };
const CACHE = { path: '/var/cache/app', ...DAY };

let top = '';
let root = '';
let outside = '';
beforeEach(() => {
  top = realpathSync(mkdtempSync(join(tmpdir(), 'kubenode-clean-')));
  [root, outside] = [join(top, 'node'), join(top, 'outside')];
  mkdirSync(join(root, 'var/cache/app'), { recursive: true });
  mkdirSync(outside);
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** A file, days old. */
function put(path: string | Buffer, days = 2, base = root): void {
  const full = typeof path === 'string' ? join(base, path) : Buffer.concat([Buffer.from(`${base}/`), path]);
  if (typeof full === 'string') mkdirSync(dirname(full), { recursive: true });
  writeFileSync(full, 'x'.repeat(5000));
  const seconds = (NOW - days * DAY_MS) / 1000;
  utimesSync(full, seconds, seconds);
}

const isThere = (path: string, base = root): boolean => lstatSync(join(base, path), { throwIfNoEntry: false }) !== undefined;

function cleaner(options: Partial<CleanerOptions> = {}): Cleaner {
  return createCleaner({
    files: nodeFiles(),
    root,
    rules: [CACHE],
    kept: { files: new Set(), folders: new Set(), logs: '/var/log/kubenode' },
    nowMs: NOW,
    enough: async () => false,
    ...options,
  });
}

/** Until it reports that it is done; at most so many steps. */
async function clean(each: Cleaner): Promise<{ end: string; steps: number }> {
  try {
    for (let steps = 1; steps < 10_000; steps++) {
      const end = await each.step();
      if (end !== 'more') return { end, steps };
    }
    throw new Error('it does not come to an end');
  } finally {
    await each.close();
  }
}

/** Files whose behaviour a test changes. */
function disturbed(change: (folder: OpenFolder) => Partial<OpenFolder>): Files {
  const files = nodeFiles();
  const wrap = (folder: OpenFolder | undefined): OpenFolder | undefined =>
    folder === undefined ? undefined : { ...folder, open: async (name) => wrap(await folder.open(name)), ...change(folder) };
  return { ...files, open: async (path) => wrap(await files.open(path)) };
}

const descriptors = (): number => (process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0);

test('what is old enough goes, in folders too; what is young, from the future, or elsewhere stays', async () => {
  put('var/cache/app/old');
  put('var/cache/app/a/b/c/old', 100);
  put('var/cache/app/young', 0.5);
  put('var/cache/app/future', -5);
  put('var/cache/other/old', 100);
  put('var/cache/app-not/old', 100);
  const each = cleaner();
  expect((await clean(each)).end).toBe('nothing');
  expect(each.freed).toEqual({ files: 2, bytes: expect.any(Number) as number });
  expect(each.freed.bytes).toBeGreaterThanOrEqual(10_000);
  expect(['old', 'a/b/c/old', 'young', 'future'].filter((name) => isThere(`var/cache/app/${name}`))).toEqual(['young', 'future']);
  expect(isThere('var/cache/other/old') && isThere('var/cache/app-not/old') && isThere('var/cache/app/a/b/c')).toBe(true);
});

test('names may contain anything: newlines, bytes that are no text, a leading dash, dots, 255 bytes', async () => {
  const names = ['new\nline', '-rf', '...', ' ', '*', '$(touch x)', 'é'.repeat(127), 'x'.repeat(255)];
  for (const name of names) put(`var/cache/app/${name}`);
  // macOS refuses names that are no text.
  if (process.platform === 'linux') put(Buffer.concat([Buffer.from('var/cache/app/'), Buffer.from([0xff, 0xfe, 0x0a, 0x80])]));
  mkdirSync(join(root, 'var/cache/app/fold\ner'));
  put('var/cache/app/fold\ner/fi\nle');
  const each = cleaner();
  expect((await clean(each)).end).toBe('nothing');
  expect(readdirSync(join(root, 'var/cache/app'))).toEqual(['fold\ner']);
  expect(readdirSync(join(root, 'var/cache/app/fold\ner'))).toEqual([]);
});

describe('no way leads out of the folder', () => {
  test('symbolic links in it are neither followed nor deleted', async () => {
    put('treasure', 100, outside);
    put('sub/treasure', 100, outside);
    symlinkSync(join(outside, 'treasure'), join(root, 'var/cache/app/file'));
    symlinkSync(join(outside, 'sub'), join(root, 'var/cache/app/folder'));
    symlinkSync('../../..', join(root, 'var/cache/app/up'));
    put('etc/important', 100);
    const each = cleaner();
    expect((await clean(each)).end).toBe('nothing');
    expect(each.freed.files).toBe(0);
    expect(isThere('treasure', outside) && isThere('sub/treasure', outside) && isThere('etc/important')).toBe(true);
    expect(isThere('var/cache/app/file') && isThere('var/cache/app/folder')).toBe(true);
  });

  test.each(['var/cache/app', 'var/cache', 'var'])('a link instead of %s is refused, and reported', async (path) => {
    put('var/cache/app/old');
    mkdirSync(join(outside, 'cache/app'), { recursive: true });
    mkdirSync(join(outside, 'app'), { recursive: true });
    for (const inner of ['old', 'app/old', 'cache/app/old']) put(inner, 100, outside);
    renameSync(join(root, path), join(top, 'away'));
    symlinkSync(outside, join(root, path));
    const each = cleaner();
    expect((await clean(each)).end).toBe('nothing');
    expect([...each.notes]).toEqual(['/var/cache/app leads through a symbolic link and is left alone']);
    expect(['old', 'app/old', 'cache/app/old'].every((inner) => isThere(inner, outside))).toBe(true);
  });

  test.each(['var/cache/app/sub', 'var/cache/app', 'var/cache', 'var'])(
    'nor one that replaced %s between the check and the deletion',
    async (path) => {
      const inner = 'var/cache/app/sub/file'.slice(path.length + 1);
      put('var/cache/app/sub/file', 100);
      put(inner, 100, outside);
      let asked = 0;
      const swap = async (): Promise<boolean> => {
        // The search is the first step; its second question is the one before the deletion.
        if (++asked === 3) {
          renameSync(join(root, path), join(top, 'away'));
          symlinkSync(outside, join(root, path));
        }
        return false;
      };
      const each = cleaner({ enough: swap });
      await clean(each);
      expect(asked).toBeGreaterThan(2);
      expect(each.freed.files).toBe(0);
      expect(isThere(inner, outside)).toBe(true);
      expect(isThere(inner, join(top, 'away'))).toBe(true);
    },
  );

  test('nor one that replaced the folder when everything but the deletion was done', async () => {
    put('var/cache/app/sub/file', 100);
    put('file', 100, outside);
    let checks = 0;
    const files = disturbed((folder) => ({
      async stat(name) {
        const found = await folder.stat(name);
        if (name === 'file' && ++checks === 2) {
          renameSync(join(root, 'var/cache/app/sub'), join(top, 'away'));
          symlinkSync(outside, join(root, 'var/cache/app/sub'));
        }
        return found;
      },
    }));
    const each = cleaner({ files });
    await clean(each);
    expect(checks).toBe(2);
    expect(isThere('file', outside)).toBe(true);
  });

  test('a folder that was moved out between the search and the deletion keeps its files', async () => {
    put('var/cache/app/sub/file', 100);
    const files = disturbed((folder) => ({
      async realpath() {
        if (isThere('var/cache/app/sub') && (await folder.realpath()).endsWith('/sub')) {
          renameSync(join(root, 'var/cache/app/sub'), join(outside, 'sub'));
        }
        return await folder.realpath();
      },
    }));
    const each = cleaner({ files });
    await clean(each);
    expect(each.freed.files).toBe(0);
    expect(isThere('sub/file', outside)).toBe(true);
  });

  test('a file that was replaced, or written to, between the search and the deletion stays', async () => {
    for (const name of ['replaced', 'written', 'linked', 'same']) put(`var/cache/app/${name}`, 100);
    put('treasure', 100, outside);
    let asked = 0;
    const enough = async (): Promise<boolean> => {
      if (++asked !== 3) return false;
      const at = (name: string): string => join(root, 'var/cache/app', name);
      put('var/cache/app/new', 100);
      renameSync(at('new'), at('replaced'));
      writeFileSync(at('written'), 'something new');
      rmSync(at('linked'));
      symlinkSync(join(outside, 'treasure'), at('linked'));
      return false;
    };
    const each = cleaner({ enough, rules: [{ ...CACHE }] });
    // One pass: the replacement may be old too, and would go in the next.
    for (let step = 0; step < 2; step++) await each.step();
    await each.close();
    expect(readdirSync(join(root, 'var/cache/app')).sort()).toEqual(['linked', 'replaced', 'written']);
    expect(isThere('treasure', outside)).toBe(true);
  });

  test('what has a second name stays: it may be what a component consists of, and its space would not be freed', async () => {
    put('var/lib/kubenode/components/app/g/bin', 100);
    linkSync(join(root, 'var/lib/kubenode/components/app/g/bin'), join(root, 'var/cache/app/bin'));
    const each = cleaner();
    await clean(each);
    expect(isThere('var/cache/app/bin')).toBe(true);
  });

  test('what must stay stays, by its path and by its folder', async () => {
    put('var/cache/app/kept', 100);
    put('var/cache/app/own/file', 100);
    put('var/cache/app/gone', 100);
    const own = await nodeFiles().open(join(root, 'var/cache/app/own'));
    const folders = new Set([own?.identity ?? '']);
    await own?.close();
    const files = new Set([Buffer.from(join(root, 'var/cache/app/kept')).toString('latin1')]);
    const each = cleaner({ kept: { files, folders, logs: '/var/log/kubenode' } });
    await clean(each);
    expect(each.freed.files).toBe(1);
    expect(isThere('var/cache/app/kept') && isThere('var/cache/app/own/file')).toBe(true);
  });

  test('of the logs of units only rotated ones go, under any rules', async () => {
    for (const name of ['app.log', 'app.log.1', 'app.log.2', 'app.log.old', '.log.1']) put(`var/log/kubenode/${name}`, 100);
    put('var/log/other.log', 100);
    await clean(cleaner({ rules: [{ path: '/var/log', ...DAY }] }));
    expect(readdirSync(join(root, 'var/log/kubenode')).sort()).toEqual(['.log.1', 'app.log', 'app.log.old']);
    expect(isThere('var/log/other.log')).toBe(false);
  });
});

test('a folder that is not there, is a file, or is not to be read, is passed over', async () => {
  put('var/cache/file', 100);
  put('var/cache/closed/file', 100);
  put('var/cache/app/old', 100);
  chmodSync(join(root, 'var/cache/closed'), 0o000);
  const rules = ['absent/deep', 'file', 'closed', 'app'].map((name) => ({ path: `/var/cache/${name}`, ...DAY }));
  const each = cleaner({ rules });
  expect((await clean(each)).end).toBe('nothing');
  chmodSync(join(root, 'var/cache/closed'), 0o700);
  expect(isThere('var/cache/app/old')).toBe(false);
  expect(isThere('var/cache/file')).toBe(true);
});

test('what cannot be deleted is reported, and not tried for ever', async () => {
  put('var/cache/app/stuck', 100);
  put('var/cache/app/old', 50);
  const files = disturbed((folder) => ({
    async unlink(name) {
      if (name === 'stuck') throw Object.assign(new Error('EPERM'), { code: 'EPERM' });
      await folder.unlink(name);
    },
  }));
  const each = cleaner({ files });
  expect((await clean(each)).end).toBe('nothing');
  expect(each.freed.files).toBe(1);
  expect([...each.notes]).toEqual(['not every file could be deleted (EPERM)']);
});

test('a huge folder is cleaned in bounded steps, the oldest first in any number of passes, and keeps no descriptor open afterwards', async () => {
  const count = 1500;
  for (let index = 0; index < count; index++)
    put(`var/cache/app/${index % 7}/${(index * 7919) % count}`, 2 + ((index * 7919) % count) / 100);
  const before = descriptors();
  let checked = 0;
  let deleted = 0;
  const files = disturbed((folder) => ({
    stat: (name) => (checked++, folder.stat(name)),
    unlink: (name) => (deleted++, folder.unlink(name)),
  }));
  const remaining = 300;
  const each = cleaner({ files, remembered: 200, enough: async () => deleted >= count - remaining });
  for (let end = 'more'; end === 'more';) {
    [checked, deleted] = [0, each.freed.files];
    end = await each.step();
    expect(deleted - each.freed.files).toBeLessThanOrEqual(DELETED_A_STEP);
    expect(checked).toBeLessThanOrEqual(CHECKED_A_STEP + 8);
    if (end !== 'more') expect(end).toBe('enough');
  }
  await each.close();
  expect(descriptors()).toBe(before);
  const left = readdirSync(join(root, 'var/cache/app'), { recursive: true })
    .map((name) => Number(/\/(\d+)$/.exec(String(name))?.[1] ?? NaN))
    .filter((age) => !Number.isNaN(age));
  // The name shows the age: the youngest are left.
  expect(left.toSorted((a, b) => a - b)).toEqual(Array.from({ length: remaining }, (_each, index) => index));
});

test('one that is ended in the middle of a search keeps no descriptor open', async () => {
  for (let index = 0; index < CHECKED_A_STEP + 10; index++) put(`var/cache/app/deep/er/${index}`);
  const before = descriptors();
  const each = cleaner();
  expect(await each.step()).toBe('more');
  await each.close();
  expect(descriptors()).toBe(before);
});

test('in any tree, exactly what may go goes', async () => {
  const kind = fc.constantFrom('old', 'young', 'link', 'hardlink', 'folderlink');
  const folders = fc.array(fc.constantFrom('a', 'b\n', '-c'), { minLength: 0, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.record({ kind, folders }), { maxLength: 12 }), async (items) => {
      rmSync(root, { recursive: true, force: true });
      rmSync(outside, { recursive: true, force: true });
      mkdirSync(join(root, 'var/cache/app'), { recursive: true });
      put('treasure', 100, outside);
      const stay: string[] = [];
      const go: string[] = [];
      for (const [index, item] of items.entries()) {
        const path = ['var/cache/app', ...item.folders, `f${index}`].join('/');
        mkdirSync(dirname(join(root, path)), { recursive: true });
        if (item.kind === 'old' || item.kind === 'young') put(path, item.kind === 'old' ? 2 : 0.5);
        else if (item.kind === 'hardlink') linkSync(join(outside, 'treasure'), join(root, path));
        else symlinkSync(item.kind === 'link' ? join(outside, 'treasure') : outside, join(root, path));
        (item.kind === 'old' ? go : stay).push(path);
      }
      const each = cleaner();
      expect((await clean(each)).end).toBe('nothing');
      expect(go.filter((path) => isThere(path))).toEqual([]);
      expect(stay.filter((path) => !isThere(path))).toEqual([]);
      expect(isThere('treasure', outside)).toBe(true);
      expect(each.freed.files).toBe(go.length);
    }),
    { numRuns: 60 },
  );
});
