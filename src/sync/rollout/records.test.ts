/** The decision from records as they may lie there, however they came about. */
import { describe, expect, it } from 'vitest';
import type { UnitStatus } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Rollout, RolloutUnitStatus } from '../../api/rollout.ts';
import { decide } from './decide.ts';
import type { LiveUnit, Step, World } from './world.ts';

const UNIT = 'MachineComponentSet/runtime';
const RULE = 'NodeRemedier/hung';
const NOW = Date.UTC(2026, 0, 2);
const ago = (seconds: number): string => new Date(NOW - seconds * 1000).toISOString();

type Present = Extract<LiveUnit, { state: 'Present' }>;
interface On {
  /** Of the Cluster. */
  createdAt?: string;
  record?: Partial<UnitStatus>;
  live?: Partial<Present> | 'Absent' | 'Unknown' | 'Syncs';
  blocked?: string;
  failing?: string;
}

function liveOf({ record, live }: On): LiveUnit {
  if (live === 'Syncs') return { state: 'Unknown', syncs: true };
  if (live === 'Absent' || live === 'Unknown') return { state: live };
  if (live === undefined && record?.digest === undefined) return { state: 'Absent' };
  return {
    state: 'Present',
    unitDigest: record?.begun ?? record?.digest,
    drifted: false,
    evidence: false,
    halted: undefined,
    ceiling: undefined,
    progress: undefined,
    ...live,
  };
}

function worldOf(rollouts: Rollout[], on: Record<string, On>, { unit = UNIT, ...more }: Partial<World> & { unit?: string } = {}): World {
  const clusters = Object.entries(on).map(([name, each]) => {
    const units = new Map<string, UnitStatus>(each.record === undefined ? [] : [[unit, { unit, fleet: 'main', ...each.record }]]);
    const view = { name, createdAt: each.createdAt, blocked: each.blocked, units, failing: () => each.failing, live: () => liveOf(each) };
    return [name, view] as const;
  });
  return { now: NOW, fleet: 'main', members: undefined, rollouts, clusters: new Map(clusters), ...more };
}

interface Of {
  createdAt?: string;
  unit?: string;
  /** By cluster, as the plan counted. */
  machines?: Record<string, number>;
  from?: Record<string, string>;
  soakSeconds?: number;
  stages?: Record<string, string[]>;
  spec?: Partial<Rollout['spec']>;
  status?: Rollout['status'];
  generation?: number;
}
/** Wants these digests, by cluster; `undefined`: the unit is removed there. A stage for each cluster where nothing else is reported. */
function rolloutOf(
  sequence: number,
  wanted: Record<string, string | undefined>,
  { unit = UNIT, from = {}, machines = {}, soakSeconds = 0, stages, spec, status, generation, createdAt }: Of = {},
): Rollout {
  const names = Object.keys(wanted);
  return {
    apiVersion: API_VERSION,
    kind: 'Rollout',
    metadata: {
      name: `main-${sequence}`,
      ...(generation === undefined ? {} : { generation }),
      ...(createdAt === undefined ? {} : { creationTimestamp: createdAt }),
    },
    spec: {
      fleet: 'main',
      commit: `c${sequence}`,
      sequence,
      stages: Object.entries(stages ?? Object.fromEntries(names.map((name) => [name, [name]]))).map(([name, clusters]) => ({
        name,
        clusters,
        soakSeconds,
        maxClusters: 2,
      })),
      units: [
        {
          unit,
          clusters: Object.entries(wanted).map(([name, digest]) => ({
            name,
            ...(digest === undefined ? {} : { digest }),
            ...(from[name] === undefined ? {} : { from: from[name] }),
            ...(machines[name] === undefined ? {} : { machines: machines[name] }),
          })),
        },
      ],
      ...spec,
    },
    ...(status === undefined ? {} : { status }),
  };
}

/** Held with evidence since so many seconds ago. */
const proved = (digest: string, seconds: number, more: Partial<UnitStatus> = {}): Partial<UnitStatus> => ({
  digest,
  evidence: digest,
  commit: 'c0',
  appliedAt: ago(seconds + 1),
  verified: [{ digest, commit: 'c0', at: ago(seconds), order: 1 }],
  ...more,
});
function wordOf(step: Step): string {
  const on = `${step.do} ${step.cluster}`;
  if (step.do === 'Remove') return on;
  if (step.do === 'Settle') return `${on} ${step.since}`;
  if (step.do === 'Apply') return `${on} ${step.digest} ${step.lane}`;
  if (step.do === 'RecordRetry') return `${on} ${step.retry}`;
  if (step.do === 'TryAgain') return `${on} ${step.rolloutID}`;
  if (step.do === 'Ceiling') return `${on} ${step.ceiling === undefined ? 'none' : `${step.ceiling.unitDigest} ${step.ceiling.nodes}`}`;
  return `${on} ${step.digest}`;
}
const stepsOf = (world: World): string[] => decide(world).steps.map(wordOf);
const statusOf = (world: World, name = 'main-1') => decide(world).statuses.get(name);
const unitOf = (world: World, name = 'main-1'): RolloutUnitStatus | undefined => statusOf(world, name)?.units?.[0];

