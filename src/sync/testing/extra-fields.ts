/** What others write into objects that sync has applied, and what sync takes out of them again (docs/protocols.md#e3). On any API server. */
import { expect } from 'vitest';
import { DefenderPolicies } from '../../api/defender-policy.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { ANNOTATIONS, MANAGERS } from '../../api/names.ts';
import { NodeRemediers } from '../../api/node-remedier.ts';
import { REHEARSAL_ANNOTATIONS } from '../../api/rehearsal.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { EMPTY_CASES } from './content.ts';
import { LOST_CASES } from './lost-writes.ts';
import { given, resourceOf, commit, live, specOf, remove, alone, set, machines, rule, policy, type Given } from './objects.ts';

const theirLimit = { name: 'theirs', scope: 'Cluster', maxConcurrent: 50 };

/** What is written, to what, how, and the correction that is reported. */
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
    'spec.maxUnavailable from 7 to nothing, set by an unknown manager',
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
async function takesOut(client: Client, [, object, write, correction]: (typeof WRITES)[number]): Promise<void> {
  const expected = await alone(client, object);
  await commit(client, object);
  await write(client, object);
  const applied = await commit(client, object);
  expect(applied.changed).toBe(true);
  expect(applied.corrections.join('; ')).toContain(correction);
  expect(await specOf(client, object)).toEqual(expected);
  const { annotations = {} } = (await live(client, object)).metadata;
  expect(Object.keys(annotations).filter((each) => each !== 'example.org/note' && each !== ANNOTATIONS.origin)).toEqual([]);
  // Then nothing is left to do, and what others own beside it is theirs still.
  const { resourceVersion } = (await live(client, object)).metadata;
  expect(await commit(client, object)).toMatchObject({ changed: false, corrections: [] });
  expect((await live(client, object)).metadata.resourceVersion).toBe(resourceVersion);
}

const DROPS: [string, Given, Given][] = [
  ['a number', set({ maxFailed: 5 }), set()],
  ['an entry of a selector', set({ selector: { tier: 'web', rack: 'r1' } }), set()],
  ['an object', set({ offlinePolicy: { afterSeconds: 900 } }), set()],
  ['values', set({ values: { a: { b: 1, c: 1 } } }), set({ values: { a: { c: 1 } } })],
  ['a template', machines({ template: { metadata: { labels: { tier: 'web' } }, drainTimeoutSeconds: 5 } }), machines()],
  ['the mode of a rule', rule({ mode: 'Enforce' }), rule()],
  ['a limit', policy({ limits: [{ name: 'all', scope: 'Cluster', maxUnavailable: 1 }, theirLimit] }), policy()],
];
async function takesOutDropped(client: Client, [, before, after]: (typeof DROPS)[number]): Promise<void> {
  const expected = await alone(client, after);
  for (const isCleared of [false, true]) {
    await remove(client, before);
    await commit(client, before);
    await client.apply(resourceOf(before), before, { fieldManager: 'argo' });
    if (isCleared) {
      const json = [{ op: 'replace' as const, path: '/metadata/managedFields', value: [{}] }];
      await client.patch(resourceOf(before), before.metadata, { json });
      await commit(client, before);
    }
    await commit(client, after);
    expect(await specOf(client, after)).toEqual(expected);
    expect((await commit(client, after)).changed).toBe(false);
  }
}

async function takesOutAtOnce(client: Client): Promise<void> {
  const before = set({ action: 'Remove', selector: { tier: 'web' } });
  await commit(client, before);
  await client.apply(MachineComponentSets, { ...before, spec: { selector: { tier: 'web' } } } as KubeObject, { fieldManager: 'argo' });
  const { generation = 0 } = (await live(client, before)).metadata;
  await commit(client, given('MachineComponentSet', { componentName: 'comp', version: '1.0.0' }));
  const after = await live(client, before);
  expect(after.spec).not.toHaveProperty('selector');
  expect(after.spec['action']).toBe('Install');
  expect(after.metadata.generation).toBe(generation + 1);
}

async function leavesOthersFields(client: Client): Promise<void> {
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
}

async function writesOverNothing(client: Client): Promise<void> {
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
}

const component = given(
  'MachineComponent',
  { componentName: 'comp', version: '1.0.0', platforms: [{ os: 'linux', arch: 'amd64', artifacts: [] }] },
  { name: 'comp-1.0.0' },
);
async function refusesComponent(client: Client): Promise<void> {
  const more = { ...component, spec: { ...component.spec, healthDeadlineSeconds: 9999 } };
  await client.create(MachineComponents, MachineComponents.parse(more));
  await expect(commit(client, component)).rejects.toMatchObject({ code: 'ImmutableChanged' });
}

/** `client`: of the administrator, by field manager `kubectl-edit`, where the kinds and the Namespace are served. */
export const CASES: readonly (readonly [string, (client: Client) => Promise<void>])[] = [
  ...WRITES.map((each) => [`such as ${each[0]}`, (client: Client) => takesOut(client, each)] as const),
  ...DROPS.map(
    (each) =>
      [
        `such as ${each[0]} that a commit drops and another manager has applied too`,
        (client: Client) => takesOutDropped(client, each),
      ] as const,
  ),
  ...EMPTY_CASES,
  ...LOST_CASES,
  ['in one change of the content: nothing sees what neither commit gives', takesOutAtOnce],
  ['save what others write by design, where Git leaves it out', leavesOthersFields],
  ['and not from what another has written since it was read', writesOverNothing],
  ['and refuses a MachineComponent that was made by hand with more than Git gives', refusesComponent],
];

/** Removes what a case made. */
export async function clear(client: Client): Promise<void> {
  for (const object of [set(), machines(), rule(), policy(), component]) await remove(client, object);
}
