import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import type { Rollout } from '../../api/rollout.ts';
import { decide } from './decide.ts';
import { fleetWorld, settledWorld, type FleetWorld } from './testing/fleet-world.ts';
import type { LiveUnit } from './world.ts';

const UNIT = 'MachineComponentSet/runtime';

function upTo(world: FleetWorld, condition: () => boolean): void {
  for (let turn = 0; turn < 200 && !condition(); turn += 1) world.turn();
  expect(condition()).toBe(true);
}

describe('stages', () => {
  it('E5: a later stage begins only when the earlier one has evidence and has soaked', () => {
    const world = fleetWorld({ soakSeconds: 10 });
    world.commit({ [UNIT]: 'A' });
    world.turn();
    expect(world.applied()).toEqual(['test A']);
    world.turn();
    expect(world.applied()).toEqual(['test A']);
    world.prove('test');
    world.turn();
    world.turn();
    expect(world.phase(UNIT)).toBe('Soaking');
    world.pass(7_000);
    world.turn();
    expect(world.applied()).toEqual(['test A']);
    world.pass(1_000);
    world.turn();
    expect(world.applied()).toEqual(['test A', 'pre A']);
  });

  it('E5: inside a stage no more than maxClusters go at once', () => {
    const world = fleetWorld({ clusters: { prod: ['p1', 'p2', 'p3'] }, maxClusters: 2 });
    world.commit({ [UNIT]: 'A' });
    world.turn();
    expect(world.applied()).toHaveLength(2);
    world.prove('p1');
    world.turn();
    world.turn();
    expect(world.applied()).toHaveLength(3);
  });

  it('invariant 3: evidence for another digest opens no gate', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.cell('test').unitDigest = 'B';
    world.cell('test').evidence = true;
    world.turns();
    expect(world.applied()).not.toContain('pre A');
  });

  it('invariant 7: a stale cell is neither proved nor gone', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.prove('test');
    world.away('test', 'no answer');
    world.turns();
    expect(world.applied()).toEqual(['test A']);
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Progressing', reason: 'Blocked', message: 'test: no answer' });
    world.away('test', undefined);
    upTo(world, () => world.applied().includes('pre A'));
  });

  it('a commit to another unit does not wait for the first', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.commit({ [UNIT]: 'A', 'MachineComponentSet/kubelet': 'K' });
    world.turn();
    expect(world.applied()).toEqual(['test A', 'test K']);
    expect(world.rollouts.map((rollout) => rollout.spec.units.map((unit) => unit.unit))).toEqual([[UNIT], ['MachineComponentSet/kubelet']]);
  });

  it('a no-op commit makes no rollout and no step', () => {
    const world = settledWorld(UNIT);
    const before = world.applied().length;
    world.commit({ [UNIT]: 'A' });
    expect(world.rollouts).toHaveLength(1);
    expect(world.turn()).toEqual([]);
    expect(world.applied()).toHaveLength(before);
  });
});

describe('restore lane', () => {
  it('E6: a revert half-way out goes to the clusters that hold the bad digest, newest first, without soak or stages', () => {
    const world = settledWorld(UNIT, { soakSeconds: 60, clusters: { prod: ['p1', 'p2'] } });
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.prove('test');
    upTo(world, () => world.applied().includes('pre B'));
    const before = world.applied().length;
    world.commit({ [UNIT]: 'A' });
    world.turn();
    expect(world.applied().slice(before)).toEqual(['pre A', 'test A']);
    for (const cluster of ['test', 'pre']) world.prove(cluster);
    world.turn();
    world.turn();
    expect(world.phase(UNIT)).toBe('Done');
    expect(world.status().units?.[0]?.lane).toBe('Restore');
    expect(
      world
        .applied()
        .filter((line) => line.startsWith('p1') || line.startsWith('p2'))
        .filter((line) => line.endsWith('B')),
    ).toEqual([]);
    expect(world.record('p1', UNIT)?.revoked).toContain('B');
  });

  it('E6: a digest that a restore left must go through the stages again', () => {
    const world = settledWorld(UNIT);
    world.commit({ [UNIT]: 'B' });
    world.settle();
    world.commit({ [UNIT]: 'A' });
    world.settle();
    const before = world.applied().length;
    world.commit({ [UNIT]: 'B' });
    world.turn();
    expect(world.applied().slice(before)).toEqual(['test B']);
    expect(world.status().units?.[0]?.lane).toBe('Forward');
  });

  it('a pause holds back the forward lane and not a restore', () => {
    const world = settledWorld(UNIT);
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.pause(true);
    world.turn();
    expect(world.cell('test').ceiling).toEqual({ unitDigest: 'B', nodes: 0 });
    world.prove('test');
    world.turns();
    expect(world.applied()).not.toContain('pre B');
    world.pause(false);
    world.turn();
    expect(world.cell('test').ceiling).toBeUndefined();
    upTo(world, () => world.applied().includes('pre B'));
    world.commit({ [UNIT]: 'A' });
    world.pause(true);
    world.turn();
    expect(world.applied().slice(-2)).toEqual(['pre A', 'test A']);
  });

  it('old evidence of the restored digest does not count for the restore', () => {
    const world = settledWorld(UNIT);
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.turn();
    expect(world.status().units?.[0]?.clusters?.find((cluster) => cluster.name === 'test')?.phase).toBe('Waiting');
    world.prove('test');
    world.turn();
    world.turn();
    expect(world.phase(UNIT)).toBe('Done');
  });
});

