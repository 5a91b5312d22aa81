import { describe, expect, it } from 'vitest';
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Rollout, RolloutUnit } from '../../api/rollout.ts';
import type { CellMachines } from '../going.ts';
import { plan, type Plan } from '../plan.ts';
import { REMOVAL } from '../records.ts';
import { lateText, pendingIn } from './pending.ts';

const WEB = 'MachineSet/web/web';
const REPLICAS = new Map<string, number | null>([
  ['none', null],
  ...Array.from({ length: 201 }, (_, replicas): [string, number] => [String(replicas), replicas]),
]);

const rolloutOf = (placement: Omit<RolloutUnit['clusters'][number], 'name'>): Rollout => ({
  apiVersion: API_VERSION,
  kind: 'Rollout',
  metadata: { name: 'main-1' },
  spec: { fleet: 'main', commit: 'c1', sequence: 1, stages: [], units: [{ unit: WEB, clusters: [{ name: 'one', ...placement }] }] },
});
const recordOf = (record: Partial<UnitStatus>): UnitStatus => ({ unit: WEB, fleet: 'main', ...record });
const cellOf = (replicas: number, wanted = replicas, beside = 0): CellMachines => ({
  total: replicas + beside,
  sets: new Map([[WEB, { replicas, wanted, deleting: 0, removing: false }]]),
});

interface Judged {
  /** The newest Rollout of the set. */
  placement?: Omit<RolloutUnit['clusters'][number], 'name'>;
  record: Partial<UnitStatus>;
  cell?: CellMachines | undefined;
  /** The commit; undefined: it has no such set. */
  to: string | undefined;
  restores?: boolean;
  prune?: Fleet['spec']['prune'];
}

function judged({ placement, record, cell, to, restores = false, prune }: Judged): {
  plan: Plan;
  placement: RolloutUnit['clusters'][number] | undefined;
} {
  const rollouts = placement === undefined ? [] : [rolloutOf(placement)];
  const recorded = new Map([['one', [recordOf(record)]]]);
  const machines = new Map(cell === undefined ? [] : [['one', cell]]);
  const wanted = placement === undefined ? record.digest : placement.digest;
  const fleet: Fleet = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main' },
    spec: {
      source: { path: '/x' },
      stages: [{ name: 'all', clusterSelector: { stage: 'all' } }],
      ...(prune === undefined ? {} : { prune }),
    },
  };
  const tree = (digest: string | undefined) => new Map([['x', '1'], ...(digest === undefined ? [] : [[WEB, digest] as const])]);
  const found = plan({
    fleet,
    rendered: new Map([['one', tree(to)]]),
    wanted: new Map([['one', tree(wanted)]]),
    labels: new Map([['one', { stage: 'all' }]]),
    replicas: REPLICAS,
    machines,
    there: () => [record.digest, record.begun].flatMap((each) => (each === undefined || each === REMOVAL ? [] : each)),
    restores: () => restores,
    pending: pendingIn({ fleet: 'main', rollouts, recorded, machines, uncounted: new Set(), replicas: REPLICAS }),
  });
  return { plan: found, placement: found.units[0]?.clusters[0] };
}

const ANY = { maxMachines: '100%', maxDeletions: 500 };

describe('E9: a commit limits how many machines may be there where it begins', () => {
  it.each<[string, Judged, number | undefined]>([
    ['as many as the hub asked for, where it begins in its turn', { record: { digest: '40' }, cell: cellOf(38, 40), to: '39' }, 40],
    [
      'as many as there are, where it takes back what is being made',
      { record: { digest: '200' }, cell: cellOf(42, 200), to: '40', restores: true },
      42,
    ],
    ['as many as there are, where the number was left to others', { record: { digest: 'none' }, cell: cellOf(40), to: '39' }, 40],
    ['as many as its cell is to have, where the hub knows of fewer', { record: { digest: '30' }, cell: cellOf(40, 41), to: '39' }, 41],
    ['as many as it wants, where that is more', { record: { digest: '40' }, cell: cellOf(40), to: '45' }, 45],
    ['any, where it leaves the number to others', { record: { digest: '40' }, cell: cellOf(40), to: 'none' }, 2000],
    ['as many as the hub asked for, where it is removed', { record: { digest: '40' }, cell: cellOf(40), to: undefined, prune: ANY }, 40],
    [
      'as many as an earlier commit was judged with, which has not begun',
      { placement: { digest: '38', atMost: 40 }, record: { digest: '40' }, cell: cellOf(40), to: '38x', prune: ANY },
      40,
    ],
  ])('%s', (_what, world, atMost) => {
    REPLICAS.set('38x', 37);
    const { plan: found, placement } = judged(world);
    expect(found.heldBack).toBeUndefined();
    expect(placement?.digest).toBe(world.to);
    expect(placement?.atMost).toBe(atMost);
  });

  it('and none where an earlier version has judged what has not begun', () => {
    const { placement } = judged({ placement: { digest: '38' }, record: { digest: '40' }, cell: cellOf(40), to: '37', prune: ANY });
    expect(placement).toEqual({ name: 'one', digest: '37', from: '38', machines: 38 });
  });
});

