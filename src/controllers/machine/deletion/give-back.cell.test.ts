import { afterEach, expect, test } from 'vitest';
import { Leases, Nodes, Pods } from '../../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../../api/disruption-ledger.ts';
import { Machines } from '../../../api/machine.ts';
import { agentLeaseName, ANNOTATIONS } from '../../../api/names.ts';
import { waitFor } from '../../../kube/testing/wait-for.ts';
import { sshProvider } from '../../../providers/ssh/provider.ts';
import { openCell, POOL, type TestCell } from '../testing/cell.ts';

let cell: TestCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});
const LONG = { deadlineMs: 15_000 };
const key = { namespace: POOL, name: 'm0' };
const AGENT = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };

/** An imported machine that runs, with a pod. */
async function imported(): Promise<TestCell> {
  const test = await openCell();
  cell = test;
  const { client } = test;
  const provider = sshProvider({
    find: (each) => client.find(Machines, each),
    listAll: async () => (await client.listAll(Machines)).items,
  });
  test.lead({ provider });
  const taints = [{ key: 'dedicated', value: 'web', effect: 'NoSchedule' as const }];
  await test.addMachine('m0', { provider: { name: 'ssh', config: { address: '10.0.0.7' } }, labels: { tier: 'web' }, taints });
  const { uid } = (await test.machine('m0')).metadata;
  await waitFor(async () => (await test.machine('m0')).status?.providerID !== undefined, { ...LONG, what: 'its admission' });
  await test.beat('m0');
  const node = await client.create(Nodes, {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'm0', labels: { team: 'x' } },
    spec: { providerID: `ssh://${POOL}/m0/${uid}` },
  });
  await client.update(Nodes, { ...node, status: { conditions: [{ type: 'Ready', status: 'True' }] } }, { subresource: 'status' });
  await test.edit('m0', (machine) => void (machine.status = { ...machine.status, agent: AGENT }), 'status');
  await test.phase('m0', 'Running');
  await waitFor(async () => (await test.node('m0'))?.metadata.labels?.['tier'] === 'web', { ...LONG, what: 'its labels' });
  await client.create(Pods, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { namespace: POOL, name: 'p' },
    spec: { nodeName: 'm0', containers: [{ name: 'c', image: 'i' }] },
  });
  return test;
}

test('C14: a machine is given back: the Machine goes, its Node stays with its pods and without what was ours', async () => {
  const test = await imported();
  const { client } = test;
  const before = await test.node('m0');
  const dedicated = (node: typeof before) => node?.spec?.taints?.filter((taint) => taint.key === 'dedicated') ?? [];
  expect(dedicated(before)).toEqual([{ key: 'dedicated', value: 'web', effect: 'NoSchedule' }]);
  await client.patch(Machines, key, { merge: { spec: { deletionPolicy: 'Orphan' } } });
  await client.delete(Machines, key);
  const ready = async () => (await test.machine('m0')).status?.conditions?.find(({ type }) => type === 'Ready');
  await waitFor(async () => (await ready())?.reason === 'GivingBack', { ...LONG, what: 'the report of it' });
  expect((await ready())?.message).toContain('once its agent has left');
  await test.edit('m0', (machine) => void (machine.status = { ...machine.status, agent: { ...AGENT, leaving: true } }), 'status');
  await waitFor(async () => (await client.find(Machines, key)) === undefined, { ...LONG, what: 'the Machine to be gone' });

  const node = await test.node('m0');
  expect(node?.metadata.uid).toBe(before?.metadata.uid);
  expect(node?.metadata.labels).toEqual({ team: 'x' });
  expect([dedicated(node), node?.spec?.unschedulable ?? false]).toEqual([[], false]);
  expect(node?.metadata.annotations?.[ANNOTATIONS.givenBack]).toBe(`${POOL}/m0`);
  expect(await client.find(Pods, { namespace: POOL, name: 'p' })).toMatchObject({ spec: { nodeName: 'm0' } });
  expect(await client.find(Leases, { namespace: 'kube-node-lease', name: 'm0' })).toBeDefined();
  expect(await client.find(Leases, { namespace: POOL, name: agentLeaseName('m0') })).toBeUndefined();
  const events = test.events.map(({ reason }) => reason);
  expect(events).toContain('GivenBack');
  for (const reason of ['Cordoned', 'PodEvicted', 'OperationOrdered', 'DeletingInstance']) expect(events).not.toContain(reason);
  const ledger = await client.find(DisruptionLedgers, { name: LEDGER_NAME });
  expect([ledger?.status?.reservations ?? [], ledger?.status?.hours ?? []]).toEqual([[], []]);
});

test('C14: where no agent will ever answer a person confirms that it is gone', async () => {
  const test = await imported();
  const { client } = test;
  await client.patch(Machines, key, { merge: { spec: { deletionPolicy: 'Orphan' } } });
  await client.delete(Machines, key);
  const annotations = { [ANNOTATIONS.agentIsGone]: 'uninstalled by hand, INC-7' };
  await client.patch(Machines, key, { merge: { metadata: { annotations } } });
  await waitFor(async () => (await client.find(Machines, key)) === undefined, { ...LONG, what: 'the Machine to be gone' });
  expect((await test.node('m0'))?.metadata.labels).toEqual({ team: 'x' });
});

test('C14: the policy is for machines that exist, and the server refuses it elsewhere', async () => {
  cell = await openCell();
  for (const deletionPolicy of ['Orphan', 'Reset'] as const)
    await expect(cell.addMachine('m1', { deletionPolicy })).rejects.toThrow('are for machines that exist (provider ssh)');
  await cell.addMachine('m1', { deletionPolicy: 'Delete' });
  await expect(cell.addMachine('m2', { deletionPolicy: 'Retain' as never })).rejects.toThrow(/deletionPolicy/);
});
