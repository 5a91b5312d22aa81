import fs from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { noise, readFleet, remoteWorld, signal, relationAndSubjects } from './testing/remote.ts';
import { hasGit, runGit } from './testing/repository.ts';

const world = remoteWorld();
const { open, repository, posts, sent } = world;
const big = (seed: number) => Array.from({ length: 400 }, (_, i) => `line ${(seed * 7919 + i * 104_729) % 1_000_003}`).join('\n');

describe.skipIf(!hasGit)('a repository behind an HTTP server (skipped without git)', () => {
  it('is fetched shallow first, then only what is new since the accepted head', async () => {
    const { url, commit } = repository();
    for (let i = 0; i < 5; i += 1) commit(`old ${i}`, { 'fleet/a': big(i), [`docs/${i}`]: big(i + 100) });
    const first = commit('first', { 'fleet/a': 'one' });
    const { source, gitdir } = open(url);
    expect(await source.head(signal)).toEqual({ oid: first, ref: 'refs/heads/main' });
    expect(await relationAndSubjects(source, undefined)).toEqual(['first', 'first']);
    expect(fs.readFileSync(join(gitdir, 'shallow'), 'utf8')).toBe(`${first}\n`);
    expect(await readFleet(source, first)).toEqual(new Map([['fleet/a', 'one']]));

    const second = commit('second', { 'fleet/a': 'two' });
    const third = commit('third', { 'fleet/b': 'three' });
    world.server.requests.length = 0;
    expect(await relationAndSubjects(source, first)).toEqual(['descendant', 'third', 'second']);
    expect(sent()).toBeLessThan(4000);
    expect(await readFleet(source, third)).toEqual(
      new Map([
        ['fleet/a', 'two'],
        ['fleet/b', 'three'],
      ]),
    );
    expect(await readFleet(source, second)).toEqual(new Map([['fleet/a', 'two']]));

    world.server.requests.length = 0;
    expect(await relationAndSubjects(source, third)).toEqual(['same']);
    expect(await relationAndSubjects(open(url).source, third)).toEqual(['same']);
    expect(await relationAndSubjects(source, second)).toEqual(['descendant', 'third']);
    // Both follow from the small request for the branch, and from what was here.
    expect(sent()).toBeLessThan(1500);
  });

  it('does not fetch a head again that was fetched and not accepted', async () => {
    const { url, commit } = repository();
    const accepted = commit('accepted');
    const { source } = open(url);
    await source.fetch(undefined, signal);
    commit('refused', { 'fleet/a': big(1) });
    await source.fetch(accepted, signal);
    world.server.requests.length = 0;
    expect(await relationAndSubjects(source, accepted)).toEqual(['descendant', 'refused']);
    expect(posts()).toBe(1);
  });

  it.each(['with the cache', 'with the cache lost'])('reports how the branch moved, %s', async (how) => {
    const { url, commit, commits, git } = repository();
    const ids = commits(Array.from({ length: 30 }, (_, i) => `c${i}`));
    const [c5 = '', c20 = '', c29 = ''] = [ids[5], ids[20], ids[29]];
    const { source, gitdir } = open(url);
    const move = async (ref: string, last: string) => {
      git('update-ref', 'refs/heads/main', last);
      await source.fetch(undefined, signal);
      git('update-ref', 'refs/heads/main', ref);
      if (how !== 'with the cache') fs.rmSync(gitdir, { recursive: true });
      const answer = await relationAndSubjects(source, last);
      // Whatever was reported, what was accepted is still here to be read.
      expect(await readFleet(source, last)).toEqual(new Map());
      return answer;
    };
    expect(await move(c29, c20)).toEqual(['descendant', 'c29', 'c28', 'c27', 'c26', 'c25', 'c24', 'c23', 'c22', 'c21']);
    expect((await move(c5, c20))[0]).toBe('rewritten');
    git('reset', '--quiet', '--hard', c5);
    git('switch', '--quiet', '-c', `side`);
    commit('side');
    git('switch', '--quiet', 'main');
    git('reset', '--quiet', '--hard', c29);
    git('merge', '--quiet', '--no-ff', '-m', 'merge', 'side');
    const merge = git('rev-parse', 'HEAD');
    expect(await move(merge, c29)).toEqual(['descendant', 'merge', 'side']);
    git('reset', '--quiet', '--hard', c29);
    git('commit', '--quiet', '--amend', '--allow-empty', '-m', 'amended');
    const amended = git('rev-parse', 'HEAD');
    expect((await move(amended, c29)).slice(0, 2)).toEqual(['rewritten', 'amended']);
    git('checkout', '--quiet', '--orphan', 'other');
    const orphan = commit('orphan');
    git('switch', '--quiet', 'main');
    expect(await move(orphan, c29)).toEqual(['rewritten', 'orphan']);
  });

  it('deepens a lost cache step by step until it meets the accepted head', async () => {
    const { url, commits: make } = repository();
    const [old] = make(['old', ...Array.from({ length: 100 }, (_, i) => `c${i}`)]);
    const { source } = open(url);
    const { relation, commits } = await source.fetch(old, signal);
    expect([relation, commits.length, commits[0]?.subject, commits[99]?.subject]).toEqual(['descendant', 100, 'c99', 'c0']);
    // The branch, then depth 1, 16, 64 and 256 deeper.
    expect(posts()).toBe(5);
  });

  it('clones again past fifty packs, when the cache is another URL’s, and when it is damaged', async () => {
    const { url, commit } = repository();
    let last = commit('c0', { 'fleet/a': '0' });
    const { source, gitdir, cacheDir } = open(url);
    await source.fetch(undefined, signal);
    const packs = () => fs.readdirSync(join(gitdir, 'objects/pack')).filter((name) => name.endsWith('.pack'));
    for (let i = 0; i < 50; i += 1) fs.writeFileSync(join(gitdir, `objects/pack/pack-${i}.pack`), '');
    expect(packs().length).toBe(51);
    const c1 = commit('c1', { 'fleet/a': '1' });
    expect(await relationAndSubjects(source, last)).toEqual(['descendant', 'c1']);
    expect(packs().length).toBeLessThan(5);
    last = c1;

    for (const [subject, kind, hurt] of [
      ['cut', '.pack', (file: string) => fs.truncateSync(file, 40)],
      ['changed', '.pack', (file: string) => fs.writeFileSync(file, fs.readFileSync(file).fill(0xff, 20, 30))],
      ['gone', '.pack', (file: string) => fs.rmSync(file)],
      ['index cut', '.idx', (file: string) => fs.truncateSync(file, 40)],
    ] as const) {
      for (const name of fs.readdirSync(join(gitdir, 'objects/pack')).filter((name) => name.endsWith(kind))) {
        const file = join(gitdir, 'objects/pack', name);
        fs.chmodSync(file, 0o644);
        hurt(file);
      }
      const next = commit(subject, { 'fleet/a': subject });
      expect(await relationAndSubjects(source, last)).toEqual(['descendant', subject]);
      expect(await readFleet(source, next)).toEqual(new Map([['fleet/a', subject]]));
      last = next;
    }

    const other = repository();
    const head = other.commit('another repository', { 'fleet/a': 'other' });
    const moved = open(other.url, {}, cacheDir);
    await expect(readFleet(moved.source, last)).rejects.toMatchObject({ code: 'GitObjectMissing' });
    expect(await relationAndSubjects(moved.source, undefined)).toEqual(['first', 'another repository']);
    expect(await readFleet(moved.source, head)).toEqual(new Map([['fleet/a', 'other']]));
  });

  it('reads a commit by its id when the cache was lost, also one that was force-pushed away', async () => {
    const { url, commit, git } = repository();
    const first = commit('first', { 'fleet/a': 'one' });
    const second = commit('second', { 'fleet/a': 'two' });
    git('reset', '--quiet', '--hard', first);
    commit('other');
    const { source } = open(url);
    expect(await readFleet(source, second)).toEqual(new Map([['fleet/a', 'two']]));
    expect(await readFleet(source, first)).toEqual(new Map([['fleet/a', 'one']]));
    await expect(readFleet(source, 'a'.repeat(40))).rejects.toMatchObject({
      code: 'GitObjectMissing',
      message: expect.stringContaining('commit aaaaaaaaaa is not in the cache either'),
    });
    expect(await relationAndSubjects(source, first)).toEqual(['descendant', 'other']);
  });

  it('reports it when the branch or the repository is not there, and recovers when it comes', async () => {
    const { url, commit, git } = repository();
    const { source } = open(url);
    await expect(source.head(signal)).rejects.toMatchObject({ code: 'GitBranchMissing' });
    await expect(source.fetch(undefined, signal)).rejects.toMatchObject({ code: 'GitBranchMissing' });
    const first = commit('first');
    git('branch', 'main2');
    expect(await relationAndSubjects(source, undefined)).toEqual(['first', 'first']);
    git('switch', '--quiet', '--detach');
    git('branch', '--quiet', '-D', 'main');
    await expect(source.fetch(first, signal)).rejects.toMatchObject({
      code: 'GitBranchMissing',
      message: expect.stringContaining('no commit on the branch main'),
    });
    expect(await readFleet(source, first)).toEqual(new Map());
    await expect(open(`${world.server.url}/none`).source.head(signal)).rejects.toMatchObject({
      code: 'GitHttpStatus',
      message: expect.stringContaining('404'),
    });
  });

  it('serves calls that overlap', async () => {
    const { url, commit } = repository();
    const first = commit('first', { 'fleet/a': 'one' });
    const { source } = open(url);
    const results = await Promise.all([
      source.fetch(undefined, signal),
      readFleet(source, first),
      source.fetch(undefined, signal),
      readFleet(source, first),
    ]);
    expect(results.map((result) => (result instanceof Map ? result.get('fleet/a') : result.head))).toEqual([first, 'one', first, 'one']);
  });

  it('calls when the branch moves, by the clock', async () => {
    const { url, commit } = repository();
    commit('first');
    const { source, clock } = open(url, { pollSeconds: 5 });
    let calls = 0;
    const stop = source.watch(() => (calls += 1));
    await waitFor(() => clock.timers === 1);
    commit('second');
    await waitFor(async () => {
      await clock.advance(5000);
      return calls === 1;
    });
    stop();
    await waitFor(() => clock.timers === 0);
    expect(calls).toBe(1);
  });
});

describe.skipIf(!hasGit)('history that is longer than it may be (skipped without git)', () => {
  it('is called too long once, and not fetched again for it', async () => {
    const { url, commit, dir } = repository();
    const old = commit('old', { 'docs/big': noise(20_000) });
    fs.rmSync(join(dir, 'docs/big'));
    commit('c3');
    commit('c4');
    const { source } = open(url, { limits: { responseBytes: 100_000 } });
    expect(await relationAndSubjects(source, old)).toEqual(['tooLong', 'c4']);
    world.server.requests.length = 0;
    expect(await relationAndSubjects(source, old)).toEqual(['tooLong', 'c4']);
    expect(posts()).toBe(1);
    // Accepted by a human, it goes on from there.
    const { head } = await source.fetch(undefined, signal);
    commit('next');
    expect(await relationAndSubjects(source, head)).toEqual(['descendant', 'next']);
    expect(runGit(dir, ['rev-parse', 'HEAD~1'])).toBe(head);
  });
});
