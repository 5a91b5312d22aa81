import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CodedError } from '../../api/errors.ts';
import type { Fleet } from '../../api/fleet.ts';
import { API_VERSION } from '../../api/kind.ts';
import { shareOf } from './limits.ts';
import type { CellMachines } from '../going.ts';
import { plan, type Plan, type PlanInput } from '../plan.ts';

type Tree = Record<string, Record<string, string>>;
type Stages = Fleet['spec']['stages'];

const WEB = 'MachineSet/web/web';
const API = 'MachineSet/api/api';
const REPLICAS = new Map<string, number | null>([
  ['none', null],
  ...Array.from({ length: 201 }, (_, replicas): [string, number] => [String(replicas), replicas]),
]);
const digests = (tree: Tree) => new Map(Object.entries(tree).map(([cluster, units]) => [cluster, new Map(Object.entries(units))]));

/** A cell in which nothing goes: each set has what it wants. */
const still = (sets: Record<string, number>, beside = 0): CellMachines => ({
  total: Object.values(sets).reduce((sum, each) => sum + each, beside),
  sets: new Map(Object.entries(sets).map(([unit, replicas]) => [unit, { replicas, wanted: replicas, deleting: 0, removing: false }])),
});

interface World {
  stages?: Stages;
  prune?: Fleet['spec']['prune'];
  from: Tree;
  to: Tree;
  /** By cluster; what is left out has what `from` reports of its sets, and `undefined` is not reached. */
  machines?: Record<string, CellMachines | undefined>;
  rest?: Partial<PlanInput>;
}

/** A cluster's stage is the part of its name before the first `-`. */
function planned({ stages, prune, from, to, machines = {}, rest }: World): Plan {
  const names = Object.keys(to);
  const labels = new Map(names.map((name) => [name, { stage: name.split('-')[0] ?? '' }]));
  const known = names.flatMap((name): [string, CellMachines][] => {
    const sets = Object.entries(from[name] ?? {}).filter(([unit]) => unit.startsWith('MachineSet/'));
    const its = name in machines ? machines[name] : still(Object.fromEntries(sets.map(([unit, digest]) => [unit, Number(digest)])));
    return its === undefined ? [] : [[name, its]];
  });
  const fleet: Fleet = {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main' },
    spec: {
      source: { path: '/x' },
      stages: stages ?? [
        { name: 'test', clusterSelector: { stage: 'test' } },
        { name: 'prod', clusterSelector: { stage: 'prod' } },
      ],
      ...(prune === undefined ? {} : { prune }),
    },
  };
  return plan({
    fleet,
    rendered: digests(to),
    wanted: digests(from),
    labels,
    replicas: REPLICAS,
    machines: new Map(known),
    ...rest,
  });
}

/** Where a set is to get another content, as `cluster unit`. */
const going = ({ units }: Plan): string[] =>
  units.flatMap(({ unit, clusters }) => clusters.filter(({ digest, from }) => digest !== from).map(({ name }) => `${name} ${unit}`)).sort();

const refused = (world: World): CodedError => {
  try {
    planned(world);
  } catch (error) {
    return error as CodedError;
  }
  throw new Error('it was not refused');
};

describe('E9: which share of its machines a cluster may lose', () => {
  test.each<[machines: number | undefined, share: string, may: number]>([
    [0, '10%', 0],
    [1, '10%', 0],
    [2, '10%', 0],
    [3, '10%', 1],
    [4, '10%', 1],
    [10, '10%', 1],
    [19, '10%', 1],
    [20, '10%', 2],
    [31, '10%', 3],
    [40, '10%', 4],
    // One may go where more than half remain, however small the share is; none where it is zero.
    [4, '1%', 1],
    [4, '0%', 0],
    [1000, '0%', 0],
    [1, '50%', 0],
    [2, '50%', 1],
    [3, '99%', 2],
    [1, '99%', 0],
    [1, '100%', 1],
    [4, '100%', 4],
    // What is not known may have none to spare; all may go.
    [undefined, '10%', 0],
    [undefined, '99%', 0],
    [undefined, '100%', Infinity],
  ])('%s machines, %s: %s', (machines, share, may) => {
    expect(shareOf(machines, share)).toBe(may);
  });
});

