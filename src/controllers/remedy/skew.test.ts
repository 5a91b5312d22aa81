import fc from 'fast-check';
import { afterEach, expect, it } from 'vitest';
import { clockOfWrongMachine } from '../../kube/testing/wrong-clock.ts';
import { openRemedyCell, type Process, type RemedyCell } from './testing/cell.ts';

const MINUTE = 60_000;
const YEAR = 365 * 86_400_000;

let cell: RemedyCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});

/** A leader on a machine whose clock is so far ahead. */
const begin = (of: RemedyCell, aheadMs: number): Promise<Process> => of.start({ clock: clockOfWrongMachine(of.clock, aheadMs) });

it('safety 12, F2, H5: leaders whose clocks are 40 minutes apart make a `for` of 30 minutes neither shorter nor longer', async () => {
  cell = await openRemedyCell();
  await cell.rule('hung', { holdsForSeconds: 1800 });
  const first = await begin(cell, 0);
  await cell.detect('a', { KernelDeadlock: 'True' });
  await cell.pass(60);
  await first.stop();
  const second = await begin(cell, 40 * MINUTE);
  await cell.pass(60);
  expect(await cell.jobs()).toEqual([]);
  await second.stop();
  await begin(cell, -40 * MINUTE);
  await cell.pass(1660);
  expect(await cell.jobs()).toEqual([]);
  await cell.pass(40);
  await cell.job('Pending');
});

it('safety 12, F2, H5: with any clocks of the leaders a rule fires when it would with right ones, but for the error of a second', async () => {
  const skew = fc.oneof(fc.integer({ min: -10 * YEAR, max: 10 * YEAR }), fc.integer({ min: -60 * MINUTE, max: 60 * MINUTE }));
  await fc.assert(
    fc.asyncProperty(fc.array(skew, { minLength: 2, maxLength: 4 }), fc.integer({ min: 1, max: 5 }), async (skews, apart) => {
      const own = await openRemedyCell();
      try {
        await own.rule('hung', { holdsForSeconds: 120 });
        let process: Process | undefined;
        let left = 120;
        for (const [index, aheadMs] of skews.entries()) {
          await process?.stop();
          process = await begin(own, aheadMs);
          if (index === 0) await own.detect('a', { KernelDeadlock: 'True' });
          await own.pass(apart * 5);
          left -= apart * 5;
        }
        await own.pass(left - 5);
        expect(await own.jobs()).toEqual([]);
        await own.pass(10);
        await own.job('Pending');
      } finally {
        await own.close();
      }
    }),
    { numRuns: 12 },
  );
}, 30_000);