describe('the status of a rollout', () => {
  it('reports of a unit that a newer one took over that it did, by the lane that it went', () => {
    const newer = rolloutOf(2, { a: 'B' });
    const before = (units: RolloutUnitStatus[] | undefined, completedAt?: string) =>
      rolloutOf(
        1,
        { a: 'A' },
        { status: { ...(units === undefined ? {} : { units }), ...(completedAt === undefined ? {} : { completedAt }) } },
      );
    const superseded = {
      unit: UNIT,
      phase: 'Superseded',
      lane: 'Forward',
      reason: 'Superseded',
      message: 'a newer commit changes this unit',
    };
    expect(statusOf(worldOf([before(undefined), newer], {}))).toEqual({ phase: 'Superseded', completedAt: ago(0), units: [superseded] });
    expect(statusOf(worldOf([before([{ unit: UNIT, phase: 'Halted', lane: 'Restore' }], ago(9)), newer], {}))).toEqual({
      phase: 'Superseded',
      completedAt: ago(9),
      units: [{ ...superseded, lane: 'Restore', message: 'a newer commit changes this unit, which was halted' }],
    });
    // What had come to its end stays as it was reported.
    for (const phase of ['Done', 'Superseded'] as const) {
      const reported: RolloutUnitStatus = { unit: UNIT, phase, lane: 'Mixed', message: 'as it was' };
      expect(statusOf(worldOf([before([{ ...reported, unit: 'X', phase: 'Halted' }, reported]), newer], {}))?.units).toEqual([reported]);
    }
  });

  it('reports when it came to its end, once, and for which generation', () => {
    const rollout = rolloutOf(1, { a: 'A' }, { generation: 3 });
    const good = { a: { record: proved('A', 60) } };
    expect(statusOf(worldOf([rollout], good))).toMatchObject({ phase: 'Done', completedAt: ago(0), observedGeneration: 3 });
    expect(statusOf(worldOf([{ ...rollout, status: { completedAt: ago(7) } }], good))).toMatchObject({ completedAt: ago(7) });
    expect(statusOf(worldOf([{ ...rollout, status: { completedAt: ago(7) } }], {}))).not.toHaveProperty('completedAt');
    expect(statusOf(worldOf([rolloutOf(1, { a: 'A' })], good))).not.toHaveProperty('observedGeneration');
  });

  it('reports of each cluster since when it is there and has evidence, by which lane, and in which stage the unit is', () => {
    const world = worldOf([rolloutOf(1, { a: 'A', b: 'A', c: 'A' }, { soakSeconds: 50 })], {
      a: { record: proved('A', 60, { lane: 'Restore' }) },
      b: { record: { digest: 'A', commit: 'c1', appliedAt: ago(5) } },
      c: {},
    });
    expect(unitOf(world)).toEqual({
      unit: UNIT,
      phase: 'Progressing',
      lane: 'Forward',
      stage: 'b',
      reason: 'Progressing',
      clusters: [
        { name: 'a', phase: 'Verified', lane: 'Restore', appliedAt: ago(61), verifiedAt: ago(60) },
        { name: 'b', phase: 'Waiting', lane: 'Forward', appliedAt: ago(5) },
        { name: 'c', phase: 'Pending', lane: 'Forward' },
      ],
    });
  });

  it.each<[string, Record<string, On>, string]>([
    [
      'Restore where all that it moves goes back',
      { a: { record: proved('A', 60, { lane: 'Restore', commit: 'c1' }) }, b: { record: proved('A', 60) } },
      'Restore',
    ],
    [
      'Forward where all that it moves is new',
      { a: { record: proved('A', 60, { commit: 'c1' }) }, b: { record: proved('A', 60, { lane: 'Restore' }) } },
      'Forward',
    ],
    ['Mixed where it does both', { a: { record: proved('A', 60, { lane: 'Restore', commit: 'c1' }) }, b: {} }, 'Mixed'],
    [
      'Forward where it moves nothing',
      { a: { record: proved('A', 60, { lane: 'Restore' }) }, b: { record: proved('A', 60, { lane: 'Restore' }) } },
      'Forward',
    ],
  ])('calls its lane %s', (_what, on, lane) => {
    expect(unitOf(worldOf([rolloutOf(1, { a: 'A', b: 'A' })], on))?.lane).toBe(lane);
  });

  it('E6: reports that a digest is revoked where it is so for one of its clusters', () => {
    const upheld = proved('A', 60, { verified: [{ digest: 'A', commit: 'c0', at: ago(60), upheld: true }] });
    const rollouts = [rolloutOf(1, { a: 'A', b: 'A' })];
    expect(unitOf(worldOf(rollouts, { a: { record: upheld }, b: { record: proved('A', 60, { revoked: ['A'] }) } }))?.revoked).toBe(true);
    expect(unitOf(worldOf(rollouts, { a: { record: upheld }, b: { record: upheld } }))).not.toHaveProperty('revoked');
  });

  it('reports what its stage waits for: first what is blocked, else what is under way', () => {
    const stages = { all: ['a', 'b', 'c'] };
    const rollouts = [rolloutOf(1, { a: 'A', b: 'A', c: 'A' }, { stages })];
    const waiting = { record: { digest: 'A', commit: 'c1' }, live: { progress: '3/4 machines' } };
    expect(unitOf(worldOf(rollouts, { a: {}, b: waiting, c: {} }))).toMatchObject({
      reason: 'Progressing',
      message: 'b: 3/4 machines',
      stage: 'all',
    });
    expect(unitOf(worldOf(rollouts, { a: {}, b: waiting, c: { blocked: 'no answer' } }))).toMatchObject({
      reason: 'Blocked',
      message: 'c: no answer',
    });
    expect(unitOf(worldOf(rollouts, { a: {}, b: { ...waiting, live: 'Unknown' }, c: {} }))).toMatchObject({
      message: 'b: not observed yet',
    });
    expect(unitOf(worldOf(rollouts, { a: {}, b: {}, c: {} }))).not.toHaveProperty('message');
  });

  it('reports which cluster is in no stage', () => {
    const rollouts = [rolloutOf(1, { a: 'A', b: 'A' }, { stages: { all: ['a'] } })];
    const world = worldOf(rollouts, { a: { record: proved('A', 60) }, b: {} });
    expect(unitOf(world)).toMatchObject({ phase: 'Progressing', reason: 'Blocked', message: 'b is in no stage' });
    expect(stepsOf(world)).toEqual([]);
    expect(unitOf(worldOf(rollouts, { a: { record: proved('A', 60) }, b: { record: proved('A', 60) } }))?.phase).toBe('Done');
  });
});

describe('when it observes again', () => {
  const soaking = rolloutOf(1, { a: 'A', b: 'A' }, { soakSeconds: 100 });
  it('is at the end of the soak, or before, when time alone changes something', () => {
    expect(decide(worldOf([soaking], { a: { record: proved('A', 60) }, b: {} })).again).toBe(NOW + 40_000);
    const others = (againAt: number) => worldOf([soaking], { a: { record: proved('A', 60) }, b: { live: { againAt } } });
    expect(decide(others(NOW + 10_000)).again).toBe(NOW + 10_000);
    expect(decide(others(NOW + 90_000)).again).toBe(NOW + 40_000);
  });
  it('is the earliest of all units', () => {
    const other = rolloutOf(2, { a: 'A', b: 'A' }, { unit: RULE, soakSeconds: 70 });
    const world = worldOf([soaking, other], { a: { record: proved('A', 60) }, b: {} });
    const both = (unit: string): World => ({
      ...world,
      clusters: new Map(
        [...world.clusters].map(([name, view]) => [
          name,
          { ...view, units: new Map([...view.units.values()].flatMap((each) => [UNIT, unit].map((key) => [key, each] as const))) },
        ]),
      ),
    });
    expect(decide(both(RULE)).again).toBe(NOW + 10_000);
  });
  it('is never, where nothing waits for time', () => {
    expect(decide(worldOf([soaking], { a: { record: proved('A', 600) }, b: { record: proved('A', 600) } })).again).toBeUndefined();
  });
});

describe('E5: a soak', () => {
  const rollouts = [rolloutOf(1, { a: 'A', b: 'A' }, { soakSeconds: 100 })];

  it('is over at its very end, and not before', () => {
    expect(stepsOf(worldOf(rollouts, { a: { record: proved('A', 99.999) }, b: {} }))).toEqual([]);
    expect(stepsOf(worldOf(rollouts, { a: { record: proved('A', 100) }, b: {} }))).toEqual(['Apply b A Forward']);
  });

  it('is of nothing where no later cluster waits for it', () => {
    expect(unitOf(worldOf(rollouts, { a: { record: proved('A', 1) }, b: { record: proved('A', 200) } }))?.phase).toBe('Done');
  });

  it('is that of the cluster that has evidence last, also where another of its stage has nothing to soak any more', () => {
    const mixed = [
      rolloutOf(1, { a: undefined, b: 'A', c: 'A', d: 'A' }, { soakSeconds: 100, stages: { first: ['a', 'b', 'c'], last: ['d'] } }),
    ];
    const on = { a: {}, b: { record: proved('A', 90) }, c: { record: proved('A', 300) }, d: {} };
    expect(unitOf(worldOf(mixed, on))).toMatchObject({ phase: 'Soaking', stage: 'first', reason: 'Soaking', soakUntil: ago(-10) });
    expect(stepsOf(worldOf(mixed, on))).toEqual([]);
  });
});

