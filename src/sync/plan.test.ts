import { expect, it } from 'vitest';
import type { Fleet } from '../api/fleet.ts';
import { API_VERSION } from '../api/kind.ts';
import type { Rollout } from '../api/rollout.ts';
import { carriedBy, plan, removingBy, stagesOf } from './plan.ts';
import { wantedOf } from './wanted.ts';

const fleet: Fleet = {
  apiVersion: API_VERSION,
  kind: 'Fleet',
  metadata: { name: 'main' },
  spec: {
    source: { path: '/x' },
    stages: [
      { name: 'test', clusterSelector: { stage: 'test' } },
      { name: 'prod', clusterSelector: { stage: 'prod' } },
    ],
    prune: { maxDeletions: 2 },
  },
};
const labels = new Map([
  ['test', { stage: 'test' }],
  ['prod-a', { stage: 'prod' }],
  ['prod-b', { stage: 'prod' }],
]);
type Tree = Record<string, Record<string, string>>;
const digests = (tree: Tree) => new Map(Object.entries(tree).map(([cluster, units]) => [cluster, new Map(Object.entries(units))]));
const planned = (rendered: Tree, wanted: Tree) => plan({ fleet, rendered: digests(rendered), wanted: digests(wanted), labels });

it('names only the units whose digest differs, each with all of its clusters', () => {
  const before = { test: { a: '1', b: '1' }, 'prod-a': { a: '1', b: '1' } };
  expect(planned(before, before).units).toEqual([]);
  expect(planned({ ...before, 'prod-a': { a: '1', b: '2' } }, before).units).toEqual([
    {
      unit: 'b',
      clusters: [
        { name: 'prod-a', digest: '2', from: '1' },
        { name: 'test', digest: '1', from: '1' },
      ],
    },
  ]);
});

it('invariant 1: an empty render, or one that is empty for a cluster, changes nothing and reports it', () => {
  expect(() => planned({}, { test: { a: '1' } })).toThrow('declares no cluster');
  expect(() => planned({ test: {} }, { test: { a: '1' } })).toThrow('renders no object at all for cluster "test"');
});

it('leaves a cluster alone that the commit no longer declares', () => {
  expect(planned({ test: { a: '1' } }, { test: { a: '1' }, 'prod-a': { a: '1' } }).units).toEqual([]);
});

it('E9, invariant 8: more deletions than the budget are refused as a whole', () => {
  const wanted = { test: { a: '1', b: '1', c: '1', d: '1' } };
  expect(planned({ test: { a: '1', b: '1' } }, wanted).units.map((unit) => unit.clusters)).toEqual([
    [{ name: 'test', from: '1' }],
    [{ name: 'test', from: '1' }],
  ]);
  expect(() => planned({ test: { a: '1' } }, wanted)).toThrow('3 objects would go, 2 may (maxDeletions 2)');
});

it('never deletes a Namespace', () => {
  expect(planned({ test: { a: '1' } }, { test: { a: '1', 'Namespace/web': '1' } })).toMatchObject({
    units: [],
    kept: [{ unit: 'Namespace/web', cluster: 'test' }],
  });
});

it('refuses a cluster that no stage selects', () => {
  expect(() => planned({ lab: { a: '1' } }, {})).toThrow('cluster "lab" is in no stage');
});

it('orders the clusters of a stage the same way each time, and not by name for every fleet', () => {
  const many = new Map(Array.from({ length: 20 }, (_, index) => [`c${String(index).padStart(2, '0')}`, { stage: 'prod' }] as const));
  const order = (name: string) => stagesOf({ ...fleet, metadata: { name } }, many)[1]?.clusters;
  expect(order('main')).toEqual(order('main'));
  expect(order('main')).toHaveLength(20);
  expect(order('main')).not.toEqual(order('other'));
});

/** By cluster, what it wants of a unit; undefined: nothing. */
function rolloutOf(sequence: number, unit: string, digests: Record<string, string | undefined>): Rollout {
  const clusters = Object.entries(digests).map(([name, digest]) => ({ name, ...(digest === undefined ? {} : { digest }) }));
  return {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: { name: `main-${sequence}` },
    spec: { fleet: 'main', commit: 'c', sequence, stages: [], units: [{ unit, clusters }] },
  };
}

