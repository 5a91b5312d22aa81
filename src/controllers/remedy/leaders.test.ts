/** Two processes that both believe to lead, and one that reads what was. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Transport } from '../../api/transport.ts';
import { openRemedyCell, type RemedyCell } from './testing/cell.ts';
import { createFaults, type Faults } from './testing/faults.ts';

let cell: RemedyCell;
let late: Faults;
beforeEach(async () => {
  cell = await openRemedyCell();
  late = createFaults();
  await cell.rule('hung');
});
afterEach(async () => {
  late.stalled = false;
  await cell.close();
});

const unhealthy = { KernelDeadlock: 'True' };
const healthy = { KernelDeadlock: 'False' };
const startLate = () => cell.start({ through: (transport) => late.through(transport) });

async function verifying() {
  await cell.detect('a', unhealthy);
  await cell.pass(40);
  await cell.reserve(await cell.job('Pending'));
  await cell.order(await cell.job('Granted'));
  await cell.boot('a', 'boot-2');
  await cell.report(await cell.job('Running'), 'Succeeded');
  await cell.detect('a', healthy);
  return await cell.job('Verifying');
}

it('that list at one moment, before either creates, make one job: the server refuses the second of that name', async () => {
  const waiting: (() => void)[] = [];
  /** Delays the first create until the other leader creates too. */
  const meet =
    (transport: Transport): Transport =>
    async (request) => {
      if (request.method !== 'POST' || !request.path.endsWith('/remedyoperationjobs')) return transport(request);
      await new Promise<void>((resolve) => {
        waiting.push(resolve);
        if (waiting.length === 2) for (const go of waiting) go();
      });
      return transport(request);
    };
  const leaders = [await cell.start({ through: meet }), await cell.start({ through: meet })];
  await cell.detect('a', unhealthy);
  await cell.pass(60);
  expect(waiting.length).toBe(2);
  expect(await cell.phases()).toEqual(['Reboot Pending']);
  const made = leaders.flatMap(({ log }) => log.lines.filter(({ fields }) => 'made' in fields).map(({ fields }) => fields['made']));
  expect(made.map(String).toSorted()).toEqual(['false', 'true']);
});

it('one that has not seen that a job ended does not make it again', async () => {
  await cell.start();
  await startLate();
  await cell.detect('a', unhealthy);
  late.stalled = true;
  await cell.pass(40);
  const asked = await cell.job('Pending');
  await cell.detect('a', healthy);
  expect((await cell.job('Cancelled')).metadata.uid).toBe(asked.metadata.uid);
  late.stalled = false;
  await cell.pass(60);
  expect(await cell.phases()).toEqual(['Reboot Cancelled']);
});

it('a relapse that a watch has not shown yet is no success', async () => {
  await startLate();
  await verifying();
  await cell.pass(290);
  late.stalled = true;
  await cell.detect('a', unhealthy);
  await cell.pass(40);
  await cell.job('Verifying');
  late.stalled = false;
  await cell.pass(10);
  expect((await cell.job('Verifying')).status?.proof?.since).toBeUndefined();
});

it('what one has ended the other, which still reads it as it was, does not touch', async () => {
  await cell.start();
  await startLate();
  const job = await verifying();
  await cell.pass(290);
  late.stalled = true;
  await cell.cancel(job, 'an operator took it back');
  const ended = await cell.job('Failed');
  await cell.pass(40);
  expect((await cell.job('Failed')).metadata.resourceVersion).toBe(ended.metadata.resourceVersion);
});