describe('E13: a halt', () => {
  const two = { first: ['a', 'b'], last: ['c'] };
  const halted = (more: Partial<UnitStatus> = {}): On => ({
    record: { digest: 'A', commit: 'c1', ...more },
    live: { halted: 'MaxFailed' },
  });

  it('is reported with the cluster, also before the one that a human has tried again', () => {
    const rollouts = [rolloutOf(1, { a: 'A', b: 'A', c: 'A' }, { stages: two, spec: { retry: 'r1' } })];
    const world = worldOf(rollouts, { a: halted(), b: halted({ retried: 'r1' }), c: {} });
    expect(unitOf(world)).toMatchObject({ phase: 'Halted', reason: 'Halted', stage: 'first', message: 'b: MaxFailed' });
  });

  it('that is tried again is under way, and reports what it was', () => {
    const rollouts = [rolloutOf(1, { a: 'A', b: 'A', c: 'A' }, { stages: two, spec: { retry: 'r1' } })];
    const world = worldOf(rollouts, { a: halted(), b: {}, c: {} });
    expect(unitOf(world)).toMatchObject({ phase: 'Progressing', reason: 'Retrying', stage: 'first', message: 'a: MaxFailed' });
    expect(stepsOf(world)).toEqual(['TryAgain a r1', 'RecordHalt a A']);
  });

  it('revokes everywhere, in one pass, but in records of another fleet', () => {
    const rollouts = [rolloutOf(1, { a: 'A', b: 'A', c: 'A' })];
    const world = worldOf(rollouts, {
      a: halted(),
      b: { record: proved('0', 60) },
      c: { record: { fleet: 'other', digest: '0' } },
      d: { record: proved('0', 60, { revoked: ['A'] }) },
      e: {},
    });
    expect(decide(world).steps).toMatchObject([
      { do: 'RecordHalt', cluster: 'a', digest: 'A', halt: { message: 'MaxFailed', refused: false } },
      { do: 'Revoke', cluster: 'a', digest: 'A', because: 'MaxFailed', retry: undefined },
      { do: 'Revoke', cluster: 'b', digest: 'A', because: 'MaxFailed' },
    ]);
  });

  describe('after there was evidence', () => {
    const late = (seconds: number): On => ({ record: proved('A', seconds), live: { halted: 'MaxFailed' } });
    const pending: On = {};
    it.each<[string, Of, string, On, boolean]>([
      ['of what this rollout brought holds the next cluster', {}, 'A', late(500), true],
      ['of what this rollout brought holds what it brings elsewhere', {}, 'B', late(500), true],
      ['of what was there before it stops it as long as that soaks', { from: { a: 'A' } }, 'A', late(99.999), true],
      ['of what was there before it stops it when that has soaked', { from: { a: 'A' } }, 'A', late(100), true],
      ['of what was there before it stops no other content', { from: { a: 'A' } }, 'B', late(100), false],
    ])('%s', (_what, of, wanted, on, holds) => {
      const world = worldOf([rolloutOf(1, { a: 'A', b: wanted }, { soakSeconds: 100, ...of })], { a: on, b: pending });
      expect(stepsOf(world)).toEqual(['RecordHalt a A', ...(holds ? [] : [`Apply b ${wanted} Forward`])]);
      if (holds)
        expect(unitOf(world)).toMatchObject({
          phase: 'Halted',
          reason: 'Halted',
          stage: 'a',
          message: 'a: halted after there was evidence: MaxFailed',
        });
    });

    it('holds the same content also where it is in no stage and was there before', () => {
      const rollouts = [rolloutOf(1, { a: 'A', b: 'A' }, { from: { a: 'A' }, soakSeconds: 100, stages: { all: ['b'] } })];
      expect(stepsOf(worldOf(rollouts, { a: late(0), b: {} }))).toEqual(['RecordHalt a A']);
    });

    it('changes nothing where all have evidence', () => {
      const world = worldOf([rolloutOf(1, { a: 'A', b: 'A' })], { a: late(5), b: { record: proved('A', 5) } });
      expect(unitOf(world)?.phase).toBe('Done');
      expect(unitOf(world)?.clusters?.[0]?.message).toBe('MaxFailed');
    });

    it('is none where the cell has other content, or it is being put back', () => {
      const on = (live: Partial<Present>): World =>
        worldOf([rolloutOf(1, { a: 'A', b: 'A' })], { a: { record: proved('A', 5), live: { halted: 'MaxFailed', ...live } }, b: {} });
      expect(stepsOf(on({ unitDigest: 'X' }))).toContain('Apply b A Forward');
      expect(stepsOf(on({ drifted: true }))).toEqual(['Apply a A Forward', 'Apply b A Forward']);
    });
  });
});

describe('E17: content that the hub has no record of', () => {
  const ahead = { unitDigest: 'X', drifted: true, unknown: true, ceiling: { unitDigest: 'X', nodes: 3 } };
  const wanted = [rolloutOf(1, { a: 'A', b: 'A' })];

  it('stays as it is, with its ceiling, and reports it: a hub of before knows less than its cells', () => {
    const world = worldOf(wanted, {
      a: { record: proved('A', 60), live: ahead },
      b: { record: { digest: 'A', commit: 'c1' }, live: ahead },
    });
    expect(stepsOf(world)).toEqual([]);
    expect(unitOf(world)).toMatchObject({ phase: 'Progressing' });
    expect(unitOf(world)?.clusters?.map(({ phase, message }) => [phase, message])).toEqual(
      ['a', 'b'].map(() => ['Waiting', expect.stringMatching(/no record of \(X\).*kubenode rollout retry main-1$/)]),
    );
  });

  it('ends no halt that is recorded: it still stops all others', () => {
    const halt = { digest: 'A', message: 'MaxFailed', since: '2026-01-01T00:00:00Z' };
    const world = worldOf(wanted, { a: { record: { digest: 'A', commit: 'c1', halt }, live: ahead }, b: {} });
    expect(stepsOf(world).filter((step) => step.startsWith('Apply'))).toEqual([]);
    expect(unitOf(world)).toMatchObject({ phase: 'Halted' });
  });

  it('holds up the stages behind it', () => {
    const world = worldOf(wanted, { a: { record: proved('A', 60), live: ahead }, b: {} });
    expect(stepsOf(world)).toEqual([]);
  });

  it('is put back where a person asks for that, and where the hub knows it', () => {
    const retried = [rolloutOf(1, { a: 'A' }, { spec: { retry: 'r1' } })];
    expect(stepsOf(worldOf(retried, { a: { record: proved('A', 60), live: ahead } }))).toContain('Apply a A Forward');
    expect(stepsOf(worldOf(wanted, { a: { record: proved('A', 60), live: { ...ahead, unknown: false } }, b: {} }))).toContain(
      'Apply a A Forward',
    );
  });

  it('E13: has no retry carried out before it is put back, however often a write fails, or while it cannot be seen', () => {
    const retried = [rolloutOf(1, { a: 'A' }, { spec: { retry: 'r1' } })];
    const of = (on: Partial<On>, unit = UNIT): string[] => {
      const rollouts = [rolloutOf(1, { a: 'A' }, { unit, spec: { retry: 'r1' } })];
      return stepsOf(worldOf(rollouts, { a: { record: proved('A', 60), ...on } }, { unit })).filter((step) => !step.startsWith('Ceiling'));
    };
    for (const unit of [UNIT, 'MachineSet/web/a', 'NodeRemedier/reboot']) {
      expect(of({ live: ahead }, unit)).toEqual(['Apply a A Forward']);
      expect(of({ live: ahead, failing: 'etcd is slow' }, unit)).toEqual([]);
      expect(of({ live: 'Unknown', blocked: 'no answer' }, unit)).toEqual([]);
      expect(of({ live: 'Unknown' }, unit)).toEqual([]);
      expect(of({}, unit)).toEqual(['RecordRetry a r1']);
    }
    // Not asked to try again either: that would be recorded of what is not wanted.
    expect(of({ record: { digest: 'A', commit: 'c1' }, live: { ...ahead, drifted: false } })).toEqual([]);
    expect(statusOf(worldOf(retried, { a: { record: proved('A', 60), live: ahead } }))).not.toHaveProperty('retried');
  });

  it('is taken over in its turn by a commit that wants it', () => {
    const later = [...wanted, rolloutOf(2, { a: 'X', b: 'X' })];
    const world = worldOf(later, {
      a: { record: proved('A', 60), live: { unitDigest: 'X' } },
      b: { record: proved('A', 60), live: { unitDigest: 'X' } },
    });
    expect(stepsOf(world)).toEqual(['Apply a X Forward']);
  });
});