describe('E9: what has more machines by now than it was judged with', () => {
  const late: Judged = { placement: { digest: '40', atMost: 42, machines: 42 }, record: { digest: '200' }, cell: cellOf(100), to: '40' };

  it('is held back, and stays as it waits', () => {
    const { plan: found } = judged(late);
    expect(found.heldBack?.message).toContain('60 of its 100 machines would go, 3 may');
    expect(found.heldBack?.next).toContain('set prune: { maxDeletions: 60, maxMachines: "60%" } for stage "all"');
    expect(found.units).toEqual([]);
  });

  it('begins where a person raises the limits', () => {
    const { plan: found, placement } = judged({ ...late, prune: ANY });
    expect(found.heldBack).toBeUndefined();
    expect(placement).toEqual({ name: 'one', digest: '40', from: '200', machines: 100, atMost: 100 });
  });

  it('begins by itself where the limits allow what is there', () => {
    expect(judged({ ...late, cell: cellOf(43, 43, 10) }).placement).toMatchObject({ digest: '40', atMost: 43 });
  });

  it('counts with what is there, also where it is recorded to have begun', () => {
    const { plan: found } = judged({ ...late, record: { digest: '200', begun: '40' } });
    expect(found.heldBack?.message).toContain('60 of its 100 machines would go');
  });

  it('is held back with a commit that wants other content, for which it waits then', () => {
    const { plan: found, placement } = judged({ ...late, to: '39' });
    expect(found.heldBack?.message).toContain('61 of its 100 machines would go');
    expect(placement).toMatchObject({ digest: '39', atMost: 39 });
  });

  it('begins with a commit that keeps as many as there are', () => {
    const { plan: found, placement } = judged({ ...late, to: '100' });
    expect(found.heldBack).toBeUndefined();
    expect(placement).toMatchObject({ digest: '100', atMost: 100 });
  });

  it('is held back where it is a removal, and goes where a person raises the limits', () => {
    const removal: Judged = {
      ...late,
      placement: { atMost: 2 },
      cell: { ...cellOf(30), sets: new Map([[WEB, { replicas: 30, wanted: 30, deleting: 0, removing: true }]]) },
      to: undefined,
    };
    const { plan: found } = judged(removal);
    expect(found.heldBack?.message).toContain('1 object and 30 of its 30 machines would go');
    expect(found.units).toEqual([]);
    expect(judged({ ...removal, prune: ANY }).placement).toEqual({ name: 'one', from: '200', machines: 30, atMost: 30 });
  });

  it.each<[string, Partial<Judged>]>([
    [
      'machines go already for a number of the hub',
      { record: { digest: '40' }, placement: { digest: '38', atMost: 40 }, cell: cellOf(60, 40), to: '38' },
    ],
    ['it is there as a whole', { record: { digest: '40' } }],
    ['its cell is not reached', { cell: undefined }],
    ['an earlier version has judged it', { placement: { digest: '40' } }],
    ['the record is of another Fleet', { record: { digest: '200', fleet: 'other' } }],
  ])('is not judged again where %s', (_what, change) => {
    const { plan: found } = judged({ ...late, ...change });
    expect([found.units, found.heldBack]).toEqual([[], undefined]);
  });
});

