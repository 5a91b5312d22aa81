import { afterEach, describe, expect, test, vi } from 'vitest';
import { ConfigMaps, Nodes } from '../api/builtin.ts';
import type { ConfigMap } from '../api/builtin.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject } from '../api/wire.ts';
import { createClient } from './http-client.ts';
import { startReflector } from './reflector.ts';
import type { Reflector, StoreOptions } from './reflector.ts';
import type { Client } from './client.ts';
import { fakeApiServer } from './testing/api-server.ts';
import type { FakeApiServer } from './testing/api-server.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import type { FakeClock } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { configMap, node } from './testing/objects.ts';
import { createPipe } from './testing/pipe.ts';
import { settle } from './testing/wait-for.ts';
import { createOwnWrites } from './writes.ts';
import type { Dependence, OwnWrites } from './writes.ts';

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

interface Stores {
  server: FakeApiServer;
  clock: FakeClock;
  ready: string[];
  open: <T extends KubeObject>(resource: Resource<T>, options?: StoreOptions<T>) => Promise<Reflector<T>>;
  /** Begins to follow the writes; returns the client of a key. */
  follow: (...dependences: Dependence[]) => { writes: OwnWrites; as: (key: string) => Client };
}

/** A server whose stores each test opens itself. */
function stores(): Stores {
  const server = fakeApiServer();
  const clock = fakeClock();
  const controller = new AbortController();
  controllers.push(controller);
  const client = createClient(server.transport);
  const ready: string[] = [];
  return {
    server,
    clock,
    ready,
    async open(resource, options = {}) {
      const base = { client, clock, random: seededRandom(1), log: recordingLog(), signal: controller.signal };
      const store = startReflector({ ...base, ...options, resource });
      await store.whenSynced();
      await settle();
      return store;
    },
    follow(...dependences) {
      const writes = createOwnWrites({ clock, dependences, onReady: (key) => ready.push(key) });
      return { writes, as: (key) => writes.clientFor(client, key) };
    },
  };
}

const none = (): string[] => [];

/** When each store was asked to list, in ms from now. */
function lists(clock: FakeClock, asked: Readonly<Record<string, Reflector<KubeObject>>>): string[] {
  const begin = clock.monotonic();
  const times: string[] = [];
  for (const [name, store] of Object.entries(asked)) {
    vi.spyOn(store, 'relist').mockImplementation(() => void times.push(`${name} ${clock.monotonic() - begin}`));
  }
  return times;
}

/** The next write is done, but its answer is lost. */
function loseAnswer(server: FakeApiServer): void {
  const cancel = server.intercept(async (request) => {
    if (request.method === 'GET') return undefined;
    cancel();
    await server.transport(request);
    throw new Error('read ECONNRESET');
  });
}

