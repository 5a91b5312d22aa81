import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { relate, type Ancestor } from './ancestry.ts';

const signal = new AbortController().signal;

/** Commits by name; parents must be named before. `present` limits what can be read. */
function world(commits: Record<string, { parents: string[]; time?: number }>, shallow: string[] = []) {
  const names = Object.keys(commits);
  const all = new Map<string, Ancestor>(
    Object.entries(commits).map(([name, { parents, time }]) => [name, { parents, timeMs: time ?? names.indexOf(name) }]),
  );
  let reads = 0;
  return {
    all,
    reads: () => reads,
    history: {
      shallow: new Set(shallow),
      maxCommits: 1000,
      async commit(oid: string): Promise<Ancestor> {
        reads += 1;
        const commit = all.get(oid);
        if (commit === undefined) throw new Error(`read ${oid}, which is not here`);
        return commit;
      },
    },
  };
}

function line(count: number): Record<string, { parents: string[] }> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`c${i}`, { parents: i === 0 ? [] : [`c${i - 1}`] }]));
}

function ancestors(all: ReadonlyMap<string, Ancestor>, from: string): Set<string> {
  const seen = new Set([from]);
  for (const oid of seen) for (const parent of all.get(oid)?.parents ?? []) seen.add(parent);
  return seen;
}

/** A random history, with times that may run backwards, cut where `cut` reports. */
const worlds = (skewed: boolean) =>
  fc
    .integer({ min: 2, max: 12 })
    .chain((size) =>
      fc.record({
        parents: fc.tuple(
          ...Array.from({ length: size }, (_, i) =>
            fc.uniqueArray(fc.integer({ min: 0, max: Math.max(0, i - 1) }), { maxLength: i === 0 ? 0 : 2 }),
          ),
        ),
        times: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: size, maxLength: size }),
        cut: fc.uniqueArray(fc.integer({ min: 0, max: size - 1 }), { maxLength: 3 }),
        head: fc.integer({ min: 0, max: size - 1 }),
        last: fc.integer({ min: 0, max: size - 1 }),
      }),
    )
    .filter(({ head, last }) => head !== last)
    .map(({ parents, times, cut, head, last }) => {
      const commits = Object.fromEntries(
        parents.map((list, i) => [`c${i}`, { parents: list.map((p) => `c${p}`), time: skewed ? (times[i] ?? 0) : i }]),
      );
      const full = world(commits);
      // A clone holds what is reached from the two without crossing a cut; the accepted head may have been lost with the cache.
      const shallow = cut.map((i) => `c${i}`);
      const cutAway = new Map([...full.all].map(([oid, commit]) => [oid, shallow.includes(oid) ? { ...commit, parents: [] } : commit]));
      return { full: full.all, cutAway, shallow, commits, head: `c${head}`, last: `c${last}` };
    });