describe('safety 6, E9: limits of each cluster and stage', () => {
  const small = { 'prod-1': { [WEB]: '4' } };

  test('one typo in a small cluster lets nothing go: 4 → 1 is held back, and reports where, how many, and what may', () => {
    const found = planned({ from: small, to: { 'prod-1': { [WEB]: '1' } } });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toContain('cluster "prod-1" of stage "prod": 3 of its 4 machines would go, 1 may (maxMachines 10%)');
    expect(found.heldBack?.message).toContain(`${WEB} in prod-1: 4 → 1`);
    expect(found.heldBack?.next).toContain('set prune: { maxMachines: "75%" } for stage "prod" of the Fleet');
    expect(found.heldBack?.waitsFor).toEqual([]);
  });
  test('4 → 3 goes by a commit, and so does a set that a selector no longer makes only where it has no machine', () => {
    expect(going(planned({ from: small, to: { 'prod-1': { [WEB]: '3' } } }))).toEqual([`prod-1 ${WEB}`]);
    const two = { 'prod-1': { [WEB]: '4', [API]: '0' } };
    expect(going(planned({ from: two, to: { 'prod-1': { [WEB]: '4' } } }))).toEqual([`prod-1 ${API}`]);
    const gone = planned({ from: two, to: { 'prod-1': { [API]: '0' } } });
    expect(going(gone)).toEqual([]);
    expect(gone.heldBack?.message).toContain('1 object and 4 of its 4 machines would go');
    expect(gone.heldBack?.message).toContain(`${WEB} in prod-1: 4 → 0`);
  });
  test.each<[machines: number, may: number]>([
    [1, 0],
    [2, 0],
    [3, 1],
    [4, 1],
    [10, 1],
    [20, 2],
    [31, 3],
    // No more than three, however large it is.
    [200, 3],
  ])('of %i machines %i may go', (machines, may) => {
    const from = { 'prod-1': { [WEB]: String(machines) } };
    const to = (less: number): Tree => ({ 'prod-1': { [WEB]: String(machines - less) } });
    expect(planned({ from, to: to(may) }).heldBack).toBeUndefined();
    expect(planned({ from, to: to(may + 1) }).heldBack?.message).toContain(`${may} may`);
  });
  test('0 machines: a set of none goes', () => {
    const found = planned({ from: { 'prod-1': { [WEB]: '0', x: '1' } }, to: { 'prod-1': { x: '1' } } });
    expect(going(found)).toEqual([`prod-1 ${WEB}`]);
  });
  test('one typo in a large cluster is held back there, and not in another where it is within the limits', () => {
    const from = { 'prod-1': { [WEB]: '100' }, 'prod-2': { [WEB]: '4' } };
    const found = planned({ from, to: { 'prod-1': { [WEB]: '98' }, 'prod-2': { [WEB]: '2' } } });
    expect(going(found)).toEqual([`prod-1 ${WEB}`]);
    expect(found.heldBack?.message).toContain('cluster "prod-2"');
    expect(found.heldBack?.message).not.toContain('cluster "prod-1"');
  });
  test('several sets of one cluster count together, and with the objects that are deleted there', () => {
    const from = { 'prod-1': { [WEB]: '20', [API]: '20', x: '1', y: '1' } };
    expect(planned({ from, to: { 'prod-1': { [WEB]: '18', [API]: '19', x: '1', y: '1' } } }).heldBack).toBeUndefined();
    const machines = planned({ from, to: { 'prod-1': { [WEB]: '18', [API]: '18', x: '1', y: '1' } } });
    expect(going(machines)).toEqual([]);
    expect(machines.heldBack?.message).toContain('4 of its 40 machines would go, 3 may (maxDeletions 3)');
    const beside = planned({ from, to: { 'prod-1': { [WEB]: '18', [API]: '20' } } });
    expect(going(beside)).toEqual(['prod-1 x', 'prod-1 y']);
    expect(beside.heldBack?.message).toContain('2 objects and 2 of its 40 machines would go, 3 may (maxDeletions 3)');
  });
  test('what to write is the highest that a cluster of the stage needs, and the first five limits are reported', () => {
    const tree = (replicas: (index: number) => number): Tree =>
      Object.fromEntries(Array.from({ length: 7 }, (_, index) => [`prod-${index}`, { [WEB]: String(replicas(index)) }]));
    const found = planned({ from: tree(() => 40), to: tree((index) => 30 - index) });
    expect(found.heldBack?.next).toContain('set prune: { maxDeletions: 16, maxMachines: "40%" } for stage "prod"');
    expect(found.heldBack?.message).toContain('; and 2 more limits.');
    const [first] = planned({ from: small, to: { 'prod-1': { [WEB]: '1' } } }).heldBack?.message.split('. ') ?? [];
    expect(first).not.toContain('more limits');
  });
  test('a stage none of whose clusters is reached names all as what lets machines go', () => {
    const found = planned({ from: small, to: { 'prod-1': { [WEB]: '3' } }, machines: { 'prod-1': undefined } });
    expect(found.heldBack?.next).toContain('set prune: { maxMachines: "100%" } for stage "prod"');
  });
  test('a share is of all machines of the cluster, also of those that others made', () => {
    const beside = { 'prod-1': still({ [WEB]: 4 }, 16) };
    expect(planned({ from: small, to: { 'prod-1': { [WEB]: '2' } }, machines: beside }).heldBack).toBeUndefined();
  });
});

describe('safety 6, E9: sets that are held back', () => {
  const UNIT = 'MachineSet/web/a';
  const everywhere = (units: Record<string, string>): Tree => ({ eu: units, us: units });
  const machines = { eu: still({ [UNIT]: 40 }), us: still({ [UNIT]: 40 }) };
  const labels = new Map(['eu', 'us'].map((cluster) => [cluster, { stage: 'all' }]));
  const inAll = (maxDeletions: number, from: Record<string, string>, to: Record<string, string>, rest: Partial<PlanInput> = {}) =>
    planned({
      stages: [{ name: 'all', clusterSelector: { stage: 'all' }, prune: { maxDeletions, maxMachines: '100%' } }],
      from: everywhere(from),
      to: everywhere(to),
      machines,
      rest: { labels, ...rest },
    });
  const both = { [UNIT]: '40', x: '1' };

  test('one line that lowers replicas is held back at maxDeletions 0, and reports which set, how many, and what to do', () => {
    const { units, heldBack } = inAll(0, both, { ...both, [UNIT]: '38' });
    expect(units).toEqual([]);
    expect(heldBack?.message).toContain('cluster "eu" of stage "all": 2 of its 40 machines would go, 0 may (maxDeletions 0)');
    expect(heldBack?.message).toContain('MachineSet/web/a in eu: 40 → 38, MachineSet/web/a in us: 40 → 38.');
    expect(heldBack?.next).toContain('set prune: { maxDeletions: 2 } for stage "all"');
  });
  test('a revert that would let machines go takes back all else', () => {
    const { units, heldBack } = inAll(3, { [UNIT]: '40', x: '2' }, { [UNIT]: '1', x: '1' });
    expect(units).toEqual([{ unit: 'x', clusters: ['eu', 'us'].map((name) => ({ name, digest: '1', from: '2' })) }]);
    expect(heldBack).toBeDefined();
  });
  test('a set is held back where it lost machines, with the commit that renders it, and goes back where it never had them', () => {
    const there = (cluster: string) => (cluster === 'eu' ? ['3', '40'] : ['3']);
    const from = { [UNIT]: '40' };
    const cells = new Map(Object.entries({ ...machines, us: still({ [UNIT]: 3 }, 37) }));
    const found = inAll(3, from, { [UNIT]: '3' }, { there, machines: cells, commitOf: () => 'c7' });
    expect(found.units).toEqual([
      {
        unit: UNIT,
        clusters: [
          { name: 'eu', digest: '40', from: '40', commit: 'c7', machines: 40 },
          { name: 'us', digest: '3', from: '40', machines: 3, atMost: 3 },
        ],
      },
    ]);
    expect(found.heldBack?.message).toContain('37 of its 40 machines would go, 3 may');
    expect(found.heldBack?.message).toContain('Held back: MachineSet/web/a in eu: 40 → 3.');
  });
  test('a line that is left out lets no machine go', () => {
    expect(inAll(0, both, { ...both, [UNIT]: 'none' }).units).toHaveLength(1);
  });
  test('what was there before and is not known is held back', () => {
    const to = { ...both, [UNIT]: '38' };
    expect(inAll(1, { ...both, [UNIT]: 'lost' }, to).heldBack?.message).toContain('MachineSet/web/a in eu: unknown → 38');
    expect(inAll(1, both, to, { replicas: new Map() }).heldBack?.message).toContain('unknown');
  });
});

