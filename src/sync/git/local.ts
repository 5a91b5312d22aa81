import { dirname } from 'node:path';
import { MAX_WALK, relate } from './ancestry.ts';
import { infoOf } from './commit.ts';
import { checkBranch, findLayout, readHead } from './layout.ts';
import { onDisk, openObjects, readShallow, type Objects } from './objects.ts';
import { hasCommit, infosOf, isStoreError, reading } from './reading.ts';
import type { Fetched, GitPorts, GitSource, LocalSpec } from './source.ts';
import { watchHead } from './watch.ts';

const POLL_MS = 2_000;

/**
 * A repository on this disk, read in place. Nothing is written to it, no program runs, no hook or config of it has any effect.
 *
 * It may be a work tree, a linked work tree, a submodule's or a bare repository, with loose and packed refs and objects, shallow or not,
 * and may be repacked while it is read. Memory: a pack that contains a wanted object is read whole.
 */
export function localSource(spec: LocalSpec, ports: GitPorts): GitSource {
  const { fs, clock } = ports;
  if (spec.branch !== undefined) checkBranch(spec.branch);

  async function head(signal: AbortSignal) {
    signal.throwIfAborted();
    return await onDisk(async () => readHead(fs, await findLayout(fs, spec.path), spec));
  }

  /** `git gc` may take away a pack between our finding and reading it: then the second read, with nothing kept, finds the new one. */
  async function withObjects<T>(signal: AbortSignal, fn: (objects: Objects, commonDir: string) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const { commonDir } = await onDisk(() => findLayout(fs, spec.path));
    try {
      return await fn(openObjects(fs, commonDir), commonDir);
    } catch (error) {
      if (!isStoreError(error)) throw error;
      signal.throwIfAborted();
      return await fn(openObjects(fs, commonDir), commonDir);
    }
  }

  async function fetch(lastAccepted: string | undefined, signal: AbortSignal): Promise<Fetched> {
    const { oid } = await head(signal);
    if (oid === lastAccepted) return { head: oid, relation: 'same', commits: [] };
    return await withObjects(signal, async (objects, commonDir) => {
      const tip = infoOf(await objects.commit(oid));
      if (lastAccepted === undefined) return { head: oid, relation: 'first', commits: [tip] };
      const history = { commit: (oid: string) => objects.commit(oid), shallow: await readShallow(fs, commonDir), maxCommits: MAX_WALK };
      const { relation, commits } = await relate(oid, lastAccepted, await hasCommit(objects, lastAccepted), history, signal);
      // A shallow clone of someone else's is not ours to deepen.
      if (relation === 'unknown' || relation === 'tooLong') return { head: oid, relation: 'tooLong', commits: [tip] };
      return { head: oid, relation, commits: await infosOf(objects, commits) };
    });
  }

  async function folders(): Promise<string[]> {
    const layout = await findLayout(fs, spec.path);
    const { ref } = await readHead(fs, layout, spec);
    // They contain HEAD, packed-refs and the branch's own file.
    return [layout.gitDir, layout.commonDir, dirname(`${layout.commonDir}/${ref}`)];
  }

  return {
    head,
    fetch,
    ...reading((_oid, signal, fn) => withObjects(signal, fn)),
    watch: (onChange) => watchHead({ fs, clock, everyMs: POLL_MS, read: async (signal) => (await head(signal)).oid, folders }, onChange),
  };
}
