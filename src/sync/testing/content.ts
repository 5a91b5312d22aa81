/** What Git gives as empty: an apply that takes the last member out leaves null (docs/protocols.md#e3). On any API server. */
import { expect } from 'vitest';
import { unitDigest } from '../../api/digest.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { ANNOTATIONS, MANAGERS } from '../../api/names.ts';
import type { ManagedFieldsEntry } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { given, resourceOf, commit, live, specOf, alone, set, machines, policy, type Given } from './objects.ts';

const limit = { name: 'evil', scope: 'Cluster', maxUnavailable: 9 };
const window = { name: 'evil', timeZone: 'Europe/Berlin', schedule: '0 1 * * *', durationMinutes: 60 };
/** What Git gives as empty, and the same with something in it. */
const EMPTY: [string, Given, Given][] = [
  ['values', set({ values: {} }), set({ values: { evil: 1 } })],
  ['values below', set({ values: { a: {} } }), set({ values: { a: { evil: { b: [1] } } } })],
  ['a list in values', set({ values: { a: [] } }), set({ values: { a: ['evil'] } })],
  ['a selector', set({ selector: {} }), set({ selector: { evil: 'x' } })],
  ['an object with defaults', set({ offlinePolicy: {} }), set({ offlinePolicy: { maxOfflineFraction: '90%' } })],
  ['labels', machines({ template: { metadata: { labels: {} } } }), machines({ template: { metadata: { labels: { evil: 'x' } } } })],
  ['a template', machines({ template: {} }), machines({ template: { metadata: { labels: { evil: 'x' } } } })],
  [
    'the config of a provider',
    machines({ provider: { name: 'fake', config: {} } }),
    machines({ provider: { name: 'fake', config: { evil: { a: [1], '.': 2, 'f:x': {} } } } }),
  ],
  [
    'maps below the config of a provider',
    machines({ provider: { name: 'fake', config: { a: {}, b: [], c: { d: {} } } } }),
    machines({ provider: { name: 'fake', config: { a: { evil: null }, b: ['evil'], c: { d: { evil: {} } } } } }),
  ],
  ['limits', policy({ limits: [] }), policy({ limits: [limit] })],
  ['windows', policy({ windows: [] }), policy({ windows: [window] })],
];
async function leavesEmpty(client: Client, [, empty, full]: (typeof EMPTY)[number]): Promise<void> {
  const expected = await alone(client, empty);
  await commit(client, empty);
  await client.patch(resourceOf(empty), empty.metadata, { merge: { spec: full.spec } });
  expect(await specOf(client, empty)).not.toEqual(expected);
  expect((await commit(client, empty)).corrections.join('; ')).toContain('set by kubectl-edit');
  expect(await specOf(client, empty)).toEqual(expected);
  expect(await commit(client, empty)).toMatchObject({ changed: false, corrections: [] });
}
async function empties(client: Client, [, empty, full]: (typeof EMPTY)[number]): Promise<void> {
  const expected = await alone(client, empty);
  await commit(client, full);
  expect((await commit(client, empty)).corrections).toEqual([]);
  expect(await specOf(client, empty)).toEqual(expected);
  expect(await commit(client, empty)).toMatchObject({ changed: false, corrections: [] });
}

const specIn = ({ fieldsV1 }: ManagedFieldsEntry): object => fieldsV1['f:spec'] as object;

async function emptiesAtOnce(client: Client): Promise<void> {
  const before = set({ action: 'Remove', paused: true, offlinePolicy: { afterSeconds: 900 } });
  await commit(client, before);
  await client.patch(MachineComponentSets, before.metadata, { merge: { spec: { rolloutID: 'again' } } });
  // A user put a field that is not sync's on the record of its applies.
  const written = (await live(client, before)).metadata;
  const managedFields = (written.managedFields ?? []).map((each) =>
    each.manager === MANAGERS.sync ? { ...each, fieldsV1: { ...each.fieldsV1, 'f:spec': { ...specIn(each), 'f:rolloutID': {} } } } : each,
  );
  await client.patch(MachineComponentSets, before.metadata, { merge: { metadata: { managedFields } } });
  const { generation = 0 } = written;
  const after = set({ selector: {} });
  await commit(client, after);
  const { metadata, spec } = await live(client, before);
  expect(metadata.generation).toBe(generation + 1);
  expect(spec).toMatchObject({ action: 'Install', selector: {}, rolloutID: 'again', unitDigest: unitDigest([after]) });
  expect(spec).not.toHaveProperty('paused');
  const records = (metadata.managedFields ?? []).filter(({ manager }) => manager === MANAGERS.sync);
  expect(records.map(({ operation }) => operation)).toEqual(['Apply']);
}

/** Who scales a set keeps its number, and a later commit takes out what this one gives. */
async function emptiesScaled(client: Client): Promise<void> {
  const { replicas: _, ...spec } = machines().spec;
  const template = (labels: object): Given['spec'] => ({ template: { metadata: { labels } } });
  await commit(client, given('MachineSet', { ...spec, ...template({ evil: 'x' }) }));
  await client.patch(MachineSets, machines().metadata, { merge: { spec: { replicas: 4 } } });
  const scaled = given('MachineSet', { ...spec, ...template({}), paused: true });
  await commit(client, scaled);
  expect(await specOf(client, scaled)).toMatchObject({ replicas: 4, paused: true, ...template({}) });
  expect((await live(client, scaled)).metadata.annotations).toHaveProperty([ANNOTATIONS.scaledBy]);
  await commit(client, machines(template({})));
  const after = await live(client, scaled);
  expect(after.spec).toMatchObject({ replicas: 3, ...template({}) });
  expect(after.spec).not.toHaveProperty('paused');
  expect(after.metadata.annotations ?? {}).not.toHaveProperty([ANNOTATIONS.scaledBy]);
}

async function emptiesNothingOfOthers(client: Client): Promise<void> {
  const empty = set({ values: {} });
  await commit(client, empty);
  await client.patch(MachineComponentSets, empty.metadata, { merge: { spec: { values: { evil: 1 } } } });
  const racing: Client = {
    ...client,
    find: async (resource, key, options) => {
      const found = await client.find(resource, key, options);
      await client.patch(MachineComponentSets, empty.metadata, { merge: { metadata: { annotations: { written: 'since' } } } });
      return found;
    },
  };
  await expect(commit(racing, empty)).rejects.toMatchObject({ reason: 'Conflict' });
  expect(await specOf(client, empty)).toMatchObject({ values: { evil: 1 } });
}

export const EMPTY_CASES: readonly (readonly [string, (client: Client) => Promise<void>])[] = [
  ...EMPTY.map((each) => [`such as what is in ${each[0]} that Git gives as empty`, (client: Client) => leavesEmpty(client, each)] as const),
  ...EMPTY.map((each) => [`such as what is in ${each[0]} that a commit empties`, (client: Client) => empties(client, each)] as const),
  ['with a map that becomes empty, in one change of the content', emptiesAtOnce],
  ['with a map that becomes empty, and others keep the number of a set', emptiesScaled],
  ['with a map that becomes empty, and not from what another has written since it was read', emptiesNothingOfOthers],
];
