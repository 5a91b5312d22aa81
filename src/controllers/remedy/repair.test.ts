import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Machines } from '../../api/machine.ts';
import { bad } from '../../rules/testing.ts';
import { openRemedyCell, type Process, type RemedyCell } from './testing/cell.ts';

let cell: RemedyCell;
let process: Process;
beforeEach(async () => {
  cell = await openRemedyCell(['a', 'b']);
  await cell.rule('hung');
  process = await cell.start();
});
afterEach(() => cell.close());

const unhealthy = { KernelDeadlock: 'True' };
const healthy = { KernelDeadlock: 'False' };

/** From the fault to the order. */
async function ordered() {
  await cell.detect('a', unhealthy);
  await cell.pass(40);
  const asked = await cell.job('Pending');
  const id = await cell.reserve(asked);
  const granted = await cell.job('Granted');
  await cell.order(granted);
  return { id, job: await cell.job('Running') };
}

describe('F3: a repair', () => {
  it('goes from a match over Pending, Granted, Running and Verifying to Succeeded', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(20);
    expect(await cell.jobs()).toEqual([]);
    await cell.pass(20);
    const asked = await cell.job('Pending');
    expect(asked.spec).toMatchObject({
      rule: 'hung',
      node: 'a',
      machine: { name: 'a' },
      action: 'Reboot',
      rung: 0,
      attempt: 1,
      mode: 'Enforce',
    });
    expect(asked.spec.why).toContain('condition.KernelDeadlock.status');
    expect(asked.metadata.labels).toMatchObject({ 'kubenode.io/rule': 'hung', 'kubenode.io/machine': 'a' });
    expect(asked.metadata.ownerReferences).toBeUndefined();

    const id = await cell.reserve(asked);
    const granted = await cell.job('Granted');
    expect(granted.status).toMatchObject({ operationID: id, before: { bootID: 'boot-1' } });
    expect(granted.status?.before?.conditions.find((each) => each.type === 'KernelDeadlock')?.status).toBe('True');
    await cell.cordon('a', id);
    await cell.status('a', {
      conditions: [
        { type: 'Drained', status: 'True', reason: 'Drained', message: '', lastTransitionTime: new Date(cell.clock.now()).toISOString() },
      ],
    });
    expect((await cell.job('Granted')).status?.steps?.map((step) => [step.name, step.outcome])).toEqual([
      ['Ask', 'Succeeded'],
      ['Cordon', 'Succeeded'],
      ['Drain', 'Succeeded'],
      ['Order', undefined],
    ]);

    await cell.order(granted);
    const running = await cell.job('Running');
    expect(running.status?.orderedAt).toBeDefined();
    await cell.boot('a', 'boot-2');
    await cell.report(running, 'Succeeded');
    expect((await cell.job('Verifying')).status).toMatchObject({ step: 'Verify' });
    await cell.detect('a', healthy);
    await cell.pass(290);
    await cell.job('Verifying');
    await cell.pass(30);
    const done = await cell.job('Succeeded');
    expect(done.status).toMatchObject({ outcome: 'Succeeded', explanation: 'KernelDeadlock has been False for 300 s' });
    expect(done.status?.steps?.map((step) => step.name)).toEqual(['Ask', 'Cordon', 'Drain', 'Order', 'Act', 'Verify']);
    expect(done.status?.steps?.every((step) => step.finishedAt !== undefined && step.outcome === 'Succeeded')).toBe(true);
    expect(await cell.reasons()).toEqual(
      expect.arrayContaining(['RemedyRequested', 'RemedyGranted', 'RemedyStarted', 'RemedyActed', 'RemedySucceeded']),
    );
    await cell.release(id);
    await cell.pass(600);
    expect(await cell.jobs()).toHaveLength(1);
  });

  it('that is answered at once is reported by one write, and one that is not is Pending before long', async () => {
    await cell.edit('hung', { holdsForSeconds: 0 });
    await cell.detect('a', unhealthy);
    const [made] = await cell.jobs();
    expect(made?.status?.phase).toBeUndefined();
    if (made === undefined) throw new Error('no job was made');
    await cell.reserve(made);
    const granted = await cell.job('Granted');
    expect(granted.status?.steps?.map((step) => [step.name, step.outcome])).toEqual([
      ['Ask', 'Succeeded'],
      ['Cordon', undefined],
    ]);
    const patches = process.requests.filter(({ method, path }) => method === 'PATCH' && path.includes('remedyoperationjobs'));
    expect(patches).toHaveLength(1);
    await cell.detect('b', unhealthy);
    // Which of the two is listed first hangs on their names.
    expect((await cell.phases()).toSorted()).toEqual(['Reboot Granted', 'Reboot undefined']);
    await cell.clock.advance(60);
    expect((await cell.phases()).toSorted()).toEqual(['Reboot Granted', 'Reboot Pending']);
  });

  it('is asked for once a machine, however long it takes', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(900);
    expect(await cell.phases()).toEqual(['Reboot Pending']);
  });

  it('is reported on the Machine as needed, until the rule is known not to match', async () => {
    const needed = async () => (await cell.machine('a')).status?.conditions?.find((each) => each.type === 'RepairNeeded');
    expect(await needed()).toBeUndefined();
    const { job } = await ordered();
    expect(await needed()).toMatchObject({ status: 'True', message: 'rule hung wants this machine repaired' });
    expect((await cell.machine('a')).status?.repairRules).toEqual(['hung']);
    await cell.boot('a', 'boot-2');
    await cell.report(job, 'Succeeded');
    cell.stopped.detector.add('a');
    await cell.pass(700);
    expect(await needed()).toMatchObject({ status: 'True' });
    await cell.detect('a', healthy);
    expect(await needed()).toMatchObject({ status: 'False' });
    expect((await cell.machine('a')).status?.repairRules).toBeUndefined();
  });
});

