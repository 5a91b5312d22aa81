import { afterEach, describe, expect, test } from 'vitest';
import { Pods, type Node } from '../../api/builtin.ts';
import { Machines } from '../../api/machine.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { API_VERSION } from '../../api/kind.ts';
import { LABELS } from '../../api/names.ts';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { isCordoned, ownerOf } from './cordon/cordon.ts';
import { noisy } from './testing/noisy.ts';
import { openCell, POOL, type TestCell } from './testing/cell.ts';
import { entry, VERIFIED_OLD, waiting } from './testing/objects.ts';

let cell: TestCell | undefined;
afterEach(async () => {
  await cell?.close();
  cell = undefined;
});

const LONG = { deadlineMs: 20_000 };

async function noisyCell(sets = false): Promise<{ test: TestCell } & Omit<ReturnType<typeof noisy>, 'through'>> {
  cell = await openCell();
  const { through, ...noise } = noisy(cell.client);
  cell.lead({ through, sets });
  return { test: cell, ...noise };
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

  test('and no mark of a MachineSet', async () => {
    const { test, pause } = await noisyCell(true);
    pause(true);
    const { uid } = await test.client
      .create(MachineSets, {
        apiVersion: API_VERSION,
        kind: 'MachineSet',
        metadata: { namespace: POOL, name: 'web' },
        spec: { provider: { name: 'fake' }, replicas: 2, maxRetiring: 2 },
      })
      .then(({ metadata }) => metadata);
    const machines = async () => {
      const { items } = await test.client.listAll(Machines, { namespace: POOL, labelSelector: `${LABELS.machineSet}=web` });
      return items.filter(({ metadata }) => metadata.ownerReferences?.some((owner) => owner.uid === uid));
    };
    await waitFor(async () => ((await machines()).length === 2 ? true : undefined), { ...LONG, what: 'the machines' });
    for (const { metadata } of await machines()) await test.boot(metadata.name);
    for (const { metadata } of await machines()) await test.phase(metadata.name, 'Running');
    pause(false);
    await test.client.patch(MachineSets, { namespace: POOL, name: 'web' }, { merge: { spec: { replicas: 1 } } });
    await waitFor(
      async () =>
        (await machines()).some(({ spec, metadata }) => spec.retire !== undefined || metadata.deletionTimestamp !== undefined) || undefined,
      {
        ...LONG,
        what: 'a mark',
      },
    );
  }, 60_000);
});
