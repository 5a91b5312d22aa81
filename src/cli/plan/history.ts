/** Names and ancestry of commits in the clone that a plan is made in: a work tree, a linked one, or a bare repository, shallow or not. */
import * as fs from 'node:fs';
import * as git from 'isomorphic-git';
import { messageOf } from '../../api/errors.ts';
import { MAX_WALK, relate } from '../../sync/git/ancestry.ts';
import { findLayout, type Layout } from '../../sync/git/layout.ts';
import { openObjects, readShallow, readText } from '../../sync/git/objects.ts';
import type { CommitInfo } from '../../sync/git/index.ts';
import { hasCommit, infosOf } from '../../sync/git/reading.ts';
import { cliError } from '../errors.ts';

/** `main~2`, `HEAD^`, `v1.0.0^2~1`: a name, and the way from there to an ancestor. */
const REVISION = /^([^~^:]+)((?:~\d*|\^\d*)*)$/;

/** The id of the commit that `revision` names, as git rev-parse has it for a commit, branch or tag, with `~` and `^` behind it. Errors: NoSuchRevision. */
export async function resolveRevision(folder: string, revision: string): Promise<string> {
  try {
    const layout = await findLayout(fs, folder);
    const [, name = '', path = ''] = REVISION.exec(revision) ?? [];
    const gitdir = layout.commonDir;
    // A tag that has a message is an object of its own, which leads to the commit.
    let { oid } = await git.readCommit({ fs, gitdir, oid: await oidOf(layout, name) });
    for (const [, kind, count] of path.matchAll(/([~^])(\d*)/g)) {
      const number = count === '' ? 1 : Number(count);
      for (const parent of kind === '~' ? Array.from({ length: number }, () => 0) : number === 0 ? [] : [number - 1]) {
        const { commit } = await git.readCommit({ fs, gitdir, oid });
        const next = commit.parent[parent];
        if (next === undefined) throw new Error(`${oid.slice(0, 10)} has no parent ${parent + 1}`);
        oid = next;
      }
    }
    return oid;
  } catch (cause) {
    throw cliError('NoSuchRevision', `the repository in ${folder} has no commit, branch or tag "${revision}"`, {
      cause,
      next: 'git fetch, or name one that git log shows',
    });
  }
}

async function oidOf({ gitDir, commonDir: gitdir }: Layout, name: string): Promise<string> {
  if (name === 'HEAD' || name === '@') {
    const head = ((await readText(fs, `${gitDir}/HEAD`)) ?? '').trim();
    return head.startsWith('ref: ') ? await git.resolveRef({ fs, gitdir, ref: head.slice('ref: '.length) }) : head;
  }
  try {
    return await git.resolveRef({ fs, gitdir, ref: name });
  } catch (error) {
    if (!/^[0-9a-f]{4,40}$/.test(name)) throw error;
    return await git.expandOid({ fs, gitdir, oid: name });
  }
}

/** Commits that `head` has and `accepted` has not, as far as this clone has them. */
export async function commitsSince(folder: string, head: string, accepted: string, signal: AbortSignal): Promise<CommitInfo[]> {
  if (head === accepted) return [];
  const { commonDir } = await findLayout(fs, folder);
  const objects = openObjects(fs, commonDir);
  const history = { commit: (oid: string) => objects.commit(oid), shallow: await readShallow(fs, commonDir), maxCommits: MAX_WALK };
  const { relation, commits } = await relate(head, accepted, await hasCommit(objects, accepted), history, signal);
  return relation === 'descendant' ? await infosOf(objects, commits) : [];
}

/** Why `head` would not be planned by the hub as it is here, for a person; undefined where it comes after what the hub accepted (docs/protocols.md#e7). */
export async function historyWarning(folder: string, head: string, accepted: string, signal: AbortSignal): Promise<string | undefined> {
  if (head === accepted) return undefined;
  const [is, was] = [head.slice(0, 10), accepted.slice(0, 10)];
  const unknown = (why: string) => `${why}, so whether ${is} descends from it is not known: git fetch --unshallow`;
  try {
    const { commonDir } = await findLayout(fs, folder);
    const objects = openObjects(fs, commonDir);
    if (!(await hasCommit(objects, accepted))) return unknown(`the commit that the hub accepted, ${was}, is not in this clone`);
    const history = { commit: (oid: string) => objects.commit(oid), shallow: await readShallow(fs, commonDir), maxCommits: MAX_WALK };
    const { relation } = await relate(head, accepted, true, history, signal);
    switch (relation) {
      case 'descendant':
        return undefined;
      case 'unknown':
      case 'tooLong':
        return unknown(`this clone does not have all commits since the one that the hub accepted, ${was}`);
      case 'rewritten':
        break;
      default:
        relation satisfies never;
    }
    const back = await relate(accepted, head, true, history, signal);
    return back.relation === 'descendant'
      ? `${is} is older than what the hub accepted: this is what going back to it by \`git revert\` would do`
      : `${is} does not contain the commit that the hub accepted, ${was}: what came with that shows here as taken back. Merge or rebase first`;
  } catch (error) {
    return unknown(`the history of this clone could not be read (${messageOf(error)})`);
  }
}
