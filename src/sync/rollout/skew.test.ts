import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clockOfWrongMachine } from '../../kube/testing/wrong-clock.ts';
import { records } from '../records.ts';
import { fleetWorld, settledWorld } from './testing/fleet-world.ts';

const UNIT = 'MachineComponentSet/kubelet';
const YEAR = 365 * 86_400_000;

/** Turns of a second until the second stage begins; in each another leader. */
function turnsUntilNextStage(skews: readonly number[]): number {
  let turns = 0;
  const world = fleetWorld({
    soakSeconds: 30,
    ...(skews.length === 0 ? {} : { clockOf: (server) => clockOfWrongMachine(server, skews[turns % skews.length] ?? 0) }),
  });
  world.commit({ [UNIT]: 'A' });
  for (; turns < 200; turns += 1) {
    if (turns === 2) world.prove('test');
    world.turn();
    if (world.applied().includes('pre A')) return turns;
  }
  return turns;
}

it('E5, H5: a stage soaks for its time, whatever the clocks of the leaders of the hub', () => {
  const right = turnsUntilNextStage([]);
  expect(right).toBeGreaterThan(30);
  const skew = fc.oneof(fc.integer({ min: -10 * YEAR, max: 10 * YEAR }), fc.integer({ min: -3_600_000, max: 3_600_000 }));
  fc.assert(
    fc.property(fc.array(skew, { minLength: 1, maxLength: 6 }), (skews) => {
      expect(Math.abs(turnsUntilNextStage(skews) - right)).toBeLessThanOrEqual(2);
    }),
    { numRuns: 50 },
  );
});

/** Turns until the second stage begins, where the API server's clock is wrong by so much (ms) in these turns; the evidence is there in turn 2. */
function turnsWithWrongServer(wrong: Partial<Record<number, number>>, settled: boolean): number {
  let turns = -10_000;
  const world = fleetWorld({
    soakSeconds: 30,
    clockOf: (server) => ({ ...server, now: () => server.now() + (wrong[turns] ?? 0) }),
  });
  if (settled) {
    world.commit({ [UNIT]: '0' });
    world.settle();
  }
  world.commit({ [UNIT]: 'A' });
  for (turns = 0; turns < 200; turns += 1) {
    if (turns === 2) world.prove('test');
    world.turn();
    if (world.applied().includes('pre A')) return turns;
  }
  return turns;
}

describe('E5: a soak is counted from no time that the other times of the record contradict', () => {
  const right = turnsWithWrongServer({}, false);
  it.each<[string, Partial<Record<number, number>>, boolean]>([
    ['a year ahead when the evidence was recorded', { 2: YEAR }, false],
    ['a year behind when the evidence was recorded', { 2: -YEAR }, false],
    [
      'a year behind when it was applied and when the evidence was recorded, where there was evidence for other content before',
      { 0: -YEAR, 1: -YEAR, 2: -YEAR },
      true,
    ],
    ['a year ahead when it was applied', { 0: YEAR }, false],
    ['a year behind after the evidence', { 4: -YEAR, 5: -YEAR, 6: -YEAR }, false],
  ])('the clock of the API server is %s', (_name, wrong, settled) => {
    const turns = turnsWithWrongServer(wrong, settled);
    expect(turns).toBeGreaterThanOrEqual(right);
    // Begun again once for what was wrong, and once for what was right but seemed wrong meanwhile.
    expect(turns).toBeLessThanOrEqual(right + 10);
  });

  it('writes nothing over and over while the clock is behind what is recorded', () => {
    let wrong = 0;
    const world = settledWorld(UNIT, { soakSeconds: 30, clockOf: (server) => ({ ...server, now: () => server.now() + wrong }) });
    wrong = -YEAR;
    world.turns();
    expect(world.turn()).toEqual([]);
    wrong = 0;
    world.turns();
    expect(world.turn()).toEqual([]);
  });

  it('what is left while its evidence is of a wrong time gives no soak to its return', () => {
    const record = {
      unit: UNIT,
      fleet: 'main',
      digest: 'A',
      begun: 'B',
      evidence: 'A',
      appliedAt: '2026-01-02T00:00:00Z',
      verified: [{ digest: 'A', commit: 'c1', at: '2025-01-02T00:00:00Z', order: 1 }],
    };
    expect(records.applied('B', 'c2', 'Forward', '2026-01-03T00:00:00Z', [])(record).verified?.[0]?.heldSeconds ?? 0).toBe(0);
  });
});