describe('E17: what a cell was given later than its record reports, by a hub that knew more', () => {
  const SET = 'MachineSet/web/web';
  const record = { digest: 'A', commit: 'c1', writtenAt: ago(100) };
  const revertible = proved('B', 90, {
    ...record,
    digest: 'B',
    verified: [
      { digest: 'B', commit: 'c1', at: ago(90), order: 2 },
      { digest: 'A', commit: 'c0', at: ago(95), order: 1 },
    ],
  });
  /** A rollout of so long ago, in two clusters; in `a` something is that was begun a minute ago. */
  const on = (target: string | undefined, its: On, { createdAgo = 80, unit = UNIT, ...of }: Of & { createdAgo?: number } = {}) =>
    worldOf(
      [rolloutOf(2, { a: target, b: target }, { unit, createdAt: ago(createdAgo), ...of })],
      { a: { ...its, ...(typeof its.live === 'string' ? {} : { live: { unitDigest: 'X', writtenAt: ago(60), ...its.live } }) }, b: {} },
      { unit },
    );
  const begunOn = (...of: Parameters<typeof on>): string[] => stepsOf(on(...of)).filter((step) => /^(Apply|Remove)/.test(step));

  it.each<[string, string | undefined, On]>([
    ['forward', 'B', { record }],
    ['forward, where that has begun', 'B', { record: { ...record, begun: 'B' } }],
    ['forward, over content that the hub knows', 'B', { record, live: { unitDigest: 'A' } }],
    ['back', 'A', { record: revertible }],
    ['back, over content that the hub knows', 'A', { record: revertible, live: { unitDigest: 'B' } }],
    ['where nothing is recorded', 'B', { createdAt: ago(200) }],
    ['where the unit is gone, as far as is recorded', 'B', { record: { removal: { lane: 'Forward', at: ago(90) }, writtenAt: ago(100) } }],
    ['by a removal', undefined, { record }],
    ['by a removal that has begun', undefined, { record: { ...record, begun: 'Removal', removal: { lane: 'Forward' } } }],
    ['by a removal, of content that the hub knows', undefined, { record, live: { unitDigest: 'A' } }],
    ['by a removal of what is new there', undefined, { record: { ...record, added: { commit: 'c1' } } }],
  ])('is left as it is by a rollout from before: %s', (_what, target, its) => {
    const live = { ceiling: { unitDigest: 'X', nodes: 0 }, ...(typeof its.live === 'string' ? {} : its.live) };
    for (const unit of [UNIT, SET]) {
      const world = on(target, { ...its, live }, { unit });
      expect(stepsOf(world)).toEqual([]);
      const [first] = unitOf(world, 'main-2')?.clusters ?? [];
      expect(first).toMatchObject({ phase: 'Waiting', message: expect.stringContaining('put back to a backup') as unknown });
    }
  });

  it.each<[string, string | undefined, On, Of & { createdAgo?: number }]>([
    ['a commit that was accepted since', 'B', { record }, { createdAgo: 50 }],
    ['a commit that was accepted since and goes back', 'A', { record: revertible }, { createdAgo: 50 }],
    ['a removal that was accepted since', undefined, { record }, { createdAgo: 50 }],
    ['a rollout that wants what is there', 'X', { record }, {}],
    ['a rollout from before, where a person asks for it', 'B', { record }, { spec: { retry: 'r1' } }],
    ['a rollout from before, where nothing is recorded and a person asks for it', 'B', { createdAt: ago(200) }, { spec: { retry: 'r1' } }],
    ['a rollout from before, where the Cluster was made again since', 'B', { createdAt: ago(30) }, {}],
    ['a rollout from before, where the Cluster may have been made again since', 'B', { createdAt: ago(65) }, {}],
    ['a rollout from before, where nothing is recorded and the time is to come', 'B', { live: { writtenAt: ago(-60) } }, {}],
    ['a rollout from before, where it is what the hub gave it', 'B', { record: { ...record, writtenAt: ago(60) } }, {}],
    ['a rollout from before, where it bears no right time', 'B', { record, live: { writtenAt: 'yesterday' } }, {}],
  ])('is changed by %s', (_what, target, its, of) => {
    expect(begunOn(target, its, of)).toEqual([
      target === undefined ? 'Remove a' : expect.stringMatching(new RegExp(`^Apply a ${target} `)),
    ]);
  });

  it('H5: is not changed by a commit that may have been accepted before, as far as the hub knows the time', () => {
    expect(begunOn('B', { record }, { createdAgo: 56 })).toEqual([]);
    expect(begunOn('B', { record }, { createdAgo: 55 })).toEqual(['Apply a B Forward']);
  });

  it('is changed by a person who asks for it once its stage is open: until then that is not carried out', () => {
    const of = { unit: UNIT, createdAt: ago(80), spec: { retry: 'r1' } };
    const live = { unitDigest: 'X', writtenAt: ago(60) };
    const world = worldOf([rolloutOf(2, { b: 'B', a: 'B' }, of)], { a: { record, live }, b: { record: { ...record, begun: 'B' } } });
    expect(stepsOf(world).filter((step) => step.includes(' a'))).toEqual([]);
    expect(decide(world).statuses.get('main-2')?.retried).toBeUndefined();
  });

  it('is known with what begins there', () => {
    const [step] = decide(on('B', { record }, { createdAgo: 50 })).steps;
    expect(step).toMatchObject({ do: 'Apply', writtenAt: ago(60) });
    const [removal] = decide(on(undefined, { record }, { createdAgo: 50 })).steps;
    expect(removal).toMatchObject({ do: 'Remove', writtenAt: ago(60) });
  });

  it('of a wrong clock is remembered of what is gone, until that time has come', () => {
    const gone = (writtenAt: string): On => ({
      record: { removal: { lane: 'Forward', at: ago(90) }, writtenAt },
      live: 'Absent',
    });
    const settles = (writtenAt: string) => decide(worldOf([rolloutOf(1, { a: undefined })], { a: gone(writtenAt) }));
    expect(settles(ago(100)).steps.map(({ do: what }) => what)).toEqual(['Settle']);
    expect(settles(ago(-60))).toMatchObject({ steps: [], again: NOW + 60_000 });
  });
});

describe('a cell that is reached, and whose sets are not listed yet', () => {
  it('begins nothing', () => {
    for (const target of ['B', undefined]) {
      const world = worldOf([rolloutOf(1, { a: target })], { a: { record: { digest: 'A', commit: 'c0' }, live: 'Syncs' } });
      expect(stepsOf(world)).toEqual([]);
      expect(unitOf(world)?.clusters?.[0]).toMatchObject({ phase: 'Waiting', message: 'not observed yet' });
    }
    expect(stepsOf(worldOf([rolloutOf(1, { a: 'A' })], { a: { live: 'Syncs' } }))).toEqual([]);
  });

  it('opens no stage by what is only recorded; one that is done stays so', () => {
    const record = proved('A', 60);
    const both = [rolloutOf(1, { a: 'A', b: 'A' })];
    const world = worldOf(both, { a: { record, live: 'Syncs' }, b: {} });
    expect(stepsOf(world)).toEqual([]);
    expect(unitOf(world)).toMatchObject({ phase: 'Progressing', stage: 'a', message: 'a: not observed yet' });
    expect(unitOf(worldOf(both, { a: { record, live: 'Syncs' }, b: { record, live: 'Syncs' } }))).toMatchObject({ phase: 'Done' });
    // Of one that is away the record counts still.
    expect(stepsOf(worldOf(both, { a: { record, live: 'Unknown', blocked: 'away' }, b: {} }))).toEqual(['Apply b A Forward']);
  });
});

