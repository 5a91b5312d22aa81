import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Events, Nodes } from '../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import { Machines } from '../../api/machine.ts';
import { RemedyOperationJobs, type RemedyOperationJob, type RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import { statusResponse } from '../../kube/testing/api-server.ts';
import { openDesk, type Desk } from './testing/desk.ts';

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk();
  await desk.cell.rule('hung');
  await desk.cell.detect('a', { KernelDeadlock: 'True' });
});
afterEach(async () => {
  const failures = desk.log.lines.filter(({ level, message }) => ['warn', 'error'].includes(level) && !message.includes('is retried'));
  await desk.close();
  if (failures.length > 0) throw new Error(`the log has failures: ${JSON.stringify(failures)}`);
});

const KEY = { namespace: 'web', name: 'hung-1' };
const DAY_MS = 86_400_000;
const at = (ms = 0): string => new Date(desk.cell.clock.now() + ms).toISOString();
const granted: RemedyOperationJobStatus = { phase: 'Granted', operationID: 'reservation-1', before: { bootID: 'boot-1', conditions: [] } };
const ended = (ms: number): RemedyOperationJobStatus => ({ phase: 'Failed', outcome: 'PermanentFailure', finishedAt: at(ms) });
const phase = async (name = 'hung-1') => (await desk.read(name)).status?.phase;
const writes = (): string[] => desk.trace.filter((each) => /^>(PATCH|DELETE) /.test(each));
const find = (name: string) => desk.cell.client.find(RemedyOperationJobs, { namespace: 'web', name });
/** Time passes in which only the controller acts. */
const wait = async (ms: number): Promise<void> => {
  await desk.cell.clock.advance(ms);
  await desk.cell.settle();
};
/** How many counts something leads to. */
async function reconciliations(what: () => Promise<unknown>): Promise<number> {
  await wait(200);
  const before = desk.reconciliations();
  await what();
  await wait(200);
  return desk.reconciliations() - before;
}
const retried = (): string[] => desk.log.lines.filter(({ message }) => message.includes('is retried')).map(({ message }) => message);

describe('a job', () => {
  it('that goes is not written', async () => {
    await desk.job('hung-1');
    await desk.cell.client.patch(RemedyOperationJobs, KEY, { merge: { metadata: { finalizers: ['example.com/kept'] } } });
    await desk.cell.client.delete(RemedyOperationJobs, KEY);
    await desk.start();
    await wait(500);
    expect([await phase(), writes(), retried()]).toEqual([undefined, [], []]);
  });

  it('that is gone is no failure', async () => {
    await desk.start();
    await desk.job('hung-1');
    await desk.cell.client.delete(RemedyOperationJobs, KEY);
    await wait(500);
    expect([writes(), retried()]).toEqual([[], []]);
  });

  it('is reported as Pending after 50 ms, and at once what is more than that', async () => {
    await desk.start();
    await desk.job('hung-1');
    await wait(49);
    expect(await phase()).toBeUndefined();
    await desk.job('shadow-1', { mode: 'Shadow' });
    expect(await phase('shadow-1')).toBe('Shadow');
    await wait(1);
    expect(await phase()).toBe('Pending');
    expect(writes()).toHaveLength(2);
  });

  it('has its own 50 ms where one of its name was there before', async () => {
    await desk.start();
    await desk.job('hung-1');
    await wait(30);
    await desk.cell.client.delete(RemedyOperationJobs, KEY);
    await desk.job('hung-1');
    await wait(30);
    expect(await phase()).toBeUndefined();
    await wait(20);
    expect(await phase()).toBe('Pending');
  });

  it('is logged and an Event with each phase, once', async () => {
    await desk.start();
    const job = await desk.job('hung-1');
    await wait(60);
    const id = await desk.cell.reserve(job);
    await desk.cell.cordon('a', id);
    await wait(60);
    await desk.cell.client.delete(Machines, { namespace: 'web', name: 'a' });
    await desk.cell.client.delete(Nodes, { name: 'a' });
    await wait(1500);
    expect(desk.log.lines.filter(({ level }) => level === 'info').map(({ fields, message }) => [fields['phase'], message])).toEqual([
      ['Pending', ''],
      ['Granted', ''],
      ['Cancelled', 'the machine is gone, and no order was written'],
    ]);
    const events = (await desk.cell.client.listAll(Events)).items;
    expect(events.map(({ reason }) => reason ?? '').toSorted()).toEqual(['RemedyCancelled', 'RemedyGranted', 'RemedyRequested']);
    for (const { involvedObject } of events) expect(involvedObject).toMatchObject({ kind: 'Node', name: 'a' });
  });
});

