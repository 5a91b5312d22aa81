/** Failure stories from the field (references: remediation, proof), each played to the controllers as they run. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Nodes } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import { isFinished, RemedyOperationJobs } from '../../api/remedy-operation-job.ts';
import { findCondition } from '../../kube/conditions.ts';
import { bad, good } from '../../rules/testing.ts';
import { createFaults } from './testing/faults.ts';
import { openRemedyCell, type Process, type RemedyCell } from './testing/cell.ts';

let cell: RemedyCell;
let process: Process;
beforeEach(async () => {
  cell = await openRemedyCell();
});
afterEach(() => cell.close());

const unhealthy = { KernelDeadlock: 'True' };
const healthy = { KernelDeadlock: 'False' };
const begin = async (spec: object = {}): Promise<void> => {
  await cell.rule('hung', spec);
  process = await cell.start();
};
const restart = async (options: { wallOffsetMs?: number } = {}): Promise<void> => {
  await process.stop();
  process = await cell.start(options);
};
async function grant() {
  await cell.reserve(await cell.job('Pending'));
  return await cell.job('Granted');
}
async function ordered() {
  await cell.detect('a', unhealthy);
  await cell.pass(40);
  await cell.order(await grant());
  return await cell.job('Running');
}
async function acted() {
  const job = await ordered();
  await cell.boot('a', 'boot-2');
  await cell.report(job, 'Succeeded');
  return await cell.job('Verifying');
}

describe('a controller that restarts', () => {
  it('in every phase goes on where the last one stopped, and repeats nothing', async () => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(20);
    await restart();
    expect(await cell.jobs()).toEqual([]);
    await cell.pass(20);
    const asked = await cell.job('Pending');
    await restart();
    await cell.pass(60);
    const granted = await grant();
    await restart();
    await cell.order(granted);
    const running = await cell.job('Running');
    await restart();
    await cell.pass(30);
    await cell.boot('a', 'boot-2');
    await cell.report(running, 'Succeeded');
    await cell.detect('a', healthy);
    const verifying = await cell.job('Verifying');
    await cell.pass(150);
    await restart();
    const { since } = (await cell.job('Verifying')).status?.proof ?? {};
    expect(since).toBe(verifying.status?.proof?.since ?? since);
    await cell.pass(160);
    const done = await cell.job('Succeeded');
    expect(done.metadata.uid).toBe(asked.metadata.uid);
    await restart();
    await cell.pass(60);
    expect(await cell.phases()).toEqual(['Reboot Succeeded']);
  });

  it('does not fire early or forget (draino lost its timers): what was seen before counts, what was missed does not', async () => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(25);
    await process.stop();
    await cell.detect('a', healthy);
    await cell.pass(120);
    await cell.detect('a', unhealthy);
    process = await cell.start();
    await cell.pass(20);
    expect(await cell.jobs()).toEqual([]);
    await cell.pass(20);
    await cell.job('Pending');
  });

  it('case 24: under a clock that is an hour off fires neither early nor an hour late', async () => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(15);
    await restart({ wallOffsetMs: -3_600_000 });
    await cell.pass(10);
    expect(await cell.jobs()).toEqual([]);
    await cell.pass(60);
    await cell.job('Pending');
  });
});

describe('case 24: clocks', () => {
  it.each([3_600_000, -3_600_000])('the wall clock jumps by %i ms: nothing fires and nothing is healed by it', async (jump) => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(10);
    cell.clock.jump(jump);
    await cell.settle();
    expect(await cell.jobs()).toEqual([]);
    await cell.pass(30);
    await cell.order(await grant());
    await cell.boot('a', 'boot-2');
    await cell.report(await cell.job('Running'), 'Succeeded');
    await cell.detect('a', healthy);
    await cell.pass(100);
    cell.clock.jump(-jump);
    await cell.pass(100);
    await cell.job('Verifying');
    await cell.pass(200);
    await cell.job('Succeeded');
  });
});

describe('detectors', () => {
  it('one that restarts and forgets proves nothing (NPD sets all it has to False)', async () => {
    await begin({
      when: { all: [bad('GPUFault')] },
      ladder: [{ action: 'RestartComponent', args: { component: 'containerd' } }, { action: 'Human' }],
      healedWhen: { condition: 'GPUFault', is: 'False', forSeconds: 60 },
    });
    await cell.detect('a', { GPUFault: 'True' });
    await cell.pass(40);
    await cell.order(await grant());
    await cell.report(await cell.job('Running'), 'Succeeded');
    const transition = new Date(cell.clock.now()).toISOString();
    await cell.detect('a', { GPUFault: 'False', KernelDeadlock: 'False', ReadonlyFilesystem: 'False' }, { transition });
    await cell.pass(400);
    expect((await cell.job('Verifying')).status?.explanation).toContain('because its detector restarted, which proves nothing');
    await cell.pass(250);
    expect((await cell.job('Failed')).status?.explanation).toContain('not proved within 600 s');
  });

  it('one that died heals nothing: a heartbeat that stands still is Unknown', async () => {
    await begin();
    await acted();
    cell.stopped.detector.add('a');
    await cell.pass(560);
    await cell.job('Verifying');
    await cell.pass(60);
    expect((await cell.job('Failed')).status?.explanation).toContain('not proved');
  });

  it('a heartbeat from before the end of the action, delivered late, proves nothing', async () => {
    await begin();
    const job = await ordered();
    await cell.boot('a', 'boot-2');
    // The condition is cleared while the node shuts down; the report comes after it.
    await cell.detect('a', healthy);
    cell.stopped.detector.add('a');
    await cell.report(job, 'Succeeded');
    await cell.pass(400);
    const verifying = await cell.job('Verifying');
    expect(verifying.status?.explanation).toContain('by a heartbeat from before the action had ended');
    expect(verifying.status?.proof?.since).toBeUndefined();
  });

  it('a replayed or out-of-order condition with an old transition starts no clock again and heals nothing twice', async () => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    const { name } = (await cell.job('Pending')).metadata;
    await cell.detect('a', unhealthy, { transition: '2025-01-01T00:00:00Z' });
    await cell.pass(120);
    expect((await cell.jobs()).map((job) => job.metadata.name)).toEqual([name]);
    await cell.job('Pending');
  });

  it('a condition dated into the future is believed only when it changes', async () => {
    await begin();
    await cell.detect('a', unhealthy, { at: cell.clock.now() + 3_600_000 });
    await restart();
    cell.stopped.detector.add('a');
    await cell.pass(120);
    expect(await cell.jobs()).toEqual([]);
    cell.stopped.detector.delete('a');
    await cell.pass(120);
    await cell.job('Pending');
  });

  it('a log line that is old when it is read (transition an hour ago) does not make `for` true at once', async () => {
    await begin();
    await cell.detect('a', unhealthy, { transition: new Date(cell.clock.now() - 3_600_000).toISOString() });
    await cell.pass(20);
    expect(await cell.jobs()).toEqual([]);
    await cell.pass(20);
    await cell.job('Pending');
  });

  it('one that flaps extends the proof instead of ending it, and makes no further job', async () => {
    await begin({ when: { all: [bad('KubeletUnhealthy')] }, healedWhen: { condition: 'KubeletUnhealthy', is: 'False', forSeconds: 300 } });
    await cell.detect('a', { KubeletUnhealthy: 'True' });
    await cell.pass(40);
    await cell.order(await grant());
    await cell.boot('a', 'boot-2');
    await cell.report(await cell.job('Running'), 'Succeeded');
    await cell.detect('a', { KubeletUnhealthy: 'False' });
    await cell.pass(200);
    await cell.detect('a', { KubeletUnhealthy: 'True' });
    await cell.detect('a', { KubeletUnhealthy: 'False' });
    await cell.pass(200);
    await cell.job('Verifying');
    await cell.pass(150);
    await cell.job('Succeeded');
    expect(await cell.jobs()).toHaveLength(1);
  });

  it('one that restarts after the fault came back in the new boot does not make that boot a cure', async () => {
    await begin();
    await acted();
    await cell.detect('a', healthy);
    await cell.pass(100);
    await cell.detect('a', unhealthy);
    await cell.detect('a', healthy);
    await cell.pass(450);
    expect((await cell.job('Verifying')).status?.proof?.relapsed).toBe('boot-2');
    await cell.pass(100);
    await cell.job('Failed');
  });
});

describe('Leases', () => {
  const staleKubelet = { when: { all: [{ fact: 'heartbeat.kubelet', operator: 'equal', value: 'Stale' }] }, holdsForSeconds: 60 };

  it('a kubelet that stops is noticed without an event, and one that is back at once', async () => {
    await begin(staleKubelet);
    await cell.pass(300);
    expect(await cell.jobs()).toEqual([]);
    cell.stopped.kubelet.add('a');
    await cell.pass(80);
    expect(await cell.jobs()).toEqual([]);
    await cell.pass(40);
    await cell.job('Pending');
    cell.stopped.kubelet.delete('a');
    await cell.pass(10);
    expect((await cell.job('Cancelled')).status?.explanation).toContain('recovered before the order');
  });

  it('a node is not stale while the stores are: a controller that receives nothing does nothing', async () => {
    await cell.rule('hung', staleKubelet);
    const faults = createFaults();
    process = await cell.start({ through: (transport) => faults.through(transport) });
    faults.stalled = true;
    await cell.pass(900);
    faults.stalled = false;
    await cell.pass(30);
    expect(await cell.jobs()).toEqual([]);
  });
});

it('a reboot in the same boot is no reboot (NHC: healed too early)', async () => {
  await begin();
  const job = await ordered();
  await cell.report(job, 'Succeeded');
  await cell.detect('a', healthy);
  await cell.pass(500);
  expect((await cell.job('Verifying')).status?.explanation).toContain('still boot boot-1');
});

it('a node that was replaced under the same name is not repaired for what the old one had', async () => {
  await begin();
  await cell.detect('a', unhealthy);
  await cell.pass(40);
  const granted = await grant();
  await cell.client.delete(Nodes, { name: 'a' });
  await cell.client.create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' } });
  await cell.order(granted);
  await cell.boot('a', 'boot-2');
  await cell.report(await cell.job('Running'), 'Succeeded');
  await cell.pass(400);
  expect((await cell.job('Verifying')).status?.explanation).toContain('replaced under the same name');
});

describe('the ladder', () => {
  it('climbs by failure, counts attempts over jobs, and ends at a human who is asked once', async () => {
    await begin({ ladder: [{ action: 'MigratePods' }, { action: 'Reboot', attempts: 2, cooldownSeconds: 120 }, { action: 'Human' }] });
    await cell.detect('a', unhealthy);
    for (const [outcome, by] of [
      ['Succeeded', 'repair'],
      ['TransientFailure', 'operation'],
      ['PermanentFailure', 'operation'],
    ] as const) {
      await cell.pass(200);
      const granted = await grant();
      await cell.order(granted);
      await cell.report(await cell.job('Running'), outcome, by);
      await cell.release(granted.status?.operationID ?? '');
    }
    await cell.pass(600);
    expect(await cell.phases()).toEqual(['MigratePods Succeeded', 'Reboot Failed', 'Reboot Failed', 'Human NeedsHuman']);
    expect((await cell.jobs()).map(({ spec }) => [spec.rung, spec.attempt])).toEqual([
      [0, 1],
      [1, 1],
      [1, 2],
      [2, 1],
    ]);
    await restart();
    await cell.pass(600);
    expect(await cell.jobs()).toHaveLength(4);
  });

  it.each([0, 0.4])('its next rung waits for `for` once, with a clock that is %d ms past the full one', async (wallOffsetMs) => {
    await cell.rule('hung', { ladder: [{ action: 'MigratePods' }, { action: 'Reboot' }, { action: 'Human' }] });
    process = await cell.start({ wallOffsetMs });
    const granted = await ordered();
    await cell.report(granted, 'Succeeded', 'repair');
    await cell.release(granted.status?.operationID ?? '');
    expect(await cell.phases()).toEqual(['MigratePods Succeeded']);
    await cell.pass(35);
    expect(await cell.phases()).toEqual(['MigratePods Succeeded', 'Reboot Pending']);
  });

  it('a Replace has succeeded when the machine of that UID is gone, also where another has its name now', async () => {
    await begin({ ladder: [{ action: 'Replace' }, { action: 'Human' }] });
    await ordered();
    await cell.client.delete(Machines, { namespace: 'web', name: 'a' });
    await cell.client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace: 'web', name: 'a' }, spec: {} });
    expect((await cell.job('Succeeded')).status?.explanation).toBe('the machine is gone');
  });

  it('a Reboot is carried out as a PowerCycle where the agent does not answer, and reported by the machine controller', async () => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    await cell.order(await grant(), 'PowerCycle');
    const running = await cell.job('Running');
    await cell.report(running, 'Succeeded', 'operation');
    await cell.job('Running');
    await cell.report(running, 'Succeeded', 'repair');
    await cell.job('Verifying');
  });
});

describe('case 22: rules', () => {
  it('deleted before the order: the job is cancelled; after it: the job goes on by its own copy', async () => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    const granted = await grant();
    await cell.order(granted);
    await cell.job('Running');
    await cell.client.delete(NodeRemediers, { name: 'hung' });
    await cell.boot('a', 'boot-2');
    await cell.report(await cell.job('Running'), 'Succeeded');
    await cell.detect('a', healthy);
    await cell.pass(320);
    await cell.job('Succeeded');

    await cell.rule('other');
    await cell.detect('a', unhealthy);
    await cell.pass(60);
    await cell.job('Pending');
    await cell.client.delete(NodeRemediers, { name: 'other' });
    expect((await cell.job('Cancelled')).status?.explanation).toContain('is gone');
  });

  it('edited mid-ladder: what was tried stays tried, found by what it does', async () => {
    await begin({ ladder: [{ action: 'Reboot' }, { action: 'Human' }] });
    const job = await ordered();
    await cell.edit('hung', { ladder: [{ action: 'MigratePods' }, { action: 'Reboot' }, { action: 'Replace' }, { action: 'Human' }] });
    await cell.report(job, 'PermanentFailure');
    await cell.release(job.status?.operationID ?? '');
    await cell.pass(60);
    expect((await cell.job('Pending')).spec).toMatchObject({ action: 'Replace', rung: 2 });
  });

  it('edited into Shadow: a job without an order is cancelled', async () => {
    await begin();
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    await cell.job('Pending');
    await cell.edit('hung', { mode: 'Shadow' });
    expect((await cell.job('Cancelled')).status?.explanation).toContain('in Shadow now');
  });

  it('that undo each other: both are refused with the reason, or the newcomer alone', async () => {
    const accepted = async (name: string) => findCondition((await cell.client.get(NodeRemediers, { name })).status?.conditions, 'Accepted');
    await begin({ when: { all: [bad('Ready')] }, healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 10 } });
    await cell.until(async () => (await accepted('hung'))?.status === 'True');
    await cell.rule('back', { when: { all: [good('KernelDeadlock')] }, healedWhen: { condition: 'Ready', is: 'True', forSeconds: 10 } });
    const refused = await cell.until(async () => ((await accepted('back'))?.status === 'False' ? accepted('back') : undefined));
    expect(refused.message).toContain('undo each other');
    expect((await cell.client.get(NodeRemediers, { name: 'back' })).status?.validationErrors?.[0]?.path).toBe('spec.healedWhen');
    expect((await accepted('hung'))?.status).toBe('True');
    await restart();
    expect((await accepted('hung'))?.status).toBe('True');
    expect(await cell.reasons()).toEqual(expect.arrayContaining(['RuleAccepted', 'RuleRefused']));
  });

  it('F1: that fail their check never run, and others do', async () => {
    await begin();
    await cell.rule('typo', { when: { all: [{ fact: 'condition.KernelDeadlock.statsu', operator: 'equal', value: 'True' }] } });
    await cell.detect('a', unhealthy);
    await cell.pass(60);
    expect((await cell.jobs()).map((job) => job.spec.rule)).toEqual(['hung']);
    expect((await cell.client.get(NodeRemediers, { name: 'typo' })).status).toMatchObject({
      validationErrors: [{ path: 'spec.when.all[0].fact' }],
    });
  });
});

describe('two rules on one machine', () => {
  const urgent = {
    when: { all: [bad('ReadonlyFilesystem')] },
    healedWhen: { condition: 'ReadonlyFilesystem', is: 'False', forSeconds: 60 },
    priority: 10,
  };

  it('F6: the higher priority supersedes a job that is Pending', async () => {
    await begin();
    await cell.rule('urgent', urgent);
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    expect((await cell.job('Pending')).spec.rule).toBe('hung');
    await cell.detect('a', { ReadonlyFilesystem: 'True' });
    await cell.pass(40);
    expect((await cell.job('Cancelled')).status).toMatchObject({ outcome: 'Superseded', explanation: expect.stringContaining('urgent') });
    expect((await cell.job('Pending')).spec.rule).toBe('urgent');
  });

  it('and one that is Granted, before its order', async () => {
    await begin();
    await cell.rule('urgent', urgent);
    await cell.detect('a', unhealthy);
    await cell.pass(40);
    const granted = await grant();
    await cell.detect('a', { ReadonlyFilesystem: 'True' });
    await cell.pass(40);
    expect((await cell.job('Granted')).status?.cancelling?.why).toContain('urgent');
    await cell.cancel(granted, 'its job shall be cancelled');
    await cell.release(granted.status?.operationID ?? '');
    await cell.pass(60);
    expect((await cell.jobs()).find((job) => job.spec.rule === 'hung')?.status).toMatchObject({
      phase: 'Cancelled',
      outcome: 'Superseded',
    });
    expect((await cell.job('Pending')).spec.rule).toBe('urgent');
  });

  it('but not after the order: it waits until the machine is free', async () => {
    await begin();
    await cell.rule('urgent', urgent);
    const job = await ordered();
    await cell.detect('a', { ReadonlyFilesystem: 'True' });
    await cell.pass(120);
    expect(await cell.phases()).toEqual(['Reboot Running']);
    await cell.report(job, 'PermanentFailure');
    await cell.pass(60);
    expect((await cell.job('Pending')).spec.rule).toBe('urgent');
  });

  it('at the same moment: one job, of the one that comes first', async () => {
    await begin();
    await cell.rule('urgent', urgent);
    await cell.detect('a', { ...unhealthy, ReadonlyFilesystem: 'True' });
    await cell.pass(300);
    expect((await cell.jobs()).map((job) => job.spec.rule)).toEqual(['urgent']);
  });
});

describe('in Shadow', () => {
  it('a match is reported once, as a job that ended at once, and asks for nothing', async () => {
    await begin({ mode: 'Shadow' });
    await cell.detect('a', unhealthy);
    await cell.pass(100);
    expect(await cell.reasons()).toContain('WouldRepair');
    await cell.pass(1200);
    const [job, ...more] = await cell.jobs();
    expect(more).toEqual([]);
    expect(job).toMatchObject({ spec: { mode: 'Shadow', action: 'Reboot' }, status: { phase: 'Shadow', finishedAt: expect.any(String) } });
    expect(job?.status?.explanation).toContain('would Reboot');
    expect((await cell.machine('a')).status?.conditions?.find((each) => each.type === 'RepairNeeded')).toBeUndefined();
    await cell.pass(5);
    expect((await cell.client.get(NodeRemediers, { name: 'hung' })).status?.counters).toMatchObject({ wouldBeJobs: 1, jobs: 0 });
    await restart();
    await cell.pass(600);
    expect(await cell.jobs()).toHaveLength(1);
  });

  it('each episode is reported, flapping is not', async () => {
    await begin({ mode: 'Shadow', holdsForSeconds: 0 });
    for (let flaps = 0; flaps < 5; flaps++) {
      await cell.detect('a', unhealthy);
      await cell.pass(10);
      await cell.detect('a', healthy);
      await cell.pass(10);
    }
    expect(await cell.jobs()).toHaveLength(1);
    await cell.pass(700);
    await cell.detect('a', unhealthy);
    await cell.pass(10);
    expect(await cell.jobs()).toHaveLength(2);
  });
});

it('counts jobs again from what is there, so that a crash neither loses nor doubles one', async () => {
  await begin();
  const job = await ordered();
  await cell.report(job, 'PermanentFailure');
  await cell.pass(5);
  const counters = async () => (await cell.client.get(NodeRemediers, { name: 'hung' })).status?.counters;
  expect(await counters()).toMatchObject({ jobs: 1, failed: 1, succeeded: 0 });
  await restart();
  await cell.pass(5);
  expect(await counters()).toMatchObject({ jobs: 1, failed: 1 });
  await cell.edit('hung', { holdsForSeconds: 60 });
  await cell.pass(5);
  expect(await counters()).toMatchObject({ jobs: 0 });
});

it('a machine that is paused or being deleted gets no job', async () => {
  await begin();
  await cell.client.patch(Machines, { namespace: 'web', name: 'a' }, { merge: { spec: { paused: true } } });
  await cell.detect('a', unhealthy);
  await cell.pass(120);
  expect(await cell.jobs()).toEqual([]);
  await cell.client.patch(
    Machines,
    { namespace: 'web', name: 'a' },
    { merge: { spec: { paused: null }, metadata: { finalizers: ['kubenode.io/machine'] } } },
  );
  await cell.client.delete(Machines, { namespace: 'web', name: 'a' });
  await cell.pass(120);
  expect(await cell.jobs()).toEqual([]);
});

async function changes(): Promise<void> {
  const machine = await cell.machine('a');
  await cell.reservations(() => [
    {
      id: 'change',
      machineUID: machine.metadata.uid,
      machine: 'web/a',
      kind: 'Change',
      class: 'Change',
      requesterUID: 'set',
      requester: 'MachineComponentSet/kubelet',
      scopes: [],
      since: new Date(cell.clock.now()).toISOString(),
      notAfter: new Date(cell.clock.now() + 900_000).toISOString(),
    },
  ]);
}

it('F2: a Change under way stops the clocks: they begin again when its reservation is gone', async () => {
  await begin();
  await changes();
  await cell.detect('a', unhealthy);
  await cell.pass(300);
  expect(await cell.jobs()).toEqual([]);
  await cell.release('change');
  await cell.pass(20);
  expect(await cell.jobs()).toEqual([]);
  await cell.pass(20);
  await cell.job('Pending');
});

it('F2: what was noted before a Change stays noted while it lasts, so that a rule that counts goes on to match', async () => {
  const noted = async () => (await cell.machine('a')).status?.observations;
  await begin();
  await cell.detect('a', unhealthy);
  await cell.pass(20);
  const before = await noted();
  expect(before).toContainEqual(expect.objectContaining({ key: expect.stringContaining('for/hung/') as string }));
  await changes();
  await cell.pass(120);
  expect(await noted()).toEqual(before);
  await cell.release('change');
  await cell.pass(10);
  expect(await noted()).not.toEqual(before);
});

it('is kept for 30 days as the record, then deleted', async () => {
  await begin();
  const job = await ordered();
  await cell.report(job, 'PermanentFailure');
  await cell.detect('a', healthy);
  await cell.job('Failed');
  await process.stop();
  await cell.clock.advance(29 * 86_400_000);
  await cell.pass(10);
  process = await cell.start();
  expect(await cell.jobs()).toHaveLength(1);
  await process.stop();
  await cell.clock.advance(86_400_000);
  await cell.pass(10);
  process = await cell.start();
  await cell.until(async () => (await cell.jobs()).length === 0);
});

it('two leaders, each with the old view, make one job', async () => {
  await begin();
  const other = await cell.start();
  await cell.detect('a', unhealthy);
  await cell.pass(120);
  const jobs = await cell.client.listAll(RemedyOperationJobs);
  expect(jobs.items.filter((job) => !isFinished(job))).toHaveLength(1);
  expect(jobs.items).toHaveLength(1);
  await other.stop();
});

it('correlated faults: a rule that asks about its zone does nothing when too many of it are unhealthy', async () => {
  const zone = { 'topology.kubernetes.io/zone': 'h' };
  for (const name of ['b', 'c', 'd', 'e']) await cell.addMachine(name, zone);
  const few = { fact: 'peers.zone.unhealthy', operator: 'lessThan', value: 2 };
  await begin({ when: { all: [bad('KernelDeadlock'), few] } });
  for (const name of ['b', 'c', 'd', 'e']) await cell.detect(name, unhealthy);
  await cell.pass(120);
  expect(await cell.jobs()).toEqual([]);
  // Only machines whose rules read the zone are evaluated again when its counts change.
  await cell.detect('d', healthy);
  await cell.detect('e', healthy);
  await cell.pass(60);
  const jobs = (await cell.jobs()).map((job) => job.spec.node);
  expect(jobs.toSorted()).toEqual(['b', 'c']);
});
