import { describe, expect, test } from 'vitest';
import { Clusters } from '../api/cluster.ts';
import { unitDigest } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { CodedError } from '../api/errors.ts';
import { machinesGoing, machinesOf, replicasOf } from './going.ts';

const set = (replicas: number | undefined) => ({
  apiVersion: API_VERSION,
  kind: 'MachineSet',
  metadata: { name: 'a', namespace: 'web' },
  spec: { provider: { name: 'local' }, ...(replicas === undefined ? {} : { replicas }) },
});
const UNIT = 'MachineSet/web/a';
const REPLICAS = new Map<string, number | null>([
  ['none', null],
  ...[0, 1, 3, 38, 40].map((replicas): [string, number] => [String(replicas), replicas]),
]);

describe('E9: each machine that a commit would let go counts', () => {
  test.each<[string | undefined, string | undefined, number]>([
    ['40', '1', 39],
    ['40', '38', 2],
    ['1', '40', 0],
    ['40', '40', 0],
    ['40', undefined, 40],
    [undefined, '40', 0],
    // Left out: the set keeps what it has.
    ['40', 'none', 0],
    ['none', 'none', 0],
    ['lost', 'none', 0],
    // How many there are is not known.
    ['none', '3', 1997],
    ['none', undefined, 2000],
    ['lost', '3', 1997],
    ['lost', undefined, 2000],
    ['40', 'lost', 40],
  ])('%s → %s: %i', (from, to, going) => {
    expect(machinesGoing(UNIT, from, to, { replicas: REPLICAS })).toBe(going);
  });
  test.each<[readonly string[] | undefined, number]>([
    [['40'], 37],
    // Begun, or left while another was wanted.
    [['3', '40'], 37],
    [['38'], 35],
    [['3'], 0],
    [[], 0],
    [['lost'], 37],
    [['none'], 37],
    [undefined, 37],
  ])('40 → 3 where the cell was given %j: %i', (there, going) => {
    expect(machinesGoing(UNIT, '40', '3', { replicas: REPLICAS, there })).toBe(going);
  });
  test.each<[number, readonly string[] | undefined, number]>([
    // As it was asked for, or less.
    [40, ['40'], 37],
    [1, ['40'], 37],
    // More, which the cell was not asked for as far as the hub knows.
    [50, ['40'], 47],
    [50, [], 47],
    [50, undefined, 47],
    [50, ['none'], 47],
    [50, ['lost'], 47],
    [1e6, ['40'], 1997],
    // Another commit has begun to let them go.
    [38, ['38', '3'], 35],
  ])('40 → 3 where the cell wants %i and was given %j: %i', (wanted, there, going) => {
    const cell = { replicas: 1, wanted, deleting: 0, removing: false };
    expect(machinesGoing(UNIT, '40', '3', { replicas: REPLICAS, most: 60, there, cell })).toBe(going);
  });
  test('nothing goes where nothing changes, or the set keeps what it has', () => {
    const cell = { replicas: 50, wanted: 50, deleting: 0, removing: false };
    expect(machinesGoing(UNIT, '40', '40', { replicas: REPLICAS, most: 60, there: ['40'], cell })).toBe(0);
    expect(machinesGoing(UNIT, '40', 'none', { replicas: REPLICAS, most: 60, there: ['40'], cell })).toBe(0);
    expect(machinesGoing(UNIT, undefined, undefined, { replicas: REPLICAS, most: 60, there: ['40'], cell })).toBe(0);
  });
  test('what an earlier commit removes goes by that commit', () => {
    expect(
      machinesGoing(UNIT, undefined, '3', {
        replicas: REPLICAS,
        most: 60,
        there: [],
        cell: { replicas: 50, wanted: 50, deleting: 0, removing: true },
      }),
    ).toBe(0);
    expect(
      machinesGoing(UNIT, undefined, '3', {
        replicas: REPLICAS,
        most: 60,
        there: [],
        cell: { replicas: 50, wanted: 50, deleting: 0, removing: false },
      }),
    ).toBe(47);
  });
  test.each<[string, { replicas: number; wanted: number; removing?: boolean }, number]>([
    // It has other machines beside: they are not of this set.
    ['its own machines', { replicas: 10, wanted: 10 }, 7],
    ['what it is to have, where that is more', { replicas: 2, wanted: 8 }, 5],
    ['none', { replicas: 0, wanted: 0 }, 0],
    ['the most, where a cell claims more', { replicas: 1e9, wanted: 3 }, 1997],
    ['all machines of the cell, where another commit removes it', { replicas: 10, wanted: 0, removing: true }, 57],
  ])('a set whose number was left out, or is not known, counts with %s', (_what, cell, going) => {
    const set = { deleting: 0, removing: false, ...cell };
    for (const from of ['none', 'lost'])
      expect(machinesGoing(UNIT, from, '3', { replicas: REPLICAS, most: 60, there: [from], cell: set })).toBe(going);
  });
  test.each<[string, number, number, number]>([
    ['what was not made is not lost', 3, 40, 0],
    ['what was made is', 10, 40, 7],
    ['no more than what was asked for', 60, 40, 37],
    ['but where the cell is to have more than that, all of it', 10, 50, 47],
  ])('a way back at once from what was never proven: %s', (_what, replicas, wanted, going) => {
    const by = { replicas: REPLICAS, most: 60, there: ['40'], restores: true };
    const cell = { replicas, wanted, deleting: 0, removing: false };
    expect(machinesGoing(UNIT, '40', '3', { ...by, cell })).toBe(going);
    // A cell that is not reached, and any other change.
    expect(machinesGoing(UNIT, '40', '3', by)).toBe(37);
    if (wanted === 40) expect(machinesGoing(UNIT, '40', '3', { ...by, cell, restores: false })).toBe(37);
  });
  test('of MachineSets alone', () => {
    expect(machinesGoing('MachineComponentSet/kubelet', '40', undefined, { replicas: REPLICAS })).toBe(0);
  });
});

