import { afterEach, describe, expect, test } from 'vitest';
import { openCluster } from '@kubenode/embedded';
import { CustomResourceDefinitions, Namespaces } from '../api/builtin.ts';
import type { InventoryEntry } from '../api/cluster.ts';
import { unitDigest } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { MachineComponentSets } from '../api/machine-component-set.ts';
import { MachineSets } from '../api/machine-set.ts';
import { LABELS, MANAGERS } from '../api/names.ts';
import type { KubeObject } from '../api/wire.ts';
import type { Client } from '../kube/client.ts';
import { systemClock } from '../kube/clock.ts';
import { createClient } from '../kube/http-client.ts';
import { waitFor } from '../kube/testing/wait-for.ts';
import { applyUnit, removeUnit } from './apply-unit.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

/** A cell that serves component sets. */
async function cellClient(): Promise<Client> {
  const cluster = await openCluster({ name: 'cell', state: 'memory', clock: systemClock({ ref: true }) });
  cleanups.push(() => cluster.close());
  const client = createClient(cluster.asUser(), { fieldManager: 'kubectl' });
  await client.create(CustomResourceDefinitions, MachineComponentSets.crd());
  await waitFor(async () => (await client.find(MachineComponentSets, { name: 'x' }).catch(() => 'not served')) === undefined);
  return client;
}

test('E4: what sync applies never takes a ceiling or a rolloutID away, whatever managedFields report of whose they are', async () => {
  const client = await cellClient();
  const { signal } = new AbortController();
  const set = (version: string): KubeObject & { spec: object } => ({
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'comp' },
    spec: { componentName: 'comp', version, maxFailed: 1, pools: ['web'] },
  });
  const key = { name: 'comp' };
  const apply = async (version: string) => {
    const object = set(version);
    const digest = unitDigest([object]);
    const unit = { key: 'MachineComponentSet/comp', objects: [object], origins: [undefined] };
    const target = { client, resourceOf: () => Promise.resolve(MachineComponentSets) };
    return await applyUnit(target, unit, { digest, fleet: 'main', lane: 'Forward' }, () => Promise.resolve({}), signal);
  };
  await apply('1.0.0');
  const held = { ceiling: { unitDigest: 'v1:a', nodes: 0 }, rolloutID: 'again' };
  await client.patch(MachineComponentSets, key, { merge: { spec: held } }, { fieldManager: MANAGERS.rollout });
  // A user gives both to sync, and takes the record of who wrote them away.
  const { metadata } = await client.get(MachineComponentSets, key);
  const managedFields = (metadata.managedFields ?? [])
    .filter(({ manager }) => manager !== MANAGERS.rollout)
    .map((each) => {
      const spec = { ...(each.fieldsV1?.['f:spec'] as object), 'f:ceiling': {}, 'f:rolloutID': {} };
      return each.manager === MANAGERS.sync ? { ...each, fieldsV1: { ...each.fieldsV1, 'f:spec': spec } } : each;
    });
  await client.patch(MachineComponentSets, key, { merge: { metadata: { managedFields } } });
  for (const version of ['1.0.0', '1.1.0']) {
    await apply(version);
    expect((await client.get(MachineComponentSets, key)).spec).toMatchObject({ version, ...held });
  }
  expect((await apply('1.1.0')).changed).toBe(false);
});

describe('C8e: a commit that leaves `replicas` out takes over no number that would let machines go', () => {
  const key = { namespace: 'web', name: 'a' };
  const { signal } = new AbortController();

  async function openSet() {
    const cluster = await openCluster({ name: 'cell', state: 'memory', clock: systemClock({ ref: true }) });
    cleanups.push(() => cluster.close());
    const client = createClient(cluster.asUser());
    await client.create(CustomResourceDefinitions, MachineSets.crd());
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
    await waitFor(async () => (await client.find(MachineSets, key).catch(() => 'not served')) === undefined);
    const target = { client, resourceOf: () => Promise.resolve(MachineSets) };
    let inventory: Awaited<ReturnType<typeof applyUnit>>['inventory'] = [];
    return {
      async commit(replicas?: number) {
        const spec = { provider: { name: 'fake' }, ...(replicas === undefined ? {} : { replicas }) };
        const object: KubeObject & { spec: object } = { apiVersion: API_VERSION, kind: 'MachineSet', metadata: key, spec };
        const unit = { key: 'MachineSet/web/a', objects: [object], origins: [undefined] };
        const stamp = { digest: unitDigest([object]), fleet: 'main', lane: 'Forward' as const };
        const applied = await applyUnit(target, unit, stamp, () => Promise.resolve({}), signal);
        ({ inventory } = applied);
        return applied.changed;
      },
      async remove() {
        await client.patch(MachineSets, key, { merge: { status: { replicas: 10 } } }, { subresource: 'status' });
        await removeUnit(target, inventory, 'main', () => Promise.resolve(), signal);
      },
      by: (fieldManager: string, replicas: number) => client.patch(MachineSets, key, { merge: { spec: { replicas } } }, { fieldManager }),
      apply(fieldManager: string, replicas: number) {
        const object: KubeObject & { spec: object } = { apiVersion: API_VERSION, kind: 'MachineSet', metadata: key, spec: { replicas } };
        return client.apply(MachineSets, object, { fieldManager });
      },
      create: (replicas: number) =>
        client.create(MachineSets, {
          apiVersion: API_VERSION,
          kind: 'MachineSet',
          metadata: key,
          spec: { provider: { name: 'fake' }, replicas },
        }),
      replicas: async () => (await client.get(MachineSets, key)).spec.replicas,
    };
  }

  test.each<[string, number | undefined]>([
    ['had no number', undefined],
    ['had one', 10],
  ])('such as the 0 of a removal that it takes back, of a set that %s', async (_what, before) => {
    const set = await openSet();
    await set.commit(before);
    await set.remove();
    expect(await set.replicas()).toBe(0);
    expect(await set.commit()).toBe(true);
    expect(await set.replicas()).toBeUndefined();
    // From then on others scale it.
    await set.by('kubectl', 3);
    expect(await set.commit()).toBe(false);
    expect(await set.replicas()).toBe(3);
  });
  test('also where a commit gave the number of the removal again between the two', async () => {
    const set = await openSet();
    await set.commit(10);
    await set.remove();
    await set.commit(0);
    await set.commit();
    expect(await set.replicas()).toBeUndefined();
  });
  test('such as what a user set while a commit gave another', async () => {
    const set = await openSet();
    await set.commit(10);
    await set.by('kubectl', 3);
    await set.commit();
    expect(await set.replicas()).toBeUndefined();
  });
  test('and takes over what was by a commit, and what others gave a set that no Fleet managed', async () => {
    const handed = await openSet();
    await handed.commit(10);
    await handed.apply('argo', 10);
    await handed.commit();
    expect(await handed.replicas()).toBe(10);
    const found = await openSet();
    await found.create(7);
    await found.commit();
    expect(await found.replicas()).toBe(7);
  });
});