describe('a write', () => {
  const isStatus = (path: string): boolean => path.endsWith('/hung-1/status');

  it.each([
    [409, 'Conflict'],
    [404, 'NotFound'],
  ])('that is refused with %i is tried again soon, as no failure', async (code, reason) => {
    let left = 1;
    desk.intercept = ({ path }) => (isStatus(path) && left-- > 0 ? statusResponse(code, reason) : undefined);
    await desk.start();
    await desk.job('hung-1');
    await wait(60);
    expect(await phase()).toBeUndefined();
    await wait(60);
    expect([await phase(), retried(), writes().length]).toEqual(['Pending', [], 2]);
  });

  it('that is refused otherwise is a failure, and is tried again later', async () => {
    let left = 1;
    desk.intercept = ({ path }) => (isStatus(path) && left-- > 0 ? statusResponse(403, 'Forbidden') : undefined);
    await desk.start();
    await desk.job('hung-1');
    await wait(60);
    expect([retried().length, await phase()]).toEqual([1, undefined]);
    await wait(1000);
    expect(await phase()).toBe('Pending');
  });

  it('is conditioned on the version that was read', async () => {
    await desk.start();
    const { metadata } = await desk.job('hung-1');
    let sent: unknown;
    desk.intercept = ({ path, body }) => {
      if (isStatus(path)) sent = JSON.parse(String(body));
      return undefined;
    };
    await wait(60);
    expect(sent).toMatchObject({ metadata: { resourceVersion: metadata.resourceVersion }, status: { phase: 'Pending' } });
  });
});

describe('what is kept long enough', () => {
  it('is deleted, bound to what was read, and nothing before', async () => {
    await desk.job('hung-1', {}, ended(-30 * DAY_MS + 5000));
    await desk.job('hung-2', {}, ended(0));
    await desk.start();
    await wait(4000);
    expect(await find('hung-1')).toBeDefined();
    const job = await desk.read('hung-1');
    let sent: unknown;
    desk.intercept = ({ method, body }) => {
      if (method === 'DELETE') sent = JSON.parse(String(body));
      return undefined;
    };
    await wait(2000);
    expect([await find('hung-1'), writes()]).toEqual([undefined, ['>DELETE remedyoperationjobs/hung-1']]);
    const { uid, resourceVersion } = job.metadata;
    expect(sent).toMatchObject({ preconditions: { uid, resourceVersion } });
    expect(await find('hung-2')).toBeDefined();
  });

  it.each([
    [404, 'NotFound', 0],
    [409, 'Conflict', 0],
    [403, 'Forbidden', 1],
  ])('and is refused with %i is a failure only where the server forbids it', async (code, reason, failures) => {
    let left = 1;
    desk.intercept = ({ method }) => (method === 'DELETE' && left-- > 0 ? statusResponse(code, reason) : undefined);
    await desk.job('hung-1', {}, ended(-31 * DAY_MS));
    await desk.start();
    await wait(100);
    expect([writes().length, retried().length]).toEqual([1, failures]);
  });
});