describe('E9: a stage of many clusters', () => {
  const fleetOf = (clusters: number, machines: number, change: (index: number) => number): Pick<World, 'from' | 'to'> => {
    const tree = (of: (index: number) => number): Tree =>
      Object.fromEntries(Array.from({ length: clusters }, (_, index) => [`prod-${index}`, { [WEB]: String(of(index)), x: '1' }]));
    return { from: tree(() => machines), to: tree(change) };
  };

  test('a change of 40 machines in 300 clusters goes, without any number raised', () => {
    expect(going(planned(fleetOf(300, 4, (index) => (index < 40 ? 3 : 4))))).toHaveLength(40);
    expect(going(planned(fleetOf(300, 20, (index) => (index < 20 ? 18 : 20))))).toHaveLength(20);
  });
  test('a line that takes one of four machines in each of 300 clusters is held back in all of them', () => {
    const found = planned(fleetOf(300, 4, () => 3));
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toContain('stage "prod": 300 of its 1200 machines would go, 120 may (maxMachines 10%)');
    expect(found.heldBack?.next).toContain('maxMachines: "25%"');
    expect(found.heldBack?.message).toContain(', and 280 more');
    expect(found.heldBack?.all).toHaveLength(300);
    expect(found.heldBack?.message.length).toBeLessThan(4000);
  });
  test('of three small clusters one may lose a machine at a time', () => {
    expect(going(planned(fleetOf(3, 4, (index) => (index === 1 ? 3 : 4))))).toEqual([`prod-1 ${WEB}`]);
    expect(going(planned(fleetOf(3, 4, () => 3)))).toEqual([]);
  });
  test('an object that goes in each of 300 clusters is one in each', () => {
    const { from } = fleetOf(300, 4, () => 4);
    const to = Object.fromEntries(Object.keys(from).map((name) => [name, { [WEB]: '4' }]));
    expect(going(planned({ from, to }))).toHaveLength(300);
  });
  test('a set that is held back in one stage is held back in later ones where it would lose machines: they were not tried', () => {
    const from = { 'test-1': { [WEB]: '4' }, 'prod-1': { [WEB]: '100' }, 'prod-2': { [WEB]: '7' } };
    const to = { 'test-1': { [WEB]: '1' }, 'prod-1': { [WEB]: '97' }, 'prod-2': { [WEB]: '8' } };
    const found = planned({ from, to });
    expect(going(found)).toEqual([`prod-2 ${WEB}`]);
    expect(found.heldBack?.message).toContain(`${WEB} in prod-1: 100 → 97`);
    expect(found.heldBack?.message).toContain('stage "prod": what stage "test" keeps');
    // Not the other way round, nor other sets.
    const later = { 'test-1': { [WEB]: '100', [API]: '4' }, 'prod-1': { [WEB]: '4' }, 'prod-2': { [API]: '100' } };
    const less = { 'test-1': { [WEB]: '97', [API]: '4' }, 'prod-1': { [WEB]: '1' }, 'prod-2': { [API]: '97' } };
    expect(going(planned({ from: later, to: less }))).toEqual([`prod-2 ${API}`, `test-1 ${WEB}`]);
  });
});

describe('E9: what a Fleet reports of its limits', () => {
  const from = { 'test-1': { [WEB]: '40' }, 'prod-1': { [WEB]: '40' } };
  const stage = (name: string, prune?: Stages[number]['prune']): Stages[number] => ({
    name,
    clusterSelector: { stage: name },
    ...(prune === undefined ? {} : { prune }),
  });
  const less = { 'test-1': { [WEB]: '30' }, 'prod-1': { [WEB]: '40' } };

  test('a stage has limits of its own, and others keep theirs', () => {
    const stages = [stage('test', { maxDeletions: 10, maxMachines: '25%' }), stage('prod')];
    expect(going(planned({ stages, from, to: less }))).toEqual([`test-1 ${WEB}`]);
    const both = { 'test-1': { [WEB]: '30' }, 'prod-1': { [WEB]: '30' } };
    expect(going(planned({ stages, from, to: both }))).toEqual([`test-1 ${WEB}`]);
    expect(going(planned({ stages: [stage('test', { maxDeletions: 10 }), stage('prod')], from, to: less }))).toEqual([]);
    expect(going(planned({ stages: [stage('test', { maxMachines: '25%' }), stage('prod')], from, to: less }))).toEqual([]);
  });
  test('0 of a stage is none at all, of machines or of both', () => {
    const one = { 'test-1': { [WEB]: '39' }, 'prod-1': { [WEB]: '40' } };
    expect(going(planned({ from, to: one }))).toHaveLength(1);
    expect(going(planned({ stages: [stage('test', { maxDeletions: 0 }), stage('prod')], from, to: one }))).toEqual([]);
    expect(going(planned({ stages: [stage('test', { maxMachines: '0%' }), stage('prod')], from, to: one }))).toEqual([]);
    const error = refused({
      stages: [stage('test', { maxDeletions: 0 })],
      from: { 'test-1': { x: '1', y: '1' } },
      to: { 'test-1': { y: '1' } },
    });
    expect(error.message).toContain('1 object would go, 0 may (maxDeletions 0)');
  });
  test('spec.prune.maxDeletions is of the whole commit, as it was, and of each cluster where the stage reports none', () => {
    const share = { maxMachines: '100%' };
    expect(going(planned({ prune: { maxDeletions: 10, ...share }, from, to: less }))).toHaveLength(1);
    const both = { 'test-1': { [WEB]: '34' }, 'prod-1': { [WEB]: '35' } };
    const found = planned({ prune: { maxDeletions: 10, ...share }, from, to: both });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toContain('the whole commit: 11 machines would go, 10 may (spec.prune.maxDeletions)');
    expect(found.heldBack?.next).toContain('spec.prune.maxDeletions of the Fleet to at least 11, or leave it out');
    expect(going(planned({ prune: { maxDeletions: 11, ...share }, from, to: both }))).toHaveLength(2);
    // A number alone does not raise the share.
    expect(going(planned({ prune: { maxDeletions: 100 }, from: { 'prod-1': { [WEB]: '4' } }, to: { 'prod-1': { [WEB]: '1' } } }))).toEqual(
      [],
    );
    expect(going(planned({ prune: { maxDeletions: 0 }, from, to: { ...from, 'test-1': { [WEB]: '39' } } }))).toEqual([]);
  });
  test('100 % lets the last machine go', () => {
    const last = { 'prod-1': { [WEB]: '1', x: '1' } };
    expect(going(planned({ from: last, to: { 'prod-1': { [WEB]: '0', x: '1' } } }))).toEqual([]);
    expect(going(planned({ prune: { maxMachines: '100%' }, from: last, to: { 'prod-1': { [WEB]: '0', x: '1' } } }))).toHaveLength(1);
  });
});

