import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import type { Rollout } from '../../api/rollout.ts';
import { fleetWorld, type FleetWorld } from './testing.ts';

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
    for (let turn = 0; turn < 5; turn += 1) world.turn();
    expect(world.applied()).not.toContain('pre A');
  });

  it('invariant 7: a cell that is not heard is neither proved nor gone', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.prove('test');
    world.away('test', 'no answer');
    for (let turn = 0; turn < 5; turn += 1) world.turn();
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
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.settle();
    const before = world.applied().length;
    world.commit({ [UNIT]: 'A' });
    expect(world.rollouts).toHaveLength(1);
    expect(world.turn()).toEqual([]);
    expect(world.applied()).toHaveLength(before);
  });
});

describe('halt', () => {
  it('stops at the first cluster of the first stage and revokes the digest everywhere', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.settle();
    world.commit({ [UNIT]: 'BAD' });
    world.turn();
    world.halt('test', 'MaxFailed: test-1 failed its probe');
    for (let turn = 0; turn < 5; turn += 1) world.turn();
    expect(world.applied().filter((line) => line.endsWith('BAD'))).toEqual(['test BAD']);
    expect(world.phase(UNIT)).toBe('Halted');
    expect(world.status().units?.[0]?.message).toContain('test-1 failed its probe');
    for (const cluster of ['test', 'pre', 'prod']) expect(world.record(cluster, UNIT)?.revoked).toContain('BAD');
  });

  it('proof case 14: a corrected spec goes on without a human', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.settle();
    world.commit({ [UNIT]: 'BAD' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    world.commit({ [UNIT]: 'GOOD' });
    world.settle();
    expect(world.phase(UNIT)).toBe('Done');
    expect(world.record('prod', UNIT)?.digest).toBe('GOOD');
  });

  it('retry asks the cell to try again and lifts the revocation', () => {
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.turn();
    world.halt('test', 'MaxFailed');
    world.turn();
    world.retry('again-1');
    const steps = [...world.turn(), ...world.turn()].map((step) => step.do);
    expect(steps).toContain('TryAgain');
    expect(world.cell('test').rolloutID).toBe('again-1');
    expect(world.record('test', UNIT)?.revoked).toEqual([]);
    world.settle();
    expect(world.phase(UNIT)).toBe('Done');
  });
});

describe('restore lane', () => {
  it('E6: a revert half-way out goes to the clusters that hold the bad digest, newest first, without soak or stages', () => {
    const world = fleetWorld({ soakSeconds: 60, clusters: { prod: ['p1', 'p2'] } });
    world.commit({ [UNIT]: 'A' });
    world.settle();
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
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.settle();
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
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.settle();
    world.commit({ [UNIT]: 'B' });
    world.turn();
    world.pause(true);
    world.turn();
    expect(world.cell('test').ceiling).toEqual({ unitDigest: 'B', nodes: 0 });
    world.prove('test');
    for (let turn = 0; turn < 5; turn += 1) world.turn();
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
    const world = fleetWorld();
    world.commit({ [UNIT]: 'A' });
    world.settle();
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

it('an object that somebody changed or deleted in the cell is applied again', () => {
  const world = fleetWorld();
  world.commit({ [UNIT]: 'A' });
  world.settle();
  world.cell('prod').drifted = true;
  expect(world.turn()).toMatchObject([{ do: 'Apply', cluster: 'prod', digest: 'A' }]);
});

it('a unit that a fleet no longer declares is removed stage by stage', () => {
  const world = fleetWorld();
  world.commit({ [UNIT]: 'A', 'MachineSet/web/a': 'M' });
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
