import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CodedError } from '../../api/errors.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { openSource, parseAllowedSigners, type GitFs, type GitSource } from './index.ts';
import { sshString } from './ssh-wire.ts';
import { hasGit, hasSshKeygen, runGit, testRepository, type TestRepository } from './testing/repository.ts';

const signal = new AbortController().signal;
const root = fs.mkdtempSync(join(tmpdir(), 'kubenode-git-local-'));
afterAll(() => fs.rmSync(root, { recursive: true }));

function open(path: string, branch?: string, diskFs: GitFs = fs): GitSource {
  const ports = { fs: diskFs, fetch: () => Promise.reject(new Error('a local source asks no server')), clock: fakeClock() };
  return openSource({ kind: 'local', path, ...(branch === undefined ? {} : { branch }) }, ports);
}

let count = 0;
function repository(init?: readonly string[]): TestRepository {
  return testRepository(join(root, `r${count++}`), init);
}
const subjects = async (source: GitSource, last: string) => {
  const { relation, commits } = await source.fetch(last, signal);
  return [relation, ...commits.map(({ subject }) => subject)];
};
const readFleet = (source: GitSource, oid: string) => source.read(oid, { paths: ['fleet'] }, signal);

describe.skipIf(!hasGit)('a repository on this disk (skipped without git)', () => {
  it('is read from its commits, not from its files', async () => {
    const { dir, commit, write } = repository();
    const first = commit('first\n\nbody', { 'fleet/a.ts': 'one', 'fleet/deep/b.ts': 'two', 'rules/c.ts': 'three', 'README.md': 'no' });
    write({ 'fleet/a.ts': 'changed', 'fleet/new.ts': 'not committed' });
    const source = open(dir);
    expect(await source.head(signal)).toEqual({ oid: first, ref: 'refs/heads/main' });
    expect(await source.fetch(undefined, signal)).toEqual({
      head: first,
      relation: 'first',
      commits: [{ oid: first, author: 'Ada', time: '2026-01-01T00:01:00Z', subject: 'first' }],
    });
    const files = await source.read(first, { paths: ['rules', 'fleet', 'fleet/deep', 'absent', 'absent/too'] }, signal);
    expect([...files]).toEqual([
      ['fleet/a.ts', 'one'],
      ['fleet/deep/b.ts', 'two'],
      ['rules/c.ts', 'three'],
    ]);
    expect([...(await source.read(first, { paths: ['README.md', 'fleet/deep/b.ts'] }, signal)).keys()]).toEqual([
      'README.md',
      'fleet/deep/b.ts',
    ]);
  });

  it('reports how the branch moved: commits, merges, amend, reset, another history', async () => {
    const { dir, commit, git } = repository();
    const a = commit('a', { 'fleet/x': '1' });
    const b = commit('b', { 'fleet/x': '2' });
    const source = open(dir);
    expect(await subjects(source, b)).toEqual(['same']);
    expect(await subjects(source, a)).toEqual(['descendant', 'b']);
    git('switch', '--quiet', '-c', 'side', a);
    commit('side', { 'fleet/y': '1' });
    git('switch', '--quiet', 'main');
    git('merge', '--quiet', '--no-ff', '-m', 'merge', 'side');
    expect(await subjects(source, b)).toEqual(['descendant', 'merge', 'side']);
    const merged = git('rev-parse', 'HEAD');
    git('commit', '--quiet', '--amend', '-m', 'amended');
    expect(await subjects(source, merged)).toEqual(['rewritten', 'amended']);
    git('reset', '--quiet', '--hard', a);
    expect(await subjects(source, merged)).toEqual(['rewritten']);
    git('checkout', '--quiet', '--orphan', 'other');
    commit('orphan');
    git('branch', '--quiet', '-M', 'other', 'main');
    expect(await subjects(source, b)).toEqual(['rewritten', 'orphan']);
  });

  it('answers the same after its refs and objects were packed', async () => {
    const { dir, commit, git } = repository();
    const first = commit('first', { 'fleet/a': 'one' });
    for (let i = 0; i < 10; i += 1) commit(`more ${i}`, { 'fleet/a': `${'long text\n'.repeat(50)}${i}` });
    const head = git('rev-parse', 'HEAD');
    const source = open(dir);
    const before = [await source.fetch(first, signal), await readFleet(source, head)];
    git('pack-refs', '--all');
    expect(fs.existsSync(join(dir, '.git/refs/heads/main'))).toBe(false);
    expect(await source.head(signal)).toEqual({ oid: head, ref: 'refs/heads/main' });
    git('gc', '--quiet', '--aggressive');
    expect([await source.fetch(first, signal), await readFleet(source, head)]).toEqual(before);
    git('repack', '-a', '-d', '--write-midx', '--quiet');
    expect([await source.fetch(first, signal), await readFleet(source, head)]).toEqual(before);
    // The packed branch is out of date as soon as there is a loose one.
    commit('loose again');
    expect(await subjects(source, head)).toEqual(['descendant', 'loose again']);
  });

  it('still calls an amend rewritten when gc has taken the accepted commit away', async () => {
    const { dir, commit, git } = repository();
    commit('first');
    const lost = commit('lost');
    git('commit', '--quiet', '--amend', '--allow-empty', '-m', 'kept');
    git('reflog', 'expire', '--expire=now', '--all');
    git('gc', '--quiet', '--prune=now');
    expect((await subjects(open(dir), lost)).slice(0, 2)).toEqual(['rewritten', 'kept']);
  });

  it('survives a pack that is taken away while it is read', async () => {
    const { dir, commit, git } = repository();
    const head = commit('first', { 'fleet/a': 'one' });
    git('gc', '--quiet');
    let lost = 0;
    const flaky: GitFs = {
      ...fs,
      promises: {
        ...fs.promises,
        readFile: ((...args: Parameters<typeof fs.promises.readFile>) => {
          if (typeof args[0] === 'string' && args[0].endsWith('.pack') && lost++ === 0)
            return Promise.reject(Object.assign(new Error('gone'), { code: 'ENOENT' }));
          return fs.promises.readFile(...args);
        }) as typeof fs.promises.readFile,
      },
    };
    expect(await readFleet(open(dir, undefined, flaky), head)).toEqual(new Map([['fleet/a', 'one']]));
    expect(lost).toBeGreaterThan(1);
  });

  it('may be bare, or a linked work tree with a branch of its own', async () => {
    const { dir, commit, git } = repository();
    const first = commit('first', { 'fleet/a': 'main' });
    git('worktree', 'add', '--quiet', '-b', 'feature/tree', `${dir}-tree`);
    fs.writeFileSync(`${dir}-tree/fleet/a`, 'tree');
    runGit(`${dir}-tree`, ['commit', '--quiet', '-am', 'in the tree'], Date.UTC(2026, 0, 2) / 1000);
    const second = runGit(`${dir}-tree`, ['rev-parse', 'HEAD']);
    const tree = open(`${dir}-tree`);
    expect(await tree.head(signal)).toEqual({ oid: second, ref: 'refs/heads/feature/tree' });
    expect(await readFleet(tree, second)).toEqual(new Map([['fleet/a', 'tree']]));
    expect(await subjects(tree, first)).toEqual(['descendant', 'in the tree']);
    expect((await open(`${dir}-tree`, 'main').head(signal)).oid).toBe(first);
    expect((await open(dir).head(signal)).oid).toBe(first);

    git('clone', '--quiet', '--bare', dir, `${dir}.git`);
    expect((await open(`${dir}.git`, 'feature/tree').head(signal)).oid).toBe(second);
    expect(await readFleet(open(`${dir}.git`), first)).toEqual(new Map([['fleet/a', 'main']]));
  });

  it('follows the branch that is checked out, and the named branch whatever is', async () => {
    const { dir, commit, git } = repository();
    const main = commit('main');
    git('switch', '--quiet', '-c', 'feature/x');
    const feature = commit('feature');
    expect(await open(dir).head(signal)).toEqual({ oid: feature, ref: 'refs/heads/feature/x' });
    expect(await open(dir, 'main').head(signal)).toEqual({ oid: main, ref: 'refs/heads/main' });
    await expect(open(dir, 'feature').head(signal)).rejects.toMatchObject({ code: 'GitBranchMissing' });
    git('checkout', '--quiet', '--detach', main);
    await expect(open(dir).head(signal)).rejects.toMatchObject({ code: 'GitDetachedHead', next: expect.stringContaining('git switch') });
    expect((await open(dir, 'feature/x').head(signal)).oid).toBe(feature);
  });

  it('does not call a head rewritten when a shallow clone just does not know', async () => {
    const { dir, commit, git } = repository();
    const old = commit('old');
    for (let i = 0; i < 5; i += 1) commit(`c${i}`);
    git('clone', '--quiet', '--depth=2', `file://${dir}`, `${dir}-shallow`);
    const source = open(`${dir}-shallow`);
    const { head, relation, commits } = await source.fetch(old, signal);
    expect([relation, commits.map(({ oid }) => oid)]).toEqual(['tooLong', [head]]);
    expect(await subjects(source, git('rev-parse', 'HEAD~1'))).toEqual(['descendant', 'c4']);
  });

  it('is refused by a clear message when it is of a kind that is not read', async () => {
    const { dir, commit, git } = repository();
    commit('first');
    git('clone', '--quiet', '--shared', dir, `${dir}-shared`);
    await expect(open(`${dir}-shared`).head(signal)).rejects.toMatchObject({
      code: 'GitUnsupportedRepository',
      message: expect.stringContaining('borrows objects from another repository'),
      next: 'git repack -a -d && rm .git/objects/info/alternates',
    });
    const sha256 = repository(['--object-format=sha256']);
    sha256.commit('first');
    await expect(open(sha256.dir).head(signal)).rejects.toMatchObject({
      code: 'GitUnsupportedRepository',
      message: expect.stringContaining('is a sha256 repository; only sha1 ones are read'),
    });
    fs.appendFileSync(join(dir, '.git/config'), '[extensions]\n\trefStorage = reftable # new\n');
    await expect(open(dir).head(signal)).rejects.toMatchObject({ message: expect.stringContaining('keeps its branches as reftable') });
    git('config', '--unset', 'extensions.refStorage');
    fs.appendFileSync(join(dir, '.git/config'), '[Extensions]\n\tobjectFormat = "sha1"\n\tworktreeConfig\n');
    expect((await open(dir).head(signal)).ref).toBe('refs/heads/main');
  });

  it('is refused when it is none, or has no commit', async () => {
    const { dir } = repository();
    await expect(open(dir).head(signal)).rejects.toMatchObject({
      code: 'GitBranchMissing',
      message: expect.stringContaining('no commit on the branch main'),
    });
    await expect(open(root).head(signal)).rejects.toMatchObject({
      code: 'GitNotARepository',
      message: expect.stringContaining('there is no .git in it'),
    });
    await expect(open(join(root, 'none')).head(signal)).rejects.toMatchObject({
      message: expect.stringContaining('there is no such folder'),
    });
    await expect(open('relative').head(signal)).rejects.toMatchObject({ code: 'GitSpec' });
    for (const branch of ['', 'a..b', '../x', 'refs/heads/main', 'a b', '-x', 'x.lock', '@', 'a/.b', 'a~1']) {
      expect(() => open(dir, branch)).toThrow('no name of a branch');
    }
  });

  it('is refused when a branch file is damaged, and works again when it is repaired', async () => {
    const { dir, commit } = repository();
    const head = commit('first');
    const file = join(dir, '.git/refs/heads/main');
    fs.writeFileSync(file, '');
    const source = open(dir);
    await expect(source.head(signal)).rejects.toMatchObject({ code: 'GitObjectCorrupt' });
    fs.writeFileSync(file, `${head}\n`);
    expect((await source.head(signal)).oid).toBe(head);
  });

  it('is never believed about an object that is not what its id reports', async () => {
    const { dir, commit, git } = repository();
    const good = commit('good', { 'fleet/a': 'good' });
    const head = commit('bad', { 'fleet/a': 'bad' });
    const blobFile = (oid: string) => join(dir, '.git/objects', oid.slice(0, 2), oid.slice(2));
    const [bad, other] = [git('rev-parse', `${head}:fleet/a`), git('rev-parse', `${good}:fleet/a`)];
    fs.chmodSync(blobFile(bad), 0o644);
    fs.copyFileSync(blobFile(other), blobFile(bad));
    const source = open(dir);
    await expect(readFleet(source, head)).rejects.toMatchObject({ code: 'GitObjectCorrupt', message: expect.stringContaining(bad) });
    fs.rmSync(blobFile(bad));
    await expect(readFleet(source, head)).rejects.toMatchObject({ code: 'GitObjectMissing' });
    expect(await readFleet(source, good)).toEqual(new Map([['fleet/a', 'good']]));
  });

  it('ends at once when its signal aborts', async () => {
    const { dir, commit } = repository();
    const head = commit('first', { 'fleet/a': 'one' });
    const aborted = AbortSignal.abort(new Error('enough'));
    await expect(open(dir).fetch(undefined, aborted)).rejects.toThrow('enough');
    await expect(open(dir).read(head, { paths: ['fleet'] }, aborted)).rejects.toThrow('enough');
  });
});

