import { expect, test } from 'vitest';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines, type Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { holds } from '../../../defender/guarded-patch.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { createOverlay } from '../overlay.ts';
import { modelApi } from '../testing/api.ts';
import { reconcileMachine, statusPatch } from './reconcile.ts';

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
  expect(holds(tested, seen)).toBe(true);
  expect(holds(tested, { ...seen, metadata: { ...seen.metadata, generation: 4 } })).toBe(false);
  expect(holds(tested, withStatus({ ...seen.status, operation: { id: 'r', state: 'Done' } }))).toBe(true);
  const components = [{ name: 'kubelet', version: '2.0.0', content: 'x', revision: 5, running: 4, state: 'Failed' as const }];
  expect(holds(tested, withStatus({ ...seen.status, components }))).toBe(false);
  expect(holds(tested, withStatus({ ...seen.status, agent }))).toBe(false);
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
      leases: { of: () => undefined },
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
