/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { isObject, pick, text } from '@kubenode/embedded/testing';
import { at, type Answer, type Json, type JsonObject } from './scene.ts';
import { conformance } from './suite.ts';
import { defineWidgets } from './widgets.ts';

const items = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? (value as JsonObject[]) : []);

/** The index is JSON, with any content type. */
function plain({ body }: Answer): JsonObject {
  const value: unknown = typeof body['text'] === 'string' ? JSON.parse(body['text']) : body;
  return isObject(value) ? value : {};
}

/** Only what both servers serve is compared: of a group those resources that the embedded one has. */
const SERVED: Record<string, string[]> = {
  '/api/v1': [
    'configmaps',
    'events',
    'namespaces',
    'nodes',
    'pods',
    'pods/eviction',
    'pods/status',
    'secrets',
    'serviceaccounts',
    'serviceaccounts/token',
  ],
  '/apis/coordination.k8s.io/v1': ['leases'],
  '/apis/policy/v1': ['poddisruptionbudgets', 'poddisruptionbudgets/status'],
  '/apis/certificates.k8s.io/v1': [
    'certificatesigningrequests',
    'certificatesigningrequests/approval',
    'certificatesigningrequests/status',
  ],
  '/apis/apiextensions.k8s.io/v1': ['customresourcedefinitions', 'customresourcedefinitions/status'],
  '/apis/example.io/v1': ['widgets', 'widgets/status', 'widgets/scale'],
};

conformance('discovery', { prepare: defineWidgets }, (it) => {
  it('each group lists which resources it has, with their names and verbs', async (scene) => {
    for (const [path, resources] of Object.entries(SERVED)) {
      const { body } = await scene.unrecorded.get(path);
      const found = items(body['resources']).filter((resource) => resources.includes(text(resource['name'])));
      expect([path, found.length]).toEqual([path, resources.length]);
      const plain = found
        .map(({ storageVersionHash: _hash, ...resource }) => resource)
        .sort((a, b) => text(a['name']).localeCompare(text(b['name'])));
      scene.see(path, plain);
      scene.see(`${path} itself`, {
        kind: body['kind'] ?? null,
        groupVersion: body['groupVersion'] ?? null,
        apiVersion: body['apiVersion'] ?? null,
      });
    }
  });

  it('groups are listed with their versions', async (scene) => {
    const { body } = await scene.unrecorded.get('/apis');
    const names = ['coordination.k8s.io', 'policy', 'certificates.k8s.io', 'apiextensions.k8s.io', 'example.io'];
    const found = items(body['groups']).filter((group) => names.includes(text(group['name'])));
    scene.see(
      'groups',
      found.sort((a, b) => text(a['name']).localeCompare(text(b['name']))),
    );
    for (const name of names) await scene.api.get(`/apis/${name}`);
    const core = await scene.unrecorded.get('/api');
    scene.see('core', core.body['versions'] ?? null);
  });

  it('discovery comes whole to who asks for it so, with an ETag', async (scene) => {
    const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';
    const whole = await scene.unrecorded.get('/apis', {}, { accept });
    expect(whole.headers['content-type']).toBe('application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList');
    const group = items(whole.body['items']).find((item) => pick(item, 'metadata.name') === 'example.io');
    scene.see('example.io', [
      pick(group, 'versions.0.version') ?? null,
      pick(group, 'versions.0.resources.0') ?? null,
      pick(group, 'versions.0.freshness') ?? null,
    ]);
    const policy = items(whole.body['items']).find((item) => pick(item, 'metadata.name') === 'policy');
    scene.see('policy', pick(policy, 'versions.0.resources.0') ?? null);
    const again = await scene.unrecorded.get('/apis', {}, { accept, 'if-none-match': whole.headers['etag'] ?? '' });
    expect([typeof whole.headers['etag'], again.status]).toEqual(['string', 304]);
  });

  it('OpenAPI v3 has a document for each group, by its hash', async (scene) => {
    const document = await scene.until('the document of the group', async () => {
      const body = plain(await scene.unrecorded.get('/openapi/v3', {}, { accept: 'application/json' }));
      const entry = isObject(body['paths']) ? body['paths']['apis/example.io/v1'] : undefined;
      const url = isObject(entry) ? text(entry['serverRelativeURL']) : '';
      return /\?hash=[0-9A-F]+$/.test(url) ? url : undefined;
    });
    const [path = '', query = ''] = document.split('?');
    const body = plain(await scene.unrecorded.get(path, Object.fromEntries(new URLSearchParams(query)), { accept: 'application/json' }));
    const schemas = (pick(body, 'components.schemas') ?? {}) as JsonObject;
    const schema = Object.entries(schemas).find(([name]) => name === 'io.example.v1.Widget');
    const widget = (schema?.[1] ?? {}) as JsonObject;
    scene.see('spec of Widget', pick(widget, 'properties.spec') ?? null);
    scene.see('kind of Widget', widget['x-kubernetes-group-version-kind'] ?? null);
  });

  it('the version is 1.33 or later', async (scene) => {
    const { body } = await scene.unrecorded.get('/version');
    expect(Number(body['minor'])).toBeGreaterThanOrEqual(33);
    for (const path of ['/healthz', '/livez', '/readyz']) await scene.api.get(path);
    expect(at(await scene.unrecorded.get('/readyz'), 'text')).toBe('ok');
  });
});