describe('E5, E12: soak, pause, retry and evidence are of a digest on a cluster, not of the commit', () => {
  function soaking(): FleetWorld {
    const world = fleetWorld({ soakSeconds: 86_400 });
    world.commit({ [UNIT]: 'A' });
    world.settle(90_000);
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.prove('test');
    upTo(world, () => world.phase(UNIT) === 'Soaking');
    return world;
  }

  it('safety 2: a commit that touches the unit in another cluster does not end a soak', () => {
    const world = soaking();
    world.commit({ [UNIT]: 'B' }, { prod: { [UNIT]: 'C' } });
    world.turns(10);
    expect(world.applied()).not.toContain('pre B');
    expect(world.phase(UNIT)).toBe('Soaking');
    world.pass(86_400_000);
    world.turn();
    expect(world.applied()).toContain('pre B');
  });

  it('safety 2: a commit that only declares another cluster does not end a soak', () => {
    const world = soaking();
    world.declare('prod-2', 'prod');
    world.commit({ [UNIT]: 'B' });
    world.turns(10);
    expect(world.applied()).not.toContain('pre B');
  });

  it.each(['touches the unit in another cluster', 'only declares another cluster'])(
    'safety 2: a commit that %s does not drop a pause',
    (what) => {
      const world = settledWorld(UNIT);
      world.commit({ [UNIT]: 'B' });
      world.turn();
      world.pause(true);
      world.turn();
      if (what.startsWith('only')) world.declare('prod-2', 'prod');
      world.commit({ [UNIT]: 'B' }, what.startsWith('only') ? {} : { prod: { [UNIT]: 'C' } });
      world.prove('test');
      world.turns(10);
      expect(world.applied().filter((line) => line.endsWith('B'))).toEqual(['test B']);
      expect(world.status().units?.[0]).toMatchObject({
        reason: 'Paused',
        pausedBy: 'main-2',
        message: 'rollout main-2 is paused, of the same content',
      });
      world.pause(false, 'main-2');
      world.settle();
      expect(world.record('pre', UNIT)?.digest).toBe('B');
    },
  );

  it('the ceiling of a pause stays when a newer rollout takes over', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.pause(true);
    world.turn();
    world.commit({ [UNIT]: 'A' }, { prod: { [UNIT]: 'C' } });
    world.turn();
    expect(world.cell('test').ceiling).toEqual({ unitDigest: 'A', nodes: 0 });
  });

  it('a pause does not hold what the next commit brings', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.pause(true);
    world.commit({ [UNIT]: 'B' });
    world.settle();
    expect(world.record('prod', UNIT)?.digest).toBe('B');
  });

  it('a restore does not shorten a soak that was not over', () => {
    const world = fleetWorld({ soakSeconds: 100 });
    world.commit({ [UNIT]: 'A' });
    world.settle(200);
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.prove('test');
    upTo(world, () => world.phase(UNIT) === 'Soaking');
    world.commit({ [UNIT]: 'C' });
    world.turn();
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.prove('test');
    world.turns(10);
    expect(world.record('test', UNIT)).toMatchObject({ digest: 'B', lane: 'Restore', evidence: 'B' });
    expect(world.applied()).not.toContain('pre B');
    // What was soaked before it was left counts.
    world.pass(90_000);
    upTo(world, () => world.applied().includes('pre B'));
  });
});

