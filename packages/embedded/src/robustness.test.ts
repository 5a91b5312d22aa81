import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closeRig, openRig, type Rig } from './testing/rig.ts';
import { configMap, DEFINITION_PATH, defineWidgets, MAPS, WIDGET_PATH, widget } from './testing/widgets.ts';

let rig: Rig;

beforeAll(async () => {
  rig = await openRig();
  await defineWidgets(rig.api);
  await rig.api.create(WIDGET_PATH, widget('a'));
  await rig.api.create(MAPS, configMap('a', { k: 'v' }));
  await rig.api.create('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'a' } });
});

afterAll(() => closeRig(rig));

const POD = '/api/v1/namespaces/default/pods';
const paths = fc.oneof(
  fc.constantFrom(
    ...[
      MAPS,
      WIDGET_PATH,
      '/api/v1/nodes',
      POD,
      '/api/v1/namespaces',
      DEFINITION_PATH,
      '/apis/policy/v1/namespaces/default/poddisruptionbudgets',
    ].flatMap((path) => [path, `${path}/a`, `${path}/a/status`, `${path}/a/scale`, `${path}/%ff`]),
    `${POD}/a/eviction`,
    '/api/v1/namespaces/default/serviceaccounts/default/token',
    '/apis/authentication.k8s.io/v1/tokenreviews',
    '/openapi/v3/api/v1',
    '/api',
    '/apis',
  ),
  fc.array(fc.string({ maxLength: 6 }), { maxLength: 7 }).map((parts) => `/${parts.join('/')}`),
);

const word = fc.oneof(
  fc.constantFrom('a', 'Strict', 'All', 'true', '0', '1', 'Exact', 'NotOlderThan', 'metadata.name=a', 'x in (a,b)', '-1', '1e9'),
  fc.string({ maxLength: 8 }),
);
const query = fc.dictionary(
  fc.constantFrom(
    'limit',
    'continue',
    'resourceVersion',
    'resourceVersionMatch',
    'labelSelector',
    'fieldSelector',
    'fieldManager',
    'force',
    'fieldValidation',
    'dryRun',
    'includeObject',
    'gracePeriodSeconds',
    'propagationPolicy',
  ),
  word,
  { maxKeys: 4 },
);

/** Objects that are right on the outside and are anything inside. */
const inside = fc.jsonValue({ maxDepth: 3 });
const key = fc.constantFrom(
  'name',
  'labels',
  'annotations',
  'finalizers',
  'ownerReferences',
  'managedFields',
  'resourceVersion',
  'uid',
  'generateName',
  'deletionTimestamp',
  'namespace',
);
const object = fc.record(
  {
    apiVersion: fc.constantFrom('v1', 'example.io/v1', 'policy/v1', 'apiextensions.k8s.io/v1'),
    kind: fc.constantFrom('ConfigMap', 'Widget', 'Node', 'Pod', 'Namespace', 'CustomResourceDefinition', 'Eviction', 'TokenRequest'),
    metadata: fc.oneof(fc.dictionary(key, inside, { maxKeys: 4 }), inside),
    spec: inside,
    status: inside,
    data: inside,
  },
  { requiredKeys: [] },
);
const body = fc.oneof(
  { weight: 4, arbitrary: object.map((value) => JSON.stringify(value)) },
  inside.map((value) => JSON.stringify(value)),
  fc
    .array(
      fc.record({
        op: fc.constantFrom('add', 'remove', 'test', 'move'),
        path: fc.constantFrom('', '/', '/metadata', '/spec/x', '/metadata/labels/a~1b'),
        value: inside,
        from: fc.constant('/spec'),
      }),
    )
    .map((value) => JSON.stringify(value)),
  fc.string({ maxLength: 40 }),
);
const type = fc.constantFrom(
  'application/json',
  'application/yaml',
  'application/merge-patch+json',
  'application/json-patch+json',
  'application/strategic-merge-patch+json',
  'application/apply-patch+yaml',
  'application/vnd.kubernetes.protobuf',
);

describe('the server', () => {
  it('answers every request, however odd, with an answer of its own', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('GET', 'POST', 'PUT', 'PATCH', 'DELETE' as const),
        paths,
        query,
        body,
        type,
        async (method, path, given, text, contentType) => {
          const asked = method === 'GET' ? {} : { body: text };
          const response = await rig.cluster.asUser()({
            method,
            path,
            query: given,
            headers: { 'content-type': contentType },
            ...asked,
          });
          let size = 0;
          for await (const chunk of response.body) size += chunk.byteLength;
          expect(rig.faults).toEqual([]);
          expect([response.status, size]).toEqual([expect.any(Number), expect.any(Number)]);
        },
      ),
      { numRuns: 3000 },
    );
  });

  it('still serves what it served before', async () => {
    expect((await rig.api.get('/api/v1/namespaces/default')).status).toBe(200);
    expect((await rig.api.create(MAPS, configMap('after'))).status).toBe(201);
  });
});
