import { afterEach, expect, test } from 'vitest';
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { clockOfWrongMachine } from '../../kube/testing/wrong-clock.ts';
import { openCell, type TestCell } from './testing/cell.ts';
import { entry, VERIFIED_OLD, waiting } from './testing/objects.ts';

let cell: TestCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});

const LONG = 15_000;
const MINUTE = 60_000;
const YEAR = 365 * 86_400_000;

test.each([-YEAR, -25 * MINUTE, 25 * MINUTE, YEAR])(
  'safety 12, C5, H5: a leader whose clock is %d ms ahead gives orders that the agent may still begin',
  async (aheadMs) => {
    cell = await openCell();
    const { clock } = cell;
    cell.lead({ clock: clockOfWrongMachine(clock, aheadMs) });
    const { uid } = (await cell.set()).metadata;
    await cell.addMachine('a', { components: [entry({ setUID: uid })] });
    await cell.boot('a');
    await cell.phase('a', 'Running');
    await cell.report('a', { components: [waiting()], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    const order = await waitFor(async () => (await cell?.machine('a'))?.spec.operation, { deadlineMs: LONG });
    expect(order.kind).toBe('Change');
    // Fifteen minutes, but for the error of the estimate.
    const leftMs = Date.parse(order.notAfter) - clock.now();
    expect(Math.abs(leftMs - 15 * MINUTE)).toBeLessThan(LONG + 1000);
    const [reservation] = (await cell.reservations()) as [LedgerReservation];
    expect(Math.abs(Date.parse(reservation.since) - clock.now())).toBeLessThan(LONG + 1000);
  },
  30_000,
);

test('safety 12, H5: a leader that takes over finds no operation late that is not', async () => {
  cell = await openCell();
  const { clock } = cell;
  const first = cell.lead();
  const { uid } = (await cell.set()).metadata;
  await cell.addMachine('a', { components: [entry({ setUID: uid })] });
  await cell.boot('a');
  await cell.phase('a', 'Running');
  // A machine whose drain is under way has a reservation, and no order yet.
  await cell.dropLeases('a', 'agent');
  await cell.report('a', { components: [waiting()], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
  await first.stop();
  cell.lead({ clock: clockOfWrongMachine(clock, 40 * MINUTE) });
  await cell.beat('a');
  const order = await waitFor(async () => (await cell?.machine('a'))?.spec.operation, { deadlineMs: LONG });
  expect(order.kind).toBe('Change');
}, 30_000);
