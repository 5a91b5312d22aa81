import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Clock } from '../../api/ports.ts';
import { clockOfWrongMachine } from '../../kube/testing/wrong-clock.ts';
import { createWorld } from './testing/world.ts';

const YEAR = 365 * 86_400_000;

/** How many machines had the new content after each round, under leaders that follow each other, each with its clock so far ahead. */
async function progress(skews: readonly number[], clockOf: (server: Clock, aheadMs: number) => Clock): Promise<number[]> {
  let leaders = 0;
  const world = createWorld({ machines: 8, clockOf: (server) => clockOf(server, skews[leaders++ % skews.length] ?? 0) });
  world.set({ version: '1.0.0', batches: ['100%'], soakSeconds: 60 });
  await world.rest();
  world.set({ version: '2.0.0', batches: [1, '50%', '100%'], soakSeconds: 60 });
  const sizes: number[] = [];
  for (let round = 0; round < 40; round++) {
    if (round % 3 === 0) world.restart();
    await world.round();
    sizes.push(world.given('2.0.0').length);
  }
  return sizes;
}

it('B3, H5: batches soak for their time, with any clocks of the leaders', async () => {
  const right = await progress([0], (server) => server);
  expect(right.at(-1)).toBe(8);
  const skew = fc.oneof(fc.integer({ min: -10 * YEAR, max: 10 * YEAR }), fc.integer({ min: -3_600_000, max: 3_600_000 }));
  await fc.assert(
    fc.asyncProperty(fc.array(skew, { minLength: 2, maxLength: 5 }), async (skews) => {
      const found = await progress(skews, clockOfWrongMachine);
      // The error of a second may cost a round of ten, at each of the two steps.
      for (const [round, size] of found.entries()) {
        expect(size).toBeLessThanOrEqual(right[Math.min(right.length - 1, round + 1)] ?? 0);
        expect(size).toBeGreaterThanOrEqual(right[Math.max(0, round - 4)] ?? 0);
      }
    }),
    { numRuns: 15 },
  );
}, 30_000);