describe('E9: machines that no commit counted', () => {
  const MACHINES = 'MachineSet/web/web';
  const known = { record: { digest: 'two', commit: 'c1' } };
  const six = { unitDigest: 'six', unknown: true, drifted: true, machines: 6 };
  const begunBy = (
    machines: number | undefined,
    live: On['live'],
    more: { target?: string | undefined; record?: Partial<UnitStatus>; spec?: object } = {},
  ): string[] => {
    const target = 'target' in more ? more.target : 'three';
    const counted = machines === undefined ? {} : { machines: { a: machines } };
    const rollout = rolloutOf(2, { a: target }, { unit: MACHINES, ...counted, spec: more.spec ?? {} });
    const record = { ...known.record, ...more.record };
    return stepsOf(worldOf([rollout], { a: { record, ...(live === undefined ? {} : { live }) } }, { unit: MACHINES })).filter((step) =>
      /Apply|Remove/.test(step),
    );
  };
  const messageOf = (live: On['live']): string | undefined => {
    const rollout = rolloutOf(2, { a: 'three' }, { unit: MACHINES, machines: { a: 3 } });
    return unitOf(worldOf([rollout], { a: { ...known, ...(live === undefined ? {} : { live }) } }, { unit: MACHINES }), 'main-2')?.message;
  };

  it('do not go: a set that the hub did not give its cell waits where it has more than were counted, and reports it', () => {
    expect(begunBy(3, six)).toEqual([]);
    expect(begunBy(3, { ...six, unknown: false })).toEqual([]);
    expect(begunBy(5, six)).toEqual([]);
    expect(messageOf(six)).toMatch(/^a: .*6 machines.*3 were counted.*kubenode rollout retry main-2$/);
  });
  it('E13: have no retry carried out before the set that may have them is changed, in whichever stage', () => {
    const retriedBy = (on: Partial<On>): string[] => {
      const rollout = rolloutOf(2, { a: 'three' }, { unit: MACHINES, machines: { a: 3 }, spec: { retry: 'r1' } });
      return stepsOf(worldOf([rollout], { a: { ...known, ...on } }, { unit: MACHINES })).filter((step) => step.startsWith('RecordRetry'));
    };
    expect(retriedBy({ live: six })).toEqual([]);
    expect(retriedBy({ live: 'Unknown', blocked: 'no answer' })).toEqual([]);
    expect(retriedBy({ live: six, record: { digest: 'two', commit: 'c1', begun: 'three' } })).toEqual([]);
    expect(retriedBy({ live: { unitDigest: 'two', machines: 3 } })).toEqual(['RecordRetry a r1']);
    expect(retriedBy({ record: { digest: 'three', commit: 'c2' } })).toEqual(['RecordRetry a r1']);
  });
  it('are none where as many were counted, or the set may have them', () => {
    expect(begunBy(6, six)).toEqual(['Apply a three Forward']);
    expect(begunBy(7, six)).toEqual(['Apply a three Forward']);
    expect(begunBy(3, { ...six, machines: 3 })).toEqual(['Apply a three Forward']);
  });
  it('are none in what the hub gave the cell: that was counted, or is drift', () => {
    expect(begunBy(3, { unitDigest: 'two', machines: 6 })).toEqual(['Apply a three Forward']);
    expect(begunBy(3, { ...six, unitDigest: 'begun' }, { record: { begun: 'begun' } })).toEqual(['Apply a three Forward']);
    expect(begunBy(3, { ...six, unitDigest: 'three' })).toEqual(['Apply a three Forward']);
  });
  it('are all where the Rollout reports no number, as one of an earlier version', () => {
    expect(begunBy(undefined, { ...six, machines: 1 })).toEqual([]);
    expect(begunBy(undefined, { ...six, machines: 0 })).toEqual(['Apply a three Forward']);
  });
  it('do not go by a removal either, nor while it has begun', () => {
    expect(begunBy(2, six, { target: undefined })).toEqual([]);
    expect(begunBy(2, six, { target: undefined, record: { begun: 'Removal' } })).toEqual([]);
    expect(begunBy(6, six, { target: undefined })).toEqual(['Remove a']);
    expect(begunBy(2, { unitDigest: 'two', machines: 2 }, { target: undefined })).toEqual(['Remove a']);
  });
  it('do not go by a restore', () => {
    const record = proved('two', 60, {
      verified: [
        { digest: 'two', commit: 'c1', at: ago(60), order: 2 },
        { digest: 'three', commit: 'c0', at: ago(90), order: 1 },
      ],
    });
    expect(begunBy(3, six, { record })).toEqual([]);
    expect(begunBy(6, six, { record })).toEqual(['Apply a three Restore']);
  });
  it('go where a person asks for that', () => {
    expect(begunBy(3, six, { spec: { retry: 'r1' } })).toEqual(['Apply a three Forward']);
  });
  it('are not known before the cell was observed', () => {
    expect(begunBy(3, 'Unknown')).toEqual([]);
    expect(messageOf('Unknown')).toBe('a: not observed yet');
    expect(begunBy(2, 'Unknown', { target: undefined })).toEqual([]);
    expect(begunBy(3, 'Absent')).toEqual(['Apply a three Forward']);
  });
  it('are of MachineSets alone', () => {
    const rollout = rolloutOf(2, { a: 'three' });
    expect(stepsOf(worldOf([rollout], { a: { ...known, live: 'Unknown' } }))).toEqual(['Apply a three Forward']);
  });
});

