import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines, type ComponentEntry, type ComponentStatus, type Machine } from '../../../api/machine.ts';
import { contentOf } from '../../../api/machine/values.ts';
import type { MachineComponentSet } from '../../../api/machine-component-set.ts';
import type { Stored } from '../../../api/wire.ts';
import { isMet } from '../../../defender/guarded-patch.ts';
import type { RecordedEvent } from '../../../kube/recorder.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { createOverlay } from '../overlay.ts';
import { modelApi } from '../testing/api.ts';
import { reconcileMachine, stateOf, statusPatch } from './reconcile.ts';

const at = '2026-11-20T00:00:00Z';
const soak = { name: 'kubelet', revision: 5, bootID: 'b', since: at };
const record = { name: 'kubelet', version: '1.0.0', revision: 4, setUID: 'set', bootID: 'b', since: at };
const condition = { type: 'UpToDate', status: 'True' as const, reason: 'AllProved', message: '', lastTransitionTime: at };
const machine = (status?: Machine['status']): Stored<Machine> => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { name: 'a', namespace: 'web', uid: 'u', resourceVersion: '7', creationTimestamp: at },
  spec: {},
  ...(status === undefined ? {} : { status }),
});

test('C4a: the status is written by what changes alone, conditioned on what was judged, and on no more of what its agent writes', () => {
  const nothing = { verified: [], soaks: [], conditions: [] };
  const live = { known: false };
  const writes = (of: Stored<Machine>, change: Parameters<typeof statusPatch>[1]) =>
    statusPatch(of, change, live).flatMap(({ op, path, value }) => (op === 'test' || path === '/status' ? [] : [[path, value]]));
  expect(writes(machine(), nothing)).toEqual([]);
  const full = machine({ verified: [record], soaks: [soak], conditions: [condition] });
  expect(writes(full, nothing)).toEqual([
    ['/status/verified', []],
    ['/status/soaks', []],
    ['/status/conditions', []],
  ]);
  for (const [field, change] of Object.entries({ verified: [record], soaks: [soak], conditions: [condition] })) {
    expect(writes(machine(), { ...nothing, [field]: change })).toEqual([[`/status/${field}`, change]]);
    expect(writes(machine({ [field]: change }), { ...nothing, [field]: change })).toEqual([]);
  }
  const tested = statusPatch({ ...full, metadata: { ...full.metadata, generation: 3 } }, nothing, live);
  const agent = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
  const seen: Stored<Machine> = { ...full, metadata: { ...full.metadata, generation: 3, resourceVersion: '9' } };
  const withStatus = (status: NonNullable<Machine['status']>): Stored<Machine> => ({ ...seen, status });
  expect(isMet(tested, seen)).toBe(true);
  expect(isMet(tested, { ...seen, metadata: { ...seen.metadata, generation: 4 } })).toBe(false);
  expect(isMet(tested, withStatus({ ...seen.status, operation: { id: 'r', state: 'Done' } }))).toBe(true);
  const components = [{ name: 'kubelet', version: '2.0.0', content: 'x', revision: 5, running: 4, state: 'Failed' as const }];
  expect(isMet(tested, withStatus({ ...seen.status, components }))).toBe(false);
  expect(isMet(tested, withStatus({ ...seen.status, agent }))).toBe(false);
});

test('a machine that is paused, or going, is left alone, and any other is judged', async () => {
  const now = Date.UTC(2026, 10, 21);
  async function writesFor(spec: Machine['spec'], metadata: Partial<Machine['metadata']> = {}): Promise<number> {
    const api = modelApi(() => now);
    const key = { namespace: 'web', name: 'a' };
    api.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { ...key, ...metadata }, spec });
    const deps = {
      sets: { list: () => [] },
      machines: createOverlay(api.reader().store(Machines)),
      liveness: { isAlive: () => false },
      clock: { now: () => now },
      recorder: { event: () => undefined },
    };
    const client = api.client(
      () => 'none',
      () => undefined,
    );
    await reconcileMachine(deps, 'web/a', { client, signal: new AbortController().signal, log: recordingLog() });
    return api.writes;
  }
  expect(await writesFor({})).toBe(1);
  expect(await writesFor({ paused: false })).toBe(1);
  expect(await writesFor({ paused: true })).toBe(0);
  expect(await writesFor({}, { finalizers: ['x'], deletionTimestamp: at })).toBe(0);
});

