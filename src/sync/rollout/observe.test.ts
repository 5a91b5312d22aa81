import { describe, expect, it } from 'vitest';
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../../api/names.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { stamped } from '../apply-unit.ts';
import type { StoredUnit } from '../bundles.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { createCellWall } from '../cell/wall.ts';
import type { Away } from '../cell/away.ts';
import type { Cell, CellContent } from '../cell/cell.ts';
import { REMOVAL } from '../records.ts';
import { ownersOf } from '../plan.ts';
import { contentGiven, isDrifted, observe, type ObserveInput } from './observe.ts';
import { judge } from './judge.ts';
import type { LiveUnit, World } from './world.ts';

const SET = 'MachineComponentSet/kubelet';
const NOW = Date.UTC(2026, 0, 1);

type Live = Stored<KubeObject> & { spec?: object; status?: object };

/** What is in one cell; kinds that are not named are not watched. */
interface Contents {
  objects?: Live[];
  unsynced?: string[];
  away?: Away;
}
const WATCHED = ['MachineComponentSet', 'MachineSet', 'DefenderPolicy', 'NodeRemedier'];

function cellOf(name: string, { objects = [], unsynced = [], away }: Contents): Cell {
  const store = (kind: string): unknown =>
    WATCHED.includes(kind)
      ? {
          synced: !unsynced.includes(kind),
          get: (key: { namespace?: string; name: string }) =>
            objects.find(
              (each) =>
                each.kind === kind &&
                each.metadata.name === key.name &&
                each.metadata.namespace === ('namespace' in key ? key.namespace : undefined),
            ),
        }
      : undefined;
  const content = { name, now: () => NOW, store } as unknown as CellContent;
  const random = (): number => 0.5;
  const wall = createCellWall(name, {
    clock: fakeClock(),
    random,
    log: recordingLog(),
    onFailure: () => undefined,
    onChange: () => undefined,
  });
  const isAway = (): Away | undefined => away ?? wall.away();
  return {
    name,
    content,
    away: isAway,
    isOnTrial: () => false,
    uid: () => 'uid',
    synced: () => true,
    read: (decide) => (isAway() === undefined ? wall.read(() => decide(content)) : undefined),
  };
}

