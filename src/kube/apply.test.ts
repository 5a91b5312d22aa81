import { describe, expect, test } from 'vitest';
import { ConfigMaps } from '../api/builtin.ts';
import type { ConfigMap } from '../api/builtin.ts';
import type { JsonObject, KubeObject, Stored } from '../api/wire.ts';
import { applyIfChanged, wouldChange } from './apply.ts';
import { createClient } from './http-client.ts';
import { fakeApiServer, jsonResponse } from './testing/api-server.ts';

const manager = { fieldManager: 'kubenode-set' };
const identity = { uid: 'u', resourceVersion: '5', creationTimestamp: '2026-11-20T00:00:00Z' };

/** An object with content, and what of it the manager owns. */
function stored(content: { metadata?: object; [field: string]: unknown }, fieldsV1: JsonObject, entry: object = {}): KubeObject {
  const managed = {
    manager: 'kubenode-set',
    operation: 'Apply' as const,
    apiVersion: 'v1',
    fieldsType: 'FieldsV1' as const,
    fieldsV1,
    ...entry,
  };
  const { metadata, ...fields } = content;
  return {
    apiVersion: 'v1',
    kind: 'Thing',
    metadata: { name: 'a', ...identity, ...metadata, managedFields: [managed] },
    ...fields,
  };
}
const wanted = (content: { metadata?: object; [field: string]: unknown }): KubeObject => {
  const { metadata, ...fields } = content;
  return { apiVersion: 'v1', kind: 'Thing', metadata: { name: 'a', ...metadata }, ...fields };
};