describe('how a head stands to the one accepted last', () => {
  it('is a descendant, with the commits in between, newest first', async () => {
    const { history } = world(line(5));
    expect(await relate('c4', 'c1', true, history, signal)).toMatchObject({
      relation: 'descendant',
      commits: ['c4', 'c3', 'c2'],
      exact: true,
    });
  });

  it('lists what a merge brought in from an old side branch', async () => {
    const { history } = world({ ...line(4), side: { parents: ['c0'] }, merge: { parents: ['c3', 'side'] } });
    expect(await relate('merge', 'c3', true, history, signal)).toMatchObject({ relation: 'descendant', commits: ['merge', 'side'] });
  });

  it('is rewritten after an amend, found in a few reads however long the history is', async () => {
    const { history, reads } = world({ ...line(500), amended: { parents: ['c498'] } });
    expect(await relate('amended', 'c499', true, history, signal)).toMatchObject({ relation: 'rewritten', commits: ['amended'] });
    expect(reads()).toBeLessThan(6);
  });

  it('is rewritten after a reset back, with no commit of its own', async () => {
    const { history } = world(line(9));
    expect(await relate('c3', 'c8', true, history, signal)).toMatchObject({ relation: 'rewritten', commits: [] });
  });

  it('is rewritten when the two share no history', async () => {
    const { history } = world({ ...line(4), x: { parents: [] }, y: { parents: ['x'] } });
    expect(await relate('y', 'c3', true, history, signal)).toMatchObject({ relation: 'rewritten', commits: ['y', 'x'] });
  });

  it('is rewritten at the edge of a shallow clone when the edge is behind the accepted head', async () => {
    const commits = line(6);
    delete commits['c0'];
    const { history } = world({ ...commits, amended: { parents: ['c4'] } }, ['c1']);
    expect(await relate('amended', 'c5', true, history, signal)).toMatchObject({ relation: 'rewritten', commits: ['amended'] });
  });

  it('is rewritten there also when the edge is dated after everything else', async () => {
    const { history } = world(
      { c1: { parents: ['c0'], time: 99 }, ...Object.fromEntries(Object.entries(line(6)).slice(2)), amended: { parents: ['c1'] } },
      ['c1'],
    );
    expect(await relate('amended', 'c5', true, history, signal)).toMatchObject({ relation: 'rewritten', commits: ['amended'] });
  });

  it('is unknown, not rewritten, when the accepted head may lie behind the edge', async () => {
    const { history } = world({ c7: { parents: ['c6'] }, c8: { parents: ['c7'] } }, ['c7']);
    expect(await relate('c8', 'c2', false, history, signal)).toMatchObject({ relation: 'unknown', commits: [] });
  });

  it('is unknown while a side branch leads over the edge, though the accepted head was found', async () => {
    const { history } = world(
      { last: { parents: ['p'] }, p: { parents: ['gone'] }, side: { parents: ['far'] }, head: { parents: ['last', 'side'] } },
      ['p', 'side'],
    );
    expect((await relate('head', 'last', true, history, signal)).relation).toBe('unknown');
  });

  it('reports that the list may be too long while the base of a merged branch may lie behind the edge', async () => {
    // The clone of the accepted head ends at c3; the server sent the merged branch whole, and c0 and c1 with it.
    const { all, history } = world({ ...line(6), side: { parents: ['c1'] }, merge: { parents: ['c5', 'side'] } }, ['c3']);
    all.delete('c2');
    expect(await relate('merge', 'c5', true, history, signal)).toEqual({
      relation: 'descendant',
      commits: ['merge', 'side', 'c1', 'c0'],
      exact: false,
    });
  });

  it('gives up after the limit', async () => {
    const { history } = world({ ...line(50), x: { parents: [] } });
    expect((await relate('c49', 'x', true, { ...history, maxCommits: 20 }, signal)).relation).toBe('tooLong');
  });

  it('stops when its signal aborts', async () => {
    const { history } = world(line(5));
    await expect(relate('c4', 'c1', true, history, AbortSignal.abort(new Error('enough')))).rejects.toThrow('enough');
  });

  it('never reports anything that the whole history would contradict', async () => {
    await fc.assert(
      fc.asyncProperty(worlds(true), fc.boolean(), async ({ full, cutAway, shallow, commits, head, last }, keepsLast) => {
        const lastIsHere = keepsLast || ancestors(cutAway, head).has(last);
        const here = new Set([...ancestors(cutAway, head), ...(lastIsHere ? ancestors(cutAway, last) : [])]);
        const { history } = world(Object.fromEntries(Object.entries(commits).filter(([oid]) => here.has(oid))), shallow);
        const { relation, commits: listed } = await relate(head, last, lastIsHere, history, signal);
        if (relation === 'unknown') return;
        expect(relation).toBe(ancestors(full, head).has(last) ? 'descendant' : 'rewritten');
        // Never fewer than what is new: those would go unverified.
        const missing = [...ancestors(full, head)].filter((oid) => !ancestors(full, last).has(oid) && !listed.includes(oid));
        expect(missing).toEqual([]);
      }),
      { numRuns: 2000 },
    );
  });

  it('lists exactly what is new, children first, when dates run forwards and all history is here or it reports it', async () => {
    await fc.assert(
      fc.asyncProperty(worlds(false), fc.boolean(), async ({ full, commits, shallow, head, last }, cut) => {
        const { history } = world(commits, cut ? shallow : []);
        const { relation, commits: listed, exact } = await relate(head, last, true, history, signal);
        expect(exact || cut).toBe(true);
        if (!exact) return;
        expect(relation).toBe(ancestors(full, head).has(last) ? 'descendant' : 'rewritten');
        expect(listed.toSorted()).toEqual([...ancestors(full, head)].filter((oid) => !ancestors(full, last).has(oid)).toSorted());
        for (const [index, oid] of listed.entries()) {
          for (const parent of full.get(oid)?.parents ?? []) expect(listed.slice(0, index)).not.toContain(parent);
        }
      }),
      { numRuns: 2000 },
    );
  });
});
