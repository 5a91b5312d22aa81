import { expect, test } from 'vitest';
import { ConfigMaps } from '../api/builtin.ts';
import { CodedError } from '../api/errors.ts';
import type { Client } from './client.ts';
import { createClient } from './http-client.ts';
import { termClient } from './term-client.ts';
import { fakeApiServer } from './testing/api-server.ts';

const key = { namespace: 'default', name: 'one' };
const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: key, data: { a: '1' } };
const path = '/api/v1/namespaces/default/configmaps/one';

const WRITES: Record<string, (client: Client) => Promise<unknown>> = {
  create: (client) => client.create(ConfigMaps, { ...configMap, metadata: { ...key, name: 'two' } }),
  update: (client) => client.update(ConfigMaps, configMap),
  patch: (client) => client.patch(ConfigMaps, key, { merge: { data: { a: '2' } } }),
  apply: (client) => client.apply(ConfigMaps, configMap, { fieldManager: 'test', force: true }),
  delete: (client) => client.delete(ConfigMaps, key),
  post: (client) => client.post(`${path}/eviction`, {}),
  'request that writes': (client) => client.request({ method: 'DELETE', path }),
};

function world() {
  const server = fakeApiServer();
  server.put(ConfigMaps, configMap);
  let over: Error | undefined;
  const require = (): void => {
    if (over !== undefined) throw over;
  };
  const client = termClient(createClient(server.transport), { require });
  return { server, client, end: (error: Error) => void (over = error) };
}

test.each(Object.entries(WRITES))('a %s goes through in its term, and is not sent after it', async (_, write) => {
  const { server, client, end } = world();
  await write(client).catch(() => undefined);
  expect(server.requests.filter(({ method }) => method !== 'GET')).toHaveLength(1);
  end(new CodedError('LeaseLost', 'it is over'));
  await expect(write(client)).rejects.toMatchObject({ code: 'LeaseLost' });
  expect(server.requests.filter(({ method }) => method !== 'GET')).toHaveLength(1);
});

test('reads go through after the term', async () => {
  const { client, end } = world();
  end(new CodedError('LeaseLost', 'it is over'));
  expect(await client.get(ConfigMaps, key)).toMatchObject({ data: { a: '1' } });
  expect(await client.request({ method: 'GET', path })).toMatchObject({ data: { a: '1' } });
});