describe('a job is reconciled', () => {
  const job = async (name: string, status?: RemedyOperationJobStatus, spec: Partial<RemedyOperationJob['spec']> = {}) =>
    await desk.job(name, spec, status);

  it('once after it was written, and no more while nothing happens', async () => {
    await desk.start();
    // The first one, that after 50 ms, and the one that sees what was written.
    expect(await reconciliations(() => job('hung-1'))).toBe(3);
    expect(await reconciliations(() => Promise.resolve())).toBe(0);
    // A proof is waited for by time: it is not asked for again and again.
    await desk.cell.client.patch(
      RemedyOperationJobs,
      KEY,
      { merge: { status: { ...granted, phase: 'NeedsHuman' } } },
      { subresource: 'status' },
    );
    await wait(200);
    expect(await reconciliations(() => Promise.resolve())).toBe(0);
  });

  it('as long as it is open, when its machine or Node changes, and when one that was away is back', async () => {
    await job('hung-1', ended(0));
    await desk.start();
    const hold = (value: boolean) =>
      desk.cell.client.patch(Machines, { namespace: 'web', name: 'a' }, { merge: { spec: { hold: value } } });
    const fault = (status: string) => desk.cell.detect('a', { GPUFault: status });
    desk.cell.stopped.detector.add('a');
    const back = async (): Promise<void> => {
      await desk.cell.clock.advance(60_000);
      await desk.cell.pass(1);
    };
    expect([await reconciliations(() => hold(true)), await reconciliations(() => fault('True')), await reconciliations(back)]).toEqual([
      0, 0, 0,
    ]);
    await job('hung-2', { phase: 'Pending' });
    const counts = [await reconciliations(() => hold(false)), await reconciliations(() => fault('False')), await reconciliations(back)];
    expect([counts, await phase('hung-2')]).toEqual([
      counts.map(() => expect.toSatisfy((count: number) => count > 0) as unknown),
      'Pending',
    ]);
  });

  it('when its own reservation comes or goes, and not with those of others', async () => {
    await desk.cell.reservations((reservations) => reservations);
    const open = await job('hung-1', { phase: 'Pending' });
    await desk.start();
    const foreign = {
      ...open,
      metadata: { ...open.metadata, uid: 'foreign', name: 'x' },
      spec: { ...open.spec, machine: { name: 'z', uid: 'z' } },
    };
    expect(await reconciliations(() => desk.cell.reserve(foreign))).toBe(0);
    expect(
      await reconciliations(() =>
        desk.cell.reservations((reservations) => reservations.map((reservation) => ({ ...reservation, scopes: ['x'] }))),
      ),
    ).toBe(0);
    const id = await desk.cell.reserve(open);
    await wait(200);
    expect((await desk.read('hung-1')).status).toMatchObject({ phase: 'Granted', operationID: id });
    const why = desk.log.lines.filter(({ message }) => message === 'reads again').map(({ fields }) => fields['why']);
    expect(why).toEqual(['what the node is like before it is touched']);
    expect(
      await reconciliations(() =>
        desk.cell.reservations((reservations) => reservations.map((reservation) => ({ ...reservation, scopes: ['y'] }))),
      ),
    ).toBe(0);
    await desk.cell.release(id);
    await wait(200);
    expect(await phase()).toBe('Cancelled');
  });

  it('when a first term has begun in a ledger', async () => {
    await job('hung-1', granted);
    await job('hung-2', ended(0));
    await desk.start();
    await wait(500);
    expect(await phase()).toBe('Granted');
    const begin = (epoch: number) =>
      desk.cell.client.patch(DisruptionLedgers, { name: LEDGER_NAME }, { merge: { status: { epoch } } }, { subresource: 'status' });
    const counts = await reconciliations(() => begin(1));
    expect([await phase(), (await desk.read('hung-1')).status?.explanation]).toEqual([
      'Cancelled',
      'its reservation is gone, and no order was written',
    ]);
    // From the store, from the server, and as it was written.
    expect(counts).toBe(3);
    await job('hung-3', { phase: 'Pending' });
    // The ledger had no reservations at all so far.
    const id = await desk.cell.reserve(await desk.read('hung-3'));
    await wait(200);
    expect((await desk.read('hung-3')).status).toMatchObject({ phase: 'Granted', operationID: id });
    expect(await reconciliations(() => begin(2))).toBe(0);
  });

  it('when its own rule changes, as long as it is open', async () => {
    await desk.cell.rule('other');
    await job('hung-1', ended(0));
    await job('other-1', { phase: 'Pending' }, { rule: 'other' });
    await desk.start();
    expect(await reconciliations(() => desk.cell.edit('hung', { holdsForSeconds: 60 }))).toBe(0);
    await desk.cell.edit('other', { mode: 'Shadow' });
    await wait(200);
    expect((await desk.read('other-1')).status).toMatchObject({ phase: 'Cancelled', explanation: 'NodeRemedier other is in Shadow now' });
  });

  it('when something better replaces it', async () => {
    const open = await job('hung-1', { phase: 'Pending' });
    await desk.start();
    desk.remedyCache.supersede(open.spec.machine.uid, { job: open, why: 'superseded by Replace' });
    await wait(200);
    expect((await desk.read('hung-1')).status).toMatchObject({ phase: 'Cancelled', outcome: 'Superseded' });
  });
});
