import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Nodes } from '../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import { Machines } from '../../api/machine.ts';
import type { RemedyOperationJob, RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { jsonResponse } from '../../kube/testing/api-server.ts';
import { bad } from '../../rules/testing.ts';
import { isBegun, observe, type JobView } from './observe.ts';
import { openDesk, type Desk } from './testing/desk.ts';

let desk: Desk;
beforeEach(async () => {
  desk = await openDesk();
});
afterEach(() => desk.close());

const KEY = { namespace: 'web', name: 'a' };
const unhealthy = { KernelDeadlock: 'True' };
const granted: RemedyOperationJobStatus = { phase: 'Granted', operationID: 'reservation-1' };
/** As the stores show it. */
const seen = (job: Stored<RemedyOperationJob>): Promise<JobView> => observe(desk.remedyCache, job, undefined);
/** As the server has it. */
const live = (job: Stored<RemedyOperationJob>): Promise<JobView> =>
  observe(desk.remedyCache, job, { client: desk.client, signal: desk.signal });
/** Stores keep no managedFields. */
const plain = (view: JobView): unknown =>
  JSON.parse(JSON.stringify(view, (key, value: unknown) => (key === 'managedFields' ? undefined : value)));
/** In both ways, which must agree where nothing moves. */
async function views(job: Stored<RemedyOperationJob>): Promise<JobView> {
  const [old, now] = [await seen(job), await live(job)];
  expect([old.isLive, now.isLive]).toEqual([false, true]);
  expect(plain({ ...now, isLive: false })).toEqual(plain(old));
  return now;
}

describe('what is known of a job', () => {
  it('is its machine, the Node of that, the reservation that it asked for, and how its rule stands', async () => {
    await desk.cell.rule('hung');
    await desk.cell.detect('a', unhealthy);
    const other = await desk.job('other');
    const job = await desk.job('hung-1');
    await desk.cell.reserve(other);
    const id = await desk.cell.reserve(job);
    const view = await views(job);
    expect(view).toMatchObject({
      nowMs: desk.cell.clock.now(),
      machine: { metadata: { name: 'a' } },
      node: { metadata: { name: 'a' } },
      reservation: { id },
      isLedgerBegun: true,
      rule: 'Enforced',
      matches: 'True',
      diagnosis: [],
      hasSuccessor: false,
      forgetAfterMs: 86_400_000,
    });
    expect(view.superseded).toBeUndefined();
    await desk.cell.detect('a', { KernelDeadlock: 'False' });
    expect((await views(job)).matches).toBe('False');
  });

  it('is no machine of its name that is another one, and no Node that its machine has not claimed', async () => {
    await desk.cell.rule('hung');
    const job = await desk.job('hung-1', { machine: { name: 'a', uid: 'one-before' } });
    const before = await views(job);
    expect([before.machine, before.node, before.snapshot, before.matches]).toEqual([undefined, undefined, undefined, undefined]);
    expect(before.nowMs).toBe(desk.cell.clock.now());
    const own = await desk.job('hung-2');
    await desk.cell.status('a', { nodeRef: { uid: 'one-before' } });
    expect((await views(own)).node).toBeUndefined();
    expect((await views(own)).machine).toBeDefined();
  });

  it('is no Node where the machine has claimed none, and none is asked for where the job names none either', async () => {
    const job = await desk.job('hung-1', { node: '' });
    await desk.cell.status('a', { nodeRef: null });
    expect((await views(job)).node).toBeUndefined();
    const running = await desk.job('hung-2', { node: '' }, { phase: 'Running' });
    expect((await views(running)).node).toBeUndefined();
    expect(desk.trace.filter((each) => each.includes('nodes'))).toEqual([]);
  });

  it('is the Node that the machine has claimed, and not the one that had the job’s name for it', async () => {
    await desk.cell.client.create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'b' } });
    const { metadata } = await desk.cell.node('b');
    await desk.cell.status('a', { nodeRef: { name: 'b', uid: metadata.uid } });
    const job = await desk.job('hung-1');
    expect((await views(job)).node?.metadata.name).toBe('b');
  });

  it('read live is what the server has, though the stores have not seen it', async () => {
    await desk.cell.rule('hung');
    const job = await desk.job('hung-1');
    const node = await desk.cell.node('a');
    const conditions = node.status?.conditions?.map((each) => (each.type === 'KernelDeadlock' ? { ...each, status: 'True' } : each));
    const newer = { ...node, status: { ...node.status, conditions } };
    desk.intercept = ({ path }) => (path.endsWith('/nodes/a') ? jsonResponse(200, newer) : undefined);
    const deadlock = ({ snapshot }: JobView) => snapshot?.node?.conditions.get('KernelDeadlock')?.status;
    expect([deadlock(await seen(job)), deadlock(await live(job))]).toEqual(['False', 'True']);
  });
});

it('D1: a ledger is begun once a term has begun in it', async () => {
  const job = await desk.job('hung-1');
  expect((await views(job)).isLedgerBegun).toBe(false);
  const ledger = await desk.cell.client.get(DisruptionLedgers, { name: LEDGER_NAME });
  const begun = [undefined, 0, 1, 2].map((epoch) => isBegun({ ...ledger, status: epoch === undefined ? {} : { epoch } }));
  expect([isBegun(undefined), isBegun({ ...ledger, status: undefined as never }), ...begun]).toEqual([
    false,
    false,
    false,
    false,
    true,
    true,
  ]);
  await desk.cell.reservations((reservations) => reservations);
  expect((await views(job)).isLedgerBegun).toBe(true);
});