it('takes the newest rollout for what is wanted, and the record where no rollout reports', () => {
  const recorded = new Map([
    [
      'test',
      [
        { unit: 'a', fleet: 'main', digest: '0' },
        { unit: 'old', fleet: 'main', digest: '7' },
        { unit: 'theirs', fleet: 'other', digest: '9' },
      ],
    ],
  ]);
  const wanted = wantedOf(
    'main',
    [
      rolloutOf(1, 'a', { test: '1' }),
      rolloutOf(2, 'a', { test: '2' }),
      rolloutOf(3, 'gone', { test: '1' }),
      rolloutOf(4, 'gone', { test: undefined }),
    ],
    recorded,
  );
  expect(Object.fromEntries(wanted.get('test') ?? [])).toEqual({ a: '2', old: '7' });
});

it('E5: takes over a cluster that came back, where no rollout carries what it wants of a unit, also where nothing differs', () => {
  // `prod` had left the fleet with the content 1, before it was given 2, and as rollout 3 was made.
  const rollouts = [
    rolloutOf(1, 'a', { test: '1', prod: '1' }),
    rolloutOf(2, 'a', { test: '2', prod: '2' }),
    rolloutOf(3, 'a', { test: '2' }),
  ];
  const recorded = new Map(['test', 'prod'].map((name) => [name, [{ unit: 'a', fleet: 'main', digest: name === 'prod' ? '1' : '2' }]]));
  const wanted = wantedOf('main', rollouts, recorded);
  expect([...wanted].map(([name, units]) => [name, units.get('a')])).toEqual([
    ['test', '2'],
    ['prod', '1'],
  ]);
  const carried = carriedBy(rollouts);
  expect(['test', 'prod', 'new'].map((name) => carried(name, 'a'))).toEqual([true, false, false]);
  expect(carried('test', 'b')).toBe(false);
  const rendered = new Map(['test', 'prod'].map((name) => [name, new Map([['a', name === 'prod' ? '1' : '2']])]));
  const labels = new Map(['test', 'prod'].map((stage) => [stage, { stage }] as const));
  expect(plan({ fleet, rendered, wanted, labels, carried }).units).toEqual([
    {
      unit: 'a',
      clusters: [
        { name: 'prod', digest: '1', from: '1' },
        { name: 'test', digest: '2', from: '2' },
      ],
    },
  ]);
  expect(plan({ fleet, rendered, wanted, labels }).units).toEqual([]);
});

it('E12: takes a removal along that goes on or soaks, and none that is over, of another fleet, or not in the newest rollout', () => {
  const rollouts = [
    rolloutOf(1, 'a', { test: undefined, 'prod-a': undefined, 'prod-b': '1' }),
    rolloutOf(2, 'b', { test: undefined }),
    rolloutOf(3, 'b', { 'prod-a': '1' }),
  ];
  const of = (unit: string, fleetName = 'main') => [{ unit, fleet: fleetName }];
  const recorded = new Map([
    ['test', [...of('a'), ...of('b')]],
    ['prod-a', of('a', 'other')],
    ['prod-b', of('a')],
  ]);
  const removing = removingBy('main', rollouts, recorded);
  const found = ['test', 'prod-a', 'prod-b', 'new'].map((cluster) => removing(cluster, 'a'));
  expect([found, removing('test', 'b'), removing('test', 'c')]).toEqual([[true, false, false, false], false, false]);
  const rendered = digests({ test: { c: '1' }, 'prod-a': { c: '1' }, 'prod-b': { a: '2', c: '1' } });
  const wanted = digests({ test: { c: '1' }, 'prod-a': { c: '1' }, 'prod-b': { a: '1', c: '1' } });
  const clusters = [{ name: 'prod-b', digest: '2', from: '1' }, { name: 'test' }];
  expect(plan({ fleet, rendered, wanted, labels, removing }).units).toEqual([{ unit: 'a', clusters }]);
  // What changes nothing of the unit leaves its rollout as it is.
  expect(plan({ fleet, rendered: wanted, wanted, labels, removing }).units).toEqual([]);
});

it('E12: takes a removal along where nothing is recorded, until it was reported that nothing is there', () => {
  const rollout = rolloutOf(1, 'a', { test: undefined, 'prod-a': '1' });
  // What was decided before this commit may begin there after it.
  expect(removingBy('main', [rollout], new Map())('test', 'a')).toBe(true);
  const clusters = [{ name: 'test', phase: 'Verified' as const, lane: 'Forward' as const }];
  const done = { ...rollout, status: { units: [{ unit: 'a', phase: 'Done' as const, lane: 'Forward' as const, clusters }] } };
  expect(removingBy('main', [done], new Map())('test', 'a')).toBe(false);
});
