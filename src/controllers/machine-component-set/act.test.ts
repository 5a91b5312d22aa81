import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type ComponentEntry, type Machine } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { settleMachines, statusPatch, writeEntries, writeSetStatus } from './act.ts';
import type { EntryWrite } from './decide.ts';
import { createOverlay } from './overlay.ts';
import { modelApi, type Fault } from './testing/api.ts';

const NOW = Date.UTC(2026, 10, 20);
const entry: ComponentEntry = {
  name: 'kubelet',
  action: 'Install',
  version: '2.0.0',
  setUID: 's',
  setRevision: 1,
  joinedRevision: 1,
  revision: 1,
  attempt: 1,
};

/** So many machines, and a client that counts how many of its writes are under way at once. */
function cell(count: number, faultOf: (nth: number) => Fault = () => 'none') {
  const api = modelApi(() => NOW);
  const set = api.create(MachineComponentSets, {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 'kubelet' },
    spec: { componentName: 'kubelet', version: '2.0.0' },
    status: { desired: 1 },
  });
  const machines = Array.from({ length: count }, (_, index) =>
    api.create(Machines, {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { namespace: 'web', name: `m${index}`, annotations: { seen: 'yes' } },
      spec: {},
    }),
  );
  let sent = 0;
  const through = api.client(
    () => faultOf(++sent),
    () => undefined,
  );
  const load = { now: 0, most: 0 };
  const client: typeof through = {
    ...through,
    async patch(...of) {
      load.now++;
      load.most = Math.max(load.most, load.now);
      try {
        return await through.patch(...of);
      } finally {
        load.now--;
      }
    },
  };
  const reader = api.reader();
  const actors = {
    client,
    machines: createOverlay(reader.store(Machines)),
    sets: createOverlay(reader.store(MachineComponentSets)),
    signal: new AbortController().signal,
  };
  const writes = machines.map((machine): EntryWrite => ({ machine, entry, lane: 'Forward' }));
  const given = (): string[] =>
    api
      .list(Machines)
      .filter(({ spec }) => spec.components !== undefined)
      .map(({ metadata }) => metadata.name);
  const label = (of: Stored<Machine>): void => api.edit(Machines, of.metadata, ({ metadata }) => void (metadata.labels = { a: 'b' }));
  return { api, set, machines, actors, writes, given, label, load, sent: () => sent };
}

describe('the status of a set', () => {
  test('is patched by what differs, on condition of the version that was read', () => {
    const { set } = cell(0);
    expect(statusPatch(set, { desired: 1 })).toBeUndefined();
    const { resourceVersion } = set.metadata;
    expect(statusPatch(set, { desired: 2, updated: 0 })).toEqual({ metadata: { resourceVersion }, status: { desired: 2, updated: 0 } });
  });

  test('is written once, and what the server answers is known from then on', async () => {
    const { set, actors, sent, api } = cell(0);
    expect(await writeSetStatus(actors, set, { desired: 1 })).toBe('unchanged');
    expect(sent()).toBe(0);
    const written = await writeSetStatus(actors, set, { desired: 2 });
    expect(written).toMatchObject({ object: { status: { desired: 2 } } });
    expect(actors.sets.get({ name: 'kubelet' })?.status?.desired).toBe(2);
    // Another leader read the set before.
    expect(await writeSetStatus(actors, set, { desired: 3 })).toBe('lost');
    expect(api.find(MachineComponentSets, { name: 'kubelet' })?.status?.desired).toBe(2);
    api.remove(MachineComponentSets, { name: 'kubelet' });
    expect(await writeSetStatus(actors, set, { desired: 3 })).toBe('lost');
    await actors.sets.settle(actors.client, actors.signal);
    expect(actors.sets.get({ name: 'kubelet' })).toBeUndefined();
  });

  test('is an error where the server refuses it for another reason', async () => {
    const { set, actors } = cell(0, () => 'refuse');
    await expect(writeSetStatus(actors, set, { desired: 2 })).rejects.toMatchObject({ reason: 'TooManyRequests' });
  });
});

describe('entries', () => {
  test('are all written, eight at once, and each is reported', async () => {
    const { actors, writes, given, load } = cell(20);
    const reported: string[] = [];
    expect(await writeEntries(actors, writes, new Set(), ({ machine }) => reported.push(machine.metadata.name))).toBe(true);
    expect(given()).toHaveLength(20);
    expect(reported.toSorted()).toEqual(given().toSorted());
    expect(reported.slice(0, 8)).toEqual(given().slice(0, 8));
    expect(load).toEqual({ now: 0, most: 8 });
    expect(actors.machines.get({ namespace: 'web', name: 'm3' })?.spec.components).toEqual([entry]);
  });

  test('that lose are named, not reported, and keep no other from being written', async () => {
    const { actors, writes, given, label, machines } = cell(3);
    const [first, second] = machines;
    for (const each of [first, second]) if (each !== undefined) label(each);
    const lost = new Set<string>();
    const reported: string[] = [];
    expect(await writeEntries(actors, writes, lost, ({ machine }) => reported.push(machine.metadata.name))).toBe(false);
    expect([[...lost], reported, given()]).toEqual([['web/m0', 'web/m1'], ['m2'], ['m2']]);
    await actors.machines.settle(actors.client, actors.signal);
    expect(actors.machines.get({ namespace: 'web', name: 'm0' })?.metadata.labels).toEqual({ a: 'b' });
  });

  test('C4a: lose against everything that changed since a store showed the machine, and against no more than counts once they lost', async () => {
    const { actors, writes, given, machines, api } = cell(1);
    for (const { metadata } of machines) api.edit(Machines, metadata, (each) => void (each.metadata.annotations = { seen: 'no' }));
    const lost = new Set<string>();
    expect(await writeEntries(actors, writes, lost, () => undefined)).toBe(false);
    expect([given(), [...lost]]).toEqual([[], ['web/m0']]);
    expect(await writeEntries(actors, writes, lost, () => undefined)).toBe(true);
    expect(given()).toEqual(['m0']);
  });

  test('end with the first error, after those under way', async () => {
    const { actors, writes, given, sent } = cell(20, (nth) => (nth === 3 ? 'refuse' : 'none'));
    await expect(writeEntries(actors, writes, new Set(), () => undefined)).rejects.toMatchObject({ reason: 'TooManyRequests' });
    expect(sent()).toBeLessThan(20);
    expect(given()).toHaveLength(sent() - 1);
  });

  test('are none where none is wanted', async () => {
    const { actors, sent } = cell(0);
    expect(await writeEntries(actors, [], new Set(), () => undefined)).toBe(true);
    expect(sent()).toBe(0);
  });
});

test('B9: machines that are settled have another fence, and a lost one is read live', async () => {
  const { actors, machines, api } = cell(2);
  const [first] = machines;
  if (first === undefined) throw new Error('two machines are expected');
  api.remove(Machines, first.metadata);
  await settleMachines(actors, machines);
  expect(api.list(Machines).map(({ metadata }) => Object.keys(metadata.annotations ?? {}))).toEqual([['seen', 'kubenode.io/entry-fence']]);
  await actors.machines.settle(actors.client, actors.signal);
  expect(actors.machines.get(first.metadata)).toBeUndefined();
});