describe.skipIf(!hasGit)('watching a repository on this disk (skipped without git)', () => {
  it('calls soon after a commit, though no time passes on our clock', async () => {
    const { dir, commit } = repository();
    commit('first');
    let calls = 0;
    const stop = open(dir).watch(() => (calls += 1));
    try {
      // Until the watch is set, a commit counts as what was there at the start.
      await waitFor(() => (commit('more'), calls > 0));
      expect(calls).toBeGreaterThan(0);
    } finally {
      stop();
    }
  });

  it('calls by the clock where the file system gives no notice, once a change', async () => {
    const { dir, commit, git } = repository();
    commit('first');
    const clock = fakeClock();
    const withoutWatch: GitFs = {
      ...fs,
      promises: fs.promises,
      watch() {
        throw new Error('ENOSPC: no inotify watches left');
      },
    };
    let calls = 0;
    const source = openSource({ kind: 'local', path: dir }, { fs: withoutWatch, fetch: () => Promise.reject(new Error('no')), clock });
    const stop = source.watch(() => (calls += 1));
    const ticks = async (expected: number) =>
      await waitFor(async () => {
        await clock.advance(2000);
        return calls === expected;
      });
    await waitFor(() => clock.timers === 1);
    expect(calls).toBe(0);
    commit('second');
    await ticks(1);
    git('checkout', '--quiet', '--detach');
    await ticks(2);
    git('switch', '--quiet', 'main');
    await ticks(3);
    stop();
    await waitFor(() => clock.timers === 0);
    commit('third');
    await clock.advance(10_000);
    expect(calls).toBe(3);
  });

  it('stops permanently, also while it reads', async () => {
    const { dir, commit } = repository();
    commit('first');
    const clock = fakeClock();
    const watched: { close(): void }[] = [];
    let closed = 0;
    const counted: GitFs = {
      ...fs,
      promises: fs.promises,
      watch(...args: Parameters<GitFs['watch']>) {
        const watcher = fs.watch(...args);
        watched.push(watcher);
        watcher.on('close', () => (closed += 1));
        return watcher;
      },
    };
    const source = openSource({ kind: 'local', path: dir }, { fs: counted, fetch: () => Promise.reject(new Error('no')), clock });
    source.watch(() => {})();
    const stop = source.watch(() => {});
    await waitFor(() => watched.length > 0 && clock.timers > 0);
    stop();
    await waitFor(() => closed === watched.length);
    expect(clock.timers).toBe(0);
  });
});