describe('E13: a retry', () => {
  const spec = { retry: 'r1' };
  const all = { a: 'A', b: 'A', c: 'A', d: 'A' };
  const revoked = { revoked: ['A'] };

  it('lifts the revocation in each record that has it, at the first pass, but where it was carried out before', () => {
    const world = worldOf([rolloutOf(1, all, { spec })], {
      a: { record: { digest: 'A', commit: 'c1', ...revoked }, live: { halted: 'MaxFailed' } },
      b: { record: proved('0', 60, revoked) },
      c: { record: proved('0', 60) },
      d: { record: proved('0', 60, { ...revoked, retried: 'r1' }) },
    });
    expect(new Set(stepsOf(world))).toEqual(
      new Set(['RecordHalt a A', 'Reinstate a A', 'Reinstate b A', 'TryAgain a r1', 'RecordRetry b r1', 'RecordRetry c r1']),
    );
    expect(statusOf(world)).not.toHaveProperty('retried');
  });

  it('lifts nothing of what its cell refuses and cannot be asked for again', () => {
    const world = worldOf(
      [rolloutOf(1, { a: 'A', b: 'A' }, { unit: RULE, spec })],
      {
        a: { record: { digest: 'A', commit: 'c1', ...revoked }, live: { halted: 'RuleInvalid' } },
        b: { record: proved('0', 60, revoked) },
      },
      { unit: RULE },
    );
    expect(stepsOf(world)).toEqual(['RecordRetry a r1', 'RecordHalt a A', 'RecordRetry b r1']);
  });

  it('lifts the revocation of a rule that is not refused now', () => {
    const world = worldOf(
      [rolloutOf(1, { a: 'A', b: 'A' }, { unit: RULE, spec })],
      { a: { record: proved('0', 60, revoked) }, b: { record: proved('0', 60, { retried: 'r1' }) } },
      { unit: RULE },
    );
    expect(stepsOf(world)).toEqual(['Reinstate a A', 'RecordRetry a r1', 'Apply a A Forward']);
  });

  it.each<[string, On, string[]]>([
    ['asks the cell where the content is under way', { record: { digest: 'A', commit: 'c1' } }, ['TryAgain a r1']],
    [
      'asks the cell where it halted after it had evidence',
      { record: proved('A', 60), live: { halted: 'MaxFailed' } },
      ['TryAgain a r1', 'RecordHalt a A'],
    ],
    ['is carried out where there is evidence', { record: proved('A', 60) }, ['RecordRetry a r1']],
    ['is carried out where the cell shows it', { record: { digest: 'A', commit: 'c1' }, live: { rolloutID: 'r1' } }, ['RecordRetry a r1']],
    ['waits for a cell that is away', { record: { digest: 'A', commit: 'c1' }, live: 'Unknown', blocked: 'no answer' }, []],
    ['waits for a cell that must be left alone', { record: { digest: 'A', commit: 'c1' }, blocked: 'the Cluster is paused' }, []],
    ['waits until the object is there again', { record: { digest: 'A', commit: 'c1' }, live: 'Absent' }, ['Apply a A Forward']],
    ['waits until the object is seen', { record: { digest: 'A', commit: 'c1' }, live: 'Unknown' }, []],
  ])('%s', (_what, on, steps) => {
    expect(stepsOf(worldOf([rolloutOf(1, { a: 'A' }, { spec })], { a: on }))).toEqual(steps);
  });

  it('is carried out when no cluster waits for it, and was never asked for where there is none', () => {
    const rollout = rolloutOf(1, { a: 'A' }, { spec, status: { retried: 'r0' } });
    expect(statusOf(worldOf([rollout], { a: { record: proved('A', 60) } }))?.retried).toBe('r0');
    expect(statusOf(worldOf([rollout], { a: { record: proved('A', 60, { retried: 'r1' }) } }))?.retried).toBe('r1');
    expect(statusOf(worldOf([rolloutOf(1, { a: 'A' })], { a: { record: proved('A', 60) } }))).not.toHaveProperty('retried');
  });

  it('of what was asked for before a cluster had the unit has nothing to do there, and ends with another halt', () => {
    const rollouts = [rolloutOf(1, { a: 'A' }, { spec })];
    expect(decide(worldOf(rollouts, { a: {} })).steps).toMatchObject([{ do: 'Apply', asked: 'r1' }]);
    const world = worldOf([rolloutOf(1, { a: 'A', b: 'A' }, { spec })], {
      a: { record: { digest: 'A', commit: 'c1', retried: 'r1' }, live: { halted: 'MaxFailed' } },
      b: { record: proved('0', 60) },
    });
    expect(decide(world).steps).toContainEqual(expect.objectContaining({ do: 'Revoke', cluster: 'b', retry: 'r1' }));
  });

  describe('of an older rollout', () => {
    const older = (wanted: Record<string, string | undefined>, retried?: string) =>
      rolloutOf(1, wanted, { spec, ...(retried === undefined ? {} : { status: { retried } }) });
    const retrying = (...rollouts: Rollout[]): boolean =>
      stepsOf(worldOf(rollouts, { a: { record: { digest: 'A', commit: 'c1' }, live: { halted: 'MaxFailed' } }, b: {} })).includes(
        'TryAgain a r1',
      );
    it('goes on with the same digest, until it was carried out or another is wanted there', () => {
      expect(retrying(older({ a: 'A' }), rolloutOf(2, { a: 'A', b: 'A' }))).toBe(true);
      expect(retrying(older({ a: 'A' }, 'r1'), rolloutOf(2, { a: 'A', b: 'A' }))).toBe(false);
      expect(retrying(older({ a: 'A' }), rolloutOf(2, { a: 'B' }), rolloutOf(3, { a: 'A' }))).toBe(false);
      expect(retrying(older({ a: 'A' }), rolloutOf(2, { b: 'B' }), rolloutOf(3, { a: 'A' }))).toBe(false);
      expect(retrying(older({ a: 'A' }), rolloutOf(2, { a: 'X' }, { unit: RULE }), rolloutOf(3, { a: 'A' }))).toBe(true);
      expect(retrying(older({ a: 'B' }), rolloutOf(2, { a: 'A' }))).toBe(false);
    });
  });
});

describe('E6: what goes back', () => {
  /** Held A once with evidence, and B after it. */
  const both = (seconds: number, more: Partial<UnitStatus> = {}): Partial<UnitStatus> => ({
    ...proved('B', seconds),
    verified: [
      { digest: 'B', commit: 'c2', at: ago(seconds), order: 2 },
      { digest: 'A', commit: 'c1', at: ago(seconds + 500), order: 1 },
    ],
    ...more,
  });

  it('goes at once, the newest harm first, whatever the names are', () => {
    const world = worldOf([rolloutOf(3, { a: 'A', b: 'A', c: 'A' })], {
      a: { record: both(300) },
      b: { record: both(100) },
      c: { record: both(200) },
    });
    expect(stepsOf(world).filter((each) => each.startsWith('Apply'))).toEqual([
      'Apply b A Restore',
      'Apply c A Restore',
      'Apply a A Restore',
    ]);
    expect(new Set(stepsOf(world).filter((each) => each.startsWith('Revoke')))).toEqual(
      new Set(['Revoke a B', 'Revoke b B', 'Revoke c B']),
    );
  });

  it('is no restore to what these very steps revoke', () => {
    const other = (seconds: number): Partial<UnitStatus> => ({
      ...proved('A', seconds),
      verified: [
        { digest: 'A', commit: 'c1', at: ago(seconds), order: 2 },
        { digest: 'B', commit: 'c2', at: ago(seconds + 500), order: 1 },
      ],
    });
    const world = worldOf([rolloutOf(3, { a: 'A', b: 'B' })], { a: { record: both(100) }, b: { record: other(300) } });
    expect(stepsOf(world)).toEqual(['Revoke a B', 'Revoke b B', 'Apply a A Restore']);
  });

  it('that was begun is finished, revokes nothing of what it goes to, and holds no other back', () => {
    const begun = both(300, { begun: 'A' });
    const newest = worldOf([rolloutOf(3, { a: 'A', b: 'A' })], {
      a: { record: both(50, { begun: 'A', revoked: ['B'] }) },
      b: { record: both(100, { revoked: ['B'] }) },
    });
    expect(stepsOf(newest)).toEqual(['Apply a A Restore', 'Apply b A Restore']);
    const world = worldOf([rolloutOf(3, { a: 'A', b: 'A' })], {
      a: { record: { ...begun, revoked: ['B'] } },
      b: { record: both(100, { revoked: ['B'] }) },
    });
    expect(stepsOf(world)).toEqual(['Apply b A Restore', 'Apply a A Restore']);
  });

  it.each<[string, On, string[]]>([
    ['is upheld where another keeps it with evidence', { record: both(300) }, ['Uphold b B', 'Revoke a B']],
    [
      'is upheld once',
      { record: both(300, { verified: [{ digest: 'B', commit: 'c2', at: ago(300), order: 2, upheld: true }] }) },
      ['Revoke a B'],
    ],
    ['stays revoked where it was', { record: both(300, { revoked: ['B'] }) }, ['Revoke a B']],
    [
      'is upheld of the digest alone that is left',
      {
        record: both(300, {
          verified: [
            { digest: 'B', commit: 'c2', at: ago(300), order: 2 },
            { digest: 'A', commit: 'c1', at: ago(900), order: 1, upheld: true },
          ],
        }),
      },
      ['Uphold b B', 'Revoke a B'],
    ],
    ['is revoked where it has no evidence', { record: both(300, { evidence: 'A' }) }, ['Revoke a B', 'Revoke b B']],
  ])('%s', (_what, keeps, steps) => {
    const world = worldOf([rolloutOf(3, { a: 'A', b: 'B' })], { a: { record: both(100) }, b: keeps });
    expect(stepsOf(world)).toEqual([...steps, 'Apply a A Restore']);
  });

  it('goes forward where its digest is revoked on any cluster, and was not upheld here', () => {
    const lane = (record: Partial<UnitStatus>, elsewhere: string[]): unknown => {
      const world = worldOf([rolloutOf(3, { a: 'A' })], { a: { record }, b: { record: proved('B', 60, { revoked: elsewhere }) }, c: {} });
      return decide(world).steps.find((step) => step.do === 'Apply');
    };
    const upheld = (digest: string, more: Partial<UnitStatus> = {}): Partial<UnitStatus> =>
      both(60, {
        verified: (both(60).verified ?? []).map((entry) => (entry.digest === digest ? { ...entry, upheld: true } : entry)),
        ...more,
      });
    expect(lane(both(60), [])).toMatchObject({ lane: 'Restore' });
    expect(lane(both(60), ['A'])).toMatchObject({ lane: 'Forward', revoked: true });
    expect(lane(upheld('A'), ['A'])).toMatchObject({ lane: 'Restore' });
    expect(lane(upheld('B'), ['A'])).toMatchObject({ lane: 'Forward' });
    expect(lane(upheld('A', { revoked: ['A'] }), [])).toMatchObject({ lane: 'Forward' });
  });

  it('revokes what it leaves, also where it was not recorded which came first, and where that was being removed', () => {
    const unordered = (both(60).verified ?? []).map(({ order: _order, ...entry }) => entry);
    expect(stepsOf(worldOf([rolloutOf(3, { a: 'A' })], { a: { record: both(60, { verified: unordered, revoked: ['A'] }) } }))).toEqual([
      'Revoke a B',
      'Apply a A Forward',
    ]);
    const removing = both(60, { begun: 'Removal' });
    expect(stepsOf(worldOf([rolloutOf(3, { a: 'A' })], { a: { record: removing } }))).toEqual(['Revoke a B', 'Apply a A Restore']);
  });

  it.each<[string, Partial<UnitStatus>, string]>([
    ['to what was verified here', both(60), 'Restore'],
    ['to what was revoked here', both(60, { revoked: ['A'] }), 'Forward'],
    ['to what was never here', proved('B', 60), 'Forward'],
    ['over what only began', { begun: 'B', verified: [{ digest: 'A', commit: 'c1', at: ago(60) }] }, 'Forward'],
  ])('takes its lane by what is recorded: %s', (_what, record, lane) => {
    const step = decide(worldOf([rolloutOf(3, { a: 'A' })], { a: { record } })).steps.find((each) => each.do === 'Apply');
    expect(step).toMatchObject({ lane, proven: lane === 'Restore' });
  });
});