/** The hub died before it recorded what it wrote, or the answer was lost: the cell has it, and the record only that it began. */
describe.each<[string, Partial<UnitStatus>, string | undefined]>([
  ['back to what is recorded', { digest: '4', begun: '200' }, '4'],
  ['of a set that was new', { begun: '200' }, '4'],
  ['that removes a set that was new', { begun: '200' }, undefined],
  ['back to what is recorded, of a number that is not known', { digest: '4', begun: 'lost' }, '4'],
  ['back to what is recorded, which has begun over it', { digest: '4', begun: '4' }, '4'],
])('E9: a revert %s, of what only began, and that has more machines by now', (_what, record, to) => {
  const set = { replicas: 30, wanted: 30, deleting: 0, removing: to === undefined };
  const late: Judged = {
    placement: { ...(to === undefined ? {} : { digest: to }), atMost: 4 },
    record,
    cell: { total: 30, sets: new Map([[WEB, set]]) },
    to,
    restores: true,
  };

  it('is held back, and stays as it waits', () => {
    const { plan: found } = judged(late);
    expect(found.heldBack?.message).toContain(`${to === undefined ? 30 : 26} of its 30 machines would go`);
    expect(found.units).toEqual([]);
  });

  it('begins where a person raises the limits', () => {
    const { plan: found, placement } = judged({ ...late, prune: ANY });
    expect(found.heldBack).toBeUndefined();
    expect(placement).toMatchObject({ name: 'one', ...(to === undefined ? {} : { digest: to }), machines: 30, atMost: 30 });
  });
});

it('E9: what is held back while its cell makes it comes into force and waits there, so that no more are made', () => {
  const { plan: found, placement } = judged({ record: { digest: '200' }, cell: cellOf(60, 200), to: '40', restores: true });
  expect(found.heldBack?.message).toContain('20 of its 60 machines would go');
  expect(placement).toEqual({ name: 'one', digest: '40', from: '200', machines: 60, atMost: 40 });
});

it('E9: what may have to be judged again is the same text until a number changes, and none where nothing waits', () => {
  const clusterOf = (replicas: number, record: Partial<UnitStatus>, isReached = true): Cluster => ({
    apiVersion: API_VERSION,
    kind: 'Cluster',
    metadata: { name: 'one' },
    spec: {},
    status: {
      units: [recordOf(record)],
      machines: { total: replicas, ready: replicas, sets: [{ set: 'web/web', replicas, wanted: replicas }] },
      conditions: [
        {
          type: 'Reachable',
          status: isReached ? 'True' : 'False',
          reason: 'x',
          message: '',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
    },
  });
  const of = (placement: Omit<RolloutUnit['clusters'][number], 'name'>, ...cluster: Parameters<typeof clusterOf>) =>
    lateText([rolloutOf(placement)], [clusterOf(...cluster)]);
  const waits = { digest: '40', atMost: 42 };
  expect(of(waits, 43, { digest: '200' })).toBe(of(waits, 43, { digest: '200' }));
  expect(of(waits, 43, { digest: '200' })).not.toBe(of(waits, 44, { digest: '200' }));
  expect(of(waits, 42, { digest: '200' })).toBeUndefined();
  expect(of(waits, 43, { digest: '40' })).toBeUndefined();
  expect(of({ digest: '40' }, 43, { digest: '200' })).toBeUndefined();
  // What is not judged while its cell is away is judged when it is back, with the same number.
  expect(of(waits, 43, { digest: '200' }, false)).toBeUndefined();
});

it('E9: of a cell with more sets than are reported, what waits there is judged again, with as many machines as the hub asked for', () => {
  const cluster: Cluster = {
    apiVersion: API_VERSION,
    kind: 'Cluster',
    metadata: { name: 'one' },
    spec: {},
    status: {
      units: [recordOf({ digest: '200' })],
      machines: { total: 900, ready: 900 },
      conditions: [{ type: 'Reachable', status: 'True', reason: 'Reached', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' }],
    },
  };
  const rollouts = [rolloutOf({ digest: '40', atMost: 42 })];
  expect(lateText(rollouts, [cluster])).toBe(`one ${WEB} 42 Infinity`);
  const recorded = new Map([['one', [recordOf({ digest: '200' })]]]);
  const input = { fleet: 'main', rollouts, recorded, machines: new Map(), uncounted: new Set(['one']), replicas: REPLICAS };
  expect(pendingIn(input).get('one')?.get(WEB)).toEqual({ atMost: 42, late: { digest: '200', isCounted: true } });
  expect(
    pendingIn({ ...input, uncounted: new Set() })
      .get('one')
      ?.get(WEB)?.late,
  ).toBeUndefined();
});