describe.skipIf(!hasGit || !hasSshKeygen)('signed commits of a repository on this disk (skipped without git and ssh-keygen)', () => {
  let allowed: string;
  const key = join(root, 'key');
  beforeAll(() => {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', key]);
    allowed = `ada@example.com ${fs.readFileSync(`${key}.pub`, 'utf8')}`;
  });

  it('are verified one by one since the last accepted, also on side branches', async () => {
    const { dir, commit, git } = repository();
    git('config', 'gpg.format', 'ssh');
    git('config', 'user.signingKey', key);
    const accepted = commit('accepted');
    git('switch', '--quiet', '-c', 'side');
    commit('not signed');
    git('switch', '--quiet', 'main');
    git('config', 'commit.gpgSign', 'true');
    const signed = commit('signed', { 'fleet/a': 'one' });
    git('merge', '--quiet', '--no-ff', '-m', 'signed merge', 'side');
    const source = open(dir);
    const signers = parseAllowedSigners(allowed);
    const fetched = await source.fetch(accepted, signal);
    const { head } = fetched;
    const verdict = await source.verifyRange(fetched, signers, Date.now(), () => undefined, signal);
    expect(verdict.verified.map(({ oid, signer }) => [oid, signer])).toEqual([
      [head, 'ada@example.com'],
      [signed, 'ada@example.com'],
    ]);
    expect(verdict.refused.map(({ subject, error }) => [subject, error])).toMatchObject([['not signed', { code: 'CommitUnsigned' }]]);
    expect(await source.verifyCommit(signed, signers, Date.now(), undefined, signal)).toMatchObject({ signer: 'ada@example.com' });
    await expect(source.verifyCommit(accepted, signers, Date.now(), undefined, signal)).rejects.toMatchObject({ code: 'CommitUnsigned' });
    // Bad or good, what was accepted can be read.
    expect(await readFleet(source, accepted)).toEqual(new Map());
    expect(await readFleet(source, signed)).toEqual(new Map([['fleet/a', 'one']]));
  });

  it('security 5: the head is always judged, also when nothing is new', async () => {
    const { dir, commit, git } = repository();
    git('config', 'gpg.format', 'ssh');
    git('config', 'user.signingKey', key);
    const unsigned = commit('not signed');
    git('config', 'commit.gpgSign', 'true');
    const signed = commit('signed');
    const source = open(dir);
    const signers = parseAllowedSigners(allowed);
    const judge = async (accepted: string | undefined, by = signers) => {
      const fetched = await source.fetch(accepted, signal);
      const { verified, refused } = await source.verifyRange(fetched, by, Date.now(), () => undefined, signal);
      return [fetched.relation, ...verified.map(({ oid }) => oid), ...refused.map(({ oid, error }) => [oid, (error as CodedError).code])];
    };
    // A signer was removed since the head was accepted.
    const other = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x ?? '';
    const blob = Buffer.concat(['ssh-ed25519', Buffer.from(other, 'base64url')].map(sshString)).toString('base64');
    expect(await judge(signed, parseAllowedSigners(`eve@example.com ssh-ed25519 ${blob}`))).toEqual(['same', [signed, 'SignerUnknown']]);
    expect(await judge(signed)).toEqual(['same', signed]);
    // The branch was set back to an older commit, and a human accepted that.
    git('reset', '--quiet', '--hard', unsigned);
    expect(await judge(signed)).toEqual(['rewritten', [unsigned, 'CommitUnsigned']]);
    // Signatures were switched on while nothing is new.
    expect(await judge(unsigned)).toEqual(['same', [unsigned, 'CommitUnsigned']]);
  });
});
