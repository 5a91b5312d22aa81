import { expect, test } from 'vitest';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines, type Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
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

test('the status is written by what changes alone, conditioned on the version that was read', () => {
  const nothing = { verified: [], soaks: [], conditions: [] };
  const metadata = { resourceVersion: '7' };
  expect(statusPatch(machine(), nothing)).toEqual({ metadata, status: {} });
  expect(statusPatch(machine({ verified: [record], soaks: [soak], conditions: [condition] }), nothing)).toEqual({
    metadata,
    status: nothing,
  });
  for (const change of [{ verified: [record] }, { soaks: [soak] }, { conditions: [condition] }]) {
    expect(statusPatch(machine(), { ...nothing, ...change })).toEqual({ metadata, status: change });
    expect(statusPatch(machine(change), { ...nothing, ...change })).toEqual({ metadata, status: {} });
  }
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