describe('E9: objects that are too many in a cluster refuse the commit', () => {
  const units = (names: string[]): Record<string, string> => Object.fromEntries(names.map((name) => [`MachineComponentSet/${name}`, '1']));
  const many = Array.from({ length: 30 }, (_, index) => `c${String(index).padStart(2, '0')}`);

  test('and all are named, with the cluster, its stage, the count, the limit and the way on', () => {
    const from = { 'prod-1': units(['a', 'b', 'c', 'd', 'e']), 'prod-2': units(['a', 'e']) };
    const to = { 'prod-1': units(['e']), 'prod-2': units(['e']) };
    const error = refused({ from, to });
    expect([error.code, error.verdict]).toEqual(['PruneBudget', true]);
    expect(error.message).not.toContain('more');
    expect(error.message).toContain('cluster "prod-1" of stage "prod": 4 objects would go, 3 may (maxDeletions 3)');
    expect(error.message).not.toContain('cluster "prod-2"');
    for (const name of ['a', 'b', 'c', 'd']) expect(error.message).toContain(`MachineComponentSet/${name} in prod-1`);
    expect(error.message).toContain('nothing was changed');
    expect(error.next).toContain('prune: { maxDeletions: 4 } for stage "prod"');
  });
  test('the first twenty by name where there are more, and how many more', () => {
    const error = refused({ from: { 'prod-1': { ...units(many), x: '1' } }, to: { 'prod-1': { x: '1' } } });
    expect(error.message).toContain('MachineComponentSet/c00 in prod-1');
    expect(error.message).toContain('MachineComponentSet/c19 in prod-1, and 10 more');
    expect(error.message).not.toContain('c20');
    expect((error as CodedError & { all: readonly string[] }).all).toHaveLength(30);
  });
  test('where they are too many for the whole commit, though not for any cluster, and reports how many may go', () => {
    const from = { 'prod-1': units(['a', 'b']), 'prod-2': units(['a', 'b']) };
    const error = refused({ from, to: { 'prod-1': units(['a']), 'prod-2': units(['a']) }, prune: { maxDeletions: 1 } });
    expect(error.message).toContain('the whole commit: 2 objects would go, 1 may (spec.prune.maxDeletions)');
    expect(error.next).toContain('raise spec.prune.maxDeletions of the Fleet to at least 2');
  });

  test('each once, also where they are too many for their cluster and for the whole commit', () => {
    const from = { 'prod-1': units(['a', 'b', 'c', 'd', 'e']), 'prod-2': units(['a', 'e']) };
    const error = refused({ prune: { maxDeletions: 3 }, from, to: { 'prod-1': units(['e']), 'prod-2': units(['e']) } });
    expect((error as CodedError & { all: readonly string[] }).all).toHaveLength(5);
  });
});

describe('E9: a cluster of which it is not known how many machines it has', () => {
  const from = { 'prod-1': { [WEB]: '40', x: '1' }, 'prod-2': { [WEB]: '40' } };
  test('loses none, and all else goes on', () => {
    const machines = { 'prod-1': undefined };
    const found = planned({ from, to: { 'prod-1': { [WEB]: '39', x: '2' }, 'prod-2': { [WEB]: '39' } }, machines });
    expect(going(found)).toEqual([`prod-1 x`, `prod-2 ${WEB}`]);
    expect(found.heldBack?.message).toContain('cluster "prod-1" of stage "prod": 1 machine would go, and how many it has is not known');
    expect(found.heldBack?.waitsFor).toEqual(['prod-1']);
    expect(found.heldBack?.next).toContain('it is judged again when the cluster is reached');
  });
  test('counts as none for its stage', () => {
    const tree = (replicas: (index: number) => number): Tree =>
      Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`prod-${index}`, { [WEB]: String(replicas(index)) }]));
    const to = tree((index) => (index < 4 ? 3 : 4));
    expect(going(planned({ from: tree(() => 4), to }))).toHaveLength(4);
    const away = { 'prod-9': undefined, 'prod-8': undefined };
    const found = planned({ from: tree(() => 4), to, machines: away });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.waitsFor).toHaveLength(10);
    expect(found.heldBack?.next).toContain('it is judged again when the cluster is reached');
    const uncounted = 'clusters of which this is not known counted as none';
    expect(found.heldBack?.message).toContain(uncounted);
    expect(planned({ from: tree(() => 4), to: tree(() => 3) }).heldBack?.message).not.toContain(uncounted);
  });
});