describe('E12: clusters that left, and clusters that are away', () => {
  it('safety 9: a cluster that died and was taken out of the fleet does not hold its rollout', () => {
    const world = settledWorld(UNIT, { clusters: { prod: ['p1', 'p2'] } });
    world.commit({ [UNIT]: 'B' });
    for (const cluster of ['test', 'pre']) {
      upTo(world, () => world.applied().includes(`${cluster} B`));
      world.prove(cluster);
    }
    world.away('p1', 'no answer');
    world.turn();
    world.drop('p1');
    upTo(world, () => world.applied().includes('p2 B'));
    world.prove('p2');
    upTo(world, () => world.phase(UNIT) === 'Done');
    expect(world.status().units?.[0]?.clusters?.find(({ name }) => name === 'p1')?.phase).toBe('Left');
  });

  it('safety 9: a dead cluster of the first stage that left does not hold the later stages', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.away('test', 'no answer');
    world.turn();
    world.drop('test');
    world.turn();
    expect(world.applied()).toContain('pre A');
  });

  it('a cluster that cannot be reached and was never begun does not count toward maxClusters, and its stage is passed only with it', () => {
    const world = fleetWorld({ clusters: { prod: ['p1', 'p2'] } });
    world.commit({ [UNIT]: 'A' });
    for (const cluster of ['test', 'pre']) {
      upTo(world, () => world.applied().includes(`${cluster} A`));
      world.prove(cluster);
    }
    const [first = '', second = ''] = world.rollouts[0]?.spec.stages.at(-1)?.clusters ?? [];
    world.away(first, 'no answer');
    upTo(world, () => world.applied().includes(`${second} A`));
    world.prove(second);
    world.turns();
    expect(world.status().units?.[0]).toMatchObject({ phase: 'Progressing', reason: 'Blocked' });
    world.away(first, undefined);
    world.settle();
    expect(world.phase(UNIT)).toBe('Done');
  });

  it('a cluster that is away after it was begun still counts toward maxClusters', () => {
    const world = fleetWorld({ clusters: { prod: ['p1', 'p2'] }, maxClusters: 1 });
    world.commit({ [UNIT]: 'A' });
    world.turn();
    const [begun = ''] = world.applied();
    world.away(begun.split(' ')[0] ?? '', 'no answer');
    world.turns();
    expect(world.applied()).toEqual([begun]);
  });
});

