import { afterEach, expect, it } from 'vitest';
import { Leases, Nodes, type Node } from '../../api/builtin.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { createClient } from '../../kube/httpclient.ts';
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