describe('E9: what goes already counts', () => {
  const set = (replicas: number, wanted: number, deleting = 0, removing = false) => ({ replicas, wanted, deleting, removing });
  const cell = (sets: Record<string, ReturnType<typeof set>>): CellMachines => ({
    total: Object.values(sets).reduce((sum, { replicas }) => sum + replicas, 0),
    sets: new Map(Object.entries(sets)),
  });
  const second = (machines: CellMachines, from = '37', to = '34'): Plan =>
    planned({
      from: { 'prod-1': { [WEB]: from } },
      to: { 'prod-1': { [WEB]: to } },
      machines: { 'prod-1': machines },
      // What the first commit left, which it began to replace or did not yet.
      rest: { there: () => ['40'] },
    });

  test.each<[string, CellMachines]>([
    ['nothing of the first was begun', cell({ [WEB]: set(40, 40) })],
    ['the first is in the cell', cell({ [WEB]: set(40, 37) })],
    ['they are being deleted', cell({ [WEB]: set(37, 37, 3) })],
    ['one of each', cell({ [WEB]: set(38, 37, 2) })],
    ['one is left', cell({ [WEB]: set(37, 37, 1) })],
    ['another set is being removed', cell({ [WEB]: set(37, 37), [API]: set(3, 3, 0, true) })],
    ['another set that is not of this fleet loses some', cell({ [WEB]: set(37, 37), 'MachineSet/x/x': set(3, 2) })],
  ])('a second commit takes no other share while the first is under way: %s', (_what, machines) => {
    const found = second(machines);
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toMatch(/3 of its \d+ machines would go beside \d that go(es)? already, 3 may/);
    expect(found.heldBack?.waitsFor).toEqual(['prod-1']);
    expect(found.heldBack?.next).toContain('it is judged again when those that go already are gone');
  });
  test('it goes when they are gone, and where it takes them back', () => {
    expect(going(second(cell({ [WEB]: set(37, 37) })))).toHaveLength(1);
    expect(going(second(cell({ [WEB]: set(40, 37) }), '37', '40'))).toHaveLength(1);
  });
  test('a revert that takes some back leaves room for as many elsewhere', () => {
    const machines = { 'prod-1': cell({ [WEB]: set(40, 37), [API]: set(40, 40) }) };
    const from = { 'prod-1': { [WEB]: '37', [API]: '40' } };
    expect(going(planned({ from, to: { 'prod-1': { [WEB]: '37', [API]: '39' } }, machines }))).toEqual([]);
    expect(going(planned({ from, to: { 'prod-1': { [WEB]: '40', [API]: '39' } }, machines }))).toHaveLength(2);
  });
  test('what cannot pass by itself is not waited for', () => {
    expect(second(cell({ [WEB]: set(37, 37) }), '37', '20').heldBack?.waitsFor).toEqual([]);
    expect(second(cell({ [WEB]: set(37, 37, 1) }), '37', '20').heldBack?.waitsFor).toEqual([]);
  });
  test('it counts for the stage', () => {
    const tree = (replicas: (index: number) => number): Tree =>
      Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`prod-${index}`, { [WEB]: String(replicas(index)) }]));
    const from = tree((index) => (index < 4 ? 3 : 4));
    const to = tree((index) => (index < 5 ? 3 : 4));
    const machines = Object.fromEntries(
      Array.from({ length: 10 }, (_, index) => [`prod-${index}`, cell({ [WEB]: index < 4 ? set(4, 3) : set(4, 4) })]),
    );
    // The clusters of which the first is under way were given four before, and the hub has that on record.
    const given = (): { unit: string; digests: string[] }[] => [{ unit: WEB, digests: ['4'] }];
    const found = planned({ from, to, machines, rest: { given } });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toContain('stage "prod": 1 of its 36 machines would go beside 4 that go already, 3 may');
    expect(found.heldBack?.waitsFor).toHaveLength(10);
    // As many as may go by themselves wait for those; more than that are too many by themselves.
    const less = (clusters: number): Plan => planned({ from, to: tree((index) => (index < clusters ? 3 : 4)), machines, rest: { given } });
    expect(less(7).heldBack?.waitsFor).toHaveLength(10);
    expect(less(8).heldBack?.waitsFor).toEqual([]);
  });
  test('a set that is being removed counts for the stage, with what was given before', () => {
    const from = { 'prod-1': { [WEB]: '20' }, 'prod-2': { [WEB]: '20' } };
    const machines = { 'prod-1': cell({ [WEB]: set(20, 20), [API]: set(4, 0, 0, true) }) };
    const given = (cluster: string) => (cluster === 'prod-1' ? [{ unit: API, digests: ['none', '4'] }] : []);
    const world = { from, to: { 'prod-1': { [WEB]: '20' }, 'prod-2': { [WEB]: '19' } }, machines };
    expect(planned({ ...world, rest: { given } }).heldBack?.message).toContain(
      'stage "prod": 1 of its 40 machines would go beside 4 that go already, 4 may',
    );
  });
});

