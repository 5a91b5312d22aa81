import { gitError } from './errors.ts';

/** What the walk needs of a commit. `time` (ms) only decides the order of reading, never the answer. */
export interface Ancestor {
  parents: readonly string[];
  timeMs: number;
}

export interface CommitHistory {
  commit(oid: string): Promise<Ancestor>;
  /** Commits whose parents are not here. */
  shallow: ReadonlySet<string>;
  /** Commits read before giving up with `tooLong`. */
  maxCommits: number;
}

export interface CommitStanding {
  /** `unknown`: history that is not here would decide it, or would add commits. */
  relation: 'descendant' | 'rewritten' | 'unknown' | 'tooLong';
  /**
   * With `descendant` and `rewritten`: what `git log last..head` lists, children before parents, else newest first. None is ever left out.
   * A commit dated before its own parents may add some that `last` has too.
   */
  commits: string[];
  /** False: history that is not here might show that `last` has some of `commits` too, such as the base of an old branch merged now. */
  exact: boolean;
}

/** Commits that a walk of a repository may read before it counts as too long. */
export const MAX_WALK = 20_000;

const HEAD = 1;
const LAST = 2;
const BOTH = 3;

/**
 * How `head` stands to `last`, two different commits, and what `head` has that `last` lacks.
 *
 * Both ancestries are walked at once, younger commits first, each commit marked by where it was reached from. A commit reached from both
 * need not be followed for `head`'s sake: what lies behind it is behind `last` too and so cannot be `last`. So a reset or an amend is
 * known after a few steps, also at the edge of a shallow clone, and the relation does not depend on commit dates, which anyone can set.
 * isomorphic-git's `isDescendent` returns false at a shallow edge, where the truth is "unknown".
 *
 * `last` may be missing from the repository; then only `head`'s side is walked.
 */
export async function relate(
  head: string,
  last: string,
  lastIsHere: boolean,
  history: CommitHistory,
  signal: AbortSignal,
): Promise<CommitStanding> {
  const marks = new Map<string, number>();
  const known = new Map<string, Ancestor>();
  const queue: string[] = [];
  const queued = new Set<string>();
  /** Shallow commits that were come to. */
  const cuts = new Set<string>();
  /** Entries of the queue that only `head` has reached. */
  let open = 0;

  async function mark(oid: string, mark: number): Promise<void> {
    const before = marks.get(oid) ?? 0;
    const after = before | mark;
    if (after === before) return;
    marks.set(oid, after);
    if (queued.has(oid)) {
      if (before === HEAD) open -= 1;
      return;
    }
    if (oid === last && !lastIsHere) return;
    let commit = known.get(oid);
    if (commit === undefined) {
      signal.throwIfAborted();
      commit = await history.commit(oid);
      known.set(oid, commit);
    }
    queued.add(oid);
    if (after === HEAD) open += 1;
    insert(queue, oid, (other) => (known.get(other)?.timeMs ?? 0) >= commit.timeMs);
  }
  const undecided = () => [...cuts].some((oid) => marks.get(oid) === HEAD);

  await mark(head, HEAD);
  await mark(last, LAST);
  while (open > 0 || undecided()) {
    const oid = queue.shift();
    if (oid === undefined) break;
    if (known.size > history.maxCommits) return { relation: 'tooLong', commits: [], exact: false };
    queued.delete(oid);
    const from = marks.get(oid) ?? 0;
    if (from === HEAD) open -= 1;
    if (history.shallow.has(oid)) {
      cuts.add(oid);
      continue;
    }
    for (const parent of known.get(oid)?.parents ?? []) await mark(parent, from);
  }

  if (undecided()) return { relation: 'unknown', commits: [], exact: false };
  const relation = marks.get(last) === BOTH ? 'descendant' : 'rewritten';
  const own = new Set([...marks].filter(([, from]) => from === HEAD).map(([oid]) => oid));
  const exact = [...cuts].every((cut) => standsApart(own, cut, known));
  return { relation, commits: childrenFirst(own, known), exact };
}

/** Whether none of `oids` can lie behind `cut`: each is younger, or has it as an ancestor. */
function standsApart(oids: ReadonlySet<string>, cut: string, known: ReadonlyMap<string, Ancestor>): boolean {
  const edge = known.get(cut)?.timeMs ?? 0;
  const older = [...oids].filter((oid) => (known.get(oid)?.timeMs ?? 0) <= edge);
  return older.every((oid) => {
    const seen = new Set([oid]);
    for (const next of seen) for (const parent of known.get(next)?.parents ?? []) if (known.has(parent)) seen.add(parent);
    return seen.has(cut);
  });
}

/** Children before parents; among those that may come next, the youngest. */
function childrenFirst(oids: ReadonlySet<string>, known: ReadonlyMap<string, Ancestor>): string[] {
  function get(oid: string): Ancestor {
    const commit = known.get(oid);
    if (commit === undefined) throw gitError('GitObjectMissing', `commit ${oid} was not read`);
    return commit;
  }
  const children = new Map<string, number>();
  for (const oid of oids) for (const parent of new Set(get(oid).parents)) children.set(parent, (children.get(parent) ?? 0) + 1);
  const younger = (oid: string) => (other: string) => get(other).timeMs >= get(oid).timeMs;
  const ready: string[] = [];
  for (const oid of oids) if (!children.has(oid)) insert(ready, oid, younger(oid));
  const sorted: string[] = [];
  for (let oid = ready.shift(); oid !== undefined; oid = ready.shift()) {
    sorted.push(oid);
    for (const parent of new Set(get(oid).parents)) {
      const left = (children.get(parent) ?? 0) - 1;
      children.set(parent, left);
      if (left === 0 && oids.has(parent)) insert(ready, parent, younger(parent));
    }
  }
  return sorted;
}

/** Puts `item` behind all for which `stays` returns true; the list is sorted that way. */
function insert(list: string[], item: string, stays: (other: string) => boolean): void {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (stays(list[middle] ?? '')) low = middle + 1;
    else high = middle;
  }
  list.splice(low, 0, item);
}
