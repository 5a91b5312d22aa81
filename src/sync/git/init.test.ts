import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { fakeClock } from '../../kube/testing/clock.ts';
import { initRepository, openSource, type GitFs } from './index.ts';
import { commitAll, commitWithoutGit, hasGit, runGit } from './testing/repository.ts';

const signal = new AbortController().signal;
const root = fs.mkdtempSync(join(tmpdir(), 'kubenode-git-init-'));
afterAll(() => fs.rmSync(root, { recursive: true }));

const ports = { fs, clock: fakeClock(Date.UTC(2026, 10, 20)), fetch: () => Promise.reject(new Error('no server')) };
const about = { message: 'the reference fleet', author: { name: 'KubeNode', email: 'kubenode@localhost' } };
const files = new Map([
  ['fleet/main.ts', 'export {};\n'],
  ['fleet/deep/er/a.ts', 'a'],
  ['package.json', '{}'],
]);
const left = () => fs.readdirSync(root).filter((name) => name.startsWith('.'));

describe('a new repository', () => {
  it('holds one commit of the given files, and nothing is left beside it', async () => {
    const dir = join(root, 'new/inside/a');
    const oid = await initRepository(dir, files, about, ports);
    const source = openSource({ kind: 'local', path: dir }, ports);
    expect(await source.fetch(undefined, signal)).toEqual({
      head: oid,
      relation: 'first',
      commits: [{ oid, author: 'KubeNode', subject: 'the reference fleet', time: '2026-11-20T00:00:00Z' }],
    });
    expect(await source.read(oid, { paths: ['fleet', 'package.json'] }, signal)).toEqual(
      new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1))),
    );
    expect(fs.readFileSync(join(dir, 'fleet/main.ts'), 'utf8')).toBe('export {};\n');
    expect(fs.readdirSync(join(root, 'new/inside'))).toEqual(['a']);
  });

  it.skipIf(!hasGit)('is clean in the eyes of git (skipped without git)', async () => {
    const dir = join(root, 'clean');
    const oid = await initRepository(dir, files, { ...about, branch: 'trunk' }, ports);
    expect(runGit(dir, ['status', '--porcelain', '--branch'])).toBe('## trunk');
    expect(runGit(dir, ['fsck', '--strict', '--no-progress'])).toBe('');
    expect(runGit(dir, ['rev-parse', 'trunk'])).toBe(oid);
  });

  it('never touches what is there: a folder, an empty one, a file, a dangling link', async () => {
    for (const [name, make] of [
      ['folder', (path: string) => (fs.mkdirSync(path), fs.writeFileSync(join(path, 'mine'), 'x'))],
      ['empty', (path: string) => fs.mkdirSync(path)],
      ['file', (path: string) => fs.writeFileSync(path, 'x')],
      ['link', (path: string) => fs.symlinkSync(join(root, 'nowhere'), path)],
    ] as const) {
      const path = join(root, name);
      make(path);
      const before = fs.lstatSync(path);
      let made = 0;
      const mkdtemp = (prefix: string) => ((made += 1), fs.promises.mkdtemp(prefix));
      const watched: GitFs = { ...fs, promises: { ...fs.promises, mkdtemp: mkdtemp as typeof fs.promises.mkdtemp } };
      await expect(initRepository(path, files, about, { ...ports, fs: watched })).rejects.toMatchObject({ code: 'GitPathExists' });
      expect(made).toBe(0);
      expect(fs.lstatSync(path).mtimeMs).toBe(before.mtimeMs);
    }
    expect(left()).toEqual([]);
  });

  it.each(['../x', '/etc/x', 'a//b', 'a/.git/config', '.GIT/hooks/x', ''])('has no file %j', async (path) => {
    await expect(initRepository(join(root, 'bad'), new Map([[path, 'x']]), about, ports)).rejects.toMatchObject({ code: 'GitSpec' });
    expect(fs.existsSync(join(root, 'bad'))).toBe(false);
  });

  it('is there whole or not at all, at any write that fails', async () => {
    let writes = 0;
    const counting = (failAt: number): GitFs => ({
      ...fs,
      promises: {
        ...fs.promises,
        writeFile: ((...args: Parameters<typeof fs.promises.writeFile>) => {
          // isomorphic-git tries each write twice.
          if (writes++ >= failAt)
            return Promise.reject(Object.assign(new Error('ENOSPC: no space left'), { code: 'ENOSPC', syscall: 'write' }));
          return fs.promises.writeFile(...args);
        }) as typeof fs.promises.writeFile,
      },
    });
    await initRepository(join(root, 'counted'), files, about, { ...ports, fs: counting(Infinity) });
    const total = writes;
    expect(total).toBeGreaterThan(10);
    for (let failAt = 0; failAt < total; failAt += 1) {
      writes = 0;
      await expect(initRepository(join(root, 'partly'), files, about, { ...ports, fs: counting(failAt) })).rejects.toMatchObject({
        code: 'GitDisk',
      });
      expect([fs.existsSync(join(root, 'partly')), left()]).toEqual([false, []]);
    }
  });
});

describe.each([
  ['by git', commitAll],
  ['without git', commitWithoutGit],
])('a commit of the work tree %s', (name, commit) => {
  it.skipIf(name === 'by git' && !hasGit)('takes changes, new files and removals', async () => {
    const dir = join(root, name);
    const first = await initRepository(dir, files, about, ports);
    fs.writeFileSync(join(dir, 'fleet/main.ts'), 'changed');
    fs.writeFileSync(join(dir, 'fleet/new.ts'), 'new');
    fs.rmSync(join(dir, 'package.json'));
    const oid = await commit(dir, 'a change');
    const source = openSource({ kind: 'local', path: dir }, ports);
    expect(await source.fetch(first, signal)).toMatchObject({ head: oid, relation: 'descendant', commits: [{ subject: 'a change' }] });
    expect(await source.read(oid, { paths: ['fleet', 'package.json'] }, signal)).toEqual(
      new Map([
        ['fleet/deep/er/a.ts', 'a'],
        ['fleet/main.ts', 'changed'],
        ['fleet/new.ts', 'new'],
      ]),
    );
  });
});