describe('would an apply change anything', () => {
  const owned = { 'f:spec': { 'f:replicas': {}, 'f:image': {} } };

  test('not when all that is desired is there and owned, with any fields that others have added', () => {
    expect(
      wouldChange(
        wanted({ spec: { replicas: 3, image: 'x' } }),
        stored({ spec: { replicas: 3, image: 'x', paused: true } }, owned),
        manager,
      ),
    ).toBe(false);
  });

  test.each<[string, JsonObject, string[]?]>([
    ['a member that is no JSON', { 'f:list': { '?': {} } }],
    ['a value that is no JSON', { 'f:list': { 'v:{': {} } }],
    ['keys that are none', { 'f:list': { 'k:7': {} } }],
    ['more items than any list has', { 'f:list': { 'v:"a"': {} } }, Array.from({ length: 1_000_001 }, () => 'a')],
  ])('what a server reports of ownership is not trusted: %s is a change', (_what, fields, list = ['a']) => {
    expect(wouldChange(wanted({ spec: { list: ['a'] } }), stored({ spec: { list } }, { 'f:spec': fields }), manager)).toBe(true);
  });

  test('a list of a million items is still compared', () => {
    const fields = { 'f:spec': { 'f:list': { 'v:"a"': {} } } };
    const object = stored({ spec: { list: Array.from({ length: 1_000_000 }, () => 'a') } }, fields);
    expect(wouldChange(wanted({ spec: { list: ['a'] } }), object, manager)).toBe(false);
  });

  test.each([
    ['another value', { replicas: 4, image: 'x' }],
    ['another type', { replicas: '3', image: 'x' }],
    ['a field more', { replicas: 3, image: 'x', paused: true }],
    ['a field given up', { replicas: 3 }],
  ])('%s is a change', (_what, spec) => {
    expect(wouldChange(wanted({ spec }), stored({ spec: { replicas: 3, image: 'x', paused: true } }, owned), manager)).toBe(true);
  });

  test('a field that another has changed or removed is a change', () => {
    expect(wouldChange(wanted({ spec: { replicas: 3, image: 'x' } }), stored({ spec: { replicas: 3 } }, owned), manager)).toBe(true);
    expect(wouldChange(wanted({ spec: { replicas: 3, image: 'x' } }), stored({}, owned), manager)).toBe(true);
  });

  test('what is undefined is not desired', () => {
    expect(
      wouldChange(
        wanted({ spec: { replicas: 3, image: 'x', paused: undefined } }),
        stored({ spec: { replicas: 3, image: 'x' } }, owned),
        manager,
      ),
    ).toBe(false);
  });

  test('inside what is compared whole, too, undefined is absent and prototypes do not count', () => {
    const object = stored({ spec: { atom: { a: [1, { b: 'x' }] } } }, { 'f:spec': { 'f:atom': {} } });
    class Atom {
      a = [1, { b: 'x', c: undefined }];
    }
    expect(wouldChange(wanted({ spec: { atom: new Atom() } }), object, manager)).toBe(false);
    expect(wouldChange(wanted({ spec: { atom: { a: [1, { b: 'x', c: null }] } } }), object, manager)).toBe(true);
    expect(wouldChange(wanted({ spec: { atom: { a: [1] } } }), object, manager)).toBe(true);
  });

  test('labels and annotations count, name, UID and version do not', () => {
    const fields = { 'f:metadata': { 'f:labels': { 'f:a': {} } } };
    const object = stored({ metadata: { labels: { a: '1', b: 'other' } } }, fields);
    expect(wouldChange(wanted({ metadata: { labels: { a: '1' }, ...identity, resourceVersion: '1' } }), object, manager)).toBe(false);
    expect(wouldChange(wanted({ metadata: { labels: { a: '2' } } }), object, manager)).toBe(true);
    expect(wouldChange(wanted({}), object, manager)).toBe(true);
  });

  describe('lists by key', () => {
    const fields = {
      'f:spec': {
        'f:components': {
          'k:{"name":"kubelet"}': { '.': {}, 'f:name': {}, 'f:version': {} },
          'k:{"name":"cni"}': { '.': {}, 'f:name': {}, 'f:version': {} },
        },
      },
    };
    const kubelet = { name: 'kubelet', version: '1' };
    const cni = { name: 'cni', version: '2' };
    const foreign = { name: 'npd', version: '9' };
    const object = stored({ spec: { components: [foreign, { ...cni, extra: true }, kubelet] } }, fields);

    test.each([
      ['the same items, in any order, beside those of others', [kubelet, cni], false],
      ['another value in an item', [{ ...kubelet, version: '2' }, cni], true],
      ['an item given up', [kubelet], true],
      ['an item more', [kubelet, cni, { name: 'new', version: '1' }], true],
      ['an item of another manager', [kubelet, foreign], true],
      ['a field given up', [{ name: 'kubelet' }, cni], true],
      ['a duplicate', [kubelet, kubelet], true],
    ])('%s', (_what, components, expected) => {
      expect(wouldChange(wanted({ spec: { components } }), object, manager)).toBe(expected);
    });

    test('items that are atomic are compared whole', () => {
      const atomic = { 'f:spec': { 'f:components': { 'k:{"name":"kubelet"}': {} } } };
      expect(wouldChange(wanted({ spec: { components: [kubelet] } }), stored({ spec: { components: [kubelet] } }, atomic), manager)).toBe(
        false,
      );
      const extended = stored({ spec: { components: [{ ...kubelet, extra: 1 }] } }, atomic);
      expect(wouldChange(wanted({ spec: { components: [kubelet] } }), extended, manager)).toBe(true);
    });

    test('a key that the server filled in by default is no difference', () => {
      const ports = { 'f:spec': { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { '.': {}, 'f:port': {} } } } };
      const filled = { 'f:spec': { 'f:ports': { 'k:{"port":80,"protocol":"TCP"}': { '.': {}, 'f:port': {}, 'f:protocol': {} } } } };
      for (const fields of [ports, filled]) {
        const service = stored(
          {
            spec: {
              ports: [
                { port: 80, protocol: 'UDP' },
                { port: 80, protocol: 'TCP' },
              ],
            },
          },
          fields,
        );
        expect(wouldChange(wanted({ spec: { ports: [{ port: 80 }] } }), service, manager)).toBe(false);
        expect(wouldChange(wanted({ spec: { ports: [{ port: 81 }] } }), service, manager)).toBe(true);
      }
    });
  });

  test('sets contain what is desired, and own nothing else', () => {
    const object = stored(
      { metadata: { finalizers: ['theirs', 'ours'] } },
      { 'f:metadata': { 'f:finalizers': { '.': {}, 'v:"ours"': {} } } },
    );
    expect(wouldChange(wanted({ metadata: { finalizers: ['ours'] } }), object, manager)).toBe(false);
    expect(wouldChange(wanted({ metadata: { finalizers: ['other'] } }), object, manager)).toBe(true);
    expect(wouldChange(wanted({ metadata: { finalizers: ['ours', 'theirs'] } }), object, manager)).toBe(true);
  });

  test('atomic lists and empty maps are compared whole', () => {
    const object = stored({ spec: { batches: [1, 5], none: {} } }, { 'f:spec': { 'f:batches': {}, 'f:none': {} } });
    expect(wouldChange(wanted({ spec: { batches: [1, 5], none: {} } }), object, manager)).toBe(false);
    expect(wouldChange(wanted({ spec: { batches: [5, 1], none: {} } }), object, manager)).toBe(true);
  });

  test('the entry of another manager, of an update or of a subresource proves nothing', () => {
    const spec = { spec: { replicas: 3, image: 'x' } };
    for (const entry of [{ manager: 'kubectl' }, { operation: 'Update' }, { subresource: 'status' }]) {
      expect(wouldChange(wanted(spec), stored(spec, owned, entry), manager)).toBeUndefined();
    }
    const status = { ...manager, subresource: 'status' };
    const object = stored({ status: { phase: 'Running' } }, { 'f:status': { 'f:phase': {} } }, { subresource: 'status' });
    expect(wouldChange(wanted({ status: { phase: 'Running' } }), object, status)).toBe(false);
  });

  test('an apply by another version of the kind is a change', () => {
    const spec = { spec: { replicas: 3, image: 'x' } };
    expect(wouldChange(wanted(spec), stored(spec, owned, { apiVersion: 'v1beta1' }), manager)).toBe(true);
  });
});

