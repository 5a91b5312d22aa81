import { expect, test } from 'vitest';
import { API_VERSION } from '../../../api/kind.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { statusPatch } from './reconcile.ts';

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
