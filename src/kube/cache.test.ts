import { afterEach, describe, expect, test } from 'vitest';
import { Nodes } from '../api/builtin.ts';
import type { Node } from '../api/builtin.ts';
import { createCache } from './cache.ts';
import { createClient } from './http-client.ts';
import { fakeApiServer } from './testing/api-server.ts';
import type { FakeApiServer } from './testing/api-server.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { node } from './testing/objects.ts';

const controllers: AbortController[] = [];
afterEach(() => controllers.splice(0).forEach((controller) => controller.abort(new Error('the test is over'))));

const cacheOf = (server: FakeApiServer): ReturnType<typeof createCache> => {
  const controller = new AbortController();
  controllers.push(controller);
  return createCache({
    client: createClient(server.transport),
    clock: fakeClock(),
    random: seededRandom(1),
    log: recordingLog(),
    signal: controller.signal,
    keepManagers: ['kubenode-set'],
  });
};
const byZone = (object: Node): string[] => [object.metadata.labels?.['zone'] ?? ''];

describe('the cache', () => {
  test('one selection is one reflector; indexes add up', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a', { zone: 'z' }));
    const cache = cacheOf(server);
    const first = cache.store(Nodes);
    const second = cache.store(Nodes, { indexes: { zone: byZone } });
    expect(second).toBe(first);
    expect(cache.store(Nodes, { labels: { zone: 'z' } })).not.toBe(first);
    await cache.whenSynced();
    expect(first.byIndex('zone', 'z')).toHaveLength(1);
    expect(cache.states().map(({ resource, size, synced, state }) => [resource, size, synced, state.phase])).toEqual([
      ['nodes', 1, true, 'watching'],
      ['nodes', 1, true, 'watching'],
    ]);
    expect(server.watches.open).toBe(2);
  });

  test('two callers that would keep other parts of the objects get an error', () => {
    const cache = cacheOf(fakeApiServer());
    cache.store(Nodes);
    expect(() => cache.store(Nodes, { project: (object) => object })).toThrow('keeps other parts');
    expect(() => cache.store(Nodes, { keepManagers: [] })).toThrow('keeps other parts');
    expect(() => cache.store(Nodes, { keepManagers: 'all' })).toThrow('keeps other parts');
    cache.store(Nodes, { labels: { a: 'b' }, keepManagers: ['all'] });
    expect(() => cache.store(Nodes, { labels: { a: 'b' }, keepManagers: 'all' })).toThrow('keeps other parts');
    cache.store(Nodes, { keepManagers: ['kubenode-set'] });
  });
});