const live = (
  kind: string,
  name: string,
  more: { namespace?: string; spec?: object; status?: object; deletionTimestamp?: string; generation?: number } = {},
): Live => {
  const { namespace, spec = {}, status, deletionTimestamp, generation = 1 } = more;
  return {
    apiVersion: API_VERSION,
    kind,
    metadata: {
      name,
      uid: `uid-${name}`,
      resourceVersion: '7',
      creationTimestamp: '2026-01-01T00:00:00Z',
      generation,
      ...(namespace === undefined ? {} : { namespace }),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
    spec,
    ...(status === undefined ? {} : { status }),
  };
};
const cluster = (name: string, units: UnitStatus[] = [], spec: Cluster['spec'] = {}): Stored<Cluster> => ({
  apiVersion: API_VERSION,
  kind: 'Cluster',
  metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
  spec,
  status: { units },
});
const rollout = (sequence: number, units: Rollout['spec']['units']): Stored<Rollout> => ({
  apiVersion: API_VERSION,
  kind: 'Rollout',
  metadata: { name: `main-${sequence}`, uid: `r${sequence}`, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { fleet: 'main', commit: `c${sequence}`, sequence, stages: [], units },
});

function observed(
  contents: Contents | Away,
  units: UnitStatus[] = [],
  more: Partial<ObserveInput> & { spec?: Cluster['spec'] } = {},
): World {
  return observe({
    now: NOW,
    fleet: 'main',
    rollouts: [],
    clusters: [cluster('prod', units, more.spec)],
    cell: (name) => ('reason' in contents ? contents : cellOf(name, contents)),
    unit: () => undefined,
    failing: () => undefined,
    ...more,
  });
}
const seen = (world: World, unit = SET): LiveUnit | undefined => world.clusters.get('prod')?.live(unit);
const recordOf = (unit: string, digest: string | undefined, more: Partial<UnitStatus> = {}): UnitStatus => ({
  unit,
  fleet: 'main',
  ...(digest === undefined ? {} : { digest }),
  ...more,
});

describe('a cluster', () => {
  const away: Away = { reason: 'Unreachable', message: 'no answer' };

  it.each<[string, Contents | Away, Cluster['spec'], string | undefined]>([
    ['that is reached', {}, {}, undefined],
    ['without a connection', away, {}, 'no answer'],
    ['that is stale', { away }, {}, 'no answer'],
    ['that is paused', {}, { paused: true }, 'the Cluster is paused'],
    ['that is paused no more', {}, { paused: false }, undefined],
  ])('%s', (_what, contents, spec, blocked) => {
    expect(observed(contents, [], { spec }).clusters.get('prod')?.blocked).toBe(blocked);
  });

  it.each<[string, Contents | Away, LiveUnit['state']]>([
    ['without a connection', away, 'Unknown'],
    ['that is stale', { objects: [live('MachineComponentSet', 'kubelet')], away }, 'Unknown'],
    ['whose sets are not listed yet', { unsynced: ['MachineComponentSet'] }, 'Unknown'],
    ['that has no such set', {}, 'Absent'],
    ['that has another one', { objects: [live('MachineComponentSet', 'runtime')] }, 'Absent'],
    [
      'where it is being deleted',
      { objects: [live('MachineComponentSet', 'kubelet', { deletionTimestamp: '2026-01-01T00:00:00Z' })] },
      'Absent',
    ],
    ['that has it', { objects: [live('MachineComponentSet', 'kubelet')] }, 'Present'],
  ])('invariant 7: one %s reports of a set that it is there, or not, or nothing', (_what, contents, state) => {
    expect(seen(observed(contents))?.state).toBe(state);
  });

  it('has the records that the hub has, and the failures of its own units', () => {
    const { clusters } = observed({}, [recordOf(SET, 'A')], { failing: (unit, name) => `${unit} on ${name}` });
    expect(clusters.get('prod')?.units.get(SET)?.digest).toBe('A');
    expect(clusters.get('prod')?.failing('X')).toBe('X on prod');
    const bare = { ...cluster('prod'), status: undefined } as unknown as Stored<Cluster>;
    expect(observed({}, [], { clusters: [bare] }).clusters.get('prod')?.units.size).toBe(0);
  });
});

it('knows the clusters that the Fleet declares, or that it does not report', () => {
  expect(observed({}).members).toBeUndefined();
  expect(observed({}, [], { members: ['prod'] }).members).toEqual(new Set(['prod']));
});

it('has the rollouts in their order', () => {
  expect(
    observed({}, [], { rollouts: [rollout(2, []), rollout(10, []), rollout(1, [])] }).rollouts.map(({ spec }) => spec.sequence),
  ).toEqual([1, 2, 10]);
});

describe('E2: a kind that is not watched', () => {
  const unit = 'ConfigMap/web/settings';

  it('has evidence as soon as it was applied, and none before', () => {
    expect(seen(observed({}, [recordOf(unit, 'A')]), unit)).toEqual({
      state: 'Present',
      unitDigest: 'A',
      drifted: false,
      evidence: true,
      halted: undefined,
      ceiling: undefined,
      progress: undefined,
    });
    expect(seen(observed({}), unit)).toEqual({ state: 'Unknown' });
    expect(seen(observed({}, [recordOf(unit, undefined, { begun: 'A' })]), unit)).toEqual({ state: 'Unknown' });
  });

  it('is not there where it was found to be gone', () => {
    const gone: ObserveInput['gone'] = (each, on) => each === unit && on === 'prod';
    expect(seen(observed({}, [recordOf(unit, 'A')], { gone }), unit)).toEqual({ state: 'Absent' });
    expect(seen(observed({}, [recordOf('ConfigMap/web/other', 'A')], { gone }), 'ConfigMap/web/other')?.state).toBe('Present');
  });
});

describe('a set that is there', () => {
  it('is known by its namespace too', () => {
    const objects = [
      live('MachineSet', 'a', { namespace: 'web', spec: { unitDigest: 'W' } }),
      live('MachineSet', 'a', { namespace: 'db', spec: { unitDigest: 'D' } }),
    ];
    expect(seen(observed({ objects }), 'MachineSet/db/a')).toMatchObject({ unitDigest: 'D' });
    expect(seen(observed({ objects }), 'MachineSet/web/a')).toMatchObject({ unitDigest: 'W' });
    expect(seen(observed({ objects }), 'MachineSet/shop/a')).toEqual({ state: 'Absent' });
    expect(seen(observed({ objects }), 'MachineSet/a')).toEqual({ state: 'Absent' });
  });

  it('shows what it carries, how it is held back, and which state of it was seen', () => {
    const ceiling = { unitDigest: 'A', nodes: 0 };
    const objects = [live('MachineComponentSet', 'kubelet', { spec: { unitDigest: 'A', ceiling, rolloutID: 'r1' }, generation: 4 })];
    expect(seen(observed({ objects }))).toMatchObject({
      state: 'Present',
      unitDigest: 'A',
      ceiling,
      rolloutID: 'r1',
      resourceVersion: '7',
      carrier: { uid: 'uid-kubelet', generation: 4 },
      drifted: false,
      evidence: false,
    });
  });

  it('has no evidence where it carries no digest, whatever it reports', () => {
    const status = { observedGeneration: 1, evidence: { unitDigest: 'A' }, desired: 1 };
    expect(seen(observed({ objects: [live('MachineComponentSet', 'kubelet', { status })] }, [recordOf(SET, 'A')]))).toMatchObject({
      evidence: false,
      unitDigest: undefined,
    });
  });

  it('reports why it could not be compared, of what is recorded and not at hand', () => {
    const objects = [live('MachineComponentSet', 'kubelet', { spec: { unitDigest: 'A' } })];
    const missing = (digest: string): string => `${digest} is lost`;
    expect(seen(observed({ objects }, [recordOf(SET, 'A')], { missing }))).toMatchObject({ lost: 'A is lost', drifted: false });
    expect(seen(observed({ objects }, [], { missing }))).not.toHaveProperty('lost');
    expect(seen(observed({ objects }, [recordOf(SET, 'A')], { missing, unit: () => wanted }))).not.toHaveProperty('lost');
    expect(seen(observed({ objects }, [recordOf(SET, 'A')]))).toMatchObject({ lost: undefined });
  });

  const wanted: StoredUnit = {
    key: SET,
    objects: [{ apiVersion: API_VERSION, kind: 'MachineComponentSet', metadata: { name: 'kubelet' } }],
    origins: [undefined],
  };
  /** As the server has it when sync has applied it by this lane. */
  function applied(digest: string, lane: 'Forward' | 'Restore'): Live {
    const object = stamped(wanted.objects[0] as KubeObject, true, { digest, fleet: 'main', lane }, undefined) as Live;
    const found = live('MachineComponentSet', 'kubelet', { spec: object.spec ?? {} });
    const fields = (value: object): object =>
      Object.fromEntries(
        Object.entries(value).map(([key, each]: [string, unknown]) => [
          `f:${key}`,
          each !== null && typeof each === 'object' ? fields(each) : {},
        ]),
      );
    const managed = { manager: MANAGERS.sync, operation: 'Apply', fieldsType: 'FieldsV1', apiVersion: API_VERSION };
    const fieldsV1 = fields({ metadata: { labels: object.metadata.labels ?? {} }, spec: object.spec ?? {} });
    return {
      ...found,
      metadata: { ...found.metadata, labels: object.metadata.labels ?? {}, managedFields: [{ ...managed, fieldsV1 }] },
    } as Live;
  }
  const compared = (object: Live, record: UnitStatus | undefined): boolean | undefined => {
    const found = seen(
      observed({ objects: [object] }, record === undefined ? [] : [record], { unit: (digest) => (digest === 'A' ? wanted : undefined) }),
    );
    return found?.state === 'Present' ? found.drifted : undefined;
  };

  it('is the one that was applied, or another', () => {
    expect(compared(applied('A', 'Forward'), recordOf(SET, 'A'))).toBe(false);
    const usual = applied('A', 'Forward');
    expect(compared({ ...usual, spec: { ...usual.spec, paused: true } }, recordOf(SET, 'A'))).toBe(false);
    expect(compared({ ...applied('A', 'Forward'), spec: { unitDigest: 'B' } }, recordOf(SET, 'A'))).toBe(true);
    // What was never recorded is not compared.
    expect(compared({ ...applied('A', 'Forward'), spec: { unitDigest: 'B' } }, undefined)).toBe(false);
    expect(compared({ ...applied('A', 'Forward'), spec: { unitDigest: 'B' } }, recordOf(SET, 'B'))).toBe(false);
  });

  it('E3: is another where a user took its digest or its label away, or made it again', () => {
    const { metadata, spec } = applied('A', 'Forward');
    const sound = applied('A', 'Forward');
    const bare = { ...sound, metadata: { ...metadata, labels: {} } };
    const entry = { apiVersion: API_VERSION, kind: 'MachineComponentSet', name: 'kubelet' };
    const applied1 = recordOf(SET, 'A', { inventory: [{ ...entry, uid: metadata.uid }] });
    const another = recordOf(SET, 'A', { inventory: [{ ...entry, uid: 'another' }] });
    expect(compared(sound, applied1)).toBe(false);
    expect(compared({ ...sound, spec: { ...spec, unitDigest: undefined } }, applied1)).toBe(true);
    expect(compared({ ...bare, spec: {} }, applied1)).toBe(true);
    expect(compared(bare, applied1)).toBe(true);
    expect(compared(sound, another)).toBe(true);
    // Under way no UID is known yet, and a record reports nothing of other objects.
    expect(compared(sound, recordOf(SET, 'A', { inventory: [entry] }))).toBe(false);
    expect(compared(sound, recordOf(SET, 'A', { inventory: [{ ...entry, name: 'other', uid: 'another' }] }))).toBe(false);
    expect(compared({ ...sound, spec: {} }, undefined)).toBe(false);
    const isOurs = (object: Live): boolean => {
      const found = seen(observed({ objects: [object] }, [another]));
      return found?.state === 'Present' && found.notOurs !== true;
    };
    const others = { ...sound, metadata: { ...metadata, labels: { [LABELS.fleet]: 'other' } } };
    expect([isOurs(others), isOurs(sound), isOurs(bare)]).toEqual([true, false, false]);
  });

  it('E17: is unknown without a digest too, where it is written later than what is recorded', () => {
    const found = applied('A', 'Forward');
    const unknownAt = (at: string, record: UnitStatus): boolean => {
      const metadata = { ...found.metadata, annotations: { [ANNOTATIONS.writtenAt]: at } };
      const its = seen(observed({ objects: [{ ...found, metadata, spec: {} }] }, [record], { known: () => false, unit: () => wanted }));
      return its?.state === 'Present' && its.unknown === true;
    };
    const record = recordOf(SET, 'A', { writtenAt: '2026-01-02T00:00:00.000Z' });
    expect(unknownAt('2026-01-02T00:00:01.000Z', record)).toBe(true);
    expect(unknownAt('2026-01-02T00:00:00.000Z', record)).toBe(false);
  });

  it('E6: differs by the lane by which it came, as long as that is not revoked', () => {
    expect(compared(applied('A', 'Restore'), recordOf(SET, 'A', { lane: 'Restore' }))).toBe(false);
    expect(compared(applied('A', 'Forward'), recordOf(SET, 'A', { lane: 'Restore' }))).toBe(true);
    expect(compared(applied('A', 'Restore'), recordOf(SET, 'A', { lane: 'Restore', revoked: ['A'] }))).toBe(true);
    expect(compared(applied('A', 'Restore'), undefined)).toBe(false);
  });

  it.each<[string, string | undefined, string | undefined, string, boolean]>([
    ['written later than what is recorded', '2026-01-02T00:00:01.000Z', '2026-01-02T00:00:00.000Z', 'B', true],
    ['written when what is recorded was', '2026-01-02T00:00:00.000Z', '2026-01-02T00:00:00.000Z', 'B', false],
    ['written before what is recorded, by a hub that was deposed', '2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z', 'B', false],
    ['written later, of the content that is recorded', '2026-01-03T00:00:00.000Z', '2026-01-02T00:00:00.000Z', 'A', false],
    ['that bears a time, where the record has none', '2026-01-02T00:00:00.000Z', undefined, 'B', true],
    ['that bears no time', undefined, '2026-01-02T00:00:00.000Z', 'B', false],
    ['that bears no right time', 'yesterday', '2026-01-02T00:00:00.000Z', 'B', false],
  ])('E17: is unknown where it is %s', (_what, at, writtenAt, unitDigest, isUnknown) => {
    const found = applied('A', 'Forward');
    const annotations = at === undefined ? {} : { [ANNOTATIONS.writtenAt]: at };
    const object = { ...found, metadata: { ...found.metadata, annotations }, spec: { ...found.spec, unitDigest } };
    const record = recordOf(SET, 'A', writtenAt === undefined ? {} : { writtenAt });
    const world = observed({ objects: [object] }, [record], { known: () => true, unit: (digest) => (digest === 'A' ? wanted : undefined) });
    const its = seen(world);
    expect(its?.state === 'Present' && its.unknown === true).toBe(isUnknown);
    // Of what nothing was recorded nothing is concluded.
    const bare = seen(observed({ objects: [object] }, [], { known: () => true }));
    expect(bare?.state === 'Present' && bare.unknown === true).toBe(false);
  });

  it('is not another where only the time differs at which it was begun, by any writer', () => {
    const found = applied('A', 'Forward');
    const annotations = { [ANNOTATIONS.writtenAt]: '2026-01-03T00:00:00.000Z' };
    const record = recordOf(SET, 'A', { writtenAt: '2026-01-02T00:00:00.000Z' });
    expect(compared({ ...found, metadata: { ...found.metadata, annotations } }, record)).toBe(false);
    const [entry] = found.metadata.managedFields ?? [];
    const fieldsV1 = { ...entry?.fieldsV1, 'f:metadata': { 'f:labels': {}, 'f:annotations': { [`f:${ANNOTATIONS.writtenAt}`]: {} } } };
    const labels = Object.fromEntries(Object.keys(found.metadata.labels ?? {}).map((label) => [`f:${label}`, {}]));
    fieldsV1['f:metadata']['f:labels'] = labels;
    const managedFields = entry === undefined ? [] : [{ ...entry, fieldsV1 }];
    expect(compared({ ...found, metadata: { ...found.metadata, annotations, managedFields } }, record)).toBe(false);
  });

  it('is another where it is not known which fields sync wrote', () => {
    const unowned = applied('A', 'Forward');
    const { managedFields: _, ...metadata } = unowned.metadata;
    expect(compared({ ...unowned, metadata }, recordOf(SET, 'A'))).toBe(true);
  });

  it('is never another where its kind is not of KubeNode, or its unit has nothing', () => {
    const stamp = { digest: 'A', fleet: 'main', lane: 'Forward' } as const;
    const object = applied('B', 'Forward');
    expect(isDrifted(object, wanted, stamp)).toBe(true);
    expect(isDrifted(object, { ...wanted, objects: [] }, stamp)).toBe(false);
    expect(isDrifted(object, { ...wanted, objects: [{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kubelet' } }] }, stamp)).toBe(
      false,
    );
  });
});

describe('invariant 7: a component set without a machine', () => {
  const proved = (status: object = {}): Live =>
    live('MachineComponentSet', 'kubelet', {
      spec: { unitDigest: 'A' },
      status: { observedGeneration: 1, evidence: { unitDigest: 'A' }, progress: '0/0', ...status },
    });
  const machines = (spec: object, status?: object): Live =>
    live('MachineSet', 'a', { namespace: 'web', spec, ...(status === undefined ? {} : { status }) });
  const wanting = [rollout(1, [{ unit: 'MachineSet/web/a', clusters: [{ name: 'prod', digest: 'M' }] }])];
  const evidence = (objects: Live[], rollouts = wanting, unit = SET): unknown => {
    const found = seen(observed({ objects }, [], { rollouts }), unit);
    return found?.state === 'Present' ? [found.evidence, found.progress] : found?.state;
  };
  const coming = [false, 'no machine yet; MachineSet/web/a is making them'];
  const good = [true, '0/0 machines'];

  it.each<[string, Live[], Rollout[] | undefined, unknown]>([
    ['is no proof while machines are being made', [proved(), machines({ replicas: 2 })], undefined, coming],
    ['is no proof while the set that makes them is not there yet', [proved()], undefined, coming],
    ['is no proof where the set keeps those that it has', [proved(), machines({}, { keptReplicas: 3 })], undefined, coming],
    ['is proof where none is asked for', [proved(), machines({ replicas: 0 })], undefined, good],
    ['is proof where the set reports no number and has none', [proved(), machines({})], undefined, good],
    [
      'is proof where the number that is asked for is none, whatever was kept',
      [proved(), machines({ replicas: 0 }, { keptReplicas: 3 })],
      undefined,
      good,
    ],
    ['is proof where no set is wanted', [proved(), machines({ replicas: 2 })], [], good],
    [
      'is proof where another cluster makes machines',
      [proved()],
      [rollout(1, [{ unit: 'MachineSet/web/a', clusters: [{ name: 'test', digest: 'M' }] }])],
      good,
    ],
    [
      'is proof where the newest rollout takes the set away',
      [proved()],
      [...wanting, rollout(2, [{ unit: 'MachineSet/web/a', clusters: [{ name: 'prod' }] }])],
      good,
    ],
    [
      'is no proof where an older rollout wants a set of which the newest reports nothing',
      [proved()],
      [
        ...wanting,
        rollout(2, [
          { unit: SET, clusters: [{ name: 'prod', digest: 'A' }] },
          { unit: 'MachineSet/web/b', clusters: [{ name: 'prod' }] },
        ]),
      ],
      coming,
    ],
    ['is proof once there is one', [proved({ desired: 1 })], undefined, good],
  ])('%s', (_what, objects, rollouts, expected) => {
    expect(evidence(objects, (rollouts as Stored<Rollout>[] | undefined) ?? wanting)).toEqual(expected);
  });

  it('reports what it has to report where it proves nothing itself', () => {
    expect(evidence([proved({ evidence: { unitDigest: 'B' } }), machines({ replicas: 2 })])).toEqual([false, '0/0 machines']);
    const policy = live('DefenderPolicy', 'p', {
      spec: { unitDigest: 'P' },
      status: { conditions: [{ type: 'Accepted', status: 'True', reason: 'Accepted', message: '', observedGeneration: 1 }] },
    });
    expect(evidence([policy], wanting, 'DefenderPolicy/p')).toEqual([true, undefined]);
  });
});

describe('E9: a MachineSet that is removed', () => {
  const seenOf = (spec: object, status?: object, manager: string = MANAGERS.sync): LiveUnit => {
    const set = live('MachineSet', 'a', {
      namespace: 'web',
      spec: { unitDigest: 'd', ...spec },
      ...(status === undefined ? {} : { status }),
    });
    const fieldsV1 = { 'f:spec': { 'f:replicas': {} } };
    set.metadata.managedFields = [{ manager, operation: 'Update', apiVersion: API_VERSION, fieldsType: 'FieldsV1', fieldsV1 }];
    return seen(observed({ objects: [set] }), 'MachineSet/web/a') ?? { state: 'Unknown' };
  };
  it.each<[string, object, object | undefined, string | undefined]>([
    ['has machines', { replicas: 0 }, { replicas: 2, deletingReplicas: 1 }, 'its machines go first: 2 are there, 1 are being deleted'],
    [
      'has one that is being deleted',
      { replicas: 0 },
      { replicas: 0, deletingReplicas: 1 },
      'its machines go first: 0 are there, 1 are being deleted',
    ],
    ['is to have some', { replicas: 2 }, { replicas: 2 }, undefined],
    ['was never observed', { replicas: 0 }, undefined, undefined],
  ])('%s', (_what, spec, status, emptying) => {
    expect((seenOf(spec, status) as { emptying?: string }).emptying).toBe(emptying);
  });

  it.each<[string, object, object | undefined, number]>([
    ['reports how many', { replicas: 4 }, { replicas: 9 }, 4],
    ['keeps what it has', {}, { keptReplicas: 5, replicas: 9 }, 5],
    ['keeps what is there', {}, { replicas: 9 }, 9],
    ['reports nothing yet', {}, undefined, 0],
    ['reports what no set can', { replicas: '4' }, undefined, Infinity],
  ])('is to have as many machines as its spec or its cell reports: one that %s', (_what, spec, status, machines) => {
    expect(seenOf(spec, status)).toMatchObject({ machines });
  });

  const record = (more: object) => ({ unit: 'MachineSet/web/a', fleet: 'main', digest: 'd', evidence: 'd', inventory: [], ...more });
  const verified = { verified: [{ digest: 'd', commit: 'c1', at: '2026-11-20T00:00:00Z' }] };
  const judged = (digest: string | undefined, its: LiveUnit, begun: string | undefined): ReturnType<typeof judge> => {
    const unit = 'MachineSet/web/a';
    const units = new Map([[unit, record({ ...verified, ...(begun === undefined ? {} : { begun }) })]]);
    const view = { name: 'prod', blocked: undefined, units, live: () => its, failing: () => undefined };
    const of = rollout(1, [{ unit, clusters: [{ name: 'prod', ...(digest === undefined ? {} : { digest }) }] }]);
    const world = { now: 0, fleet: 'main', members: undefined, rollouts: [of], clusters: new Map([['prod', view]]) };
    return judge(world, of, unit, { name: 'prod', ...(digest === undefined ? {} : { digest }) });
  };
  const emptying = seenOf({ replicas: 0 }, { replicas: 2 });

  it('is waited for, and is removed when it is empty, or a user wants machines of it', () => {
    expect(judged(undefined, emptying, REMOVAL)).toMatchObject({
      phase: 'Waiting',
      message: expect.stringContaining('2 are there') as unknown,
    });
    expect(judged(undefined, seenOf({ replicas: 0 }), REMOVAL).phase).toBe('Pending');
    expect(judged(undefined, seenOf({ replicas: 3 }, { replicas: 3 }), REMOVAL).phase).toBe('Pending');
    expect(judged(undefined, emptying, undefined).phase).toBe('Pending');
  });
  it('C8e: is not waited for where the 0 is another user’s, for which no machine goes', () => {
    const byHand = seenOf({ replicas: 0 }, { replicas: 2 }, 'kubectl');
    expect(judged(undefined, byHand, REMOVAL).phase).toBe('Pending');
  });
  it('goes back at once where it is wanted again', () => {
    expect(judged('d', emptying, REMOVAL)).toMatchObject({ phase: 'Pending', lane: 'Restore' });
  });
});

describe('E16: a cell whose content cannot be read', () => {
  const broken = live('MachineComponentSet', 'kubelet', { spec: { unitDigest: 'A' } });
  Object.defineProperty(broken, 'status', {
    get: () => {
      throw new RangeError('Invalid time value');
    },
  });
  const named = rollout(
    1,
    [SET, 'MachineSet/web/a'].map((unit) => ({ unit, clusters: ['prod', 'test'].map((name) => ({ name, digest: 'A' })) })),
  );
  const sound = [live('MachineComponentSet', 'kubelet', { spec: { unitDigest: 'A' } })];

  it('is away as a whole, with the reason, and reports nothing; others are observed', () => {
    const cells = new Map([
      ['prod', cellOf('prod', { objects: [live('MachineSet', 'a', { namespace: 'web' }), broken] })],
      ['test', cellOf('test', { objects: sound })],
    ]);
    const world = observe({
      now: NOW,
      fleet: 'main',
      rollouts: [named],
      clusters: [cluster('prod', [recordOf(SET, 'A')]), cluster('test', [recordOf(SET, 'A')])],
      cell: (name) => cells.get(name) ?? { reason: 'X', message: '' },
      unit: () => undefined,
      failing: () => undefined,
    });
    const view = world.clusters.get('prod');
    expect(view?.blocked).toBe('Invalid time value');
    expect([view?.live(SET), view?.live('MachineSet/web/a')]).toEqual([{ state: 'Unknown' }, { state: 'Unknown' }]);
    expect(world.clusters.get('test')?.live(SET)).toMatchObject({ state: 'Present', unitDigest: 'A' });
  });

  it('reports nothing that is longer than a record, a message or an Event holds', () => {
    const conditions = [{ type: 'Halted', status: 'True', reason: 'MaxFailed', message: 'x'.repeat(1e6), lastTransitionTime: '' }];
    const set = live('MachineComponentSet', 'kubelet', { spec: { unitDigest: 'A' }, status: { observedGeneration: 1, conditions } });
    const found = seen(observed({ objects: [set] }, [recordOf(SET, 'A')]));
    expect(found?.state === 'Present' && found.halted?.length).toBe(4096);
  });
});

describe('E17: content that the hub has no record of', () => {
  const unknown = (unitDigest: string, known: (digest: string) => boolean) => {
    const asked = (name: string, unit: string, digest: string) => name === 'prod' && unit === SET && known(digest);
    const found = seen(
      observed({ objects: [live('MachineComponentSet', 'kubelet', { spec: { unitDigest } })] }, [recordOf(SET, 'A')], { known: asked }),
    );
    return found?.state === 'Present' && found.unknown === true;
  };

  it('is what it cannot have given this cluster, and never what its own record has', () => {
    expect(unknown('X', () => false)).toBe(true);
    expect(unknown('X', (digest) => digest === 'X')).toBe(false);
    expect(unknown('A', () => false)).toBe(false);
  });

  const records = [
    recordOf(SET, 'd', { begun: 'b', revoked: ['r'], verified: [{ digest: 'v', commit: 'c', at: '2026-01-01T00:00:00Z' }] }),
  ];
  const of = (sequence: number, digest: string) =>
    rollout(sequence, [{ unit: SET, clusters: [{ name: 'prod', digest }, { name: 'test', digest }, { name: 'gone' }] }]);
  const rollouts = [of(1, 'old'), of(2, 'new')];
  const given = contentGiven(rollouts, [cluster('prod', records), cluster('test', [recordOf(SET, 'new')])], ownersOf(rollouts));

  it.each(['b', 'd', 'r', 'v', 'old'])('is not %s, which its record or an earlier Rollout has there', (digest) => {
    expect(given('prod', SET, digest)).toBe(true);
  });

  it.each([
    ['prod', SET, 'new', 'what the newest Rollout wants there, and nothing has begun to apply'],
    ['prod', SET, 'x', 'what nothing has'],
    ['prod', 'MachineComponentSet/other', 'd', 'what another unit has'],
    ['test', SET, 'd', 'what another cluster has'],
  ])('is, in %s, of %s, %s: %s', (name, unit, digest) => {
    expect(given(name, unit, digest)).toBe(false);
  });

  it('is not what the newest Rollout wants where that has begun', () => {
    expect(given('test', SET, 'new')).toBe(true);
  });
});
