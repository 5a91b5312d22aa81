import { afterEach, describe, expect, test } from 'vitest';
import { Nodes, Pods, PodDisruptionBudgets, type Node } from '../../api/builtin.ts';
import { DefenderPolicies } from '../../api/defender-policy.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import { Freezes } from '../../api/freeze.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Outcome } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { ANNOTATIONS, FINALIZERS } from '../../api/names.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { isCordoned, ownerOf } from './cordon/cordon.ts';
import { operatorRelease } from './order/operator-release.ts';
import { openCell, POOL, type TestCell } from './testing/cell.ts';
import { entry, VERIFIED_OLD, waiting } from './testing/objects.ts';

let cell: TestCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});

const LONG = { deadlineMs: 10_000 };

async function started(): Promise<TestCell> {
  cell = await openCell();
  cell.lead();
  return cell;
}

/** Machines that run, each asked by one set to go to 2.0.0. */
async function waitingMachines(test: TestCell, names: string[], needs: 'Restart' | 'Drain' = 'Restart'): Promise<string> {
  const { uid } = (await test.set({ maxUnavailable: '100%' })).metadata;
  for (const name of names) {
    await test.addMachine(name, { components: [entry({ setUID: uid })] });
    await test.boot(name);
  }
  for (const name of names) await test.phase(name, 'Running');
  for (const name of names) await test.report(name, { components: [waiting({ needs })], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
  return uid;
}

const orderOf = async (test: TestCell, name: string) => {
  const { spec } = await test.machine(name);
  return spec.operation?.kind === 'Cancelled' ? undefined : spec.operation;
};

async function ordered(test: TestCell, name: string): Promise<string> {
  const order = await waitFor(() => orderOf(test, name), { ...LONG, what: `an order for ${name}` });
  return order.id;
}

/** Fails by itself where the term goes on. */
async function within(done: Promise<void>): Promise<void> {
  let ended = false;
  const settle = (): void => void (ended = true);
  void done.then(settle, settle);
  await waitFor(() => ended, { ...LONG, what: 'the end of the term' });
  await done;
}

/** Of the ledger, once it has one. */
const epochNow = (test: TestCell): Promise<number> =>
  waitFor(async () => (await test.client.find(DisruptionLedgers, { name: LEDGER_NAME }))?.status?.epoch, { ...LONG, what: 'an epoch' });

function never(): never {
  throw new Error('the Node is gone');
}

async function finish(test: TestCell, name: string, outcome: Outcome = 'Succeeded'): Promise<void> {
  const id = await ordered(test, name);
  const components = outcome === 'Succeeded' ? [waiting({ state: 'Healthy', running: 2, version: '2.0.0' })] : [waiting()];
  await test.report(name, { operation: { id, state: 'Done', outcome }, components });
}

test('a status that the server refuses keeps no step back, is an Event, and is written as soon as it is taken', async () => {
  cell = await openCell();
  const test = cell;
  let isRefused = false;
  let refusals = 0;
  const through: Client = {
    ...test.client,
    async apply(resource, object, options) {
      if (!isRefused || resource.plural !== Machines.plural) return await test.client.apply(resource, object, options);
      refusals++;
      throw new ApiError(422, { reason: 'Invalid', message: 'status.components[0].state: Unsupported value' });
    },
  };
  test.lead({ through });
  const { uid } = (await test.set({ maxUnavailable: '100%' })).metadata;
  await test.addMachine('a', { components: [entry({ setUID: uid })] });
  await test.boot('a');
  await test.phase('a', 'Running');
  isRefused = true;
  await test.report('a', { components: [waiting()], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
  await finish(test, 'a');
  await waitFor(async () => (await test.reservations()).length === 0, LONG);
  expect(isCordoned((await test.node('a')) ?? never())).toBe(false);
  expect(refusals).toBeGreaterThan(1);
  const reported = test.events.filter(({ reason }) => reason === 'StatusRefused');
  expect(reported).toEqual([expect.objectContaining({ type: 'Warning', message: expect.stringContaining('Unsupported value') })]);
  const generation = async () => {
    const { metadata, status } = await test.machine('a');
    return status?.observedGeneration === metadata.generation;
  };
  expect(await generation()).toBe(false);
  isRefused = false;
  await waitFor(generation, { deadlineMs: 60_000, what: 'the report, without one of the agent' });
}, 90_000);

describe('a machine is made', () => {
  test('with a finalizer, an identity of its own, and one instance; its Node is claimed by name and providerID', async () => {
    const test = await started();
    await test.addMachine('a');
    await test.boot('a');
    await test.phase('a', 'Running');
    const machine = await test.machine('a');
    const node = await test.node('a');
    expect(machine.metadata.finalizers).toEqual([FINALIZERS.machine]);
    expect(machine.status?.nodeRef).toEqual({ name: 'a', uid: node?.metadata.uid });
    expect(machine.status?.conditions?.find(({ type }) => type === 'Ready')?.status).toBe('True');
    expect(test.infra.instances.size).toBe(1);
    const [instance] = test.infra.instances.values();
    expect(instance?.bootstrap).toMatchObject({
      server: 'https://cell',
      machine: { namespace: POOL, name: 'a', uid: machine.metadata.uid },
      providerID: machine.status?.providerID,
    });
    expect(instance?.bootstrap?.token.length).toBeGreaterThan(20);
  });

  test('once, also when the process dies between the making and the record of it', async () => {
    cell = await openCell();
    const first = cell.lead();
    cell.infra.fault = (operation, write) => {
      if (operation === 'ensure' && write === 3) throw new Error('the answer is lost');
    };
    await cell.addMachine('a');
    await waitFor(() => cell?.infra.instances.size === 1, LONG);
    await first.stop();
    cell.infra.fault = () => undefined;
    cell.lead();
    await cell.boot('a');
    await cell.phase('a', 'Running');
    expect(cell.infra.instances.size).toBe(1);
  });

  test('or reports what its provider refuses', async () => {
    const test = await started();
    await test.addMachine('a', { provider: { name: 'fake', config: { size: 'huge' } } });
    const condition = await waitFor(
      async () =>
        (await test.machine('a')).status?.conditions?.find(
          ({ type, reason }) => type === 'InfrastructureReady' && reason === 'InvalidConfig',
        ),
      LONG,
    );
    expect(condition.message).toContain('`spec.provider.config.size`');
    expect(test.infra.instances.size).toBe(0);
  });

  test('with its labels and taints on the Node, where those of others stay', async () => {
    const test = await started();
    await test.addMachine('a', { labels: { tier: 'web', zone: 'h' }, taints: [{ key: 'only', effect: 'NoSchedule' }] });
    await test.boot('a');
    await test.editNode('a', (node) => void (node.metadata.labels = { ...node.metadata.labels, foreign: 'yes' }));
    await waitFor(async () => (await test.node('a'))?.metadata.labels?.['tier'] === 'web', LONG);
    await test.edit('a', (machine) => void (machine.spec.labels = { tier: 'db' }));
    await waitFor(async () => (await test.node('a'))?.metadata.labels?.['tier'] === 'db', LONG);
    const node = await test.node('a');
    expect(node?.metadata.labels).toMatchObject({ tier: 'db', foreign: 'yes' });
    expect(node?.metadata.labels?.['zone']).toBeUndefined();
    expect(node?.spec?.taints).toContainEqual({ key: 'only', effect: 'NoSchedule' });
  });

  test('C12: and evicts no pod by a taint: it comes to a node that is new, or drained for an operation', async () => {
    const test = await started();
    const out = { key: 'maintenance', effect: 'NoExecute' as const };
    const isOut = async (name: string) => (await test.node(name))?.spec?.taints?.some(({ key }) => key === out.key) === true;
    const condition = async () => (await test.machine('a')).status?.conditions?.find(({ type }) => type === 'NodeSynced');
    await waitingMachines(test, ['a'], 'Restart');
    await ordered(test, 'a');
    await test.edit('a', (machine) => void (machine.spec = { ...machine.spec, labels: { tier: 'web' }, taints: [out] }));
    // Reserved, and not drained.
    await waitFor(async () => (await test.node('a'))?.metadata.labels?.['tier'] === 'web', LONG);
    expect(await isOut('a')).toBe(false);
    expect(await waitFor(condition, LONG)).toMatchObject({ status: 'False', reason: 'TaintWithheld' });
    await finish(test, 'a');
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    expect(await isOut('a')).toBe(false);

    const first = (await test.machine('a')).spec.operation?.id;
    await test.edit('a', (machine) => {
      machine.spec.components = machine.spec.components?.map((each) => ({ ...each, version: '3.0.0', revision: 3 })) ?? [];
    });
    await test.report('a', { components: [waiting({ needs: 'Drain', revision: 3 })] });
    await waitFor(async () => (await test.machine('a')).spec.operation?.id !== first, { ...LONG, what: 'another order' });
    expect(await isOut('a')).toBe(true);
    await waitFor(async () => (await condition()) === undefined, LONG);

    await test.addMachine('new', { taints: [out] });
    await test.boot('new');
    await waitFor(() => isOut('new'), LONG);
  });

  test('C11: and takes away nothing by what a node writes into its Node', async () => {
    const test = await started();
    await test.addMachine('a', { labels: { tier: 'web' } });
    await test.boot('a');
    await waitFor(async () => (await test.node('a'))?.metadata.labels?.['tier'] === 'web', LONG);
    const quarantine = { key: 'quarantine', value: 'true', effect: 'NoExecute' as const };
    await test.editNode('a', (node) => {
      node.metadata.labels = { ...node.metadata.labels, 'node-restriction.kubernetes.io/zone': 'dmz' };
      node.spec = { ...node.spec, taints: [...(node.spec?.taints ?? []), quarantine] };
      const keys = { labels: ['node-restriction.kubernetes.io/zone'], taints: ['quarantine:NoExecute'] };
      node.metadata.annotations = { ...node.metadata.annotations, ['kubenode.io/owned-keys']: JSON.stringify(keys) };
    });
    await test.edit('a', (machine) => void (machine.spec.labels = { tier: 'db' }));
    await waitFor(async () => (await test.node('a'))?.metadata.labels?.['tier'] === 'db', LONG);
    const node = await test.node('a');
    expect(node?.metadata.labels).toMatchObject({ 'node-restriction.kubernetes.io/zone': 'dmz' });
    expect(node?.spec?.taints).toContainEqual(quarantine);
  });
});

describe('a change is carried out', () => {
  test('C2, C3: reserve, cordon, order, report, uncordon, release, by this controller alone; one machine after the other where the limit is one', async () => {
    const test = await started();
    await waitingMachines(test, ['a', 'b']);
    const first = await waitFor(
      async () => ((await orderOf(test, 'a')) === undefined ? ((await orderOf(test, 'b')) === undefined ? undefined : 'b') : 'a'),
      LONG,
    );
    const second = first === 'a' ? 'b' : 'a';
    expect(await test.reservations()).toHaveLength(1);
    const node = await test.node(first);
    expect(node?.spec?.unschedulable).toBe(true);
    expect(node?.metadata.annotations?.[ANNOTATIONS.cordonOwner]).toBe(await ordered(test, first));
    // Written from a store that keeps few managers, both still have the fields of all managers.
    for (const object of [node, await test.machine(first)])
      expect(object?.metadata.managedFields?.map(({ manager }) => manager)).toEqual(
        expect.arrayContaining(['kubenode-test', 'kubenode-machine']),
      );
    // docs/protocols.md#d10: the status of the other one shows why it waits.
    const refused = await waitFor(async () => (await test.machine(second)).status?.verdict, LONG);
    expect(refused).toMatchObject({ allowed: false, limit: 'builtin/cluster', used: 1, of: 1, holders: [`${POOL}/${first}`] });
    await finish(test, first);
    await ordered(test, second);
    const after = await test.node(first);
    expect(after?.spec?.unschedulable ?? false).toBe(false);
    expect(after === undefined ? undefined : ownerOf(after)).toBeUndefined();
    await finish(test, second);
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    expect((await test.machine(first)).status?.lastDisruption).toBeDefined();
    expect(test.events.map((event) => event.reason)).toEqual(
      expect.arrayContaining(['Cordoned', 'OperationOrdered', 'OperationSucceeded', 'Released']),
    );
  });

  test("A5: a failed change keeps its reservation until the set's answer, then frees it", async () => {
    const test = await started();
    const uid = await waitingMachines(test, ['a']);
    const id = await ordered(test, 'a');
    const failed = waiting({ state: 'Failed', failed: { revision: 2, reason: 'ProbeFailed', message: 'no', restored: true } });
    await test.report('a', { operation: { id, state: 'Done', outcome: 'PermanentFailure' }, components: [failed] });
    await waitFor(async () => (await test.node('a'))?.spec?.unschedulable !== true, LONG);
    expect(await test.reservations()).toHaveLength(1);
    await test.edit('a', (machine) => {
      machine.spec.components = [
        entry({ setUID: uid, version: '1.0.0', revision: 3, failed: { setRevision: 2, attempt: 1, reason: 'ProbeFailed' } }),
      ];
    });
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
  });

  test('C4: a node on which nothing runs any more stays cordoned as Degraded, and a later success lifts it', async () => {
    const test = await started();
    const uid = await waitingMachines(test, ['a']);
    const id = await ordered(test, 'a');
    const failed = waiting({ state: 'Failed', failed: { revision: 2, reason: 'ProbeFailed', message: 'no', restored: false } });
    await test.report('a', { operation: { id, state: 'Done', outcome: 'PermanentFailure' }, components: [failed] });
    await test.edit('a', (machine) => {
      machine.spec.components = [
        entry({ setUID: uid, version: '1.0.0', revision: 3, failed: { setRevision: 2, attempt: 1, reason: 'ProbeFailed' } }),
      ];
    });
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    const node = await test.node('a');
    expect(node === undefined ? undefined : [isCordoned(node), ownerOf(node)]).toEqual([true, 'Degraded']);
    await test.phase('a', 'Degraded');
    await test.report('a', { components: [waiting({ state: 'Healthy', revision: 3, running: 3 })] });
    await waitFor(async () => (await test.node('a'))?.spec?.unschedulable !== true, LONG);
    await test.phase('a', 'Running');
  });

  test('C4: a cordon of another client is left as it is', async () => {
    const test = await started();
    await test.set();
    await test.addMachine('a');
    await test.boot('a');
    await test.phase('a', 'Running');
    await test.editNode('a', (node) => void (node.spec = { ...node.spec, unschedulable: true }));
    const { uid } = (await test.client.get(MachineComponentSets, { name: 'kubelet' })).metadata;
    await test.edit('a', (machine) => void (machine.spec.components = [entry({ setUID: uid })]));
    await test.report('a', { components: [waiting()], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    await finish(test, 'a');
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    const node = await test.node('a');
    expect(node?.spec?.unschedulable).toBe(true);
    expect(node === undefined ? undefined : ownerOf(node)).toBeUndefined();
  });

  test('C3: pods are evicted within their budgets, those of DaemonSets stay, and the order waits for the drain', async () => {
    const test = await started();
    await waitingMachines(test, [], 'Drain');
    const pod = (name: string, labels: Record<string, string>, owners: object[] = []) =>
      test.client.create(Pods, {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, namespace: POOL, labels, ...(owners.length === 0 ? {} : { ownerReferences: owners as never }) },
        spec: { nodeName: 'a', containers: [{ name: 'c', image: 'i' }], terminationGracePeriodSeconds: 0 },
      });
    const guarded = await pod('guarded', { app: 'guarded' });
    await test.client.update(
      Pods,
      { ...guarded, status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] } },
      { subresource: 'status' },
    );
    await pod('free', { app: 'free' });
    await pod('daemon', { app: 'daemon' }, [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true }]);
    const budget = await test.client.create(PodDisruptionBudgets, {
      apiVersion: 'policy/v1',
      kind: 'PodDisruptionBudget',
      metadata: { name: 'guarded', namespace: POOL },
      spec: { minAvailable: 1, selector: { matchLabels: { app: 'guarded' } } },
    });
    const { uid } = (await test.client.get(MachineComponentSets, { name: 'kubelet' })).metadata;
    await test.addMachine('a', { components: [entry({ setUID: uid })] });
    await test.boot('a');
    await test.phase('a', 'Running');
    await test.report('a', { components: [waiting({ needs: 'Drain' })], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    const refused = await waitFor(
      async () =>
        (await test.machine('a')).status?.conditions?.find(({ type, reason }) => type === 'Drained' && reason === 'BudgetNeverAllows'),
      LONG,
    );
    expect(refused.message).toContain(`PodDisruptionBudget ${POOL}/guarded never allows it: it wants 1 of 1 pods healthy`);
    await waitFor(async () => (await test.client.find(Pods, { namespace: POOL, name: 'free' })) === undefined, LONG);
    expect(await orderOf(test, 'a')).toBeUndefined();
    await test.client.delete(PodDisruptionBudgets, { namespace: POOL, name: budget.metadata.name });
    await ordered(test, 'a');
    expect(await test.client.find(Pods, { namespace: POOL, name: 'guarded' })).toBeUndefined();
    expect(await test.client.find(Pods, { namespace: POOL, name: 'daemon' })).toBeDefined();
  }, 20_000);

  test('D11: a Freeze blocks it and its end lets it go; D8: so does a policy', async () => {
    const test = await started();
    await test.client.create(Freezes, { apiVersion: API_VERSION, kind: 'Freeze', metadata: { name: 'night' }, spec: { reason: 'sale' } });
    await waitingMachines(test, ['a']);
    const frozen = await waitFor(async () => (await test.machine('a')).status?.verdict, LONG);
    expect(frozen).toMatchObject({ allowed: false, limit: 'Freeze/night', wouldPassWhen: 'Freeze night (sale) is deleted' });
    await test.client.create(DefenderPolicies, {
      apiVersion: API_VERSION,
      kind: 'DefenderPolicy',
      metadata: { name: 'p' },
      spec: { limits: [{ name: 'none', scope: 'Pool', maxUnavailable: 0 }] },
    });
    await test.client.delete(Freezes, { name: 'night' });
    await waitFor(async () => (await test.machine('a')).status?.verdict?.limit === 'p/none', LONG);
    await test.client.delete(DefenderPolicies, { name: 'p' });
    await ordered(test, 'a');
    await waitFor(async () => (await test.machine('a')).status?.verdict === undefined, LONG);
  });

  test('D6: a reservation whose request is gone is cancelled on Machine, Node and ledger', async () => {
    const test = await started();
    // A pod that cannot be evicted keeps the drain going.
    const uid = await waitingMachines(test, []);
    const stuck = await test.client.create(Pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'stuck', namespace: POOL, labels: { app: 'stuck' }, finalizers: ['test/keep'] },
      spec: { nodeName: 'a', containers: [{ name: 'c', image: 'i' }] },
    });
    await test.addMachine('a', { components: [entry({ setUID: uid })] });
    await test.boot('a');
    await test.phase('a', 'Running');
    await test.report('a', { components: [waiting({ needs: 'Drain' })], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    await waitFor(async () => (await test.node('a'))?.spec?.unschedulable === true, LONG);
    const [reservation] = await test.reservations();
    await test.report('a', { components: [waiting({ state: 'Healthy', running: 2 })] });
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    expect((await test.machine('a')).spec.operation).toMatchObject({ id: reservation?.id, kind: 'Cancelled' });
    const node = await test.node('a');
    expect(node?.spec?.unschedulable ?? false).toBe(false);
    await test.client.patch(Pods, { namespace: POOL, name: stuck.metadata.name }, { merge: { metadata: { finalizers: [] } } });
  });

  test("D5: an operator's release frees the reservation of a machine that will not report", async () => {
    const test = await started();
    await waitingMachines(test, ['a']);
    await ordered(test, 'a');
    await test.client.update(Machines, operatorRelease(await test.machine('a'), 'the node burnt down'));
    await test.report('a', { components: [waiting({ state: 'Healthy', running: 2 })] });
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    expect((await test.machine('a')).spec.operation).toMatchObject({ kind: 'Cancelled', reason: 'the node burnt down' });
  });
});

describe('C4: a human who uncordons during an operation and cordons again', () => {
  const set = (test: TestCell, unschedulable: boolean | null) =>
    test.client.patch(Nodes, { name: 'a' }, { strategic: { spec: { unschedulable } } }, { fieldManager: 'kubectl-cordon' });

  test.each([
    ['Succeeded', undefined, undefined],
    ['PermanentFailure', 'Degraded', 'true'],
  ] as const)('keeps that cordon when the operation ends %s', async (outcome, owner, kept) => {
    const test = await started();
    await waitingMachines(test, ['a']);
    const id = await ordered(test, 'a');
    const before = await test.node('a');
    expect(before === undefined ? undefined : [isCordoned(before), ownerOf(before)]).toEqual([true, id]);
    await set(test, null);
    await set(test, true);
    await finish(test, 'a', outcome);
    const after = await waitFor(async () => {
      const node = await test.node('a');
      return node !== undefined && ownerOf(node) !== id ? node : undefined;
    }, LONG);
    expect([isCordoned(after), ownerOf(after), after.metadata.annotations?.[ANNOTATIONS.cordonKept]]).toEqual([true, owner, kept]);
  });

  test('and one who only uncordons finds the node schedulable at the end', async () => {
    const test = await started();
    await waitingMachines(test, ['a']);
    await ordered(test, 'a');
    await set(test, null);
    await finish(test, 'a');
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    const node = await test.node('a');
    expect(node === undefined ? undefined : [isCordoned(node), ownerOf(node)]).toEqual([false, undefined]);
  });
});

describe('leaders change', () => {
  test('D2: a later term ends the one before, and goes on where it was', async () => {
    cell = await openCell();
    const old = cell.lead();
    await waitingMachines(cell, ['a']);
    const id = await ordered(cell, 'a');
    cell.lead();
    await expect(old.done).rejects.toMatchObject({ code: 'Deposed' });
    await finish(cell, 'a');
    await waitFor(async () => (await cell?.reservations())?.length === 0, LONG);
    expect((await cell.machine('a')).spec.operation?.id).toBe(id);
  });

  test('D2: an epoch that a person has raised, since the ledger was put back to a backup, ends the term, and the next orders above it', async () => {
    cell = await openCell();
    const old = cell.lead();
    await waitFor(async () => ((await cell?.client.find(DisruptionLedgers, { name: LEDGER_NAME }))?.status?.epoch ?? 0) > 0, LONG);
    await cell.client.patch(
      DisruptionLedgers,
      { name: LEDGER_NAME },
      { merge: { status: { epoch: 1_800_000_000 } } },
      { subresource: 'status' },
    );
    await expect(old.done).rejects.toMatchObject({ code: 'Deposed' });
    cell.lead();
    await waitingMachines(cell, ['a']);
    await ordered(cell, 'a');
    expect((await cell.machine('a')).spec.operation?.epoch).toBe(1_800_000_001);
  });

  test('D1: a leader whose ledger is deleted ends its term, also where nothing asks; the next makes it, with an epoch above all orders', async () => {
    cell = await openCell();
    const old = cell.lead();
    await waitingMachines(cell, ['a']);
    await ordered(cell, 'a');
    await finish(cell, 'a');
    await waitFor(async () => (await cell?.reservations())?.length === 0, LONG);
    const before = (await cell.machine('a')).spec.operation?.epoch ?? 0;
    await cell.client.delete(DisruptionLedgers, { name: LEDGER_NAME });
    await expect(within(old.done)).rejects.toMatchObject({ code: 'Deposed', message: expect.stringContaining('DisruptionLedger cell') });
    cell.lead();
    expect(await epochNow(cell)).toBeGreaterThan(before);
  });

  test('D1: the number of a term that wrote nothing does not come again where its ledger is deleted', async () => {
    cell = await openCell();
    const first = cell.lead();
    const before = await epochNow(cell);
    await first.stop();
    await cell.client.delete(DisruptionLedgers, { name: LEDGER_NAME });
    cell.lead();
    expect(await epochNow(cell)).toBeGreaterThan(before);
  });

  test('D1: what was under way when the ledger was deleted keeps its cordon and its reservation until its end is known', async () => {
    cell = await openCell();
    await cell.client.create(DefenderPolicies, {
      apiVersion: API_VERSION,
      kind: 'DefenderPolicy',
      metadata: { name: 'one' },
      spec: { limits: [{ name: 'cell', scope: 'Cluster', maxConcurrent: 1 }] },
    });
    const first = cell.lead();
    await waitingMachines(cell, ['a', 'b']);
    const [busy, other] = await waitFor(async () => {
      const [reservation] = (await cell?.reservations()) ?? [];
      return reservation === undefined ? undefined : reservation.machine === `${POOL}/a` ? ['a', 'b'] : ['b', 'a'];
    }, LONG);
    const id = await ordered(cell, busy ?? '');
    await cell.client.delete(DisruptionLedgers, { name: LEDGER_NAME });
    await expect(within(first.done)).rejects.toMatchObject({ code: 'Deposed' });
    cell.lead();
    await epochNow(cell);
    expect((await cell.reservations()).map((reservation) => [reservation.id, reservation.machine, reservation.kind])).toEqual([
      [id, `${POOL}/${busy}`, 'Change'],
    ]);
    // Long enough for the other one, which asks for the same slot.
    await waitFor(async () => (await cell?.machine(other ?? ''))?.status?.verdict?.limit === 'one/cell', LONG);
    expect(ownerOf((await cell.node(busy ?? '')) ?? expect.fail('it has no Node'))).toBe(id);
    await finish(cell, busy ?? '');
    await ordered(cell, other ?? '');
    await waitFor(async () => !isCordoned((await cell?.node(busy ?? '')) ?? expect.fail('it has no Node')), LONG);
  });
});

describe('a machine goes', () => {
  test('C8: a deletion takes over the reservation of a running change, cleans up, deletes the instance and frees the reservation last', async () => {
    const test = await started();
    await waitingMachines(test, ['a']);
    const changing = await ordered(test, 'a');
    await test.client.delete(Machines, { namespace: POOL, name: 'a' });
    const order = await waitFor(async () => {
      const operation = await orderOf(test, 'a');
      return operation?.kind === 'Delete' ? operation : undefined;
    }, LONG);
    expect(order.id).not.toBe(changing);
    expect((await test.reservations()).map((reservation) => [reservation.id, reservation.kind])).toEqual([[order.id, 'Delete']]);
    expect([...test.infra.instances.values()][0]?.state).toBe('Running');
    await test.report('a', { operation: { id: order.id, state: 'Done', outcome: 'Succeeded' } });
    await waitFor(() => [...test.infra.instances.values()][0]?.state === 'Deleting', LONG);
    expect(await test.reservations()).toHaveLength(1);
    test.infra.progress();
    await waitFor(async () => (await test.client.find(Machines, { namespace: POOL, name: 'a' })) === undefined, LONG);
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    expect(await test.node('a')).toBeUndefined();
  });

  test('proof 1: a Node with its name that another instance registered survives it', async () => {
    const test = await started();
    await test.addMachine('a');
    await test.boot('a');
    await test.phase('a', 'Running');
    await test.client.delete(Nodes, { name: 'a' });
    await test.phase('a', 'NodeLost');
    const other = await test.client.create(Nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'a' },
      spec: { providerID: 'fake://other' },
    });
    await test.client.delete(Machines, { namespace: POOL, name: 'a' });
    const order = await waitFor(() => orderOf(test, 'a'), LONG);
    await test.report('a', { operation: { id: order.id, state: 'Done', outcome: 'Succeeded' } });
    await waitFor(() => {
      test.infra.progress();
      return test.infra.instances.size === 0;
    }, LONG);
    await waitFor(async () => (await test.client.find(Machines, { namespace: POOL, name: 'a' })) === undefined, LONG);
    expect((await test.node('a'))?.metadata.uid).toBe(other.metadata.uid);
  });

  test('C13: a Node that registers again is claimed by its providerID; one with another, or none, is not', async () => {
    const test = await started();
    await test.addMachine('a', { labels: { gpu: 'yes' } });
    await test.boot('a');
    await test.phase('a', 'Running');
    const node = await test.node('a');
    const firstReadyAt = (await test.machine('a')).status?.firstReadyAt;
    await test.client.delete(Nodes, { name: 'a' });
    await test.phase('a', 'NodeLost');
    const register = async (spec: NonNullable<Node['spec']>) => {
      const created = await test.client.create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' }, spec });
      const status = { conditions: [{ type: 'Ready', status: 'True' as const }] };
      return await test.client.update(Nodes, { ...created, status }, { subresource: 'status' });
    };
    for (const providerID of ['', 'fake://other']) {
      await register(providerID === '' ? {} : { providerID });
      await waitFor(
        async () =>
          (await test.machine('a')).status?.conditions?.some(
            ({ reason, message }) => reason === 'NodeLost' && message.includes('has its name') && message.includes(`"${providerID}"`),
          ),
        LONG,
      );
      expect((await test.machine('a')).status?.nodeRef?.uid).toBe(node?.metadata.uid);
      await test.client.delete(Nodes, { name: 'a' });
    }
    const again = await register({ providerID: node?.spec?.providerID ?? '' });
    await waitFor(async () => (await test.machine('a')).status?.nodeRef?.uid === again.metadata.uid, LONG);
    await waitFor(async () => (await test.node('a'))?.metadata.labels?.['gpu'] === 'yes', LONG);
    await waitFor(async () => (await test.machine('a')).status?.nodeKeys?.nodeUID === again.metadata.uid, LONG);
    await test.phase('a', 'Running');
    expect((await test.machine('a')).status?.firstReadyAt).toBe(firstReadyAt);
    expect(test.infra.instances.size).toBe(1);
  });

  test('C13: a Node that registers again during an operation is cordoned for it, and given back once at its end', async () => {
    const test = await started();
    await waitingMachines(test, ['a']);
    const id = await ordered(test, 'a');
    const node = await test.node('a');
    await test.client.delete(Nodes, { name: 'a' });
    await test.phase('a', 'NodeLost');
    expect((await test.reservations()).map((reservation) => reservation.id)).toEqual([id]);
    const again = await test.client.create(Nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: 'a' },
      spec: { providerID: node?.spec?.providerID ?? '' },
    });
    await test.client.update(Nodes, { ...again, status: { conditions: [{ type: 'Ready', status: 'True' }] } }, { subresource: 'status' });
    await waitFor(async () => {
      const now = await test.node('a');
      return now !== undefined && isCordoned(now) && ownerOf(now) === id;
    }, LONG);
    expect((await test.machine('a')).spec.operation?.id).toBe(id);
    await finish(test, 'a');
    await waitFor(async () => (await test.reservations()).length === 0, LONG);
    const freed = (await test.node('a')) ?? never();
    expect([isCordoned(freed), ownerOf(freed), freed.metadata.annotations?.[ANNOTATIONS.cordonFence]]).toEqual([false, undefined, id]);
    expect((await test.machine('a')).spec.operation?.id).toBe(id);
  });
});