describe('the order of live reads', () => {
  const machine = 'GET machines/a';
  const ledger = `GET disruptionledgers/${LEDGER_NAME}`;
  const node = 'GET nodes/a';
  const traceOf = async (status: RemedyOperationJobStatus | undefined): Promise<string[]> => {
    const job = await desk.job('hung-1', {}, status);
    desk.trace.length = 0;
    await live(job);
    return [...desk.trace];
  };

  it.each([undefined, { phase: 'Pending' } as const])(
    'of a job that has no reservation is none: all at once, and nothing twice',
    async (status) => {
      const trace = await traceOf(status);
      expect(trace.slice(0, 3)).toEqual([`>${ledger}`, `>${machine}`, `>${node}`]);
      expect(trace).toHaveLength(6);
    },
  );

  it('of a job that has one is the ledger, then the Machine, then the Node', async () => {
    expect(await traceOf(granted)).toEqual([`>${ledger}`, `<${ledger}`, `>${machine}`, `<${machine}`, `>${node}`, `<${node}`]);
  });
});

describe('the rule of a job', () => {
  it('is Gone, Refused, in Shadow or Enforced', async () => {
    const job = await desk.job('hung-1');
    const gone = await views(job);
    expect([gone.rule, gone.matches]).toEqual(['Gone', undefined]);
    await desk.cell.rule('typo', { when: { all: [{ fact: 'condition.KernelDeadlock.statsu', operator: 'equal', value: 'True' }] } });
    expect((await views(await desk.job('typo-1', { rule: 'typo' }))).rule).toBe('Refused');
    await desk.cell.rule('hung', { mode: 'Shadow', forgetAfterSeconds: 7200 });
    expect(await views(job)).toMatchObject({ rule: 'Shadow', forgetAfterMs: 7_200_000 });
    await desk.cell.edit('hung', { mode: 'Enforce' });
    expect((await views(job)).rule).toBe('Enforced');
  });

  it('does not match a machine that it is not about', async () => {
    await desk.cell.rule('hung', { selector: { tier: 'web' } });
    await desk.cell.detect('a', unhealthy);
    expect((await views(await desk.job('hung-1'))).matches).toBe('False');
    await desk.cell.client.patch(Machines, KEY, { merge: { metadata: { labels: { tier: 'web' } } } });
    await desk.cell.settle();
    expect((await views(await desk.job('hung-2'))).matches).toBe('True');
  });
});

it('a successor is a later job of the same rule on the same machine', async () => {
  const job = await desk.job('hung-1');
  await desk.job('twin');
  expect((await views(job)).hasSuccessor).toBe(false);
  await desk.cell.clock.advance(2000);
  await desk.job('other-1', { rule: 'other' });
  await desk.job('elsewhere', { machine: { name: 'a', uid: 'one-before' } });
  expect((await views(job)).hasSuccessor).toBe(false);
  const later = await desk.job('hung-2');
  expect([(await views(job)).hasSuccessor, (await views(later)).hasSuccessor]).toEqual([true, false]);
});

describe('the diagnosis for a human', () => {
  const human = { action: 'Human', rung: 1 } as const;
  const ended = (at: number, more: RemedyOperationJobStatus = {}): RemedyOperationJobStatus => {
    const finishedAt = new Date(at).toISOString();
    return { phase: 'Failed', outcome: 'PermanentFailure', explanation: 'no', finishedAt, ...more };
  };

  it('is what was tried, and how the rule was seen', async () => {
    await desk.cell.rule('hung');
    await desk.cell.detect('a', unhealthy);
    const now = desk.cell.clock.now();
    await desk.job('hung-1', {}, ended(now, { orderedAt: new Date(now).toISOString() }));
    await desk.cell.clock.advance(60_000);
    const { diagnosis } = await views(await desk.job('hung-2', human));
    expect(diagnosis[0]).toBe('nothing helped: Reboot: PermanentFailure');
    expect(diagnosis[1]).toContain('tried Reboot at');
    expect(diagnosis.join('\n')).toContain('KernelDeadlock');
  });

  it('begins with the reason of the job where the ladder would not ask any more', async () => {
    await desk.cell.rule('hung');
    await desk.cell.detect('a', unhealthy);
    expect((await views(await desk.job('hung-2', human))).diagnosis[0]).toBe('it was seen');
  });

  it('begins with the number of machines that were replaced in vain', async () => {
    const ladder = [{ action: 'Replace' }, { action: 'Human' }];
    await desk.cell.rule('first', { ladder });
    await desk.cell.rule('again', { ladder });
    await desk.cell.detect('a', unhealthy);
    const first = await views(await desk.job('first-1', { ...human, rule: 'first' }));
    const again = await views(await desk.job('again-1', { ...human, rule: 'again', replacements: 1 }));
    expect(first.diagnosis[0]).toBe('it was seen');
    expect(again.diagnosis[0]).toMatch(/^nothing helped/);
  });

  it('is the reason of the job where its rule is gone, and nothing where no person is asked, or was already', async () => {
    expect((await views(await desk.job('gone-1', { ...human, rule: 'gone' }))).diagnosis).toEqual(['it was seen']);
    await desk.cell.rule('hung', { when: { all: [bad('KernelDeadlock')] } });
    expect((await views(await desk.job('hung-1', human, { phase: 'NeedsHuman' }))).diagnosis).toEqual([]);
    expect((await views(await desk.job('hung-2'))).diagnosis).toEqual([]);
  });
});
