import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { GitFetch, GitFs } from './index.ts';
import { failure, readFleet, remoteWorld, signal, relationAndSubjects } from './testing/remote.ts';
import { hasGit } from './testing/repository.ts';

const world = remoteWorld();
const { open, repository } = world;

/** A disk on which the nth change, and all after it, do not happen; the nth may be half a file. */
function dying(at: number): { disk: GitFs; changes: () => number } {
  let changes = 0;
  const real = fs.promises;
  const guard =
    <Args extends unknown[], T>(change: (...args: Args) => Promise<T>, half?: (...args: Args) => Promise<unknown>) =>
    async (...args: Args): Promise<T> => {
      changes += 1;
      if (changes === at) await half?.(...args);
      if (changes >= at) throw Object.assign(new Error('EIO: killed'), { code: 'EIO', syscall: 'write' });
      return await change(...args);
    };
  const writeFile = guard(
    (...args: Parameters<typeof real.writeFile>) => real.writeFile(...args),
    async (path, data, options) => {
      const whole = typeof data === 'string' ? Buffer.from(data) : (data as Buffer);
      await real.writeFile(path, whole.subarray(0, whole.length / 2), options);
    },
  );
  const promises = {
    ...real,
    writeFile: writeFile as typeof real.writeFile,
    rename: guard((...args: Parameters<typeof real.rename>) => real.rename(...args)),
    rm: guard((...args: Parameters<typeof real.rm>) => real.rm(...args)),
    unlink: guard((...args: Parameters<typeof real.unlink>) => real.unlink(...args)),
  };
  return { disk: { ...fs, promises }, changes: () => changes };
}

describe.skipIf(!hasGit)('a process that is killed while it fetches (skipped without git)', () => {
  /** The server's answers, asked once: what the killed process asks is always the same. */
  const answers = new Map<string, { status: number; headers: Record<string, string>; body: ArrayBuffer }>();
  const recorded: GitFetch = async (url, init) => {
    const key = JSON.stringify([url, init.method, init.headers['Git-Protocol'], Buffer.from(init.body ?? []).toString('latin1')]);
    let answer = answers.get(key);
    if (answer === undefined) {
      const response = await fetch(url, init);
      answer = { status: response.status, headers: Object.fromEntries(response.headers), body: await response.arrayBuffer() };
      answers.set(key, answer);
    }
    return new Response(answer.body, answer);
  };

  const at = (url: string, cacheDir: string, disk: GitFs = fs) => open(url, {}, cacheDir, disk, recorded).source;

  it.each([
    { which: 'the first', later: false },
    { which: 'a later', later: true },
  ])('finds its way again after $which fetch, whichever change of the disk was the last', async ({ later }) => {
    const { url, commit } = repository();
    const first = commit('first', { 'fleet/a': 'one' });
    const start = world.folder();
    if (later) await at(url, start).fetch(undefined, signal);
    else fs.mkdirSync(start);
    answers.clear();
    const head = later ? commit('second', { 'fleet/a': 'two' }) : first;
    const last = later ? first : undefined;

    /** Fetches on a disk that dies at this change, then observes what a new process makes of it. */
    async function kill(killAt: number) {
      const cacheDir = world.folder();
      fs.cpSync(start, cacheDir, { recursive: true });
      const { disk, changes } = dying(killAt);
      const outcome = await failure(at(url, cacheDir, disk).fetch(last, signal));
      const accepted = last === undefined ? undefined : await readFleet(at(url, cacheDir), last);
      const found = await relationAndSubjects(at(url, cacheDir), last);
      const files = await readFleet(at(url, cacheDir), head);
      return { outcome, accepted, found, files, changes: changes() };
    }

    const { outcome, changes, ...whole } = await kill(Infinity);
    expect(outcome).toBeUndefined();
    expect(whole).toEqual({
      accepted: later ? new Map([['fleet/a', 'one']]) : undefined,
      found: later ? ['descendant', 'second'] : ['first', 'first'],
      files: new Map([['fleet/a', later ? 'two' : 'one']]),
    });
    expect(changes).toBeGreaterThan(4);
    for (let killAt = 1; killAt <= changes; killAt += 1) {
      expect(await kill(killAt), `killed at change ${killAt}`).toMatchObject({ outcome: { code: 'GitDisk' }, ...whole });
    }
  });
});
