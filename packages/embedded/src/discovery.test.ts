import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { versionOrder } from './discovery.ts';
import { openRig, pick, type Rig } from './testing/rig.ts';
import { defineWidgets } from './testing/widgets.ts';

let rig: Rig;
const AGGREGATED = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json';

beforeEach(async () => {
  rig = await openRig();
  await defineWidgets(rig.api);
  return () => rig.cluster.close();
});

const list = (body: JsonObject, path: string) => (pick(body, path) ?? []) as JsonObject[];

describe('discovery', () => {
  it('lists groups and versions', async () => {
    expect((await rig.api.get('/api')).body['versions']).toEqual(['v1']);
    const groups = list((await rig.api.get('/apis')).body, 'groups');
    expect(groups.map((group) => group['name'])).toContain('policy');
    expect(groups.find((group) => group['name'] === 'example.io')).toEqual({
      name: 'example.io',
      versions: [{ groupVersion: 'example.io/v1', version: 'v1' }],
      preferredVersion: { groupVersion: 'example.io/v1', version: 'v1' },
    });
    expect((await rig.api.get('/apis/example.io')).body['kind']).toBe('APIGroup');
    expect((await rig.api.get('/apis/nope.io')).status).toBe(404);
  });

  it('lists resources with subresources and the kinds that these take', async () => {
    const { body } = await rig.api.get('/apis/example.io/v1');
    expect(body).toMatchObject({ kind: 'APIResourceList', groupVersion: 'example.io/v1' });
    expect(list(body, 'resources').map((resource) => [resource['name'], resource['kind'], resource['group']])).toEqual([
      ['widgets', 'Widget', undefined],
      ['widgets/status', 'Widget', undefined],
      ['widgets/scale', 'Scale', 'autoscaling'],
    ]);
    const core = list((await rig.api.get('/api/v1')).body, 'resources');
    expect(core.find((resource) => resource['name'] === 'pods/eviction')).toMatchObject({
      group: 'policy',
      version: 'v1',
      kind: 'Eviction',
      verbs: ['create'],
    });
    expect(core.find((resource) => resource['name'] === 'namespaces')?.['verbs']).not.toContain('deletecollection');
  });

  it('comes in one document when asked, with an ETag that changes only with the resources', async () => {
    const first = await rig.api.get('/apis', {}, { accept: AGGREGATED });
    expect(first.headers['content-type']).toBe('application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList');
    const group = list(first.body, 'items').find((item) => pick(item, 'metadata.name') === 'example.io');
    expect(pick(group, 'versions.0.resources.0')).toMatchObject({
      resource: 'widgets',
      responseKind: { group: 'example.io', version: 'v1', kind: 'Widget' },
      scope: 'Namespaced',
      shortNames: ['wd'],
      subresources: [
        { subresource: 'status' },
        { subresource: 'scale', responseKind: { group: 'autoscaling', version: 'v1', kind: 'Scale' } },
      ],
    });
    const etag = first.headers['etag'] ?? '';
    const same = await rig.api.get('/apis', {}, { accept: AGGREGATED, 'if-none-match': etag });
    // A 304 must not bring headers of its own: HTTP caches would take them over.
    expect([same.status, same.headers['content-type'], same.headers['content-length']]).toEqual([304, undefined, undefined]);
    await rig.api.remove('/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.io');
    expect((await rig.api.get('/apis', {}, { accept: AGGREGATED, 'if-none-match': etag })).status).toBe(200);
  });

  it('puts stable versions before betas and alphas, newer before older', () => {
    expect(['v1alpha1', 'v1', 'foo', 'v2', 'v1beta2', 'v1beta1', 'v2alpha1'].sort(versionOrder)).toEqual([
      'v2',
      'v1',
      'v1beta2',
      'v1beta1',
      'v2alpha1',
      'v1alpha1',
      'foo',
    ]);
  });
});

describe('OpenAPI', () => {
  it('has an index whose addresses change with the content', async () => {
    const index = async () => pick((await rig.api.get('/openapi/v3')).body, 'paths') as Record<string, { serverRelativeURL: string }>;
    const before = await index();
    expect(before['apis/example.io/v1']?.serverRelativeURL).toMatch(/^\/openapi\/v3\/apis\/example\.io\/v1\?hash=[0-9A-F]{64}$/);
    await rig.api.json('/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.io', [
      { op: 'add', path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/more', value: { type: 'string' } },
    ]);
    const after = await index();
    expect(after['apis/example.io/v1']).not.toEqual(before['apis/example.io/v1']);
    expect(after['api/v1']).toEqual(before['api/v1']);
  });

  it('describes custom kinds, with the patches by which kubectl knows what it may use', async () => {
    const { body } = await rig.api.get('/openapi/v3/apis/example.io/v1');
    const widget = (pick(body, 'components.schemas') as Record<string, JsonObject>)['io.example.v1.Widget'];
    expect(widget).toMatchObject({
      description: 'A widget.',
      'x-kubernetes-group-version-kind': [{ group: 'example.io', version: 'v1', kind: 'Widget' }],
    });
    expect(pick(widget, 'properties.spec.properties.color.enum')).toEqual(['red', 'green', 'blue']);
    const patch = (pick(body, 'paths') as Record<string, JsonObject>)['/apis/example.io/v1/namespaces/{namespace}/widgets/{name}'];
    expect((pick(patch, 'patch.parameters') as JsonObject[]).map((parameter) => parameter['name'])).toEqual([
      'dryRun',
      'fieldManager',
      'fieldValidation',
      'force',
    ]);
  });

  it('refers only to schemas that it contains', async () => {
    const index = pick((await rig.api.get('/openapi/v3')).body, 'paths') as Record<string, unknown>;
    for (const path of Object.keys(index)) {
      const { body } = await rig.api.get(`/openapi/v3/${path}`);
      const contained = new Set(Object.keys(pick(body, 'components.schemas') as object));
      const referred = [...JSON.stringify(body).matchAll(/#\/components\/schemas\/([^"]+)/g)].map(([, name]) => name);
      expect(referred.filter((name) => name !== undefined && !contained.has(name))).toEqual([]);
    }
  });

  it('is there in JSON only', async () => {
    const proto = 'application/com.github.proto-openapi.spec.v3.v1.0+protobuf';
    expect((await rig.api.get('/openapi/v3', {}, { accept: proto })).status).toBe(406);
    expect((await rig.api.get('/openapi/v2')).status).toBe(404);
    expect((await rig.api.get('/openapi/v3/apis/nope/v1')).status).toBe(404);
  });
});