describe('case 23: a node that recovers', () => {
  it('before the grant: its job is cancelled, and no attempt is counted', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    await cell.job('Pending');
    await cell.detect('a', healthy);
    expect((await cell.job('Cancelled')).status).toMatchObject({
      outcome: 'Cancelled',
      explanation: expect.stringContaining('recovered before the order'),
    });
    expect((await cell.job('Cancelled')).status?.orderedAt).toBeUndefined();
    await cell.pass(120);
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    expect((await cell.job('Pending')).spec).toMatchObject({ rung: 0, attempt: 1 });
  });

  it('between grant and order: the job asks for its reservation to be cancelled, and ends when it is', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    await cell.reserve(await cell.job('Pending'));
    const granted = await cell.job('Granted');
    await cell.detect('a', healthy);
    expect((await cell.job('Granted')).status?.cancelling?.why).toContain('recovered');
    await cell.cancel(granted, 'its job shall be cancelled');
    const ended = await cell.job('Cancelled');
    expect(ended.status).toMatchObject({ outcome: 'Cancelled' });
    expect(ended.status?.orderedAt).toBeUndefined();
  });

  it('between grant and order, too late: what was ordered runs', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    await cell.reserve(await cell.job('Pending'));
    const granted = await cell.job('Granted');
    await cell.detect('a', healthy);
    await cell.order(granted);
    expect((await cell.job('Running')).status?.cancelling).toBeUndefined();
  });

  it('and whose reservation is freed unseen, with another operation in its place: the job ends without an order', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    const id = await cell.reserve(await cell.job('Pending'));
    await cell.job('Granted');
    await cell.release(id);
    expect((await cell.job('Cancelled')).status?.explanation).toContain('its reservation is gone');
  });
});

describe('case 21: a cancelled drain', () => {
  it('is not a success: by time it is a failed attempt, and the ladder climbs', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    const id = await cell.reserve(await cell.job('Pending'));
    await cell.cancel(await cell.job('Granted'), 'DrainTimeout: 2 pods are still on the node', 'DrainTimeout');
    expect((await cell.job('Failed')).status).toMatchObject({ outcome: 'TransientFailure', orderedAt: expect.any(String) });
    await cell.release(id);
    await cell.pass(60);
    expect((await cell.job('NeedsHuman')).spec.action).toBe('Human');
  });

  it('of the last job proves nothing about the next one', async () => {
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    const id = await cell.reserve(await cell.job('Pending'));
    await cell.cancel(await cell.job('Granted'), 'its limits do not allow it any more');
    expect((await cell.job('Cancelled')).status?.orderedAt).toBeUndefined();
    await cell.release(id);
    await cell.pass(60);
    const next = await cell.job('Pending');
    await cell.reserve(next);
    await cell.pass(30);
    expect((await cell.job('Granted')).metadata.name).toBe(next.metadata.name);
  });
});

