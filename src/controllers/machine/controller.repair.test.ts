import { afterEach, describe, expect, test } from 'vitest';
import { Nodes, Pods, PodDisruptionBudgets } from '../../api/builtin.ts';
import { Freezes } from '../../api/freeze.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Operation, type Outcome } from '../../api/machine.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { RemedyOperationJobs } from '../../api/remedy-operation-job.ts';
import type { InfraProvider } from '../../api/provider.ts';
import type { Client } from '../../kube/client.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { fakeProvider } from '../../providers/testing/fake.ts';
import { isCordoned, ownerOf } from './cordon/cordon.ts';
import { isOutOfService } from './node-sync/node-sync.ts';
import { openCell, POOL, type Leadership, type TestCell } from './testing/cell.ts';
import { entry, VERIFIED_OLD, waiting } from './testing/objects.ts';

let cell: TestCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});

const LONG = { deadlineMs: 15_000 };

async function started(options?: { sets?: boolean }): Promise<TestCell> {
  cell = await openCell();
  cell.lead(options);
  return cell;
}

async function runningMachines(test: TestCell, ...names: string[]): Promise<void> {
  for (const name of names) {
    await test.addMachine(name, { drainTimeoutSeconds: 60, operationTimeoutSeconds: 60 });
    await test.boot(name);
  }
  for (const name of names) await test.phase(name, 'Running');
}

async function orderOf(test: TestCell, name: string, id: string): Promise<Operation> {
  return await waitFor(
    async () => {
      const { operation } = (await test.machine(name)).spec;
      return operation?.id === id ? operation : undefined;
    },
    { ...LONG, what: `operation ${id} on ${name}` },
  );
}

/** What the agent and then the job controller do. */
async function finish(test: TestCell, name: string, job: string, id: string, outcome: Outcome = 'Succeeded'): Promise<void> {
  await test.jobStatus(job, { phase: 'Running' });
  await test.report(name, { operation: { id, state: 'Done', outcome } });
  await test.jobStatus(job, { phase: outcome === 'Succeeded' ? 'Succeeded' : 'Failed', outcome });
}

const pod = (test: TestCell, name: string, graceSeconds = 0) =>
  test.client.create(Pods, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: POOL, labels: { app: name } },
    spec: { nodeName: 'a', containers: [{ name: 'c', image: 'i' }], terminationGracePeriodSeconds: graceSeconds },
  });
const repairOf = async (test: TestCell, name: string, id: string) =>
  await waitFor(
    async () => {
      const repair = (await test.machine(name)).status?.repair;
      return repair?.id === id && repair.state === 'Done' ? repair : undefined;
    },
    { ...LONG, what: `the end of repair ${id}` },
  );
const noReservations = (test: TestCell) =>
  waitFor(async () => (await test.reservations()).length === 0, { ...LONG, what: 'no reservations' });

/** A client that shows no job until the gate opens, as the cache of a process that had fallen behind; notes the Nodes that it changes. */
function behind(client: Client, gate: Promise<void>): { through: Client; changed: string[] } {
  const changed: string[] = [];
  let lists = 0;
  const through: Client = {
    ...client,
    async list(resource, options) {
      const isOld = resource.plural === RemedyOperationJobs.plural && lists++ === 0;
      if (resource.plural === RemedyOperationJobs.plural && !isOld) await gate;
      const list = await client.list(resource, options);
      return isOld ? { ...list, items: [] } : list;
    },
    async patch(resource, key, patch, options) {
      if (resource.plural === Nodes.plural) changed.push(key.name);
      return await client.patch(resource, key, patch, options);
    },
  };
  return { through, changed };
}

