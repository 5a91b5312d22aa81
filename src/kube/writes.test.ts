import { afterEach, describe, expect, test, vi } from 'vitest';
import { ConfigMaps } from '../api/builtin.ts';
import type { ConfigMap } from '../api/builtin.ts';
import { createClient } from './http-client.ts';
import { startReflector } from './reflector.ts';
import type { Reflector } from './reflector.ts';
import type { Client } from './client.ts';
import { fakeApiServer } from './testing/api-server.ts';
import type { FakeApiServer } from './testing/api-server.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import type { FakeClock } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { configMap } from './testing/objects.ts';
import { createPipe } from './testing/pipe.ts';
import { settle } from './testing/wait-for.ts';
import { createOwnWrites } from './writes.ts';
import type { OwnWrites } from './writes.ts';

const controllers: AbortController[] = [];
afterEach(() => controllers.splice(0).forEach((controller) => controller.abort(new Error('the test is over'))));

interface World {
  server: FakeApiServer;
  clock: FakeClock;
  store: Reflector<ConfigMap>;
  writes: OwnWrites;
  as: (key: string) => Client;
  ready: string[];
}

async function world(): Promise<World> {
  const server = fakeApiServer();
  const clock = fakeClock();
  const controller = new AbortController();
  controllers.push(controller);
  const client = createClient(server.transport);
  const store = startReflector({
    client,
    resource: ConfigMaps,
    clock,
    random: seededRandom(1),
    log: recordingLog(),
    signal: controller.signal,
  });
  await store.whenSynced();
  await settle();
  const ready: string[] = [];
  const writes = createOwnWrites({ clock, dependences: [{ store, keys: () => [] }], onReady: (key) => ready.push(key) });
  return { server, clock, store, writes, ready, as: (key) => writes.clientFor(client, key) };
}

/** The next write is done, but nobody hears of it. */
function loseAnswer(server: FakeApiServer): void {
  const cancel = server.intercept(async (request) => {
    if (request.method === 'GET') return undefined;
    cancel();
    await server.transport(request);
    throw new Error('read ECONNRESET');
  });
}

describe('own writes', () => {
  test('a write shown before its answer came holds nothing', async () => {
    const { server, writes, as } = await world();
    const cancel = server.intercept(async (request) => {
      if (request.method === 'GET') return undefined;
      cancel();
      const answer = await server.transport(request);
      await settle();
      return answer;
    });
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    expect(writes.isCurrent('k')).toBe(true);
  });

  test('after the end nobody is called for what a store shows', async () => {
    const { writes, as, ready, store, server } = await world();
    loseAnswer(server);
    await expect(as('k').create(ConfigMaps, configMap('x', 'a'))).rejects.toThrow('ECONNRESET');
    expect(writes.isCurrent('k')).toBe(false);
    writes.stop();
    store.relist();
    await settle();
    expect(store.size).toBe(1);
    expect(ready).toEqual([]);
  });

  test('a key that made several writes waits for all of them', async () => {
    const { server, writes, as, ready, store } = await world();
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    await as('k').create(ConfigMaps, configMap('x', 'b'));
    await as('k').patch(ConfigMaps, { namespace: 'x', name: 'a' }, { merge: { data: { n: '1' } } });
    await as('other').create(ConfigMaps, configMap('x', 'c'));
    expect(writes.isCurrent('k')).toBe(false);
    const seen: boolean[] = [];
    store.subscribe((event) => event.type !== 'bookmark' && seen.push(writes.isCurrent('k')));
    server.watches.resume();
    await settle();
    expect(seen).toEqual([false, false, true, true]);
    expect(ready).toEqual(['k', 'other']);
  });

  test('a write whose fate is unknown does not keep others from being seen', async () => {
    const { server, writes, as, ready, clock } = await world();
    server.watches.stall();
    loseAnswer(server);
    await expect(as('lost').create(ConfigMaps, configMap('x', 'a'))).rejects.toMatchObject({ code: 'Unreachable' });
    await as('k').create(ConfigMaps, configMap('x', 'b'));
    server.watches.resume();
    await settle();
    expect(ready).toEqual(['k']);
    expect(writes.isCurrent('lost')).toBe(false);
    await clock.advance(5000);
    expect(ready).toEqual(['k', 'lost']);
  });

  test('a bookmark shows every write before it, also one whose event never came', async () => {
    const { server, as, ready, writes, store } = await world();
    const pipe = createPipe(undefined, () => undefined);
    server.intercept((request) => (request.query?.['watch'] === undefined ? undefined : { status: 200, headers: {}, body: pipe.read() }));
    store.relist();
    await settle();
    loseAnswer(server);
    await expect(as('lost').create(ConfigMaps, configMap('x', 'a'))).rejects.toThrow('ECONNRESET');
    await as('k').create(ConfigMaps, configMap('x', 'b'));
    expect(writes.isCurrent('k')).toBe(false);
    pipe.write(`${JSON.stringify({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '102' } } })}\n`);
    await settle();
    expect(ready).toEqual(['k']);
  });

  test('a deletion with an old answer does not pass while an earlier write of that object is not shown', async () => {
    const { server, as, ready } = await world();
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    await as('k').delete(ConfigMaps, { namespace: 'x', name: 'a' });
    expect(ready).toEqual([]);
    server.watches.resume();
    await settle();
    expect(ready).toEqual(['k']);
  });

  test('an object that is deleted is seen when it is going, though its finalizers keep it', async () => {
    const { server, as, ready, store } = await world();
    const made = server.put(ConfigMaps, configMap('x', 'a'));
    await settle();
    server.watches.stall();
    server.intercept((request) => {
      if (request.method !== 'DELETE') return undefined;
      const going = server.put(ConfigMaps, {
        ...made,
        metadata: { ...made.metadata, deletionTimestamp: '2026-11-20T00:00:01Z', finalizers: ['f'] },
      });
      return { status: 200, headers: {}, body: ReadableStream.from([Buffer.from(JSON.stringify(going))]) };
    });
    await as('k').delete(ConfigMaps, { namespace: 'x', name: 'a' });
    await settle();
    expect(ready).toEqual([]);
    server.watches.resume();
    await settle();
    expect(ready).toEqual(['k']);
    expect(store.size).toBe(1);
  });

  test('a store that lags is asked to list once a lag, and after the end not at all', async () => {
    const { server, as, clock, writes, store } = await world();
    const asked: number[] = [];
    const begin = clock.monotonic();
    vi.spyOn(store, 'relist').mockImplementation(() => void asked.push(clock.monotonic() - begin));
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    await clock.advance(2000);
    await as('k').create(ConfigMaps, configMap('x', 'b'));
    await clock.advance(9000);
    expect(asked).toEqual([5000, 10_000]);
    writes.stop();
    await clock.advance(60_000);
    expect(asked).toHaveLength(2);
    expect(writes.isCurrent('k')).toBe(false);
  });
});