describe('E9: what one cell reports bounds only itself', () => {
  const set = (replicas: number, deleting = 0) => ({ replicas, wanted: replicas, deleting, removing: false });
  const reporting = (total: number, sets: Record<string, ReturnType<typeof set>>): CellMachines => ({
    total,
    sets: new Map(Object.entries(sets)),
  });
  const tree = (clusters: number, machines: number, change: (index: number) => number): Pick<World, 'from' | 'to'> => {
    const of = (replicas: (index: number) => number): Tree =>
      Object.fromEntries(Array.from({ length: clusters }, (_, index) => [`prod-${index}`, { [WEB]: String(replicas(index)) }]));
    return { from: of(() => machines), to: of(change) };
  };

  test.each([
    ['sets of its own', reporting(1e9, { 'MachineSet/x/x': set(1e9) })],
    ['the set that the fleet has there', reporting(1e9, { [WEB]: set(1e9) })],
  ])('one that claims very many machines gives no room to others: %s', (_what, liar) => {
    const { from, to } = tree(300, 4, (index) => (index === 0 ? 4 : 3));
    const found = planned({ from, to, machines: { 'prod-0': liar } });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.all).toHaveLength(299);
  });
  test.each([
    ['of its own', reporting(40, { [WEB]: set(40), 'MachineSet/x/x': set(0, 1e9) })],
    ['of the set that the fleet has there', reporting(40, { [WEB]: set(40, 1e9) })],
    ['by a set that has too many', reporting(40, { [WEB]: { ...set(1e9), wanted: 40 } })],
  ])('one that claims that very many are being deleted holds no other back: %s', (_what, liar) => {
    const { from, to } = tree(21, 40, (index) => (index === 3 ? 39 : 40));
    expect(going(planned({ from, to, machines: { 'prod-0': liar } }))).toEqual([`prod-3 ${WEB}`]);
    const own = tree(21, 40, (index) => (index === 0 ? 39 : 40));
    expect(going(planned({ ...own, machines: { 'prod-0': liar } }))).toEqual([]);
  });
  test('one that claims to have still what an earlier commit gave it, and another let go, gives no room to others', () => {
    const { from, to } = tree(11, 4, (index) => (index > 5 ? 3 : 4));
    const given = (cluster: string) => (cluster === 'prod-0' ? [{ unit: WEB, digests: ['4', '200'] }] : []);
    const found = planned({
      from,
      to,
      machines: { 'prod-0': reporting(200, { [WEB]: set(4), 'MachineSet/x/x': set(196) }) },
      rest: { given },
    });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toContain('stage "prod": 5 of its 44 machines would go, 4 may');
  });
  test('its own room is that of its own machines, also of those whose number Git does not give', () => {
    const from = { 'prod-1': { [WEB]: 'none' }, 'prod-2': { [WEB]: '4' } };
    const machines = { 'prod-1': reporting(100, { [WEB]: set(100) }) };
    expect(going(planned({ from, to: { 'prod-1': { [WEB]: '98' }, 'prod-2': { [WEB]: '4' } }, machines }))).toEqual([`prod-1 ${WEB}`]);
    expect(going(planned({ from, to: { 'prod-1': { [WEB]: '97' }, 'prod-2': { [WEB]: '3' } }, machines }))).toHaveLength(2);
  });
});

describe('E9: what a cell has beyond what it was asked for', () => {
  const UNKNOWN = { 'prod-1': still({ [API]: 5, [WEB]: 6 }) };
  const from = { 'prod-1': { [API]: '5', [WEB]: '2' } };
  /** A hub that was put back to a backup: its record reports what the cell was given before that. */
  const there =
    (given: Record<string, string[]>) =>
    (_cluster: string, unit: string): string[] =>
      given[unit] ?? [];
  const restored = { there: there({ [API]: ['5'], [WEB]: ['2'] }) };
  const to = (web: string): Tree => ({ 'prod-1': { [API]: '5', [WEB]: web } });

  test('a commit that grows the set by the record, and lets more go of what the cell has than may, is held back', () => {
    const found = planned({ from, to: to('3'), machines: UNKNOWN, rest: restored });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toContain('3 of its 11 machines would go, 1 may (maxMachines 10%)');
    expect(found.heldBack?.message).toContain(`${WEB} in prod-1: 6 → 3`);
    expect(found.heldBack?.waitsFor).toEqual(['prod-1']);
    expect(found.heldBack?.next).toContain('it is judged again when its cell reports other numbers');
  });
  test('it goes where that is within the limits, or lets none go', () => {
    for (const replicas of ['5', '6', '7', 'none'])
      expect(planned({ from, to: to(replicas), machines: UNKNOWN, rest: restored }).heldBack).toBeUndefined();
  });
  test('two commits in a row let no more go than one: what the first let go is on its way', () => {
    const machines = { 'prod-1': still({ [API]: 5, [WEB]: 6 }) };
    const given = { there: there({ [API]: ['5'], [WEB]: ['2', '5'] }) };
    const second = planned({ from: to('5'), to: to('4'), machines, rest: given });
    expect(going(second)).toEqual([]);
    expect(second.heldBack?.message).toContain('2 of its 11 machines would go, 1 may');
  });
  test('what is wanted by a commit in force, and was not given to the cell, explains nothing of what it has', () => {
    const found = planned({ from: to('6'), to: to('3'), machines: UNKNOWN, rest: restored });
    expect(going(found)).toEqual([]);
    expect(found.heldBack?.message).toContain(`${WEB} in prod-1: 6 → 3`);
  });
  test('a set that no record has counts too; held back it is no part of the commit, neither wanted nor removed', () => {
    const before = { 'prod-1': { [API]: '5' } };
    const found = planned({ from: before, to: to('3'), machines: UNKNOWN, rest: { ...restored, carried: (_, unit) => unit === API } });
    expect(found.heldBack?.message).toContain(`${WEB} in prod-1: 6 → 3`);
    expect(found.units).toEqual([]);
    expect(going(planned({ from: before, to: to('5'), machines: UNKNOWN, rest: restored }))).toEqual([`prod-1 ${WEB}`]);
  });
  test('a set that a commit deletes counts with all that the cell has of it', () => {
    const found = planned({ from, to: { 'prod-1': { [API]: '5' } }, machines: UNKNOWN, rest: restored });
    expect(found.heldBack?.message).toContain('1 object and 6 of its 11 machines would go');
  });
  test('a set that an earlier commit removes, and this one wants again, is taken back', () => {
    const machines = {
      'prod-1': { ...still({ [API]: 5 }), sets: new Map([[WEB, { replicas: 6, wanted: 6, deleting: 0, removing: true }]]) },
    };
    expect(planned({ from: { 'prod-1': { [API]: '5' } }, to: to('3'), machines, rest: restored }).heldBack).toBeUndefined();
  });
  test('what is not known of the record explains nothing either', () => {
    const lost = { there: there({ [API]: ['5'], [WEB]: ['lost'] }) };
    expect(going(planned({ from, to: to('3'), machines: UNKNOWN, rest: lost }))).toEqual([]);
  });
  test('a Rollout reports up to how many its sets were counted, and no later one forgets it', () => {
    const counted = ({ units }: Plan): (number | undefined)[] =>
      units.flatMap(({ unit, clusters }) => (unit === WEB ? clusters.map(({ machines }) => machines) : []));
    const machines = UNKNOWN;
    expect(counted(planned({ from, to: to('5'), machines, rest: restored }))).toEqual([6]);
    expect(counted(planned({ from, to: to('9'), machines, rest: restored }))).toEqual([9]);
    expect(counted(planned({ from, to: to('none'), machines, rest: restored }))).toEqual([2000]);
    // Its cell is not reached: it is as the record reports.
    expect(counted(planned({ from, to: to('3'), machines: { 'prod-1': undefined }, rest: restored }))).toEqual([3]);
    // What is not changed here, but taken over, or held back.
    const carried = (): boolean => false;
    expect(counted(planned({ from: to('5'), to: to('5'), machines, rest: { ...restored, carried, counted: () => 6 } }))).toEqual([6]);
    expect(counted(planned({ from: to('5'), to: to('5'), machines, rest: { ...restored, carried } }))).toEqual([5]);
    expect(counted(planned({ from: to('5'), to: to('3'), machines, rest: { ...restored, carried, counted: () => 6 } }))).toEqual([6]);
    // A removal.
    const gone = planned({
      prune: { maxMachines: '100%', maxDeletions: 9 },
      from,
      to: { 'prod-1': { [API]: '5' } },
      machines,
      rest: restored,
    });
    expect(counted(gone)).toEqual([6]);
    const removing = { ...restored, removing: () => true, counted: () => 4 };
    const both = { 'prod-1': { [API]: '5' }, 'prod-2': { [API]: '5', [WEB]: '1' } };
    const grown = { 'prod-1': { [API]: '5' }, 'prod-2': { [API]: '5', [WEB]: '2' } };
    expect(counted(planned({ from: both, to: grown, machines: {}, rest: removing }))).toEqual([4, 2]);
  });
  test('a cell that claims more than it has keeps its own sets alone', () => {
    const tree = (replicas: (index: number) => number): Tree =>
      Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`prod-${index}`, { [WEB]: String(replicas(index)) }]));
    const machines = { 'prod-0': still({ [WEB]: 1e6 }) };
    const world = { from: tree(() => 40), to: tree((index) => (index === 0 ? 41 : index === 3 ? 39 : 40)), machines };
    expect(going(planned({ ...world, rest: { there: () => ['40'] } }))).toEqual([`prod-3 ${WEB}`]);
  });
});

