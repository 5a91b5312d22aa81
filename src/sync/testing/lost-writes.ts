/** What becomes of records of sync's updates where the write that is to settle them is lost (docs/protocols.md#e3). On any API server. */
import { expect } from 'vitest';
import { surplusOf } from '../../controllers/machine-set/retire.ts';
import type { Machine } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import { ANNOTATIONS, MANAGERS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { commit, given, live, machines, resourceOf, set, specOf, type Given } from './objects.ts';

/** A controller of the cell writes a status after each apply, so that the write which settles the records meets a conflict. */
const busy = (client: Client): Client => ({
  ...client,
  apply: async (resource, object, options) => {
    const applied = await client.apply(resource, object, options);
    const merge = { status: { observedGeneration: applied.metadata.generation } };
    await client.patch(resourceOf(object), object.metadata, { merge }, { subresource: 'status' });
    return applied;
  },
});

/** The hub dies after its update, before the apply. */
const dying = (client: Client): Client => ({ ...client, apply: () => Promise.reject(new Error('the hub died')) });

const updates = async (client: Client, object: Given): Promise<unknown[]> =>
  ((await live(client, object)).metadata.managedFields ?? []).filter(
    ({ manager, operation }) => manager === MANAGERS.sync && operation === 'Update',
  );

async function pauseGoes(client: Client, lost: (client: Client) => Client): Promise<void> {
  await commit(client, set());
  await commit(lost(client), set({ selector: {}, paused: true })).catch(() => undefined);
  expect(await updates(client, set())).not.toEqual([]);
  await commit(client, set({ selector: {} }));
  expect(await specOf(client, set())).not.toHaveProperty('paused');
  expect(await updates(client, set())).toEqual([]);
}

/** As the cell's controllers decide. */
async function goingOf(client: Client, count: number): Promise<number> {
  const found = await client.get(MachineSets, machines().metadata);
  const its = Array.from({ length: count }, () => ({ metadata: {} }) as Stored<Machine>);
  return surplusOf({ set: found, machines: its, now: Date.now() });
}

async function numbersAreGits(client: Client): Promise<void> {
  const { replicas: _replicas, ...spec } = machines().spec;
  const template = (labels: object): Given['spec'] => ({ template: { metadata: { labels } } });
  await commit(client, given('MachineSet', { ...spec, ...template({ tier: 'web' }) }));
  await client.patch(MachineSets, machines().metadata, { merge: { spec: { replicas: 4 } } });
  await commit(busy(client), given('MachineSet', { ...spec, ...template({}) }));
  const numbered = machines({ ...template({}), replicas: 4 });
  await commit(busy(client), numbered);
  expect((await live(client, numbered)).metadata.annotations ?? {}).not.toHaveProperty([ANNOTATIONS.scaledBy]);
  await client.patch(MachineSets, machines().metadata, { merge: { spec: { replicas: 0 } } });
  expect(await goingOf(client, 4)).toBe(0);
}

/** A name that every JavaScript object has is a key like any other. */
async function namesOfObjects(client: Client): Promise<void> {
  for (const key of ['constructor', 'toString', '__proto__']) {
    const object = set({ values: JSON.parse(`{"${key}":"x","b":1}`) as object });
    await commit(client, object);
    await client.patch(MachineComponentSets, object.metadata, { json: [{ op: 'remove', path: `/spec/values/${key}` }] });
    expect((await commit(client, object)).corrections.join()).toContain(`spec.values.${key} from nothing to "x"`);
  }
}

export const LOST_CASES: readonly (readonly [string, (client: Client) => Promise<void>])[] = [
  ['also a pause that a commit gave, where the write that settles the records was lost', (client) => pauseGoes(client, busy)],
  ['also a pause that a commit gave, where the hub died after its update', (client) => pauseGoes(client, dying)],
  ['so that a number by hand lets no machine go, where two such writes were lost', numbersAreGits],
  ['and puts back keys that are named like members of every object', namesOfObjects],
];
