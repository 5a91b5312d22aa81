import { expect, test } from 'vitest';
import { DefenderPolicies } from '../api/defender-policy.ts';
import { API_VERSION } from '../api/kind.ts';
import { MachineSets } from '../api/machine-set.ts';
import { MANAGERS } from '../api/names.ts';
import type { JsonObject, KubeObject, ManagedFieldsEntry, Stored } from '../api/wire.ts';
import { wholeContent } from './content.ts';

const object = (kind: string, spec: object, metadata: object = {}): KubeObject =>
  ({ apiVersion: API_VERSION, kind, metadata: { name: 'a', ...metadata }, spec }) as KubeObject;
const stored = (kind: string, spec: object, metadata: object = {}): Stored<KubeObject> =>
  object(kind, spec, { uid: 'u', resourceVersion: '5', ...metadata }) as Stored<KubeObject>;
const record = (manager: string, fieldsV1: JsonObject): ManagedFieldsEntry => ({
  manager,
  operation: 'Apply',
  apiVersion: API_VERSION,
  fieldsType: 'FieldsV1',
  fieldsV1,
});

test('the content is what Git gives, and what the schema of this hub does not have', () => {
  const found = stored(MachineSets.kind, {
    later: 1,
    maxInFlight: 7,
    template: { later: 1, metadata: { later: 1, labels: { a: 'b' } } },
    provider: { name: 'fake', config: { constructor: 1, a: { b: 1 } } },
  });
  const given = { template: { metadata: { labels: {} } }, provider: { name: 'fake', config: { a: {} } } };
  expect(wholeContent(found, object(MachineSets.kind, given), []).spec).toEqual({
    later: 1,
    template: { later: 1, metadata: { later: 1, labels: {} } },
    provider: { name: 'fake', config: { a: {} } },
  });
});

test('items of lists are those of Git', () => {
  const all = { name: 'all', scope: 'Cluster', maxUnavailable: 1 };
  const found = stored(DefenderPolicies.kind, {
    limits: [
      { name: 'evil', scope: 'Cluster' },
      { ...all, maxConcurrent: 3 },
    ],
  });
  const { spec } = wholeContent(found, object(DefenderPolicies.kind, { limits: [all], windows: [] }), []);
  expect(spec).toEqual({ limits: [all], windows: [] });
});

test('what others write stays, and what sync alone gave before goes', () => {
  const metadata = { labels: { theirs: 'x', dropped: 'x' }, annotations: { theirs: 'x', dropped: 'x', given: 'before' } };
  const found = stored(MachineSets.kind, { paused: true, replicas: 4 }, metadata);
  const names = (field: string): JsonObject => ({ [`f:${field}`]: { 'f:dropped': {} } });
  const records = [
    record(MANAGERS.sync, {
      'f:spec': { 'f:paused': {}, 'f:replicas': {} },
      'f:metadata': { ...names('labels'), ...names('annotations') },
    }),
    record('autoscaler', { 'f:spec': { 'f:replicas': {} } }),
  ];
  expect(wholeContent(found, object(MachineSets.kind, {}, { annotations: { given: 'now' } }), records)).toEqual({
    spec: { replicas: 4 },
    labels: { theirs: 'x' },
    annotations: { theirs: 'x', given: 'now' },
  });
});