describe('E9: no more machines of a set can go than its cell has of it', () => {
  const set = (replicas: number, wanted = replicas) => ({ replicas, wanted, deleting: 0, removing: false });
  const cell = (sets: Record<string, ReturnType<typeof set>>, total: number): Record<string, CellMachines> => ({
    'prod-1': { total, sets: new Map(Object.entries(sets)) },
  });
  const typo = { 'prod-1': { [WEB]: '200' } };
  const reverted = { 'prod-1': { [WEB]: '10' } };
  const restores = (_cluster: string, unit: string): boolean => unit === WEB;

  test('a set whose number Git left out counts with its own machines, not with those of other sets', () => {
    const from = { 'prod-1': { [WEB]: 'none', [API]: '90' } };
    const to = (web: string): Tree => ({ 'prod-1': { [WEB]: web, [API]: '90' } });
    const machines = cell({ [WEB]: set(10), [API]: set(90) }, 100);
    expect(going(planned({ from, to: to('10'), machines }))).toEqual([`prod-1 ${WEB}`]);
    expect(going(planned({ from, to: to('7'), machines }))).toEqual([`prod-1 ${WEB}`]);
    expect(planned({ from, to: to('5'), machines }).heldBack?.message).toContain('5 of its 100 machines would go, 3 may');
    // Of machines that people made, and no set has.
    expect(
      planned({ from: { 'prod-1': { [WEB]: 'none' } }, to: reverted, machines: cell({ [WEB]: set(10) }, 30) }).heldBack,
    ).toBeUndefined();
    // What its cell does not report may be any of them.
    expect(planned({ from, to: to('10'), machines: cell({ [API]: set(90) }, 100) }).heldBack?.message).toContain('90 of its 100 machines');
    expect(going(planned({ from, to: to('10'), machines: { 'prod-1': undefined } }))).toEqual([]);
  });
  test('one that has none is removed', () => {
    const from = { 'prod-1': { [WEB]: 'none', [API]: '100' } };
    const machines = cell({ [WEB]: set(0), [API]: set(100) }, 100);
    expect(going(planned({ from, to: { 'prod-1': { [API]: '100' } }, machines }))).toEqual([`prod-1 ${WEB}`]);
  });
  test('a typo is taken back where it made none yet, and counts with what it made', () => {
    const rest = { restores };
    expect(going(planned({ from: typo, to: reverted, machines: cell({ [WEB]: set(10, 200) }, 10), rest }))).toEqual([`prod-1 ${WEB}`]);
    expect(going(planned({ from: typo, to: reverted, machines: cell({ [WEB]: set(11, 200) }, 11), rest }))).toEqual([`prod-1 ${WEB}`]);
    const found = planned({ from: typo, to: reverted, machines: cell({ [WEB]: set(13, 200) }, 13), rest });
    expect(found.heldBack?.message).toContain('3 of its 13 machines would go, 1 may (maxMachines 10%)');
    expect(found.heldBack?.next).toContain('maxMachines: "24%"');
    const removed = planned({
      from: { 'prod-1': { ...typo['prod-1'], x: '1' } },
      to: { 'prod-1': { x: '1' } },
      machines: cell({ [WEB]: set(0, 200) }, 0),
      rest,
    });
    expect(going(removed)).toEqual([`prod-1 ${WEB}`]);
  });
  test('so it is nowhere else: what waits for its stage grows meanwhile, and what is not reached may have all', () => {
    const machines = cell({ [WEB]: set(10, 200) }, 10);
    expect(planned({ from: typo, to: reverted, machines }).heldBack?.message).toContain('190 of its 10 machines would go');
    expect(going(planned({ from: typo, to: reverted, machines: { 'prod-1': undefined }, rest: { restores } }))).toEqual([]);
  });
  test('a cell that claims to have made none of what is taken back, and many others, gives no room to other clusters', () => {
    const tree = (first: string, others: string): Tree => ({
      'prod-1': { [WEB]: first },
      ...Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`prod-${index + 2}`, { [WEB]: others }])),
    });
    const machines = cell({ [WEB]: set(10, 200), 'MachineSet/x/x': set(190) }, 200);
    const rest = { restores: (name: string) => name === 'prod-1' };
    const found = planned({ from: tree('200', '3'), to: tree('10', '2'), machines, rest });
    expect(going(found)).toEqual([`prod-1 ${WEB}`]);
    expect(found.heldBack?.message).toContain('stage "prod": 9 of its 37 machines would go, 3 may');
  });
});