describe('E6: what is revoked', () => {
  function revertedTwice(soakSeconds = 0): FleetWorld {
    const world = fleetWorld({ soakSeconds });
    for (const digest of ['A', 'B', 'A']) {
      world.commit({ [UNIT]: digest });
      world.settle(soakSeconds + 60);
    }
    world.commit({ [UNIT]: 'B' });
    return world;
  }

  it('safety 15: reverting the revert goes forward through stages and soak', () => {
    const world = revertedTwice(100);
    const before = world.applied().length;
    world.turn();
    world.prove('test');
    world.turns();
    expect(world.applied().slice(before)).toEqual(['test B']);
    expect(world.phase(UNIT)).toBe('Soaking');
    expect(world.record('test', UNIT)?.lane).toBe('Forward');
  });

  it('safety 15: what a halt revokes is no restore any more where it is on its way as one', () => {
    const world = settledWorld(UNIT, { clusters: { prod: ['p1', 'p2'] } });
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.declare('test-2', 'test');
    // Back to A: a restore in test, forward in the new cluster.
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.turn();
    expect(world.record('test', UNIT)).toMatchObject({ digest: 'A', lane: 'Restore' });
    world.halt('test-2', 'MaxFailed');
    world.turn();
    world.turn();
    const clusters = world.status().units?.[0]?.clusters ?? [];
    expect(clusters.find(({ name }) => name === 'test')?.lane).toBe('Forward');
  });

  it('E6: what a revert leaves is revoked, also when the way back is Forward because its target is revoked', () => {
    const world = revertedTwice(100);
    world.settle(160);
    // B is revoked and goes forward as if it were new: A is not taken back.
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).toEqual(['B']);
    world.commit({ [UNIT]: 'C' });
    world.settle(160);
    world.commit({ [UNIT]: 'B' });
    world.turn();
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).toContain('C');
    world.settle(160);
    const before = world.applied().length;
    world.commit({ [UNIT]: 'C' });
    world.turns();
    expect(world.applied().slice(before)).toEqual(['test C']);
    expect(world.record('test', UNIT)).toMatchObject({ digest: 'C', lane: 'Forward' });
  });

  it('E6: taking back what never had evidence revokes it, whichever way it goes', () => {
    const world = revertedTwice();
    world.settle();
    world.commit({ [UNIT]: 'C' });
    world.turn();
    world.commit({ [UNIT]: 'B' });
    world.turn();
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).toContain('C');
  });

  it('E6: going back from what is revoked to what is not stays a restore', () => {
    const world = revertedTwice(100);
    world.settle(160);
    const before = world.applied().length;
    world.commit({ [UNIT]: 'A' });
    world.turn();
    expect(world.applied().slice(before)).toHaveLength(3);
  });

  it('E6: a revert of one cluster revokes nothing that another wants with evidence, and the others can still go back at once', () => {
    const world = fleetWorld({ soakSeconds: 100 });
    for (const digest of ['A', 'B']) {
      world.commit({ [UNIT]: digest });
      world.settle(160);
    }
    world.commit({ [UNIT]: 'B' }, { test: { [UNIT]: 'A' } });
    world.settle(160);
    expect(world.record('test', UNIT)).toMatchObject({ digest: 'A', revoked: ['B'] });
    for (const cluster of ['pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked ?? []).toEqual([]);
    world.commit({ [UNIT]: 'C' });
    world.settle(160);
    const before = world.applied().length;
    world.commit({ [UNIT]: 'B' }, { test: { [UNIT]: 'A' } });
    world.turn();
    expect(world.applied().slice(before).toSorted()).toEqual(['pre B', 'prod B', 'test A']);
    // A halt there counts everywhere.
    world.settle(160);
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    for (const cluster of ['pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).toContain('B');
  });

  it('safety 15: evidence lifts no revocation, a retry does', () => {
    const world = revertedTwice();
    world.settle();
    expect(world.phase(UNIT)).toBe('Done');
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).toContain('B');
    expect(world.status().units?.[0]?.revoked).toBe(true);
    world.retry('reinstate');
    world.turn();
    world.turn();
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).not.toContain('B');
    expect(world.status().units?.[0]?.revoked).toBeUndefined();
  });
});

it('an object that a user changed or deleted in the cell is applied again', () => {
  const world = settledWorld(UNIT);
  world.cell('prod').drifted = true;
  expect(world.turn()).toMatchObject([{ do: 'Apply', cluster: 'prod', digest: 'A' }]);
});

it('E8: a placement whose applied content is lost reports that it is not compared', () => {
  const world = settledWorld(UNIT);
  Object.assign(world.cell('pre'), { lost: 'no answer' });
  world.turn();
  const placement = world.status().units?.[0]?.clusters?.find(({ name }) => name === 'pre');
  expect(placement).toMatchObject({ phase: 'Verified', message: expect.stringContaining('could not be rendered again: no answer') });
});

it('a unit that a fleet no longer declares is removed stage by stage', () => {
  const world = fleetWorld();
  world.commit({ [UNIT]: 'A', 'DefenderPolicy/a': 'M' });
  world.settle();
  world.commit({ [UNIT]: 'A' });
  expect(world.turn()).toMatchObject([{ do: 'Remove', cluster: 'test' }]);
  world.settle();
  expect(world.record('prod', 'MachineSet/web/a')).toBeUndefined();
});

