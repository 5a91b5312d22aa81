import { beforeEach, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { listAt, objectAt } from '../json.ts';
import { closeRig, openRig, pick, text, type Rig } from '../testing/rig.ts';

const NODES = '/api/v1/nodes';
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

let rig: Rig;
beforeEach(async () => {
  rig = await openRig({ nodeGraceMs: 40_000 });
  return () => closeRig(rig);
});

const node = async (): Promise<JsonObject> => (await rig.api.get(`${NODES}/n`)).body;
const spec = (change: JsonObject) => rig.api.merge(`${NODES}/n`, { spec: change });
const status = (...conditions: Json[]) => rig.api.merge(`${NODES}/n/status`, { status: { conditions } });
const taints = async (): Promise<string[]> =>
  listAt(await node(), 'spec', 'taints').map((taint) => `${text(pick(taint, 'key'))}:${text(pick(taint, 'effect'))}`);
const condition = async (type: string): Promise<Json | undefined> =>
  listAt(await node(), 'status', 'conditions').find((each) => pick(each, 'type') === type);
const ready = async (): Promise<string> => text(pick(await condition('Ready'), 'status'));

async function addNode(): Promise<void> {
  await rig.api.create(NODES, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } });
  const lastHeartbeatTime = new Date(rig.clock.now()).toISOString();
  await status(
    { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'ok', lastHeartbeatTime },
    { type: 'KernelDeadlock', status: 'False' },
  );
  const made = await rig.api.create(LEASES, {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'n' },
    spec: { holderIdentity: 'n', renewTime: '2026-01-01T00:00:00.000000Z' },
  });
  expect(made.status).toBe(201);
}

it('reports Unknown for a node whose kubelet does not respond within the grace period, and only in its Ready condition', async () => {
  await addNode();
  await rig.clock.advance(35_000);
  expect(await ready()).toBe('True');
  await rig.clock.advance(20_000);
  expect(await ready()).toBe('Unknown');
  expect(pick(await condition('KernelDeadlock'), 'status')).toBe('False');
  const before = pick(await node(), 'metadata.resourceVersion');
  await rig.clock.advance(60_000);
  expect(pick(await node(), 'metadata.resourceVersion')).toBe(before);
});

it('leaves a node alone whose Lease is renewed, regardless of the clock of the node', async () => {
  await addNode();
  for (let round = 0; round < 10; round += 1) {
    await rig.clock.advance(20_000);
    await rig.api.merge(`${LEASES}/n`, { spec: { renewTime: `1999-01-01T00:00:${String(round).padStart(2, '0')}.000000Z` } });
  }
  expect(await ready()).toBe('True');
});

it('taints a node by its conditions and its cordon, and takes back only what is its own', async () => {
  await addNode();
  const become = (value: 'True' | 'False') => status({ type: 'Ready', status: value }, { type: 'DiskPressure', status: value });
  await expect.poll(taints).toEqual([]);
  await spec({ unschedulable: true, taints: [{ key: 'only', effect: 'NoSchedule' }] });
  await expect.poll(taints).toEqual(['only:NoSchedule', 'node.kubernetes.io/unschedulable:NoSchedule']);
  await become('False');
  await expect
    .poll(async () => (await taints()).toSorted())
    .toEqual(['node.kubernetes.io/not-ready:NoSchedule', 'node.kubernetes.io/unschedulable:NoSchedule', 'only:NoSchedule']);
  await spec({ unschedulable: null });
  await become('True');
  await expect.poll(taints).toEqual(['only:NoSchedule', 'node.kubernetes.io/disk-pressure:NoSchedule']);
  await rig.clock.advance(60_000);
  await expect
    .poll(taints)
    .toEqual(['only:NoSchedule', 'node.kubernetes.io/disk-pressure:NoSchedule', 'node.kubernetes.io/unreachable:NoSchedule']);
});

it('a Node is created not ready, and stays so until its kubelet reports otherwise', async () => {
  const made = await rig.api.create(NODES, {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n' },
    status: { conditions: [{ type: 'Ready', status: 'False' }] },
  });
  expect(pick(made.body, 'spec.taints')).toEqual([{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }]);
  await status({ type: 'Ready', status: 'True' });
  await expect.poll(async () => objectAt(await node(), 'spec')['taints']).toBeUndefined();
});