describe('E9, property: whatever is committed, no cluster and no stage loses more than its share', () => {
  const cluster = fc.record({
    stage: fc.constantFrom('test', 'prod'),
    known: fc.boolean(),
    sets: fc.array(
      fc.record({
        from: fc.nat(60),
        to: fc.option(fc.nat(60), { nil: undefined }),
        behind: fc.nat(4),
        unrecorded: fc.nat(6),
        deleting: fc.nat(2),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  });
  const prune = fc.option(
    fc.record({
      maxDeletions: fc.option(fc.nat(12), { nil: undefined }),
      maxMachines: fc.constantFrom('0%', '5%', '10%', '25%', '50%', '99%'),
    }),
    { nil: undefined },
  );

  test('nor do two commits, one after the other, while what the first lets go is under way', () => {
    fc.assert(
      fc.property(fc.array(cluster, { minLength: 1, maxLength: 6 }), prune, fc.integer({ min: 0, max: 60 }), (clusters, limits, next) => {
        const maxDeletions = limits?.maxDeletions;
        const maxMachines = limits?.maxMachines ?? '10%';
        const its = { maxMachines, ...(maxDeletions === undefined ? {} : { maxDeletions }) };
        const stages: Stages = ['test', 'prod'].map((name) => ({ name, clusterSelector: { stage: name }, prune: its }));
        const unitOf = (index: number): string => `MachineSet/web/s${index}`;
        const names = clusters.map(({ stage }, index) => `${stage}-${index}`);
        const from: Tree = {};
        const to: Tree = {};
        const alive = new Map<string, CellMachines>();
        for (const [index, { known, sets }] of clusters.entries()) {
          const name = names[index] ?? '';
          from[name] = { x: '1', ...Object.fromEntries(sets.map((each, at) => [unitOf(at), String(each.from)])) };
          to[name] = {
            x: '1',
            ...Object.fromEntries(sets.flatMap((each, at) => (each.to === undefined ? [] : [[unitOf(at), String(each.to)]]))),
          };
          const machines: CellMachines = {
            total: sets.reduce((sum, each) => sum + each.from + each.unrecorded + each.behind, 0),
            sets: new Map(
              sets.map((each, at) => [
                unitOf(at),
                {
                  replicas: each.from + each.unrecorded + each.behind,
                  wanted: each.from + each.unrecorded,
                  deleting: each.deleting,
                  removing: false,
                },
              ]),
            ),
          };
          if (known) alive.set(name, machines);
        }
        const wantedOf = (tree: Tree, found: Plan): Tree => {
          const after: Tree = structuredClone(tree);
          for (const { unit, clusters: places } of found.units)
            for (const { name, digest } of places) {
              const units = after[name] ?? {};
              if (digest === undefined) delete units[unit];
              else units[unit] = digest;
              after[name] = units;
            }
          return after;
        };
        const machines = Object.fromEntries(names.map((name) => [name, alive.get(name)]));
        /** What is on its way out of a cluster, once a tree is wanted there. */
        const goingIn = (name: string, tree: Tree): number => {
          const sets = alive.get(name)?.sets ?? new Map<string, { replicas: number; wanted: number; deleting: number }>();
          return [...sets].reduce(
            (sum, [unit, { replicas, deleting }]) => sum + deleting + Math.max(0, replicas - Number(tree[name]?.[unit] ?? 0)),
            0,
          );
        };
        /** Of what the cell is to have, also where the hub knows of less. */
        const lost = (name: string, before: Tree, after: Tree): number =>
          Object.entries(before[name] ?? {})
            .filter(([unit, digest]) => unit.startsWith('MachineSet/') && after[name]?.[unit] !== digest)
            .reduce((sum, [unit, digest]) => {
              const has = Math.max(Number(digest), alive.get(name)?.sets.get(unit)?.wanted ?? 0);
              return sum + Math.max(0, has - Number(after[name]?.[unit] ?? 0));
            }, 0);

        const judge = (before: Tree, after: Tree): void => {
          for (const name of names) {
            const goes = goingIn(name, after);
            if (lost(name, before, after) === 0) continue;
            const total = alive.get(name)?.total;
            expect(goes, name).toBeLessThanOrEqual(shareOf(total, maxMachines));
            expect(goes, name).toBeLessThanOrEqual(maxDeletions ?? 3);
          }
          for (const stage of ['test', 'prod']) {
            const members = names.filter((name) => name.startsWith(stage));
            if (members.every((name) => lost(name, before, after) === 0)) continue;
            const goes = members.reduce((sum, name) => sum + goingIn(name, after), 0);
            const total = members.reduce((sum, name) => sum + (alive.get(name)?.total ?? 0), 0);
            expect(goes, stage).toBeLessThanOrEqual(shareOf(total, maxMachines));
          }
        };
        const attempt = (before: Tree, after: Tree): Tree => {
          try {
            const reached = wantedOf(before, planned({ stages, from: before, to: after, machines }));
            judge(before, reached);
            return reached;
          } catch (error) {
            if ((error as CodedError).code === 'PruneBudget') return before;
            throw error;
          }
        };
        const first = attempt(from, to);
        // Nothing has gone yet when the next one comes.
        const again: Tree = Object.fromEntries(
          Object.entries(first).map(([name, units]) => [
            name,
            Object.fromEntries(
              Object.entries(units).map(([unit, digest]) => [
                unit,
                unit === 'x' ? digest : String(Math.max(0, Number(digest) - (next % 4))),
              ]),
            ),
          ]),
        );
        attempt(first, again);
      }),
      { numRuns: 400 },
    );
  });
});