describe('what sync applied, and a user changed', () => {
  const set: KubeObject & { spec: object } = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'comp' },
    spec: { componentName: 'comp', version: '1.0.0' },
  };
  const key = { name: 'comp' };
  const { signal } = new AbortController();
  const targetOf = (client: Client) => ({ client, resourceOf: () => Promise.resolve(MachineComponentSets) });
  const applied = async (client: Client, inventory: InventoryEntry[] = []) => {
    const unit = { key: 'MachineComponentSet/comp', objects: [set], origins: [undefined] };
    const stamp = { digest: unitDigest([set]), fleet: 'main', lane: 'Forward' } as const;
    return await applyUnit(targetOf(client), unit, stamp, () => Promise.resolve({ inventory }), signal);
  };
  const removed = async (client: Client, inventory: readonly InventoryEntry[]) =>
    await removeUnit(targetOf(client), inventory, 'main', () => Promise.resolve(), signal);
  const madeAgain = async (client: Client, labels?: Record<string, string>): Promise<void> => {
    await client.delete(MachineComponentSets, key);
    const metadata = { ...key, ...(labels === undefined ? {} : { labels }) };
    await client.create(MachineComponentSets, MachineComponentSets.parse({ ...set, metadata }));
  };

  test('is reported as made again where its UID is another, beside what differs', async () => {
    const client = await cellClient();
    const { inventory } = await applied(client);
    await madeAgain(client);
    const again = await applied(client, inventory);
    expect(again.corrections).toEqual([
      expect.stringMatching(/^MachineComponentSet\/comp: a user deleted it and made another one; metadata\.labels/),
    ]);
    expect(again.inventory[0]?.uid).not.toBe(inventory[0]?.uid);
    expect(await applied(client, again.inventory)).toMatchObject({ changed: false, corrections: [] });
  });

  test('E9: is removed where only its label and its digest are gone, and then no sooner than it is gone', async () => {
    const client = await cellClient();
    const { inventory } = await applied(client);
    await client.patch(MachineComponentSets, key, {
      merge: { metadata: { labels: { [LABELS.fleet]: null } }, spec: { unitDigest: null } },
    });
    expect(await removed(client, inventory)).toMatchObject({ left: [{ name: 'comp' }] });
    expect(await client.find(MachineComponentSets, key)).toBeUndefined();
    expect(await removed(client, inventory)).toMatchObject({ left: [] });
  });

  test.each<[string, (client: Client) => Promise<unknown>]>([
    [
      'another Fleet took it over',
      (client) => client.patch(MachineComponentSets, key, { merge: { metadata: { labels: { [LABELS.fleet]: 'other' } } } }),
    ],
    ['it was made again with the label of another Fleet', (client) => madeAgain(client, { [LABELS.fleet]: 'other' })],
  ])('E9: is deleted by no removal where %s', async (_what, change) => {
    const client = await cellClient();
    const { inventory } = await applied(client);
    await change(client);
    expect(await removed(client, inventory)).toEqual({ left: [], empties: false });
    expect(await client.find(MachineComponentSets, key)).toBeDefined();
  });

  test.each([
    ['without the label', undefined],
    ['with the label', { [LABELS.fleet]: 'main' }],
  ])('E9: is deleted by no removal, and not gone, where it was made again %s', async (_what, labels) => {
    const client = await cellClient();
    const { inventory } = await applied(client);
    await madeAgain(client, labels);
    await expect(removed(client, inventory)).rejects.toMatchObject({ code: 'NotOurs' });
    expect(await client.find(MachineComponentSets, key)).toBeDefined();
  });

  test('E9: is deleted by no removal where its label is gone and no record has its UID', async () => {
    const client = await cellClient();
    await client.create(MachineComponentSets, MachineComponentSets.parse(set));
    await removed(client, [{ apiVersion: API_VERSION, kind: 'MachineComponentSet', name: 'comp' }]);
    expect(await client.find(MachineComponentSets, key)).toBeDefined();
  });
});