describe('one machine', () => {
  const NOW = Date.UTC(2026, 10, 21);
  const key = { namespace: 'web', name: 'a' };
  const entry: ComponentEntry = {
    name: 'kubelet',
    action: 'Install',
    version: '2.0.0',
    setUID: 'set',
    setRevision: 2,
    joinedRevision: 0,
    revision: 5,
    attempt: 1,
  };
  const healthy: ComponentStatus = {
    name: 'kubelet',
    version: '2.0.0',
    content: contentOf(entry),
    revision: 5,
    running: 5,
    state: 'Healthy',
    bootID: 'b',
  };
  const failing = { ...healthy, failed: { revision: 5, reason: 'ProbesFailed', message: 'm', restored: true } };

  /** `during`: what others do right before each of its writes. */
  function cell(reported: ComponentStatus, during: () => void = () => undefined) {
    const api = modelApi(() => NOW);
    api.create(Machines, {
      apiVersion: API_VERSION,
      kind: 'Machine',
      metadata: key,
      spec: { components: [entry] },
      status: {
        phase: 'Running',
        agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' },
        components: [reported],
        verified: [record],
      },
    });
    const edit = (change: (found: Stored<Machine>) => void): void => api.edit(Machines, key, change);
    const events: RecordedEvent[] = [];
    const log = recordingLog();
    const sent = { count: 0 };
    const client = api.client(
      () => {
        sent.count++;
        during();
        return 'none';
      },
      () => undefined,
    );
    const reader = api.reader();
    const deps = {
      sets: { list: () => [] },
      machines: createOverlay(reader.store(Machines)),
      liveness: { isAlive: () => true },
      clock: { now: () => NOW },
      recorder: { event: (_about: object, event: RecordedEvent) => void events.push(event) },
    };
    const run = () => reconcileMachine(deps, 'web/a', { client, signal: new AbortController().signal, log });
    const live = (): Stored<Machine> => api.find(Machines, key) as Stored<Machine>;
    return { run, live, edit, events, log, sent, reader };
  }
  const upToDate = (of: Stored<Machine>) => of.status?.conditions?.find(({ type }) => type === 'UpToDate')?.reason;

  test('A5: that failed is answered, which is reported, and is judged by its new entry in the same run', async () => {
    const { run, live, events, log } = cell(failing);
    expect(await run()).toBeUndefined();
    expect(live().spec.components).toMatchObject([{ version: '1.0.0', revision: 6, failed: { reason: 'ProbesFailed' } }]);
    expect(upToDate(live())).toBe('Failed');
    const message = 'ProbesFailed; back to 1.0.0';
    expect(events).toEqual([{ type: 'Warning', reason: 'ComponentFailed', message: `kubelet: ${message}` }]);
    expect(log.lines).toEqual([{ level: 'info', fields: { component: 'kubelet', reason: 'Failed', revision: 6 }, message }]);
  });

  test('A3: whose agent refused an entry gets it again, which is reported', async () => {
    const { run, live, events } = cell({ ...healthy, refused: { revision: 5, reason: 'OtherContent' } });
    await run();
    expect(live().spec.components).toEqual([{ ...entry, revision: 6 }]);
    expect(events.map(({ reason }) => reason)).toEqual(['RevisionRefused']);
  });

  test('E3: that soaks comes back when that ends, and costs no write until then', async () => {
    const { run, live, sent, reader } = cell(healthy);
    expect(await run()).toEqual({ requeueAfterMs: 60_000 });
    expect(live().status?.soaks).toMatchObject([{ name: 'kubelet', revision: 5 }]);
    reader.relist();
    expect(await run()).toEqual({ requeueAfterMs: 60_000 });
    expect(sent.count).toBe(1);
  });

  test('A2: that is newer than what was read is read live and judged again, and nothing is reported of what was lost', async () => {
    const { run, live, edit, sent, events } = cell(failing);
    edit(({ metadata }) => void (metadata.annotations = { seen: 'not at all' }));
    await run();
    expect(live().spec.components).toMatchObject([{ version: '1.0.0', revision: 6 }]);
    expect(upToDate(live())).toBe('Failed');
    expect([sent.count, events.length]).toEqual([3, 1]);
  });

  test('A2: whose status was lost is judged by what is read live', async () => {
    const { run, live, edit } = cell(healthy);
    edit(({ status }) => void (status ?? {}).components?.splice(0));
    expect(await run()).toBeUndefined();
    expect([live().status?.soaks ?? [], upToDate(live())]).toEqual([[], 'Updating']);
  });

  test('C4a: whose agent writes all the time what nothing is decided by loses once', async () => {
    const noise = { next: () => undefined as void };
    const { run, live, edit, sent } = cell(failing, () => noise.next());
    let count = 0;
    noise.next = () => edit(({ metadata }) => void (metadata.annotations = { count: String(++count) }));
    await run();
    expect(live().spec.components).toMatchObject([{ version: '1.0.0', revision: 6 }]);
    expect([sent.count, upToDate(live())]).toEqual([3, 'Failed']);
  });

  test('that changes before each write comes back soon, after three of them', async () => {
    const noise = { next: () => undefined as void };
    const { run, live, edit, sent } = cell(failing, () => noise.next());
    let count = 0;
    noise.next = () => edit(({ metadata }) => void (metadata.labels = { count: String(++count) }));
    expect(await run()).toEqual({ requeueAfterMs: 100 });
    expect([sent.count, live().spec.components]).toEqual([3, [entry]]);
  });
});

test('a machine is judged by what the set that wrote an entry declares now, while that is there', () => {
  const set: Stored<MachineComponentSet> = {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name: 's', uid: 'set', resourceVersion: '1', creationTimestamp: at },
    spec: { componentName: 'kubelet', version: '2.0.0', soakSeconds: 7, rolloutID: 'r', unitDigest: 'd' },
    status: { revision: { number: 4, action: 'Install', version: '2.0.0', startedAt: at } },
  };
  const state = (of: Stored<MachineComponentSet>, isAlive = false) =>
    stateOf({ sets: { list: () => [of] }, liveness: { isAlive: () => isAlive }, clock: { now: () => 1 } }, machine());
  const target = { action: 'Install', version: '2.0.0' };
  expect(state(set).owner('set')).toEqual({ number: 4, rolloutID: 'r', unitDigest: 'd', soakMs: 7000, target });
  expect(state(set).owner('other')).toBeUndefined();
  expect(state({ ...set, metadata: { ...set.metadata, deletionTimestamp: at } }).owner('set')).toBeUndefined();
  const { status: _none, ...uncounted } = set;
  expect(state(uncounted).owner('set')?.number).toBeUndefined();
  expect([state(set), state(set, true)].map((each) => each.agentFresh)).toEqual([false, true]);
});
