import { gitErrorCodes } from './errors.ts';
import { isCoded } from '../../api/errors.ts';
import { infoOf } from './commit.ts';
import type { Objects } from './objects.ts';
import type { CommitInfo, GitSource } from './source.ts';
import { defaultReadLimits, readFiles } from './tree.ts';
import { verifyCommits, verifyRawCommit } from './verify.ts';

/** Runs `fn` over the objects of a repository that has the commit `oid`. */
export type WithCommit = <T>(oid: string, signal: AbortSignal, fn: (objects: Objects) => Promise<T>) => Promise<T>;

/** The half of a source that only reads objects. */
export function reading(withCommit: WithCommit): Pick<GitSource, 'read' | 'verifyCommit' | 'verifyRange'> {
  return {
    read: (oid, { paths, limits }, signal) =>
      withCommit(oid, signal, async (objects) => {
        const { tree } = await objects.commit(oid);
        return await readFiles(objects, tree, paths, { ...defaultReadLimits, ...limits }, signal);
      }),

    verifyCommit: (oid, allowedSigners, now, firstSeen, signal) =>
      withCommit(oid, signal, async (objects) => verifyRawCommit(oid, await objects.read(oid, 'commit'), allowedSigners, now, firstSeen)),

    verifyRange: ({ head, commits }, allowedSigners, now, firstSeen, signal) =>
      withCommit(head, signal, async (objects) => {
        const all = commits.some(({ oid }) => oid === head) ? commits : [...(await infosOf(objects, [head])), ...commits];
        return await verifyCommits(all, async (oid) => {
          signal.throwIfAborted();
          return verifyRawCommit(oid, await objects.read(oid, 'commit'), allowedSigners, now, firstSeen(oid));
        });
      }),
  };
}

export async function hasCommit(objects: Objects, oid: string): Promise<boolean> {
  try {
    await objects.read(oid, 'commit');
    return true;
  } catch (error) {
    if (isCoded(error, gitErrorCodes, 'GitObjectMissing')) return false;
    throw error;
  }
}

export async function infosOf(objects: Objects, oids: readonly string[]): Promise<CommitInfo[]> {
  const infos: CommitInfo[] = [];
  for (const oid of oids) infos.push(infoOf(await objects.commit(oid)));
  return infos;
}

/** Whether the cause of an error is that the store of objects is not whole, so that another store may do better. */
export function isStoreError(error: unknown): boolean {
  return isCoded(error, gitErrorCodes, 'GitObjectMissing', 'GitObjectCorrupt');
}
