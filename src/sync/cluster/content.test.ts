import { describe, expect, it } from 'vitest';
import { MOST_SETS } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import type { Stored } from '../../api/wire.ts';
import { contentOf } from './content.ts';

const setOf = (name: string, replicas: number | undefined, status: object | undefined, more: object = {}): Stored<MachineSet> =>
  ({
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { namespace: 'web', name, uid: name, resourceVersion: '1', ...more },
    spec: replicas === undefined ? {} : { replicas },
    ...(status === undefined ? {} : { status }),
  }) as unknown as Stored<MachineSet>;

const machinesOf = (...sets: Stored<MachineSet>[]) => {
  // Only the list of a store is read.
  const cell = { store: (kind: string) => (kind === 'MachineSet' ? { list: () => sets } : undefined) } as unknown as Parameters<
    typeof contentOf
  >[0];
  return contentOf(cell, () => undefined).machines;
};

describe('the machines of a cluster', () => {
  it('are those that its sets have, are ready, are to have, and are deleting', () => {
    expect(
      machinesOf(setOf('b', 4, { replicas: 3, readyReplicas: 2, deletingReplicas: 1 }), setOf('a', 5, { replicas: 5, readyReplicas: 5 })),
    ).toEqual({
      total: 8,
      ready: 7,
      sets: [
        { set: 'web/a', replicas: 5, wanted: 5 },
        { set: 'web/b', replicas: 3, wanted: 4, deleting: 1 },
      ],
    });
  });

  it('are listed in one order', () => {
    const names = ['d', 'a', 'c', 'e', 'b'];
    expect(machinesOf(...names.map((name) => setOf(name, 1, undefined))).sets?.map(({ set }) => set)).toEqual(
      names.toSorted().map((name) => `web/${name}`),
    );
  });

  it('of a set that is being deleted are wanted no more, and of one that reports nothing there are none', () => {
    const going = setOf('going', 4, { replicas: 4 }, { deletionTimestamp: '2026-11-22T00:00:00Z' });
    expect(machinesOf(going, setOf('new', 2, undefined)).sets).toEqual([
      { set: 'web/going', replicas: 4, wanted: 0 },
      { set: 'web/new', replicas: 0, wanted: 2 },
    ]);
  });

  it('are listed by set for as many sets as a status holds, and for one more not at all', () => {
    const sets = Array.from({ length: MOST_SETS + 1 }, (_, index) => setOf(`s${index}`, 1, { replicas: 1 }));
    expect(machinesOf(...sets.slice(1)).sets).toHaveLength(MOST_SETS);
    expect(machinesOf(...sets)).toEqual({ total: MOST_SETS + 1, ready: 0 });
  });

  it.each<[string, Stored<MachineSet>, boolean]>([
    ['a million', setOf('s', 1, { replicas: 1_000_000 }), true],
    ['more', setOf('s', 1, { replicas: 1_000_001 }), false],
    ['more that are deleted', setOf('s', 1, { deletingReplicas: 1_000_001 }), false],
    ['more that are ready', setOf('s', 1, { readyReplicas: 1_000_001 }), false],
    ['less than none', setOf('s', 1, { replicas: -1 }), false],
    ['half a machine', setOf('s', 1, { replicas: 0.5 }), false],
    ['a text', setOf('s', 1, { replicas: '3' }), false],
    ['a name that none can have', setOf('n'.repeat(600), 1, { replicas: 1 }), false],
  ])('of a cell that reports %s are counted: %s', (_what, set, isCounted) => {
    if (isCounted) expect(machinesOf(set).total).toBe(1_000_000);
    else expect(() => machinesOf(set)).toThrow(expect.objectContaining({ code: 'ContentInvalid' }) as Error);
  });
});