describe('upkeep', () => {
  it('records evidence with what it was seen on', () => {
    const carrier = { uid: 'u', generation: 4 };
    const world = worldOf([rolloutOf(1, { a: 'A' })], {
      a: { record: { digest: 'A', commit: 'c1', appliedAt: ago(5) }, live: { evidence: true, carrier } },
    });
    expect(decide(world).steps).toEqual([
      {
        do: 'RecordEvidence',
        unit: UNIT,
        cluster: 'a',
        digest: 'A',
        commit: 'c1',
        appliedAt: ago(5),
        carrier,
        because: 'the cell has evidence for it',
      },
    ]);
  });

  it('reports why it applies again', () => {
    const because = (live: Partial<Present> | 'Absent'): unknown =>
      decide(worldOf([rolloutOf(1, { a: 'A' })], { a: { record: { digest: 'A', commit: 'c1' }, live } })).steps.map((step) => [
        wordOf(step),
        step.because,
      ]);
    expect(because({ drifted: true })).toEqual([['Apply a A Forward', 'it was changed in the cluster by someone else']]);
    expect(because({ drifted: true, rehearsed: false })).toEqual([['Apply a A Forward', 'it was changed in the cluster by someone else']]);
    expect(because({ drifted: true, rehearsed: true })).toEqual([['Apply a A Forward', 'its rehearsal is over']]);
    expect(because('Absent')).toEqual([['Apply a A Forward', 'it was changed in the cluster by someone else']]);
  });

  it('leaves alone what is blocked', () => {
    const rollouts = [rolloutOf(1, { a: 'A', b: 'A' }, { spec: { paused: true } })];
    const blocked = 'the Cluster is paused';
    const on = {
      a: { record: { digest: 'A', commit: 'c1' }, live: { drifted: true, evidence: true, halted: 'x' }, blocked },
      b: { record: proved('A', 60), live: { drifted: true, ceiling: { unitDigest: 'A', nodes: 0 } }, blocked },
    };
    expect(stepsOf(worldOf(rollouts, on))).toEqual([]);
    expect(unitOf(worldOf(rollouts, on))?.clusters).toMatchObject([{ phase: 'Blocked', message: blocked }, { phase: 'Verified' }]);
  });

  it.each<[string, On, string[]]>([
    ['is held where it goes forward', { record: { digest: 'A', commit: 'c1' } }, ['Ceiling a A 0']],
    ['is held where it is on its way', { record: { digest: '0', begun: 'A', commit: 'c1' } }, ['Ceiling a A 0']],
    ['is held once', { record: { digest: 'A', commit: 'c1' }, live: { ceiling: { unitDigest: 'A', nodes: 0 } } }, []],
    [
      'is held by the ceiling of this very digest',
      { record: { digest: 'A', commit: 'c1' }, live: { ceiling: { unitDigest: '0', nodes: 0 } } },
      ['Ceiling a A 0'],
    ],
    ['is held wholly', { record: { digest: 'A', commit: 'c1' }, live: { ceiling: { unitDigest: 'A', nodes: 3 } } }, ['Ceiling a A 0']],
    [
      'is not held where there is evidence',
      { record: proved('A', 60), live: { ceiling: { unitDigest: 'A', nodes: 0 } } },
      ['Ceiling a none'],
    ],
    ['is not held where it goes back', { record: { digest: 'A', commit: 'c1', lane: 'Restore' } }, []],
    ['is not held where other content is there', { record: { digest: '0', commit: 'c0' } }, []],
    ['is held only where the object is', { record: { digest: 'A', commit: 'c1' }, live: 'Absent' }, ['Apply a A Forward']],
  ])('E12: what is paused %s', (_what, on, steps) => {
    const world = worldOf([rolloutOf(1, { a: 'A' }, { spec: { paused: true } })], { a: on });
    expect(stepsOf(world)).toEqual(steps);
    for (const step of decide(world).steps)
      if (step.do === 'Ceiling') expect(step.because).toBe(step.ceiling === undefined ? 'it is not paused' : 'the rollout is paused');
  });

  it('E12: holds no kind back that cannot be, and reports whose pause it is', () => {
    const held = { a: { record: { digest: 'A', commit: 'c1' } }, b: {} };
    const paused = { spec: { paused: true } };
    expect(stepsOf(worldOf([rolloutOf(1, { a: 'A' }, { unit: RULE, ...paused })], held, { unit: RULE }))).toEqual([]);
    expect(unitOf(worldOf([rolloutOf(1, { a: 'A' }, paused)], held))).toMatchObject({
      reason: 'Paused',
      pausedBy: 'main-1',
      message: 'the rollout is paused',
      phase: 'Progressing',
      stage: 'a',
    });
    const newer = rolloutOf(2, { a: 'A', b: 'B' });
    expect(unitOf(worldOf([rolloutOf(1, { a: 'A' }, paused), newer], held), 'main-2')).toMatchObject({
      pausedBy: 'main-1',
      message: 'rollout main-1 is paused, of the same content',
    });
    const partly = rolloutOf(1, { a: 'A', b: 'X' }, paused);
    expect(unitOf(worldOf([partly, newer], held), 'main-2')).toMatchObject({ pausedBy: 'main-1' });
    // A pause of other content, or of another unit, holds nothing here.
    expect(unitOf(worldOf([rolloutOf(1, { a: 'X' }, paused), newer], held), 'main-2')).not.toHaveProperty('pausedBy');
    expect(unitOf(worldOf([rolloutOf(1, { a: 'A' }, { unit: RULE, ...paused }), newer], held), 'main-2')).not.toHaveProperty('pausedBy');
  });
});

