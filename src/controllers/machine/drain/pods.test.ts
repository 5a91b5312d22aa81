import { expect, test } from 'vitest';
import type { Pod } from '../../../api/builtin.ts';
import type { Stored } from '../../../api/wire.ts';
import { isDrained } from './pods.ts';

const pod = (change: { metadata?: Partial<Pod['metadata']>; status?: Pod['status'] } = {}): Stored<Pod> => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p', namespace: 'web', uid: 'p', resourceVersion: '1', creationTimestamp: '', ...change.metadata },
  ...(change.status === undefined ? {} : { status: change.status }),
});
const owner = (kind: string, controller: boolean) => ({
  ownerReferences: [{ apiVersion: 'apps/v1', kind, name: 'o', uid: 'o', controller }],
});

test.each([
  ['a pod of a ReplicaSet goes', pod({ metadata: owner('ReplicaSet', true) }), true],
  ['a pod without an owner goes', pod(), true],
  ['a pod of a DaemonSet stays: it would come back at once', pod({ metadata: owner('DaemonSet', true) }), false],
  ['a mirror pod stays: it follows its file', pod({ metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } } }), false],
  ['a pod that has ended is no load', pod({ status: { phase: 'Succeeded' } }), false],
  ['a pod that has failed is no load', pod({ status: { phase: 'Failed' } }), false],
])('%s', (_, object, drained) => {
  expect(isDrained(object)).toBe(drained);
});