const desired: ConfigMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace: 'x', name: 'm' }, data: { a: '1' } };
const entry = (manager: string): object => ({
  manager,
  operation: 'Apply',
  apiVersion: 'v1',
  fieldsType: 'FieldsV1',
  fieldsV1: { 'f:data': { 'f:a': {} } },
});
const map = (a: string, managers: string[]): Stored<ConfigMap> =>
  ({ ...desired, data: { a }, metadata: { ...desired.metadata, ...identity, managedFields: managers.map(entry) } }) as Stored<ConfigMap>;

function world(live: Stored<ConfigMap> | undefined): { calls: string[]; client: ReturnType<typeof createClient> } {
  const server = fakeApiServer();
  const calls: string[] = [];
  server.intercept((request) => {
    calls.push(request.method);
    return request.method === 'GET' && live !== undefined ? jsonResponse(200, live) : undefined;
  });
  return { calls, client: createClient(server.transport) };
}

describe('applying if changed', () => {
  test('a no-op costs no request', async () => {
    const { calls, client } = world(undefined);
    const stored = map('1', ['kubenode-set']);
    expect(await applyIfChanged(client, ConfigMaps, desired, { ...manager, stored })).toEqual({ changed: false, object: stored });
    expect(calls).toEqual([]);
  });

  test('a difference costs one', async () => {
    const { calls, client } = world(undefined);
    const result = await applyIfChanged(client, ConfigMaps, desired, { ...manager, stored: map('0', ['kubenode-set']) });
    expect(result).toMatchObject({ changed: true, object: { data: { a: '1' } } });
    expect(calls).toEqual(['PATCH']);
  });

  test('what is absent is created', async () => {
    const { calls, client } = world(undefined);
    expect(await applyIfChanged(client, ConfigMaps, desired, { ...manager, stored: undefined })).toMatchObject({ changed: true });
    expect(calls).toEqual(['PATCH']);
  });

  test('a store that dropped managedFields costs a read of the live object, and no write where nothing differs', async () => {
    const live = map('1', ['kubectl', 'kubenode-set']);
    const { calls, client } = world(live);
    const result = await applyIfChanged(client, ConfigMaps, desired, { ...manager, stored: map('1', []) });
    expect(result).toEqual({ changed: false, object: live });
    expect(calls).toEqual(['GET']);
  });

  test('a live object without owned fields is applied, also where the values are the same', async () => {
    const { calls, client } = world(map('1', ['kubectl']));
    await applyIfChanged(client, ConfigMaps, desired, { ...manager, stored: map('1', []) });
    expect(calls).toEqual(['GET', 'PATCH']);
  });

  test('as read, it names what was read, or that nothing was, and does not read again', async () => {
    const bodies: unknown[] = [];
    const server = fakeApiServer();
    server.intercept(({ method, body }) => {
      if (method !== 'PATCH' || typeof body !== 'string') throw new Error(method);
      bodies.push(JSON.parse(body));
      return undefined;
    });
    const client = createClient(server.transport);
    const live = { ...map('1', ['kubectl']), metadata: { ...map('1', ['kubectl']).metadata, ...identity } };
    await applyIfChanged(client, ConfigMaps, desired, { ...manager, stored: undefined, asRead: true });
    await expect(applyIfChanged(client, ConfigMaps, desired, { ...manager, stored: live, asRead: true })).rejects.toMatchObject({
      reason: 'Conflict',
    });
    expect(bodies).toMatchObject([{ metadata: { resourceVersion: '1' } }, { metadata: { uid: 'u', resourceVersion: '5' } }]);
  });

  test('an object that is gone from the server is created', async () => {
    const { calls, client } = world(undefined);
    expect(await applyIfChanged(client, ConfigMaps, desired, { ...manager, stored: map('1', []) })).toMatchObject({ changed: true });
    expect(calls).toEqual(['GET', 'PATCH']);
  });
});