describe('a stage', () => {
  const all = { a: 'A', b: 'A', c: 'A', d: 'A' };
  const rollouts = [rolloutOf(1, all, { stages: { all: ['a', 'b', 'c', 'd'] } })];

  it('goes on first with what was begun, once, and takes no more than may go', () => {
    const begun = { record: { digest: '0', begun: 'A' } };
    expect(stepsOf(worldOf(rollouts, { a: {}, b: {}, c: begun, d: {} }))).toEqual(['Apply c A Forward', 'Apply a A Forward']);
    expect(stepsOf(worldOf(rollouts, { a: {}, b: begun, c: begun, d: begun }))).toEqual([
      'Apply b A Forward',
      'Apply c A Forward',
      'Apply d A Forward',
    ]);
  });

  it('removes what is no longer wanted, over what was seen', () => {
    const world = worldOf([rolloutOf(1, { a: undefined, b: undefined })], {
      a: { record: proved('A', 60) },
      b: { record: proved('A', 60) },
    });
    expect(decide(world).steps).toMatchObject([{ do: 'Remove', cluster: 'a', commit: 'c1', over: { digest: 'A', begun: undefined } }]);
    expect(unitOf(world)?.clusters).toMatchObject([{ phase: 'Pending' }, { phase: 'Pending' }]);
  });

  it.each<[string, On, string]>([
    ['that never had it', {}, 'Verified'],
    ['that has nothing of it any more', { record: { begun: 'Removal', inventory: [] } }, 'Verified'],
    [
      'that has something of it still',
      { record: { begun: 'Removal', inventory: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'x' }] } },
      'Pending',
    ],
    ['that has it', { record: proved('A', 60) }, 'Pending'],
    ['that is away and has it', { record: proved('A', 60), blocked: 'no answer' }, 'Blocked'],
    ['that is away and never had it', { blocked: 'no answer' }, 'Verified'],
  ])('what is removed: a cluster %s', (_what, on, phase) => {
    expect(unitOf(worldOf([rolloutOf(1, { a: undefined })], { a: on }))?.clusters?.[0]?.phase).toBe(phase);
  });

  it('E9: what is removed is complete where another fleet has put it since, and soaks from then', () => {
    const record = { ...proved('A', 60), fleet: 'other' };
    const world = worldOf([rolloutOf(1, { a: undefined, b: undefined })], { a: { record, blocked: 'no answer' }, b: { record } });
    expect(stepsOf(world)).toEqual([]);
    expect(unitOf(world)).toMatchObject({ phase: 'Done', clusters: [{ phase: 'Verified' }, { phase: 'Verified' }] });
    const soaking = worldOf([rolloutOf(1, { a: undefined, b: undefined }, { soakSeconds: 100 })], {
      a: { record: { ...record, appliedAt: ago(60) } },
      b: { record: proved('A', 600) },
    });
    expect(stepsOf(soaking)).toEqual([]);
    expect(unitOf(soaking)).toMatchObject({ phase: 'Soaking', soakUntil: ago(-40) });
  });

  it('what is removed: of a cluster without a Cluster nothing is known to be gone', () => {
    expect(unitOf(worldOf([rolloutOf(1, { a: undefined })], {}))?.clusters?.[0]).toMatchObject({
      phase: 'Blocked',
      message: 'no such Cluster on the hub',
    });
  });
});

describe('a placement', () => {
  const rollouts = [rolloutOf(1, { a: 'A' })];
  it.each<[string, World, string, string | undefined]>([
    ['of no Cluster', worldOf(rollouts, {}), 'Blocked', 'no such Cluster on the hub'],
    [
      'of another fleet',
      worldOf(rollouts, { a: { record: { fleet: 'other', digest: '0' }, blocked: 'no answer' } }),
      'Blocked',
      'belongs to fleet "other"',
    ],
    [
      'of another fleet that there is',
      worldOf(rollouts, { a: { record: { fleet: 'other', digest: '0' } } }, { fleets: new Set(['main', 'other']) }),
      'Blocked',
      'belongs to fleet "other"',
    ],
    [
      'of another fleet that was deleted',
      worldOf(rollouts, { a: { record: { fleet: 'other', digest: '0' } } }, { fleets: new Set(['main']) }),
      'Blocked',
      'belongs to fleet "other", which does not exist: create that Fleet again with its source, and let a commit of it remove the unit; a MachineSet loses its machines by that',
    ],
    ['whose cell is away', worldOf(rollouts, { a: { blocked: 'no answer', failing: 'refused' } }), 'Blocked', 'no answer'],
    ['where the last try failed', worldOf(rollouts, { a: { failing: 'refused' } }), 'Blocked', 'refused'],
    [
      'that left',
      worldOf(rollouts, { a: { blocked: 'no answer' } }, { members: new Set(['b']) }),
      'Left',
      'the fleet no longer declares this cluster',
    ],
    ['that is a member', worldOf(rollouts, { a: {} }, { members: new Set(['a']) }), 'Pending', undefined],
    ['where it was put by hand', worldOf(rollouts, { a: { live: { unitDigest: 'A', evidence: true } } }), 'Pending', undefined],
    ['under way that is absent', worldOf(rollouts, { a: { record: { digest: 'A' }, live: 'Absent' } }), 'Waiting', undefined],
    [
      'under way that was changed',
      worldOf(rollouts, { a: { record: { digest: 'A' }, live: { drifted: true, halted: 'x' } } }),
      'Waiting',
      undefined,
    ],
    [
      'under way that carries other content',
      worldOf(rollouts, { a: { record: { digest: 'A' }, live: { unitDigest: 'B', halted: 'x', evidence: true, progress: '1/2' } } }),
      'Waiting',
      '1/2',
    ],
    ['that halted', worldOf(rollouts, { a: { record: { digest: 'A' }, live: { halted: 'x' } } }), 'Halted', 'x'],
    [
      'with evidence whose cell is away',
      worldOf(rollouts, { a: { record: proved('A', 60), blocked: 'no answer', live: 'Unknown' } }),
      'Verified',
      undefined,
    ],
  ])('%s', (_what, world, phase, message) => {
    const [placement] = unitOf(world)?.clusters ?? [];
    expect([placement?.phase, placement?.message]).toEqual([phase, message]);
  });

  it('E5: of another fleet has no soak that is begun again', () => {
    const wrong = proved('A', -YEAR);
    expect(stepsOf(worldOf(rollouts, { a: { record: wrong } }))).toEqual(['SoakAgain a A']);
    expect(stepsOf(worldOf(rollouts, { a: { record: { ...wrong, fleet: 'other' } } }))).toEqual([]);
  });
});

const YEAR = 365 * 86_400;

it.each<[string, Partial<On>, string | undefined]>([
  [
    'of another Fleet',
    { live: { drifted: true }, failing: 'belongs to fleet "other"' },
    'not put back as Git has it: belongs to fleet "other"',
  ],
  ['that it may not make again', { live: 'Absent', failing: 'forbidden' }, 'not put back as Git has it: forbidden'],
  [
    'of a Cluster that is paused',
    { live: { drifted: true }, blocked: 'the Cluster is paused' },
    'not put back as Git has it: the Cluster is paused',
  ],
  ['that was not changed', { failing: 'etcd is slow' }, undefined],
  ['that is not seen', { live: 'Unknown', blocked: 'no answer' }, undefined],
])('E3: reports of what has evidence, and was changed since, why it is not put back: an object %s', (_what, on, message) => {
  const world = worldOf([rolloutOf(1, { a: 'A' })], { a: { record: proved('A', 60), ...on } });
  expect(unitOf(world)?.clusters?.map((each) => [each.phase, each.message])).toEqual([['Verified', message]]);
});

describe('E9: the removal of what a user deleted and made again', () => {
  const removal = (live: On['live']) =>
    worldOf([rolloutOf(1, { a: undefined })], { a: { record: proved('A', 60), ...(live === undefined ? {} : { live }) } });

  it('waits until it is gone, where it bears the label of no other Fleet, and reports it', () => {
    const world = removal({ unitDigest: undefined, drifted: true, notOurs: true });
    expect(stepsOf(world)).toEqual([]);
    expect(unitOf(world)).toMatchObject({ phase: 'Progressing', message: expect.stringContaining('delete that one there') as unknown });
    expect(stepsOf(removal('Absent'))).toEqual(['Remove a']);
  });

  it('goes on where a user only took its label and its digest away', () => {
    expect(stepsOf(removal({ unitDigest: undefined, drifted: true }))).toEqual(['Remove a']);
  });
});