describe('a repair that the agent carries out', () => {
  test('D2: is not taken for one that is over by a leader whose stores are older than its term', async () => {
    cell = await openCell();
    const test = cell;
    const before = test.lead();
    await runningMachines(test, 'a');
    await test.addJob({ name: 'j1', machine: 'a' });
    const id = await test.grant('j1');
    await orderOf(test, 'a', id);
    await test.jobStatus('j1', { phase: 'Verifying' });
    await test.report('a', { operation: { id, state: 'Done', outcome: 'Succeeded' } });
    await before.stop();

    const gate = Promise.withResolvers<void>();
    const { through, changed } = behind(test.client, gate.promise);
    test.lead({ through });
    await waitFor(() => changed.length > 0, { deadlineMs: 500 }).catch(() => undefined);
    const early = [...changed, (await test.reservations()).map((reservation) => reservation.id)];
    gate.resolve();
    expect(early).toEqual([[id]]);
    await test.jobStatus('j1', { phase: 'Succeeded', outcome: 'Succeeded' });
    await noReservations(test);
    expect(changed).toEqual(['a']);
  });

  test('proof 19: keeps its reservation until its job has recorded the end; a second one over the budget waits, and goes then', async () => {
    const test = await started();
    await runningMachines(test, 'a', 'b');
    await pod(test, 'free');
    await test.addJob({ name: 'j1', machine: 'a' });
    const id = await test.grant('j1');
    await waitFor(async () => (await test.client.find(Pods, { namespace: POOL, name: 'free' })) === undefined, LONG);
    const order = await orderOf(test, 'a', id);
    expect(order).toMatchObject({ kind: 'Repair', action: 'Reboot' });
    const node = await test.node('a');
    expect(node === undefined ? undefined : [isCordoned(node), ownerOf(node)]).toEqual([true, id]);

    await test.addJob({ name: 'j2', machine: 'b' });
    const verdict = await waitFor(async () => (await test.machine('b')).status?.verdict, LONG);
    expect(verdict).toMatchObject({ allowed: false, limit: 'builtin/cluster', holders: [`${POOL}/a`] });
    await test.report('a', { operation: { id, state: 'Done', outcome: 'Succeeded' } });
    await test.jobStatus('j1', { phase: 'Verifying' });
    // What is being verified seems healthy, and still counts.
    await test.edit('b', (machine) => void (machine.metadata.labels = { touched: 'again' }));
    await waitFor(async () => (await test.machine('b')).status?.verdict?.holders?.[0] === `${POOL}/a`, LONG);
    expect((await test.reservations()).map((reservation) => reservation.id)).toEqual([id]);
    expect(isCordoned((await test.node('a')) ?? never())).toBe(true);

    await test.jobStatus('j1', { phase: 'Succeeded', outcome: 'Succeeded' });
    const second = await test.grant('j2');
    expect(isCordoned((await test.node('a')) ?? never())).toBe(false);
    await orderOf(test, 'b', second);
    await finish(test, 'b', 'j2', second);
    await noReservations(test);
    expect((await test.machine('a')).status?.lastDisruption).toBeDefined();
  }, 30_000);

  test('C4: leaves the node cordoned as Degraded while its rule is due, and gives it back when it is not', async () => {
    const test = await started();
    await runningMachines(test, 'a');
    const due = (status: 'True' | 'False') =>
      test.edit(
        'a',
        (machine) => {
          const others = (machine.status?.conditions ?? []).filter(({ type }) => type !== 'RepairNeeded');
          const condition = { type: 'RepairNeeded', status, reason: 'hung', message: '', lastTransitionTime: new Date().toISOString() };
          machine.status = { ...machine.status, conditions: [...others, condition] };
        },
        'status',
      );
    await due('True');
    await test.addJob({ name: 'j1' });
    const id = await test.grant('j1');
    await orderOf(test, 'a', id);
    await finish(test, 'a', 'j1', id, 'TransientFailure');
    await noReservations(test);
    expect(ownerOf((await test.node('a')) ?? never())).toBe('Degraded');
    await due('False');
    await waitFor(async () => !isCordoned((await test.node('a')) ?? never()), LONG);
  }, 30_000);

  test('proof 23: is cancelled on Machine, Node and ledger when its job ends before the order', async () => {
    const test = await started();
    await runningMachines(test, 'a');
    await test.addJob({ name: 'j1' });
    const reservation = await waitFor(async () => (await test.reservations())[0], LONG);
    await waitFor(async () => ownerOf((await test.node('a')) ?? never()) === reservation.id, LONG);
    await test.jobStatus('j1', { phase: 'Cancelled', explanation: 'the condition cleared' });
    await noReservations(test);
    expect((await test.machine('a')).spec.operation).toMatchObject({ id: reservation.id, kind: 'Cancelled' });
    expect(isCordoned((await test.node('a')) ?? never())).toBe(false);
  }, 30_000);

  test('DrainTimeout: is cancelled where a budget keeps its pods for ever, and names it', async () => {
    const test = await started();
    await runningMachines(test, 'a');
    await test.edit('a', (machine) => void (machine.spec.drainTimeoutSeconds = 3));
    const guarded = await pod(test, 'guarded');
    const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' as const }] };
    await test.client.update(Pods, { ...guarded, status }, { subresource: 'status' });
    await test.client.create(PodDisruptionBudgets, {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'keep', namespace: POOL },
      spec: { minAvailable: 1, selector: { matchLabels: { app: 'guarded' } } },
    });
    await test.addJob({ name: 'j1' });
    const id = await test.grant('j1');
    const condition = await waitFor(
      async () => (await test.machine('a')).status?.conditions?.find(({ type, status: is }) => type === 'Drained' && is === 'False'),
      LONG,
    );
    expect([condition.reason, condition.message]).toEqual([
      'BudgetNeverAllows',
      `1 pod is still on the node; PodDisruptionBudget ${POOL}/keep never allows it: it wants 1 of 1 pods healthy`,
    ]);
    expect((await test.machine('a')).status?.drain).toEqual({
      podsLeft: 1,
      budgets: [
        {
          namespace: POOL,
          name: 'keep',
          disruptionsAllowed: 0,
          currentHealthy: 1,
          desiredHealthy: 1,
          expectedPods: 1,
          never: true,
          waiting: 1,
          pods: ['guarded'],
        },
      ],
    });
    expect(await orderOf(test, 'a', id)).toMatchObject({ kind: 'Cancelled', reason: expect.stringMatching(/^DrainTimeout: .*web\/keep/) });
    await waitFor(async () => (await test.machine('a')).status?.drain === undefined, LONG);
    await test.jobStatus('j1', { phase: 'Failed' });
    await noReservations(test);
    expect(await test.client.find(Pods, { namespace: POOL, name: 'guarded' })).toBeDefined();
  }, 30_000);

  test('invariant 6: takes turns with a change of the same machine', async () => {
    const test = await started();
    const { uid } = (await test.set({ maxUnavailable: '100%' })).metadata;
    await test.addMachine('a', { components: [entry({ setUID: uid })] });
    await test.boot('a');
    await test.phase('a', 'Running');
    await test.report('a', { components: [waiting()], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    const change = await waitFor(async () => (await test.reservations())[0], LONG);
    await test.addJob({ name: 'j1', action: 'RestartComponent', args: { component: 'kubelet' } });
    expect((await orderOf(test, 'a', change.id)).kind).toBe('Change');
    expect((await test.reservations()).map((reservation) => reservation.id)).toEqual([change.id]);
    // The next revision waits already when the change ends: the repair goes first.
    await test.edit('a', (machine) => void (machine.spec.components = [entry({ setUID: uid, revision: 3, version: '3.0.0' })]));
    await test.report('a', { operation: { id: change.id, state: 'Done', outcome: 'Superseded' }, components: [waiting({ revision: 3 })] });
    const id = await test.grant('j1');
    expect(await orderOf(test, 'a', id)).toMatchObject({ kind: 'Repair', action: 'RestartComponent', args: { component: 'kubelet' } });
    await finish(test, 'a', 'j1', id);
    await waitFor(async () => (await test.machine('a')).spec.operation?.components?.[0]?.revision === 3, LONG);
  }, 30_000);

  test('D11: waits for the end of a Freeze', async () => {
    const test = await started();
    await runningMachines(test, 'a');
    await test.client.create(Freezes, { apiVersion: API_VERSION, kind: 'Freeze', metadata: { name: 'night' }, spec: {} });
    await test.addJob({ name: 'j1' });
    await waitFor(async () => (await test.machine('a')).status?.verdict?.limit === 'Freeze/night', LONG);
    await test.client.delete(Freezes, { name: 'night' });
    await orderOf(test, 'a', await test.grant('j1'));
  }, 30_000);
});

describe('a node that does not answer', () => {
  const instanceOf = async (test: TestCell, name: string) =>
    test.infra.instances.get(`fake://${(await test.machine(name)).metadata.uid}`) ?? never();

  test('proof 20: has its power cycled once, though the answer is lost and the process dies, and its new boot is the proof', async () => {
    cell = await openCell();
    const test = cell;
    const first = test.lead();
    await runningMachines(test, 'a');
    await test.dropLeases('a', 'kubelet', 'agent');
    let lost = false;
    test.infra.fault = (operation, write) => {
      if (operation !== 'reboot' || write !== 2 || lost) return;
      lost = true;
      throw new Error('the answer is lost');
    };
    await test.addJob({ name: 'j1' });
    const id = await test.grant('j1');
    expect(await orderOf(test, 'a', id)).toMatchObject({ kind: 'Repair', action: 'PowerCycle' });
    await waitFor(() => lost, LONG);
    await first.stop();
    test.lead();
    const instance = await instanceOf(test, 'a');
    await waitFor(() => test.infra.calls.filter((call) => call.startsWith('reboot')).length === 2, LONG);
    expect((await test.machine('a')).status?.repair).toMatchObject({ id, state: 'Running', bootID: 'b' });
    test.infra.progress();
    await test.report('a', { agent: { version: '1', apiLevel: 1, bootID: 'c', os: 'linux', arch: 'amd64' } });
    await test.beat('a');
    expect(await repairOf(test, 'a', id)).toMatchObject({ outcome: 'Succeeded', bootID: 'c' });
    expect(instance.reboots).toBe(1);
    await test.jobStatus('j1', { phase: 'Succeeded' });
    await noReservations(test);
  }, 30_000);

  test('C9: frees a change that its agent will never report, by a power cycle', async () => {
    const test = await started();
    const { uid } = (await test.set({ maxUnavailable: '100%' })).metadata;
    await test.addMachine('a', { components: [entry({ setUID: uid })], operationTimeoutSeconds: 4 });
    await test.boot('a');
    await test.phase('a', 'Running');
    await test.report('a', { components: [waiting()], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    const change = await waitFor(async () => (await test.reservations())[0], LONG);
    await orderOf(test, 'a', change.id);
    await test.dropLeases('a', 'kubelet', 'agent');
    await test.addJob({ name: 'j1' });
    const id = await test.grant('j1');
    expect(id).not.toBe(change.id);
    expect((await test.reservations()).map((reservation) => [reservation.id, reservation.kind, reservation.class])).toEqual([
      [id, 'Repair', 'Repair'],
    ]);
    expect(await orderOf(test, 'a', id)).toMatchObject({ kind: 'Repair', action: 'PowerCycle' });
    const instance = await instanceOf(test, 'a');
    await waitFor(() => instance.reboots === 1, LONG);
  }, 30_000);

  test('has its pods migrated: evicted, and taken by force only when the provider proves that it is off', async () => {
    const test = await started();
    await runningMachines(test, 'a');
    await pod(test, 'stuck', 3600);
    await test.dropLeases('a', 'kubelet', 'agent');
    await test.addJob({ name: 'j1', action: 'MigratePods' });
    const id = await test.grant('j1');
    const instance = await instanceOf(test, 'a');
    await waitFor(() => instance.stopping, LONG);
    const evicted = await test.client.get(Pods, { namespace: POOL, name: 'stuck' });
    expect(evicted.metadata.deletionTimestamp).toBeDefined();
    expect(isOutOfService((await test.node('a')) ?? never())).toBe(false);
    test.infra.progress();
    expect(await repairOf(test, 'a', id)).toMatchObject({ outcome: 'Succeeded' });
    expect(await test.client.find(Pods, { namespace: POOL, name: 'stuck' })).toBeUndefined();
    expect(isOutOfService((await test.node('a')) ?? never())).toBe(true);
    await test.jobStatus('j1', { phase: 'Succeeded' });
    await noReservations(test);
    await test.beat('a');
    await test.edit('a', (machine) => void (machine.metadata.labels = { touched: 'again' }));
    await waitFor(async () => !isOutOfService((await test.node('a')) ?? never()), LONG);
  }, 30_000);

  /** A leader whose request to cut the power is on its way for as long as the test likes, and arrives also when the leader has ended. */
  async function slowLeader(): Promise<{ test: TestCell; id: string; first: Leadership; arrive: () => Promise<void> }> {
    const test = (cell = await openCell());
    const provider = fakeProvider(test.infra);
    let sent: Parameters<NonNullable<InfraProvider['stop']>> | undefined;
    const slow: InfraProvider = {
      ...provider,
      async stop(...asked) {
        sent = asked;
        await new Promise<void>((_, reject) => asked[2].addEventListener('abort', () => reject(new Error('given up')), { once: true }));
      },
    };
    const first = test.lead({ provider: slow });
    await runningMachines(test, 'a');
    await pod(test, 'stuck', 3600);
    await test.dropLeases('a', 'kubelet', 'agent');
    await test.addJob({ name: 'j1', action: 'MigratePods' });
    const id = await test.grant('j1');
    const [providerID, operationID] = await waitFor(() => sent, LONG);
    expect((await test.machine('a')).status?.repair).toMatchObject({ id, state: 'Running', cutsPower: true });
    const arrive = async (): Promise<void> => await provider.stop?.(providerID, operationID, new AbortController().signal);
    return { test, id, first, arrive };
  }

  test('keeps its power when a deposed leader asks for the cut after the operation has ended without one', async () => {
    const { test, id, first, arrive } = await slowLeader();
    await test.client.delete(Pods, { namespace: POOL, name: 'stuck' }, { gracePeriodSeconds: 0 });
    test.lead();
    expect(await repairOf(test, 'a', id)).toMatchObject({ outcome: 'Succeeded' });
    await test.jobStatus('j1', { phase: 'Succeeded' });
    await noReservations(test);
    expect(test.infra.calls.filter((call) => /^(stop|retire) /.test(call)).map((call) => call.split(' ')[0])).toEqual(['retire']);
    await arrive();
    expect((await instanceOf(test, 'a')).stopping).toBe(false);
    await first.stop();
  }, 30_000);

  test('keeps its power when a deposed leader asks for the cut after it was turned on again', async () => {
    const { test, id, first, arrive } = await slowLeader();
    test.lead();
    const instance = await instanceOf(test, 'a');
    await waitFor(() => instance.stopping, LONG);
    test.infra.progress();
    expect(await repairOf(test, 'a', id)).toMatchObject({ outcome: 'Succeeded' });
    await test.jobStatus('j1', { phase: 'Succeeded' });
    await noReservations(test);
    await test.addJob({ name: 'j2' });
    await orderOf(test, 'a', await test.grant('j2'));
    await waitFor(() => instance.reboots === 1, LONG);
    test.infra.progress();
    await arrive();
    test.infra.progress();
    expect(instance.state).toBe('Running');
    await first.stop();
  }, 30_000);

  test('keeps pods that are not proven to be dead, and reports that', async () => {
    const test = await started();
    await runningMachines(test, 'a');
    await pod(test, 'stuck', 3600);
    await test.dropLeases('a', 'kubelet');
    await test.addJob({ name: 'j1', action: 'MigratePods' });
    const id = await test.grant('j1');
    expect(await repairOf(test, 'a', id)).toMatchObject({
      outcome: 'TransientFailure',
      message: expect.stringContaining('not taken by force'),
    });
    expect(await test.client.find(Pods, { namespace: POOL, name: 'stuck' })).toBeDefined();
    expect(test.infra.calls.filter((call) => call.startsWith('stop'))).toEqual([]);
  }, 30_000);
});

describe('Replace', () => {
  test('C8: deletes the machine and its instance, and its MachineSet makes another', async () => {
    const test = await started({ sets: true });
    await test.client.create(MachineSets, {
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { name: 'web', namespace: POOL },
      spec: { replicas: 1, provider: { name: 'fake' } },
    });
    const names = async () => (await test.client.list(Machines, { namespace: POOL })).items.map(({ metadata }) => metadata.name);
    const [name = ''] = await waitFor(async () => ((await names()).length === 1 ? await names() : undefined), LONG);
    await test.boot(name);
    await test.phase(name, 'Running');
    await test.dropLeases(name, 'kubelet', 'agent');
    const { uid } = (await test.machine(name)).metadata;
    await test.addJob({ name: 'j1', machine: name, action: 'Replace' });
    const id = await test.grant('j1');
    expect(await orderOf(test, name, id)).toMatchObject({ kind: 'Repair', action: 'Replace' });
    await waitFor(async () => {
      test.infra.progress();
      return (await test.client.find(Machines, { namespace: POOL, name })) === undefined;
    }, LONG);
    expect(test.infra.buried).toEqual(new Set([`fake://${uid}`]));
    await waitFor(async () => (await names()).length === 1, LONG);
    expect(await names()).not.toContain(name);
    await noReservations(test);
  }, 30_000);

  test('of a machine that no MachineSet owns is refused, and its node is left as it is', async () => {
    const test = await started();
    await runningMachines(test, 'a');
    await test.addJob({ name: 'j1', action: 'Replace' });
    const id = await test.grant('j1');
    expect(await repairOf(test, 'a', id)).toMatchObject({ outcome: 'PermanentFailure' });
    expect(isCordoned((await test.node('a')) ?? never())).toBe(false);
    expect((await test.machine('a')).metadata.deletionTimestamp).toBeUndefined();
  }, 30_000);
});

function never(): never {
  throw new Error('there is none');
}
