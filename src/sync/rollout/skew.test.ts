import fc from 'fast-check';
import { expect, it } from 'vitest';
import { clockOfWrongMachine } from '../../kube/testing/wrongclock.ts';
import { fleetWorld } from './testing.ts';

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
