import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type ComponentEntry, type Machine } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { createOverlay } from './overlay.ts';
import { reconcileSet } from './reconcile.ts';
import { modelApi, type Fault } from './testing/api.ts';
import { announced } from './writing.ts';

const NOW = Date.UTC(2026, 10, 20);
const AT = '2026-11-20T00:00:00Z';
const WAITS = { requeueAfterMs: 15_000 };
const AGAIN = { requeueAfterMs: 100 };
const KEY = { name: 'kubelet' };
const at = (name: string) => ({ namespace: 'web', name });

/** An API server with a set and so many machines, and one leader whose stores show what was there when it began. */
function cell(count: number, spec: Partial<MachineComponentSet['spec']> = {}) {
  const api = modelApi(() => NOW);
  for (const version of ['2.0.0', '3.0.0']) {
    api.create(MachineComponents, {
      apiVersion: API_VERSION,
      kind: 'MachineComponent',
      metadata: { name: `kubelet-${version}` },
      spec: { componentName: 'kubelet', version, platforms: [{ os: 'any', arch: 'any', artifacts: [] }] },
    });
  }
  const createSet = (name: string, change: Partial<MachineComponentSet['spec']> = {}): Stored<MachineComponentSet> =>
    api.create(MachineComponentSets, {
      apiVersion: API_VERSION,
      kind: 'MachineComponentSet',
      metadata: { name },
      spec: { componentName: 'kubelet', version: '2.0.0', batches: ['100%'], ...change },
    });
  createSet('kubelet', spec);
  const join = (name: string): Stored<Machine> =>
    api.create(Machines, {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: { ...at(name), labels: { in: 'yes' } },
      spec: {},
      status: { phase: 'Running', firstReadyAt: AT, agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' } },
    });
  for (let index = 0; index < count; index++) join(`m${index}`);

  const set = (): Stored<MachineComponentSet> => api.find(MachineComponentSets, KEY) as Stored<MachineComponentSet>;
  const machine = (name: string): Stored<Machine> => api.find(Machines, at(name)) as Stored<Machine>;
  const entryOf = (name: string): ComponentEntry | undefined => machine(name).spec.components?.[0];
  const edit = (change: (set: Stored<MachineComponentSet>) => void): void => api.edit(MachineComponentSets, KEY, change);
  const given = (version: string): string[] =>
    api
      .list(Machines)
      .filter(({ spec: { components = [] } }) => components.some((each) => each.version === version))
      .map(({ metadata }) => metadata.name);
  const ownEntry: ComponentEntry = {
    name: 'kubelet',
    action: 'Install',
    version: '2.0.0',
    setUID: set().metadata.uid,
    setRevision: 1,
    joinedRevision: 1,
    revision: 1,
    attempt: 1,
  };
  /** As another leader gave it. */
  const give = (name: string): void => api.edit(Machines, at(name), (each) => void (each.spec.components = [ownEntry]));

  function leader(epoch = 1) {
    const reader = api.reader();
    const stores = {
      sets: reader.store(MachineComponentSets),
      components: reader.store(MachineComponents),
      machines: reader.store(Machines),
      liveness: { isAlive: () => true, unseenMs: () => 0, unansweredMs: () => 0 },
    };
    const overlays = { machines: createOverlay(stores.machines), sets: createOverlay(stores.sets) };
    const events: RecordedEvent[] = [];
    const log = recordingLog();
    const begun = new Set<string>();
    /** What others do right after its writes, in turn. */
    const meanwhile: (() => void)[] = [];
    const faults: Fault[] = [];
    const through = api.client(
      () => faults.shift() ?? 'none',
      () => meanwhile.shift()?.(),
    );
    const reads: string[] = [];
    const client: typeof through = {
      ...through,
      find(resource, key, options) {
        reads.push(key.name);
        return through.find(resource, key, options);
      },
    };
    const deps = {
      stores,
      ...overlays,
      clock: { now: () => NOW, monotonic: () => 0, setTimer: () => () => undefined },
      recorder: { event: (_about: object, event: RecordedEvent) => void events.push(event) },
      epoch,
      begun,
    };
    const run = (name = 'kubelet') => reconcileSet(deps, name, { client, log, signal: new AbortController().signal });
    return { run, reader, events, log, begun, meanwhile, faults, reads, reasons: () => events.map(({ reason }) => reason) };
  }
  return { api, createSet, join, set, machine, entryOf, edit, given, give, ownEntry, leader };
}

/** The machine has the content, proves it, and was verified. */
function prove(status: NonNullable<Machine['status']>, entry: ComponentEntry): void {
  const { name, version, revision, setUID } = entry;
  status.components = [{ name, version, revision, running: revision, content: contentOf(entry), state: 'Healthy', bootID: 'b' }];
  status.verified = [{ name, version, revision, setUID, bootID: 'b', since: AT }];
}

describe('one set', () => {
  test('is taken up, counted, and its machines given their content in one run, which reports it', async () => {
    const { set, ownEntry, entryOf, leader } = cell(1);
    const { run, events, log } = leader(7);
    expect(await run()).toEqual(WAITS);
    expect(set().status).toMatchObject({ epoch: 7, revision: { number: 1, version: '2.0.0' }, desired: 1 });
    expect(entryOf('m0')).toEqual(ownEntry);
    expect(events).toEqual([{ type: 'Normal', reason: 'RevisionBegun', message: 'revision 1: 2.0.0' }]);
    expect(log.lines).toEqual([
      { level: 'info', fields: { revision: 1, version: '2.0.0' }, message: 'a new revision begins' },
      {
        level: 'info',
        fields: { machine: 'web/m0', lane: 'Forward', version: '2.0.0', revision: 1, setRevision: 1 },
        message: 'gave a machine its content',
      },
    ]);
  });

  test('is decided again after each part of many writes, and comes back soon where more are left', async () => {
    const { given, leader } = cell(60);
    const { run, reader } = leader();
    expect(await run()).toEqual(AGAIN);
    expect(given('2.0.0')).toHaveLength(50);
    reader.relist();
    expect(await run()).toEqual(WAITS);
    expect(given('2.0.0')).toHaveLength(60);
  });

  test('that is not there, or goes, gets nothing', async () => {
    const { api, edit, leader } = cell(1);
    expect(await leader().run('other')).toBeUndefined();
    edit(({ metadata }) => void (metadata.finalizers = ['x']));
    api.remove(MachineComponentSets, KEY);
    expect(await leader().run()).toBeUndefined();
    expect(api.writes).toBe(0);
  });

  test('that is complete needs no more runs, and one that nothing changed costs no request', async () => {
    const { api, give, ownEntry, leader } = cell(1);
    give('m0');
    api.edit(Machines, at('m0'), ({ status }) => prove(status ?? {}, ownEntry));
    const { run, reader, reasons, reads } = leader();
    expect(await run()).toBeUndefined();
    expect(reasons()).toEqual(['RevisionBegun', 'ContentVerified']);
    const { writes } = api;
    reader.relist();
    expect(await run()).toBeUndefined();
    expect([api.writes, reads, reasons().length]).toEqual([writes, [], 2]);
  });

  test('whose selector alone changed goes on with its number, and reports nothing of it', async () => {
    const { edit, leader, set } = cell(1);
    const { run, reader, reasons, log } = leader();
    await run();
    edit(({ spec }) => void (spec.selector = { in: 'yes' }));
    reader.relist();
    const lines = log.lines.length;
    expect(await run()).toEqual(WAITS);
    expect(set().status?.revision?.number).toBe(1);
    expect([reasons(), log.lines.length]).toEqual([['RevisionBegun'], lines]);
  });

  test('A2: that is newer than what was read is read live, in the same run, and nothing is reported of what was lost', async () => {
    const { edit, leader, given, set } = cell(1);
    const { run, reader, reasons } = leader();
    await run();
    edit(({ spec }) => void (spec.version = '3.0.0'));
    reader.relist();
    edit(({ metadata }) => void (metadata.annotations = { seen: 'not at all' }));
    expect(await run()).toEqual(WAITS);
    expect(given('3.0.0')).toEqual(['m0']);
    expect(set().status?.revision?.number).toBe(2);
    expect(reasons()).toEqual(['RevisionBegun', 'RevisionBegun']);
  });

  test('A2: whose status was lost is reported in the same run, and once', async () => {
    const { createSet, edit, leader, set } = cell(1);
    const { run, reader, reasons } = leader();
    await run();
    createSet('rival');
    reader.relist();
    edit(({ metadata }) => void (metadata.annotations = { seen: 'not at all' }));
    expect(await run()).toEqual(WAITS);
    expect(set().status?.conditions?.find(({ type }) => type === 'Conflict')?.status).toBe('True');
    expect(reasons()).toEqual(['RevisionBegun', 'SetsConflict']);
  });

  test('A2: whose machine is newer than what was read gives it what is decided after a live read, in the same run', async () => {
    const { api, leader, entryOf, join } = cell(0);
    const { run, reader, log } = leader();
    await run();
    join('m0');
    reader.relist();
    api.edit(Machines, at('m0'), ({ metadata }) => void (metadata.labels = { in: 'yes', moved: 'yes' }));
    expect(await run()).toEqual(WAITS);
    expect(entryOf('m0')?.version).toBe('2.0.0');
    expect(log.lines.filter(({ message }) => message === 'gave a machine its content')).toHaveLength(1);
  });

  test('reports once what people should know', async () => {
    const { createSet, leader } = cell(1);
    createSet('rival');
    const { run, reader, reasons } = leader();
    await run();
    reader.relist();
    await run();
    expect(reasons()).toEqual(['RevisionBegun', 'SetsConflict']);
  });
});

describe('B9: before machines are given anything', () => {
  /** One whose content is counted and that waits to give it. */
  async function pausedCell() {
    const all = cell(1, { paused: true });
    const leader = all.leader();
    expect(await leader.run()).toEqual(WAITS);
    all.edit(({ spec }) => void (spec.paused = false));
    leader.reader.relist();
    return { ...all, ...leader };
  }

  test('a live read shows a set that was changed meanwhile, which gives what it asks for now', async () => {
    const { run, meanwhile, edit, given, reads } = await pausedCell();
    meanwhile.push(() => edit(({ spec }) => void (spec.version = '3.0.0')));
    expect(await run()).toEqual(WAITS);
    expect([given('2.0.0'), given('3.0.0')]).toEqual([[], ['m0']]);
    // What was read is known then; the second read is before the write of the new content.
    expect(reads).toEqual(['kubelet', 'kubelet']);
  });

  test('a live read shows a set that was deleted meanwhile, which gives nothing and needs no more runs', async () => {
    const { run, meanwhile, api, given } = await pausedCell();
    meanwhile.push(() => api.remove(MachineComponentSets, KEY));
    expect(await run()).toBeUndefined();
    expect(given('2.0.0')).toEqual([]);
  });

  test('what was announced and is not wanted any more is settled', async () => {
    const { edit, leader, machine, set } = cell(1, { paused: true });
    const { run, reader, faults } = leader();
    await run();
    const { resourceVersion } = machine('m0').metadata;
    edit(({ status }) => Object.assign(status ?? {}, { writing: [announced(machine('m0'))] }));
    reader.relist();
    faults.push('refuse');
    await expect(run()).rejects.toMatchObject({ reason: 'TooManyRequests' });
    expect([set().status?.writing?.length, machine('m0').metadata.annotations]).toEqual([1, undefined]);
    expect(await run()).toEqual(WAITS);
    expect(machine('m0').metadata.annotations?.[ANNOTATIONS.entryFence]).toBe(resourceVersion);
    expect(set().status?.writing).toBeUndefined();
  });
});

describe('B9: a term of leadership', () => {
  test('marks each set before it reads the machines, so that what an earlier leader gave is counted', async () => {
    const spec = { batches: [1, '100%'] };
    const first = cell(2, spec);
    await first.leader().run();
    const [chosen = ''] = first.given('2.0.0');
    const { leader, give, given } = cell(2, spec);
    const { run } = leader();
    // Its stores do not show it yet, and by itself it would choose the other one.
    const other = chosen === 'm0' ? 'm1' : 'm0';
    give(other);
    await run();
    expect(given('2.0.0')).toEqual([other]);
  });

  test('begins once for all sets that are there, and for those that came later', async () => {
    const { api, createSet, leader, set, edit } = cell(0);
    const other = createSet('other', { componentName: 'exporter' });
    const going = createSet('going', { componentName: 'npd' });
    api.edit(MachineComponentSets, going.metadata, ({ metadata }) => void (metadata.finalizers = ['x']));
    api.remove(MachineComponentSets, going.metadata);
    const epochOf = (name: string) => api.find(MachineComponentSets, { name })?.status?.epoch;
    const { run, reader, begun } = leader(4);
    await run();
    expect(['kubelet', 'other', 'going'].map(epochOf)).toEqual([4, 4, undefined]);
    expect([...begun].toSorted()).toEqual([set().metadata.uid, other.metadata.uid].toSorted());
    // A set that bears it is marked no second time, also where a person took the mark away.
    edit(({ status }) => void delete status?.epoch);
    const late = createSet('late', { componentName: 'cni' });
    reader.relist();
    await run('late');
    expect(begun.has(late.metadata.uid)).toBe(true);
    expect([epochOf('late'), epochOf('kubelet')]).toEqual([4, undefined]);
  });

  test('does not begin for a set whose mark was lost', async () => {
    const { createSet, leader, api, set } = cell(0);
    const other = createSet('other', { componentName: 'exporter' });
    const { run, begun } = leader();
    api.edit(MachineComponentSets, { name: 'other' }, ({ metadata }) => void (metadata.annotations = { seen: 'not at all' }));
    await run();
    expect([begun.has(set().metadata.uid), begun.has(other.metadata.uid)]).toEqual([true, false]);
  });
});