describe('own writes', () => {
  test('a write shown before its answer came blocks no key', async () => {
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

  test('after the end no listener is called for what a store shows', async () => {
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

describe('which stores a write waits for', () => {
  test('only objects of its own group and plural', async () => {
    const { server, open, follow } = stores();
    const otherMaps: Resource<ConfigMap> = { ...ConfigMaps, group: 'other.io' };
    const dependences = [await open(ConfigMaps), await open(Nodes), await open(otherMaps)].map((store) => ({ store, keys: none }));
    const { writes, as } = follow(...dependences);
    await as('map').create(ConfigMaps, configMap('x', 'a'));
    await as('node').create(Nodes, node('n'));
    await settle();
    expect([writes.isCurrent('map'), writes.isCurrent('node')]).toEqual([true, true]);
    server.watches.stall();
    await as('map').create(ConfigMaps, configMap('x', 'b'));
    expect(writes.isCurrent('map')).toBe(false);
  });

  test('none that does not select the object', async () => {
    const { server, open, follow } = stores();
    const store = await open(ConfigMaps, { namespace: 'x' });
    const { writes, as } = follow({ store, keys: none });
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('y', 'a'));
    expect(writes.isCurrent('k')).toBe(true);
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    expect(writes.isCurrent('k')).toBe(false);
  });

  test('also one that selected it until this write', async () => {
    const { server, open, follow, ready } = stores();
    server.put(ConfigMaps, { ...configMap('x', 'a'), metadata: { namespace: 'x', name: 'a', labels: { mine: 'yes' } } });
    const store = await open(ConfigMaps, { labels: { mine: 'yes' } });
    const { writes, as } = follow({ store, keys: none });
    server.watches.stall();
    await as('k').patch(ConfigMaps, { namespace: 'x', name: 'a' }, { merge: { metadata: { labels: { mine: 'no' } } } });
    expect(writes.isCurrent('k')).toBe(false);
    server.watches.resume();
    await settle();
    expect(store.size).toBe(0);
    expect(ready).toEqual(['k']);
  });

  test('a patch without an answer waits for the store that has its object, and for no store where none has it', async () => {
    const { server, open, follow } = stores();
    server.put(ConfigMaps, configMap('x', 'known'));
    const { writes, as } = follow({ store: await open(ConfigMaps), keys: none });
    for (const [name, isCurrent] of [['unknown', true] as const, ['known', false] as const]) {
      server.put(ConfigMaps, configMap('x', name));
      server.watches.stall();
      server.remove(ConfigMaps, { namespace: 'x', name: 'unknown' });
      loseAnswer(server);
      const lost = as(name).patch(ConfigMaps, { namespace: 'x', name }, { merge: { data: { n: '1' } } });
      await expect(lost).rejects.toThrow('ECONNRESET');
      expect(writes.isCurrent(name)).toBe(isCurrent);
    }
  });

  test('a try waits for nothing, with any outcome', async () => {
    const { server, open, follow } = stores();
    server.put(ConfigMaps, configMap('x', 'a'));
    const { writes, as } = follow({ store: await open(ConfigMaps), keys: none });
    const key = { namespace: 'x', name: 'a' };
    const tries = [
      async () => await as('k').create(ConfigMaps, configMap('x', 'b'), { dryRun: true }),
      async () => await as('k').patch(ConfigMaps, key, { merge: { data: { n: '1' } } }, { dryRun: true }),
      async () => await as('k').apply(ConfigMaps, configMap('x', 'a', { n: '2' }), { fieldManager: 'm', dryRun: true }),
      async () => await as('k').delete(ConfigMaps, key, { dryRun: true }),
    ];
    server.watches.stall();
    for (const attempt of tries) {
      await attempt();
      expect(writes.isCurrent('k')).toBe(true);
      loseAnswer(server);
      await expect(attempt()).rejects.toThrow('ECONNRESET');
      expect(writes.isCurrent('k')).toBe(true);
    }
  });
});

describe('who waits for a write', () => {
  test('its writer, and each key that its store’s mapping names for the object; the mappings of other stores are not asked', async () => {
    const { server, open, follow, ready } = stores();
    const asked: string[] = [];
    const keys = (of: string) => (object: KubeObject) => {
      asked.push(of);
      return [`${of}/${object.metadata.name}`];
    };
    const maps = await open(ConfigMaps);
    const { writes, as } = follow(
      { store: maps, keys: keys('map') },
      { store: await open(Nodes), keys: keys('node') },
      { store: maps, keys: keys('second') },
    );
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    expect(['k', 'map/a', 'second/a', 'node/a', 'map/b'].map((key) => writes.isCurrent(key))).toEqual([false, false, false, true, true]);
    expect(asked).toEqual(['map', 'second']);
    server.watches.resume();
    await settle();
    expect(ready.toSorted()).toEqual(['k', 'map/a', 'second/a']);
  });

  test('where no answer came, the keys of the object that the store knows', async () => {
    const { server, open, follow } = stores();
    server.put(ConfigMaps, configMap('x', 'a'));
    const { writes, as } = follow({ store: await open(ConfigMaps), keys: ({ metadata }) => [`map/${metadata.name}`] });
    server.watches.stall();
    loseAnswer(server);
    await expect(as('k').delete(ConfigMaps, { namespace: 'x', name: 'a' })).rejects.toThrow('ECONNRESET');
    expect([writes.isCurrent('k'), writes.isCurrent('map/a')]).toEqual([false, false]);
  });
});

describe('what frees a key', () => {
  test('the event of each of its writes, though a write of unknown fate is older than all of them', async () => {
    const { server, open, follow, ready } = stores();
    const { as } = follow({ store: await open(ConfigMaps), keys: none });
    server.watches.stall();
    loseAnswer(server);
    await expect(as('lost').create(ConfigMaps, configMap('x', 'lost'))).rejects.toThrow('ECONNRESET');
    await as('first').create(ConfigMaps, configMap('x', 'a'));
    await as('second').patch(ConfigMaps, { namespace: 'x', name: 'a' }, { merge: { data: { n: '1' } } });
    server.watches.resume();
    await settle();
    expect(ready).toEqual(['first', 'second']);
  });

  test('a list, asked for of each store when its own oldest write has waited for the lag, and of no other', async () => {
    const { server, clock, open, follow } = stores();
    const [maps, nodes, idle] = [await open(ConfigMaps), await open(Nodes), await open({ ...Nodes, plural: 'idle' })];
    const { as } = follow({ store: maps, keys: none }, { store: nodes, keys: none }, { store: idle, keys: none });
    const times = lists(clock, { maps, nodes, idle });
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    await clock.advance(2000);
    await as('k').create(Nodes, node('n'));
    await clock.advance(2999);
    expect(times).toEqual([]);
    await clock.advance(1);
    expect(times).toEqual(['maps 5000']);
    await clock.advance(3000);
    expect(times).toEqual(['maps 5000', 'nodes 7000']);
  });

  test('a store that showed its writes is asked for nothing, and the store that did not is asked', async () => {
    const { server, clock, open, follow, ready } = stores();
    const [maps, nodes] = [await open(ConfigMaps), await open(Nodes)];
    const { as } = follow({ store: maps, keys: none }, { store: nodes, keys: none });
    const times = lists(clock, { maps, nodes });
    loseAnswer(server);
    await expect(as('lost').create(Nodes, node('n'))).rejects.toThrow('ECONNRESET');
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    server.watches.resume();
    await settle();
    expect(ready).toEqual(['k']);
    await clock.advance(5000);
    expect(times).toEqual(['nodes 5000']);
  });

  test('no timer waits once every write is shown, and the next write that is not gets one', async () => {
    const { server, clock, open, follow } = stores();
    const maps = await open(ConfigMaps);
    const { as } = follow({ store: maps, keys: none });
    const times = lists(clock, { maps });
    const before = clock.timers;
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'a'));
    expect(clock.timers).toBe(before + 1);
    server.watches.resume();
    await settle();
    expect(clock.timers).toBe(before);
    await clock.advance(1000);
    server.watches.stall();
    await as('k').create(ConfigMaps, configMap('x', 'b'));
    await clock.advance(5000);
    expect(times).toEqual(['maps 6000']);
  });
});
