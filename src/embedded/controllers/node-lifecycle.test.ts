import { afterEach, expect, it } from 'vitest';
import { Leases, Nodes, type Node } from '../../api/builtin.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { openCluster, type EmbeddedCluster } from '../index.ts';

let cluster: EmbeddedCluster | undefined;
afterEach(() => cluster?.close());

async function open() {
  const clock = fakeClock();
  cluster = await openCluster({ name: 'c', state: 'memory', clock, nodeGraceMs: 40_000 });
  const client = createClient(cluster.asUser());
  await client.create(Nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } });
  const beat = {
    type: 'Ready',
    status: 'True' as const,
    reason: 'KubeletReady',
    message: 'ok',
    lastHeartbeatTime: new Date(clock.now()).toISOString(),
  };
  await client.patch(
    Nodes,
    { name: 'n' },
    { merge: { status: { conditions: [beat, { type: 'KernelDeadlock', status: 'False' }] } } },
    { subresource: 'status' },
  );
  const lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'n', namespace: 'kube-node-lease' },
    spec: { holderIdentity: 'n', renewTime: '2026-01-01T00:00:00.000000Z' },
  };
  await client.create(Leases, lease);
  const ready = async (): Promise<string | undefined> => {
    const node: Node = await client.get(Nodes, { name: 'n' });
    return node.status?.conditions?.find((condition) => condition.type === 'Ready')?.status;
  };
  return { clock, client, ready };
}

it('says Unknown of a node whose kubelet is silent beyond the grace period, and only of its Ready condition', async () => {
  const { clock, client, ready } = await open();
  await clock.advance(35_000);
  expect(await ready()).toBe('True');
  await clock.advance(20_000);
  expect(await ready()).toBe('Unknown');
  const node = await client.get(Nodes, { name: 'n' });
  expect(node.status?.conditions?.find((condition) => condition.type === 'KernelDeadlock')?.status).toBe('False');
  const { resourceVersion } = node.metadata;
  await clock.advance(60_000);
  expect((await client.get(Nodes, { name: 'n' })).metadata.resourceVersion).toBe(resourceVersion);
});

it('leaves a node alone whose Lease is renewed, whatever the clock of the node says', async () => {
  const { clock, client, ready } = await open();
  for (let round = 0; round < 10; round += 1) {
    await clock.advance(20_000);
    await client.patch(
      Leases,
      { namespace: 'kube-node-lease', name: 'n' },
      { merge: { spec: { renewTime: `1999-01-01T00:00:${String(round).padStart(2, '0')}.000000Z` } } },
    );
  }
  expect(await ready()).toBe('True');
});

it('taints a node by its conditions and its cordon, and takes back only what is its own', async () => {
  const { client, clock } = await open();
  const theirs = { key: 'only', effect: 'NoSchedule' as const };
  const taints = async () => (await client.get(Nodes, { name: 'n' })).spec?.taints?.map(({ key, effect }) => `${key}:${effect}`) ?? [];
  const become = (status: 'True' | 'False') =>
    client.patch(
      Nodes,
      { name: 'n' },
      {
        merge: {
          status: {
            conditions: [
              { type: 'Ready', status },
              { type: 'DiskPressure', status },
            ],
          },
        },
      },
      { subresource: 'status' },
    );
  await expect.poll(taints).toEqual([]);
  await client.patch(Nodes, { name: 'n' }, { merge: { spec: { unschedulable: true, taints: [theirs] } } });
  await expect.poll(taints).toEqual(['only:NoSchedule', 'node.kubernetes.io/unschedulable:NoSchedule']);
  await become('False');
  await expect
    .poll(async () => (await taints()).toSorted())
    .toEqual(['node.kubernetes.io/not-ready:NoSchedule', 'node.kubernetes.io/unschedulable:NoSchedule', 'only:NoSchedule']);
  await client.patch(Nodes, { name: 'n' }, { merge: { spec: { unschedulable: null } } });
  await become('True');
  await expect.poll(taints).toEqual(['only:NoSchedule', 'node.kubernetes.io/disk-pressure:NoSchedule']);
  await clock.advance(60_000);
  await expect
    .poll(taints)
    .toEqual(['only:NoSchedule', 'node.kubernetes.io/disk-pressure:NoSchedule', 'node.kubernetes.io/unreachable:NoSchedule']);
});

it('a Node is born not ready, and says so until its kubelet says otherwise', async () => {
  cluster = await openCluster({ name: 'c', state: 'memory', clock: fakeClock(), nodeGraceMs: 40_000 });
  const client = createClient(cluster.asUser());
  const made = await client.create(Nodes, {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'n' },
    status: { conditions: [{ type: 'Ready', status: 'False' }] },
  });
  expect(made.spec?.taints).toEqual([{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }]);
  await client.patch(
    Nodes,
    { name: 'n' },
    { merge: { status: { conditions: [{ type: 'Ready', status: 'True' }] } } },
    { subresource: 'status' },
  );
  await expect.poll(async () => (await client.get(Nodes, { name: 'n' })).spec?.taints).toBeUndefined();
});