describe('how an operation ends', () => {
  it('a failed action fails the job with its outcome, and the next rung is a human with the diagnosis', async () => {
    const { id, job } = await ordered();
    await cell.report(job, 'PermanentFailure');
    expect((await cell.job('Failed')).status).toMatchObject({ outcome: 'PermanentFailure', explanation: 'it ended PermanentFailure' });
    await cell.release(id);
    await cell.pass(60);
    const asked = await cell.job('NeedsHuman');
    expect(asked.status?.diagnosis?.[0]).toBe('nothing helped: Reboot: PermanentFailure');
    expect(asked.status?.diagnosis?.join('\n')).toContain('tried Reboot');
    expect(asked.status?.finishedAt).toBeUndefined();
    await cell.pass(600);
    expect((await cell.jobs()).length).toBe(2);
    await cell.detect('a', healthy);
    const closed = await cell.until(async () =>
      (await cell.job('NeedsHuman')).status?.finishedAt === undefined ? undefined : cell.job('NeedsHuman'),
    );
    expect(closed.status?.explanation).toContain('does not match');
  });

  it('an order that is not answered has failed when its time is over', async () => {
    await ordered();
    await cell.pass(590);
    await cell.job('Running');
    await cell.pass(20);
    expect((await cell.job('Failed')).status).toMatchObject({
      outcome: 'PermanentFailure',
      explanation: expect.stringContaining('is not reported as done yet'),
    });
  });

  it('an order that is taken back is no success', async () => {
    const { job } = await ordered();
    await cell.cancel(job, 'an operator released it');
    expect((await cell.job('Failed')).status).toMatchObject({ outcome: 'Cancelled' });
  });

  it('a report about another operation ends nothing', async () => {
    const { job } = await ordered();
    await cell.report({ ...job, status: { ...job.status, operationID: 'reservation-of-last-week' } }, 'Succeeded');
    await cell.pass(30);
    await cell.job('Running');
  });

  it('a machine that is deleted takes its job with it, as a failure', async () => {
    const { job } = await ordered();
    await cell.client.delete(Machines, { namespace: 'web', name: job.spec.machine.name });
    expect((await cell.job('Failed')).status).toMatchObject({ outcome: 'PermanentFailure', explanation: expect.stringContaining('gone') });
  });
});

it('invariant 10: a heartbeat that changes nothing costs no evaluation and no request', async () => {
  await cell.pass(60);
  const [requests, evaluations] = [process.requests.length, process.evaluated.length];
  for (let beats = 0; beats < 5; beats++) {
    await cell.clock.advance(1000);
    await cell.detect('a');
    await cell.detect('b');
  }
  expect(process.evaluated.length).toBe(evaluations);
  expect(process.requests.length).toBe(requests);
  await cell.detect('a', unhealthy);
  expect(process.evaluated.length).toBe(evaluations + 1);
});

it('invariant 10: nor does that of a node that is unhealthy and waits', async () => {
  await cell.detect('a', unhealthy);
  await cell.pass(40);
  await cell.job('Pending');
  await cell.settle();
  await cell.clock.advance(1500);
  const [requests, evaluations] = [process.requests.length, process.evaluated.length];
  for (let beats = 0; beats < 5; beats++) {
    await cell.clock.advance(1000);
    await cell.detect('a');
  }
  expect(process.requests.length).toBe(requests);
  expect(process.evaluated.length).toBe(evaluations);
});

it('an observation of its machine wakes a job only when its rule is known not to match', async () => {
  await cell.rule('full', { when: { all: [bad('ReadonlyFilesystem')] }, mode: 'Shadow' });
  const woken: string[] = [];
  process.remedyCache.onJob((job) => void woken.push(job.spec.rule));
  await cell.detect('a', unhealthy);
  await cell.pass(40);
  await cell.job('Pending');
  await cell.detect('a', { ReadonlyFilesystem: 'True' });
  await cell.pass(20);
  expect(woken).toEqual([]);
  await cell.detect('a', healthy);
  await cell.job('Cancelled');
  expect(woken).toEqual(['hung']);
});

it('nor when it has succeeded, however often the machine is judged after that', async () => {
  const { id, job } = await ordered();
  await cell.boot('a', 'boot-2');
  await cell.report(job, 'Succeeded');
  await cell.job('Verifying');
  await cell.detect('a', healthy);
  await cell.pass(320);
  await cell.job('Succeeded');
  await cell.release(id);
  const woken: string[] = [];
  process.remedyCache.onJob((job) => void woken.push(job.spec.rule));
  const evaluations = process.evaluated.length;
  await cell.detect('a', unhealthy);
  await cell.detect('a', healthy);
  await cell.pass(60);
  expect(process.evaluated.length).toBeGreaterThan(evaluations);
  expect(woken).toEqual([]);
});