it('whatever happens: no later stage before the earlier one, no bad digest twice, and in the end every cluster holds the last commit', () => {
  const event = fc.oneof(
    { weight: 6, arbitrary: fc.constant({ kind: 'turn' as const }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('prove' as const), cluster: fc.constantFrom('test', 'pre', 'p1', 'p2') }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('commit' as const), digest: fc.constantFrom('A', 'B', 'C') }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('halt' as const), cluster: fc.constantFrom('test', 'pre', 'p1', 'p2') }) },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constant('away' as const), cluster: fc.constantFrom('test', 'pre', 'p1'), gone: fc.boolean() }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash' as const), after: fc.integer({ min: 0, max: 3 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 20_000 }) }) },
  );
  let forward = 0;
  let restored = 0;
  fc.assert(
    fc.property(fc.array(event, { minLength: 30, maxLength: 90, size: 'max' }), (events) => {
      const world = fleetWorld({ soakSeconds: 5, clusters: { prod: ['p1', 'p2'] } });
      world.onApply((step) => {
        if (step.lane === 'Restore') {
          restored += 1;
          const record = world.record(step.cluster, step.unit);
          expect(record?.verified?.map((entry) => entry.digest)).toContain(step.digest);
          return;
        }
        if (step.because.includes('someone else')) return;
        forward += 1;
        const stages = world.rollouts.at(-1)?.spec.stages ?? [];
        const mine = stages.findIndex((stage) => stage.clusters.includes(step.cluster));
        for (const stage of stages.slice(0, mine)) {
          for (const cluster of stage.clusters) {
            const record = world.record(cluster, step.unit);
            expect(record?.evidence, `${cluster} before ${step.cluster}`).toBe(wantedOn(world.rollouts, step.unit, cluster));
          }
        }
      });
      world.commit({ [UNIT]: 'A' });
      for (const each of events) {
        if (each.kind === 'turn') world.turn();
        if (each.kind === 'prove') world.prove(each.cluster);
        if (each.kind === 'commit') world.commit({ [UNIT]: each.digest });
        if (each.kind === 'halt') world.halt(each.cluster, 'MaxFailed');
        if (each.kind === 'away') world.away(each.cluster, each.gone ? 'no answer' : undefined);
        if (each.kind === 'crash') world.turn(each.after);
        if (each.kind === 'pass') world.pass(each.ms);
      }
      for (const cluster of ['test', 'pre', 'p1', 'p2']) world.away(cluster, undefined);
      world.settle();
      expect(world.phase(UNIT)).toBe('Done');
      for (const cluster of ['test', 'pre', 'p1', 'p2'])
        expect(world.record(cluster, UNIT)?.digest).toBe(wantedOn(world.rollouts, UNIT, cluster));
      expect(world.turn()).toEqual([]);
    }),
    { numRuns: 400 },
  );
  expect(forward).toBeGreaterThan(100);
  expect(restored).toBeGreaterThan(10);
});

function wantedOn(rollouts: readonly Rollout[], unit: string, cluster: string): string | undefined {
  const owner = rollouts.findLast((rollout) => rollout.spec.units.some((each) => each.unit === unit));
  return owner?.spec.units.find((each) => each.unit === unit)?.clusters.find((each) => each.name === cluster)?.digest;
}

it('E8, E9: what is held back in a cluster is recorded, and put back, with the commit that renders it', () => {
  const rollout: Rollout = {
    apiVersion: 'kubenode.io/v1alpha1',
    kind: 'Rollout',
    metadata: { name: 'main-2' },
    spec: {
      fleet: 'main',
      commit: 'c2',
      sequence: 2,
      stages: [{ name: 'test', clusters: ['held', 'goes'], soakSeconds: 0, maxClusters: 2 }],
      units: [
        {
          unit: 'MachineSet/web/a',
          clusters: [
            { name: 'held', digest: 'B', from: 'B', commit: 'c1' },
            { name: 'goes', digest: 'A', from: 'B' },
          ],
        },
      ],
    },
  };
  const record = (digest: string) => ({ unit: 'MachineSet/web/a', fleet: 'main', digest, commit: 'c1', appliedAt: '2026-01-01T00:00:00Z' });
  const view = (name: string, digest: string, drifted: boolean) => ({
    name,
    blocked: undefined,
    units: new Map([['MachineSet/web/a', record(digest)]]),
    failing: () => undefined,
    live: (): LiveUnit => ({
      state: 'Present',
      unitDigest: digest,
      drifted,
      evidence: true,
      halted: undefined,
      ceiling: undefined,
      progress: undefined,
    }),
  });
  const stepsWhere = (drifted: boolean) =>
    decide({
      now: Date.UTC(2026, 0, 2),
      fleet: 'main',
      members: undefined,
      rollouts: [rollout],
      clusters: new Map([
        ['held', view('held', 'B', drifted)],
        ['goes', view('goes', 'B', false)],
      ]),
    }).steps.map((step) => [step.do, step.cluster, 'commit' in step ? step.commit : '']);
  expect(stepsWhere(false)).toEqual([
    ['RecordEvidence', 'held', 'c1'],
    ['Apply', 'goes', 'c2'],
  ]);
  expect(stepsWhere(true)).toEqual([
    ['Apply', 'held', 'c1'],
    ['Apply', 'goes', 'c2'],
  ]);
});
