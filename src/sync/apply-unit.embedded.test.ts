import { afterEach, describe, expect, test } from 'vitest';
import { openCluster } from '@kubenode/embedded';
import { CustomResourceDefinitions, Namespaces } from '../api/builtin.ts';
import type { InventoryEntry } from '../api/cluster.ts';
import { DefenderPolicies } from '../api/defender-policy.ts';
import { unitDigest } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { CELL_KINDS } from '../api/kinds.ts';
import { MachineComponentSets } from '../api/machine-component-set.ts';
import { MachineComponents } from '../api/machine-component.ts';
import { MachineSets } from '../api/machine-set.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../api/names.ts';
import { NodeRemediers } from '../api/node-remedier.ts';
import { REHEARSAL_ANNOTATIONS } from '../api/rehearsal.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
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
  // Somebody gives both to sync, and takes the record of who wrote them away.
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
  test('such as what somebody set while a commit gave another', async () => {
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

describe('what sync applied, and somebody changed', () => {
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
      expect.stringMatching(/^MachineComponentSet\/comp: somebody deleted it and made another one; metadata\.labels/),
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

describe('E3: what Git does not give in an object of KubeNode is taken out', () => {
  const { signal } = new AbortController();
  const resources: readonly Resource[] = [MachineComponentSets, MachineSets, NodeRemediers, DefenderPolicies, MachineComponents];

  async function openCell(): Promise<Client> {
    const cluster = await openCluster({ name: 'cell', state: 'memory', clock: systemClock({ ref: true }) });
    cleanups.push(() => cluster.close());
    const client = createClient(cluster.asUser(), { fieldManager: 'kubectl-edit' });
    for (const kind of CELL_KINDS) await client.create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
    for (const each of resources)
      await waitFor(async () => (await client.find(each, { name: 'x', namespace: 'web' }).catch(() => 'not served')) === undefined);
    return client;
  }

  type Given = KubeObject & { spec: Record<string, unknown> };
  const given = (kind: string, spec: Given['spec'], metadata: Partial<Given['metadata']> = {}): Given => ({
    apiVersion: API_VERSION,
    kind,
    metadata: { name: 'a', ...(kind === 'MachineSet' ? { namespace: 'web' } : {}), ...metadata },
    spec,
  });
  const resourceOf = ({ kind }: { kind: string }): Resource => {
    const found = resources.find((each) => each.kind === kind);
    if (found === undefined) throw new Error(`no ${kind}`);
    return found;
  };
  const commit = async (client: Client, object: Given) => {
    const { kind, metadata } = object;
    const unit = { key: `${kind}/${metadata.name}`, objects: [object], origins: [undefined] };
    const stamp = { digest: unitDigest([object]), fleet: 'main', lane: 'Forward' } as const;
    const target = { client, resourceOf: (each: { kind: string }) => Promise.resolve(resourceOf(each)) };
    return await applyUnit(target, unit, stamp, () => Promise.resolve({}), signal);
  };
  const live = async (client: Client, { kind, metadata }: Given): Promise<Stored<Given>> =>
    (await client.get(resourceOf({ kind }), metadata)) as Stored<Given>;
  /** What the server itself fills in beside what sync writes. */
  const specOf = async (client: Client, object: Given): Promise<object> => {
    const { unitDigest: _digest, lane: _lane, ...spec } = (await live(client, object)).spec;
    return spec;
  };
  /** The spec that the object has in a cell where only sync ever wrote it. */
  const alone = async (object: Given): Promise<object> => {
    const client = await openCell();
    await commit(client, object);
    return await specOf(client, object);
  };
  const set = (spec: Given['spec'] = {}): Given =>
    given('MachineComponentSet', { componentName: 'comp', version: '1.0.0', selector: { tier: 'web' }, ...spec });
  const machines = (spec: Given['spec'] = {}): Given => given('MachineSet', { provider: { name: 'fake' }, replicas: 3, ...spec });
  const rule = (spec: Given['spec'] = {}): Given =>
    given('NodeRemedier', {
      when: { all: [{ fact: 'machine.phase', operator: 'equal', value: 'Running' }] },
      holdsForSeconds: 60,
      ladder: [{ action: 'Human' }],
      healedWhen: { condition: 'Ready', is: 'True', forSeconds: 60 },
      ...spec,
    });
  const policy = (spec: Given['spec'] = {}): Given =>
    given('DefenderPolicy', { limits: [{ name: 'all', scope: 'Cluster', maxUnavailable: 1 }], ...spec });
  const theirLimit = { name: 'theirs', scope: 'Cluster', maxConcurrent: 50 };

  const WRITES: [string, Given, (client: Client, object: Given) => Promise<unknown>, string][] = [
    [
      'a merge patch of a field with a default',
      set(),
      (client, { metadata }) => client.patch(MachineComponentSets, metadata, { merge: { spec: { maxFailed: 50 } } }),
      'spec.maxFailed from 50 to 1, set by kubectl-edit',
    ],
    [
      'a JSON patch of a field without one',
      set(),
      (client, { metadata }) =>
        client.patch(MachineComponentSets, metadata, { json: [{ op: 'add', path: '/spec/maxUnavailable', value: '100%' }] }),
      'spec.maxUnavailable from "100%" to nothing, set by kubectl-edit',
    ],
    [
      'an entry of a selector',
      set(),
      (client, { metadata }) => client.patch(MachineComponentSets, metadata, { merge: { spec: { selector: { rack: 'r1' } } } }),
      'spec.selector.rack from "r1" to nothing, set by kubectl-edit',
    ],
    [
      'a whole object within the spec',
      set(),
      (client, { metadata }) =>
        client.patch(MachineComponentSets, metadata, {
          merge: { spec: { canary: { selector: { canary: 'yes' }, version: '6.6.6', values: { a: { b: [1, { c: 2 }] } } } } },
        }),
      'spec.canary from',
    ],
    [
      'a value that templates see',
      set({ values: { port: 1, nested: { a: 1 } } }),
      (client, { metadata }) => client.patch(MachineComponentSets, metadata, { merge: { spec: { values: { nested: { evil: [1] } } } } }),
      'spec.values.nested.evil from [1] to nothing, set by kubectl-edit',
    ],
    [
      'a replacement with extra fields',
      set(),
      async (client, object) => {
        const found = await live(client, object);
        await client.update(MachineComponentSets, MachineComponentSets.parse({ ...found, spec: { ...found.spec, soakSeconds: 0 } }));
      },
      'spec.soakSeconds from 0 to 60, set by kubectl-edit',
    ],
    [
      'a forced apply of another manager',
      set(),
      (client, object) =>
        client.apply(MachineComponentSets, { ...object, spec: { ...object.spec, maxFailed: 9 } } as KubeObject, {
          fieldManager: 'argo',
          force: true,
        }),
      'spec.maxFailed from 9 to 1, set by argo',
    ],
    [
      'an object that was deleted and made again with extra fields',
      set(),
      async (client, object) => {
        await client.delete(MachineComponentSets, object.metadata);
        await client.create(MachineComponentSets, MachineComponentSets.parse({ ...object, spec: { ...object.spec, maxFailed: 9 } }));
      },
      'spec.maxFailed from 9 to 1',
    ],
    [
      'a field where the records of who wrote what were cleared',
      set(),
      async (client, { metadata }) => {
        await client.patch(MachineComponentSets, metadata, { merge: { spec: { maxFailed: 9 } } });
        await client.patch(MachineComponentSets, metadata, { json: [{ op: 'replace', path: '/metadata/managedFields', value: [{}] }] });
        expect((await client.get(MachineComponentSets, metadata)).metadata.managedFields).toBeUndefined();
      },
      'spec.maxFailed from 9 to 1',
    ],
    [
      'a field that no record names',
      set(),
      async (client, { metadata }) => {
        await client.patch(MachineComponentSets, metadata, { merge: { spec: { maxUnavailable: 7 } } });
        const { managedFields = [] } = (await client.get(MachineComponentSets, metadata)).metadata;
        const own = managedFields.filter(({ manager }) => manager === MANAGERS.sync);
        await client.patch(MachineComponentSets, metadata, { merge: { metadata: { managedFields: own } } });
      },
      'spec.maxUnavailable from 7 to nothing, set by somebody',
    ],
    [
      'the template of a MachineSet',
      machines({ template: { metadata: { labels: { tier: 'web' } } } }),
      (client, { metadata }) =>
        client.patch(MachineSets, metadata, {
          merge: { spec: { template: { metadata: { labels: { 'node-role': 'x' } }, taints: [{ key: 'a', effect: 'NoExecute' }] } } },
        }),
      'spec.template.',
    ],
    [
      "the configuration of a MachineSet's provider",
      machines({ provider: { name: 'fake', config: { size: 'small' } } }),
      (client, { metadata }) => client.patch(MachineSets, metadata, { merge: { spec: { provider: { config: { image: 'evil' } } } } }),
      'spec.provider.config.image from "evil" to nothing, set by kubectl-edit',
    ],
    [
      'the mode of a repair rule',
      rule(),
      (client, { metadata }) => client.patch(NodeRemediers, metadata, { merge: { spec: { mode: 'Enforce' } } }),
      'spec.mode from "Enforce" to nothing, set by kubectl-edit',
    ],
    [
      'the terms of enforcing a repair rule',
      rule(),
      (client, { metadata }) =>
        client.patch(NodeRemediers, metadata, {
          merge: { metadata: { annotations: { [REHEARSAL_ANNOTATIONS.maxJobs]: '999', 'example.org/note': 'stays' } } },
        }),
      `metadata.annotations.${REHEARSAL_ANNOTATIONS.maxJobs} from "999" to nothing, set by kubectl-edit`,
    ],
    [
      'an entry of a list of limits',
      policy(),
      (client, { metadata }) =>
        client.patch(DefenderPolicies, metadata, { json: [{ op: 'add', path: '/spec/limits/-', value: theirLimit }] }),
      'spec.limits[name=theirs] from',
    ],
    [
      'a whole list of a policy',
      policy(),
      (client, object) =>
        client.apply(DefenderPolicies, { ...object, spec: { actions: [{ selector: { a: 'b' }, allowed: [] }] } } as KubeObject, {
          fieldManager: 'argo',
        }),
      'spec.actions from',
    ],
  ];
  test.each(WRITES)('such as %s', async (_what, object, write, correction) => {
    const client = await openCell();
    await commit(client, object);
    await write(client, object);
    const applied = await commit(client, object);
    expect(applied.changed).toBe(true);
    expect(applied.corrections.join('; ')).toContain(correction);
    expect(await specOf(client, object)).toEqual(await alone(object));
    const { annotations = {} } = (await live(client, object)).metadata;
    expect(Object.keys(annotations).filter((each) => each !== 'example.org/note' && each !== ANNOTATIONS.origin)).toEqual([]);
    // Then nothing is left to do, and what others own beside it is theirs still.
    const { resourceVersion } = (await live(client, object)).metadata;
    expect(await commit(client, object)).toMatchObject({ changed: false, corrections: [] });
    expect((await live(client, object)).metadata.resourceVersion).toBe(resourceVersion);
  });

  test.each<[string, Given, Given]>([
    ['a number', set({ maxFailed: 5 }), set()],
    ['an entry of a selector', set({ selector: { tier: 'web', rack: 'r1' } }), set()],
    ['an object', set({ offlinePolicy: { afterSeconds: 900 } }), set()],
    ['values', set({ values: { a: { b: 1, c: 1 } } }), set({ values: { a: { c: 1 } } })],
    ['a template', machines({ template: { metadata: { labels: { tier: 'web' } }, drainTimeoutSeconds: 5 } }), machines()],
    ['the mode of a rule', rule({ mode: 'Enforce' }), rule()],
    ['a limit', policy({ limits: [{ name: 'all', scope: 'Cluster', maxUnavailable: 1 }, theirLimit] }), policy()],
  ])('such as %s that a commit drops and another manager has applied too', async (_what, before, after) => {
    for (const isCleared of [false, true]) {
      const client = await openCell();
      await commit(client, before);
      await client.apply(resourceOf(before), before, { fieldManager: 'argo' });
      if (isCleared) {
        const json = [{ op: 'replace' as const, path: '/metadata/managedFields', value: [{}] }];
        await client.patch(resourceOf(before), before.metadata, { json });
        await commit(client, before);
      }
      await commit(client, after);
      expect(await specOf(client, after)).toEqual(await alone(after));
      expect((await commit(client, after)).changed).toBe(false);
    }
  });

  test('in one change of the content: nothing sees what neither commit gives', async () => {
    const client = await openCell();
    const before = set({ action: 'Remove', selector: { tier: 'web' } });
    await commit(client, before);
    await client.apply(MachineComponentSets, { ...before, spec: { selector: { tier: 'web' } } } as KubeObject, { fieldManager: 'argo' });
    const { generation = 0 } = (await live(client, before)).metadata;
    await commit(client, given('MachineComponentSet', { componentName: 'comp', version: '1.0.0' }));
    const after = await live(client, before);
    expect(after.spec).not.toHaveProperty('selector');
    expect(after.spec['action']).toBe('Install');
    expect(after.metadata.generation).toBe(generation + 1);
  });

  test('save what others write by design, where Git leaves it out', async () => {
    const client = await openCell();
    const { replicas: _, ...withoutReplicas } = machines().spec;
    const scaled = given('MachineSet', withoutReplicas);
    await commit(client, set());
    await commit(client, scaled);
    const theirs = { ceiling: { unitDigest: 'v1:x', nodes: 0 }, rolloutID: 'again', paused: true };
    await client.patch(MachineComponentSets, set().metadata, { merge: { spec: theirs } });
    await client.patch(MachineSets, scaled.metadata, { merge: { spec: { paused: true, replicas: 4 } } });
    expect(await commit(client, set())).toMatchObject({ changed: false, corrections: [] });
    expect(await commit(client, scaled)).toMatchObject({ changed: false, corrections: [] });
    expect(await specOf(client, set())).toMatchObject(theirs);
    expect(await specOf(client, scaled)).toMatchObject({ paused: true, replicas: 4 });
    await client.patch(MachineSets, scaled.metadata, { merge: { spec: { maxFailed: 100 } } });
    await commit(client, scaled);
    expect(await specOf(client, scaled)).toMatchObject({ paused: true, replicas: 4, maxFailed: 3 });
  });

  test('and not from what another has written since it was read', async () => {
    const client = await openCell();
    await commit(client, set());
    await client.patch(MachineComponentSets, set().metadata, { merge: { spec: { maxFailed: 50 } } });
    const racing: Client = {
      ...client,
      find: async (resource, key, options) => {
        const found = await client.find(resource, key, options);
        await client.patch(MachineComponentSets, set().metadata, { merge: { metadata: { annotations: { written: 'since' } } } });
        return found;
      },
    };
    await expect(commit(racing, set())).rejects.toMatchObject({ reason: 'Conflict' });
    expect(await specOf(client, set())).toMatchObject({ maxFailed: 50 });
  });

  test('a MachineComponent that was made by hand with more than Git gives is refused', async () => {
    const client = await openCell();
    const component = given(
      'MachineComponent',
      { componentName: 'comp', version: '1.0.0', platforms: [{ os: 'linux', arch: 'amd64', artifacts: [] }] },
      { name: 'comp-1.0.0' },
    );
    const more = { ...component, spec: { ...component.spec, healthDeadlineSeconds: 9999 } };
    await client.create(MachineComponents, MachineComponents.parse(more));
    await expect(commit(client, component)).rejects.toMatchObject({ code: 'ImmutableChanged' });
  });
});
