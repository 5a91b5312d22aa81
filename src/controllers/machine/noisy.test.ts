import { afterEach, describe, expect, test } from 'vitest';
import { Nodes, Pods, type Node } from '../../api/builtin.ts';
import { Machines } from '../../api/machine.ts';
import type { Client } from '../../kube/client.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { isCordoned, ownerOf } from './cordon/cordon.ts';
import { openCell, POOL, type TestCell } from './testing/cell.ts';
import { entry, VERIFIED_OLD, waiting } from './testing/objects.ts';

let cell: TestCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});

const LONG = { deadlineMs: 20_000 };

/** Before each write of a Node its kubelet writes it, and before each write of a Machine its agent does: for ever, by what their rights allow. */
function noisy(client: Client): { through: Client; count: () => number } {
  let count = 0;
  async function disturb(plural: string, name: string): Promise<void> {
    const beat = String(++count);
    if (plural === Nodes.plural) {
      const status = { nodeInfo: { bootID: beat } };
      await client.patch(Nodes, { name }, { merge: { status } }, { fieldManager: 'kubelet', subresource: 'status' });
      await client.patch(
        Nodes,
        { name },
        { merge: { metadata: { annotations: { 'example.com/beat': beat } } } },
        { fieldManager: 'kubelet' },
      );
    }
    if (plural === Machines.plural) {
      const status = { agent: { version: beat, apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } };
      await client.patch(
        Machines,
        { namespace: POOL, name },
        { merge: { status } },
        { fieldManager: 'kubenode-agent', subresource: 'status' },
      );
    }
  }
  const through: Client = {
    ...client,
    async update(resource, object, options) {
      await disturb(resource.plural, object.metadata.name);
      return await client.update(resource, object, options);
    },
    async patch(resource, key, patch, options) {
      await disturb(resource.plural, key.name);
      return await client.patch(resource, key, patch, options);
    },
  };
  return { through, count: () => count };
}

async function noisyCell(): Promise<{ test: TestCell; count: () => number }> {
  cell = await openCell();
  const { through, count } = noisy(cell.client);
  cell.lead({ through });
  return { test: cell, count };
}

const nodeThat = async (test: TestCell, what: string, is: (node: Node) => boolean) =>
  await waitFor(
    async () => {
      const node = await test.node('a');
      return node !== undefined && is(node) ? node : undefined;
    },
    { ...LONG, what },
  );

describe('C4a: a node that writes its own objects before each write of a controller keeps nothing away', () => {
  test('no label, no taint, no cordon, no drain, no order, no uncordon', async () => {
    const { test, count } = await noisyCell();
    const { uid } = (await test.set({ maxUnavailable: '100%' })).metadata;
    await test.addMachine('a', {
      components: [entry({ setUID: uid })],
      labels: { gpu: 'yes' },
      taints: [{ key: 'only', effect: 'NoSchedule' }],
    });
    await test.boot('a');
    await test.phase('a', 'Running');
    await nodeThat(
      test,
      'label and taint',
      ({ metadata, spec }) => metadata.labels?.['gpu'] === 'yes' && spec?.taints?.some(({ key }) => key === 'only') === true,
    );
    await test.client.create(Pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', namespace: POOL },
      spec: { nodeName: 'a', containers: [{ name: 'c', image: 'i' }] },
    });
    await test.report('a', { components: [waiting({ needs: 'Drain' })], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    await nodeThat(test, 'a cordon', (node) => isCordoned(node) && ownerOf(node) !== undefined);
    const gone = async () => {
      const pod = await test.client.find(Pods, { namespace: POOL, name: 'p' });
      if (pod?.metadata.deletionTimestamp !== undefined)
        await test.client.delete(Pods, { namespace: POOL, name: 'p' }, { gracePeriodSeconds: 0 });
      return pod === undefined;
    };
    await waitFor(gone, { ...LONG, what: 'the eviction' });
    const id = await waitFor(async () => (await test.machine('a')).spec.operation?.id, { ...LONG, what: 'an order' });
    const components = [waiting({ state: 'Healthy', running: 2, version: '2.0.0' })];
    await test.report('a', { operation: { id, state: 'Done', outcome: 'Succeeded' }, components });
    const node = await nodeThat(test, 'an uncordon', (each) => !isCordoned(each) && ownerOf(each) === undefined);
    expect(node.spec?.taints).toContainEqual({ key: 'only', effect: 'NoSchedule' });
    await waitFor(async () => (await test.reservations()).length === 0, { ...LONG, what: 'the release' });
    await test.edit('a', (machine) => void (machine.spec.labels = {}));
    await nodeThat(test, 'no label', ({ metadata }) => metadata.labels?.['gpu'] === undefined);
    expect(count()).toBeGreaterThan(8);
  }, 60_000);

  test('and no cancellation', async () => {
    const { test } = await noisyCell();
    const { uid } = (await test.set({ maxUnavailable: '100%' })).metadata;
    await test.addMachine('a', { components: [entry({ setUID: uid })] });
    await test.boot('a');
    await test.phase('a', 'Running');
    await test.client.create(Pods, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', namespace: POOL, finalizers: ['example.com/stays'] },
      spec: { nodeName: 'a', containers: [{ name: 'c', image: 'i' }] },
    });
    await test.report('a', { components: [waiting({ needs: 'Drain' })], verified: [{ ...VERIFIED_OLD, setUID: uid }] });
    await nodeThat(test, 'a cordon', (node) => isCordoned(node) && ownerOf(node) !== undefined);
    await test.edit('a', (machine) => void (machine.spec.hold = true));
    await waitFor(async () => (await test.machine('a')).spec.operation?.kind === 'Cancelled', { ...LONG, what: 'the cancellation' });
    await nodeThat(test, 'an uncordon', (node) => !isCordoned(node));
    await waitFor(async () => (await test.reservations()).length === 0, { ...LONG, what: 'the release' });
  }, 60_000);
});