test('replicas are found in what is rendered and in what is kept, and nowhere else', async () => {
  const [old, lost, now] = [set(40), set(7), set(undefined)].map((object) => unitDigest([object]));
  const kept = new Map([[old, { key: UNIT, objects: [set(40)], origins: [undefined] }]]);
  const before = [
    { unit: UNIT, digest: old ?? '', commit: 'c1' },
    { unit: 'MachineSet/web/b', digest: lost ?? '', commit: undefined },
    { unit: 'x', digest: 'not asked for', commit: 'c1' },
  ];
  const asked: string[] = [];
  const get = (digest: string) => {
    asked.push(digest);
    return Promise.resolve(kept.get(digest));
  };
  const found = await replicasOf([{ units: [{ digest: now ?? '', objects: [set(undefined)] }] }], before, { get });
  expect([...found]).toEqual([
    [now, null],
    [old, 40],
  ]);
  expect(asked).toEqual([old, lost]);
});

describe('E8, E9: what the cache lost', () => {
  const [old, next] = [set(5), set(6)];
  const before = [{ unit: UNIT, digest: unitDigest([old]), commit: 'c1' }];
  const rendered = (object: typeof old) => [{ units: [{ digest: unitDigest([object]), objects: [object] }] }];
  const get = () => Promise.resolve(undefined);

  test('is found by rendering its commit again: more machines are no deletion', async () => {
    const found = await replicasOf(rendered(next), before, { get }, (commit) => Promise.resolve(commit === 'c1' ? rendered(old) : []));
    expect(machinesGoing(UNIT, unitDigest([old]), unitDigest([next]), { replicas: found })).toBe(0);
  });
  test('stays unknown when that commit no longer renders, and refuses nothing when it could not be rendered just now', async () => {
    const fails = (verdict: boolean) => () => Promise.reject(new CodedError('X', 'why', { verdict }));
    const found = await replicasOf(rendered(next), before, { get }, fails(true));
    expect(machinesGoing(UNIT, unitDigest([old]), unitDigest([next]), { replicas: found })).toBe(1994);
    await expect(replicasOf(rendered(next), before, { get }, fails(false))).rejects.toThrow('why');
  });
});

describe('E9: what the hub recorded of machines', () => {
  const sets = [
    { set: 'web/a', replicas: 5, wanted: 5 },
    { set: 'web/b', replicas: 2, wanted: 1, deleting: 1 },
  ];
  const cluster = (status: 'True' | 'False', machines: object = { total: 7, ready: 5, sets }) =>
    Clusters.parse({
      apiVersion: API_VERSION,
      kind: 'Cluster',
      metadata: { name: status },
      spec: {},
      status: {
        machines,
        conditions: [{ type: 'Reachable', status, reason: 'X', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }],
      },
    });

  test('counts of a cell that is reached, and of no other', () => {
    const found = machinesOf([cluster('True'), cluster('False')], (name, unit) => name === 'True' && unit === 'MachineSet/web/b');
    expect([...found.keys()]).toEqual(['True']);
    expect(found.get('True')?.total).toBe(7);
    expect([...(found.get('True')?.sets ?? [])]).toEqual([
      ['MachineSet/web/a', { replicas: 5, wanted: 5, deleting: 0, removing: false }],
      ['MachineSet/web/b', { replicas: 2, wanted: 1, deleting: 1, removing: true }],
    ]);
  });
  test('counts of no cell that reports its sets in part, or not yet', () => {
    expect([...machinesOf([cluster('True', { total: 7, ready: 7 })], () => false)]).toEqual([]);
  });
  test('a number that was left out counts as the machines that there are', () => {
    expect(machinesGoing(UNIT, 'none', '3', { replicas: REPLICAS, most: 5 })).toBe(2);
    expect(machinesGoing(UNIT, 'none', '38', { replicas: REPLICAS, most: 5 })).toBe(0);
    expect(machinesGoing(UNIT, 'none', '3', { replicas: REPLICAS })).toBe(1997);
  });
});
