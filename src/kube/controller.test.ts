import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { ConfigMaps, Nodes } from '../api/builtin.ts';
import type { ConfigMap, Node } from '../api/builtin.ts';
import { CodedError } from '../api/errors.ts';
import { keyOf, parseKey } from '../api/resource.ts';
import type { Stored } from '../api/wire.ts';
import { createCache } from './cache.ts';
import type { Cache } from './cache.ts';
import { sleep } from './clock.ts';
import { ofBoth, runController, watch } from './controller.ts';
import type { ControllerOptions, ReconcileContext } from './controller.ts';
import { createClient } from './httpclient.ts';
import { TerminalError } from './queue.ts';
import { fakeApiServer, statusResponse } from './testing/apiserver.ts';
import type { FakeApiServer } from './testing/apiserver.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import type { FakeClock } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { configMap, node } from './testing/objects.ts';
import { settle } from './testing/waitfor.ts';

const worlds: World[] = [];
afterEach(() => worlds.splice(0).forEach((world) => world.controller.abort(new Error('the test is over'))));

interface World {
  server: FakeApiServer;
  clock: FakeClock;
  cache: Cache;
  log: ReturnType<typeof recordingLog>;
  controller: AbortController;
  run: (options: Pick<ControllerOptions, 'watches' | 'reconcile'> & Partial<ControllerOptions>) => Promise<void>;
}

function world(): World {
  const server = fakeApiServer();
  const clock = fakeClock();
  const log = recordingLog();
  const controller = new AbortController();
  const ports = { client: createClient(server.transport), clock, random: seededRandom(3), log, signal: controller.signal };
  const made: World = {
    server,
    clock,
    log,
    controller,
    cache: createCache(ports),
    run: (options) => runController({ name: 'test', ...ports, ...options }),
  };
  worlds.push(made);
  return made;
}

const self = (object: Node | ConfigMap): string[] => [keyOf(object.metadata)];
const owner = (object: ConfigMap): string[] => (object.data?.['owner'] === undefined ? [] : [object.data['owner']]);

const pickyKeys = (object: Stored<Node>): string[] => {
  if (object.metadata.name === 'odd') throw new Error('no such field');
  return self(object);
};

describe('starting', () => {
  test('nothing is reconciled before every watched store is synced', async () => {
    const { server, cache, run, clock } = world();
    server.put(Nodes, node('a'));
    const cancel = server.intercept((request) =>
      request.path.endsWith('/configmaps') ? statusResponse(503, 'ServiceUnavailable') : undefined,
    );
    const ran: string[] = [];
    void run({
      watches: [watch(cache.store(Nodes), self), watch(cache.store(ConfigMaps), () => [])],
      reconcile: (key) => Promise.resolve(void ran.push(key)),
    });
    await clock.advance(10_000);
    expect(ran).toEqual([]);
    cancel();
    await clock.advance(30_000);
    expect(ran).toEqual(['a']);
  });

  test('every object is reconciled once at the start, after what is live', async () => {
    const { server, cache, run } = world();
    for (const name of ['a', 'b', 'c', 'd']) server.put(Nodes, node(name));
    const ran: string[] = [];
    const nodes = cache.store(Nodes);
    await nodes.whenSynced();
    void run({
      watches: [watch(nodes, self)],
      concurrency: 1,
      reconcile: async (key) => {
        ran.push(key);
        if (ran.length === 1) server.put(Nodes, node('d', { changed: 'yes' }));
        await settle();
      },
    });
    for (let i = 0; i < 8; i++) await settle();
    expect(ran).toEqual(['a', 'd', 'b', 'c']);
  });

  test('a stop before the stores are synced is a clean end', async () => {
    const { server, cache, run, controller } = world();
    server.intercept(() => statusResponse(503, 'ServiceUnavailable'));
    const done = run({ watches: [watch(cache.store(Nodes), self)], reconcile: () => Promise.resolve() });
    await settle();
    controller.abort(new Error('stop'));
    expect(await done).toBeUndefined();
  });

  test('misuse is an exception', async () => {
    const { cache, run } = world();
    await expect(run({ watches: [], reconcile: () => Promise.resolve() })).rejects.toThrow('watches nothing');
    await expect(run({ watches: [watch(cache.store(Nodes), self)], resyncMs: 0, reconcile: () => Promise.resolve() })).rejects.toThrow(
      'more than 0',
    );
  });
});

describe('reconciling', () => {
  test('adding, changing and deleting an object lead to its key, which is looked up anew', async () => {
    const { server, cache, run } = world();
    const nodes = cache.store(Nodes);
    const seen: (string | undefined)[] = [];
    void run({
      watches: [watch(nodes, self)],
      reconcile: (key) => Promise.resolve(void seen.push(nodes.get(parseKey(key))?.metadata.labels?.['x'])),
    });
    await settle();
    server.put(Nodes, node('a', { x: '1' }));
    await settle();
    server.put(Nodes, node('a', { x: '2' }));
    await settle();
    server.remove(Nodes, { name: 'a' });
    await settle();
    expect(seen).toEqual(['1', '2', undefined]);
  });

  test('an object that changes its owner leads to both, wrapped in ofBoth', async () => {
    const { server, cache, run } = world();
    server.put(ConfigMaps, configMap('x', 'a', { owner: 'old' }));
    const ran: string[] = [];
    void run({ watches: [watch(cache.store(ConfigMaps), ofBoth(owner))], reconcile: (key) => Promise.resolve(void ran.push(key)) });
    await settle();
    server.put(ConfigMaps, configMap('x', 'a', { owner: 'new' }));
    await settle();
    expect(ran).toEqual(['old', 'new', 'old']);
  });

  test('a failure is logged with its id and retried; a mistake of ours is logged with its place', async () => {
    const { server, cache, run, log, clock } = world();
    server.put(Nodes, node('a'));
    const ids: string[] = [];
    void run({
      watches: [watch(cache.store(Nodes), self)],
      reconcile: (_key, context) => {
        ids.push(context.reconcileID);
        if (context.failures === 0) return Promise.reject(new TypeError('x is undefined'));
        context.log.info({ step: 1 }, 'well');
        return Promise.resolve();
      },
    });
    await clock.advance(1000);
    expect(ids).toHaveLength(2);
    expect(ids[0]).toMatch(/^[0-9a-f]{8}$/);
    expect(ids[0]).not.toBe(ids[1]);
    expect(log.lines[0]).toMatchObject({
      level: 'error',
      fields: {
        controller: 'test',
        key: 'a',
        reconcileID: ids[0],
        failures: 1,
        error: 'x is undefined',
        stack: expect.stringContaining('controller.test.ts') as string,
      },
    });
    expect(log.lines[1]).toEqual({
      level: 'info',
      fields: { controller: 'test', key: 'a', reconcileID: ids[1], step: 1 },
      message: 'well',
    });
  });

  test('a failure that is known is warned of, and retried in the time that the backoff gives it', async () => {
    const { server, cache, run, log, clock } = world();
    server.put(Nodes, node('a'));
    let runs = 0;
    void run({
      watches: [watch(cache.store(Nodes), self)],
      backoff: { baseMs: 60_000, maxMs: 60_000 },
      reconcile: () => {
        runs += 1;
        return Promise.reject(new CodedError('Unreachable', 'it is away'));
      },
    });
    await clock.advance(20_000);
    expect(runs).toBe(1);
    expect(log.lines.map(({ level, message, fields }) => [level, message, fields['error']])).toEqual([
      ['warn', 'failed; is retried', 'it is away'],
    ]);
    await clock.advance(60_000);
    expect(runs).toBe(2);
  });

  test('a TerminalError waits for a change of the object', async () => {
    const { server, cache, run, clock } = world();
    server.put(Nodes, node('a'));
    let runs = 0;
    void run({
      watches: [watch(cache.store(Nodes), self)],
      resyncMs: 60_000,
      reconcile: () => {
        runs++;
        return Promise.reject(new TerminalError('wrong'));
      },
    });
    await clock.advance(600_000);
    expect(runs).toBe(1);
    server.put(Nodes, node('a', { x: '1' }));
    await settle();
    expect(runs).toBe(2);
  });

  test('a key function that throws on one object is logged, and the others go on', async () => {
    const { server, cache, run, log } = world();
    server.put(Nodes, node('odd'));
    server.put(Nodes, node('fine'));
    const ran: string[] = [];
    void run({ watches: [watch(cache.store(Nodes), pickyKeys)], reconcile: (key) => Promise.resolve(void ran.push(key)) });
    await settle();
    expect(ran).toEqual(['fine']);
    expect(log.lines[0]).toMatchObject({ level: 'error', fields: { name: 'odd', error: 'no such field' } });
  });

  test('each key is reconciled about once a resync period, spread over it', async () => {
    const { server, cache, run, clock } = world();
    for (let i = 0; i < 20; i++) server.put(Nodes, node(`n${i}`));
    const times: number[] = [];
    void run({
      watches: [watch(cache.store(Nodes), self)],
      resyncMs: 60_000,
      reconcile: () => Promise.resolve(void times.push(clock.monotonic())),
    });
    await clock.advance(1000);
    expect(times).toHaveLength(20);
    await clock.advance(119_000);
    expect(times).toHaveLength(40);
    expect(new Set(times.slice(20)).size).toBeGreaterThan(15);
  });

  test('the end waits for what runs, and its abort is no failure', async () => {
    const { server, cache, run, clock, controller, log } = world();
    server.put(Nodes, node('a'));
    const outcomes: string[] = [];
    const done = run({
      watches: [watch(cache.store(Nodes), self)],
      reconcile: (_key, context) => sleep(clock, 60_000, context.signal),
      onReconciled: ({ key, outcome }) => outcomes.push(`${key} ${outcome}`),
    });
    await settle();
    controller.abort(new Error('stop'));
    await done;
    expect(outcomes).toEqual(['a failed']);
    expect(log.lines.map((line) => line.level)).toEqual(['debug']);
    await cache.done();
    expect(clock.timers).toBe(0);
  });

  test('what happens outside the stores can trigger a key, also at once, and is let go in the end', async () => {
    const { cache, run, controller } = world();
    const ran: string[] = [];
    let add: ((key: string) => void) | undefined;
    const done = run({
      watches: [watch(cache.store(Nodes), self)],
      triggers: [
        (trigger) => {
          trigger('at once');
          add = trigger;
          return () => (add = undefined);
        },
      ],
      reconcile: (key) => Promise.resolve(void ran.push(key)),
    });
    await settle();
    add?.('later');
    await settle();
    expect(ran).toEqual(['at once', 'later']);
    controller.abort(new Error('stop'));
    await done;
    expect(add).toBeUndefined();
  });

  test('outcomes are told', async () => {
    const { server, cache, run, clock } = world();
    for (const name of ['done', 'later', 'bad']) server.put(Nodes, node(name));
    const outcomes: string[] = [];
    void run({
      watches: [watch(cache.store(Nodes), self)],
      reconcile: async (key) => {
        await sleep(clock, 5);
        if (key === 'bad') throw new TerminalError('bad');
        return key === 'later' ? { requeueAfterMs: 1e6 } : undefined;
      },
      onReconciled: ({ key, outcome, durationMs }) => outcomes.push(`${key} ${outcome} ${durationMs}`),
    });
    await clock.advance(100);
    expect(outcomes.sort()).toEqual(['bad terminal 5', 'done done 5', 'later requeued 5']);
  });
});

/** Makes one ConfigMap a node, named by the server: run twice on a stale store it would make two. */
function makesOne(made: World): (key: string, context: ReconcileContext) => Promise<void> {
  const maps = made.cache.store(ConfigMaps);
  return async (key, { client }) => {
    if (maps.list().some((map) => map.data?.['owner'] === key)) return;
    const metadata = { namespace: 'x', name: undefined as unknown as string, generateName: `${key}-` };
    await client.create(ConfigMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { owner: key } });
  };
}

const start = (made: World, options: Partial<ControllerOptions> = {}): void => {
  const { cache } = made;
  void made.run({
    watches: [watch(cache.store(Nodes), self), watch(cache.store(ConfigMaps), owner)],
    reconcile: makesOne(made),
    ...options,
  });
};

describe('reading one’s own writes', () => {
  test('a key does not run again before the store shows what it wrote', async () => {
    const made = world();
    const { server, clock } = made;
    start(made);
    await settle();
    server.watches.stall();
    server.put(Nodes, node('a'));
    made.cache.store(Nodes).relist();
    await settle();
    expect(server.objects(ConfigMaps)).toHaveLength(1);
    for (let i = 0; i < 5; i++) {
      server.put(Nodes, node('a', { x: `${i}` }));
      await clock.advance(100);
    }
    expect(server.objects(ConfigMaps)).toHaveLength(1);
    server.watches.resume();
    await clock.advance(10_000);
    expect(server.objects(ConfigMaps)).toHaveLength(1);
  });

  test('a key that was held runs once its write is shown, though nothing else happens', async () => {
    const made = world();
    const { server, cache, clock } = made;
    let runs = 0;
    const reconcile = makesOne(made);
    start(made, {
      reconcile: async (key, context) => {
        runs++;
        await reconcile(key, context);
        return { requeueAfterMs: 50 };
      },
    });
    cache.store(Nodes);
    await settle();
    server.watches.stall();
    server.put(Nodes, node('a'));
    cache.store(Nodes).relist();
    await clock.advance(1000);
    expect(runs).toBe(1);
    server.watches.resume();
    await settle();
    expect(runs).toBe(2);
  });

  test('a store that lags too long is told to list, and the key is freed by that', async () => {
    const made = world();
    const { server, cache, clock } = made;
    start(made, { lagMs: 5000 });
    await settle();
    server.watches.stall();
    server.put(Nodes, node('a'));
    cache.store(Nodes).relist();
    await settle();
    const listsBefore = server.requests.length;
    await clock.advance(4900);
    expect(server.requests).toHaveLength(listsBefore);
    await clock.advance(200);
    expect(server.requests.length).toBeGreaterThan(listsBefore);
    expect(cache.store(ConfigMaps).size).toBe(1);
    expect(clock.timers).toBeLessThanOrEqual(2);
  });

  test('a create whose answer was lost is not repeated', async () => {
    const made = world();
    const { server, clock } = made;
    start(made);
    await settle();
    const cancel = server.intercept(async (request) => {
      if (request.method !== 'POST') return undefined;
      cancel();
      server.watches.stall();
      await server.transport({ ...request });
      throw new Error('read ECONNRESET');
    });
    server.put(Nodes, node('a'));
    await clock.advance(60_000);
    expect(server.requests.filter((request) => request.method === 'POST')).toHaveLength(2);
    expect(server.objects(ConfigMaps)).toHaveLength(1);
  });

  test.each([
    [500, 2],
    [409, 1],
  ])('an answer %s to a write leads to %s lists of the store: only what may have been done is looked for', async (status, lists) => {
    const made = world();
    const { server, clock } = made;
    start(made);
    await settle();
    const cancel = server.intercept((request) => {
      if (request.method !== 'POST') return undefined;
      cancel();
      return statusResponse(status, 'Whatever');
    });
    server.put(Nodes, node('a'));
    await clock.advance(60_000);
    const listed = server.requests.filter(
      (request) => request.path.endsWith('/configmaps') && request.method === 'GET' && request.query?.['watch'] === undefined,
    );
    expect(listed).toHaveLength(lists);
    expect(server.objects(ConfigMaps)).toHaveLength(1);
  });

  test('other keys that depend on the object written wait too', async () => {
    const made = world();
    const { server, cache, clock } = made;
    const maps = cache.store(ConfigMaps);
    const seen: string[] = [];
    void made.run({
      watches: [watch(cache.store(Nodes), self), watch(maps, owner)],
      reconcile: async (key, { client }) => {
        seen.push(`${key} ${maps.size}`);
        if (key === 'writer' && maps.size === 0) await client.create(ConfigMaps, configMap('x', 'm', { owner: 'other' }));
      },
    });
    await settle();
    server.watches.stall();
    server.put(Nodes, node('writer'));
    cache.store(Nodes).relist();
    await settle();
    server.put(Nodes, node('other'));
    server.put(Nodes, node('third'));
    cache.store(Nodes).relist();
    await clock.advance(10);
    expect(seen).toEqual(['writer 0', 'third 0']);
    cache.store(ConfigMaps).relist();
    await settle();
    expect(seen).toEqual(['writer 0', 'third 0', 'other 1']);
  });

  test('a deletion is waited for until the store shows it gone or going', async () => {
    const made = world();
    const { server, cache, clock } = made;
    server.put(ConfigMaps, configMap('x', 'm', { owner: 'a' }));
    const maps = cache.store(ConfigMaps);
    let deletions = 0;
    void made.run({
      watches: [watch(maps, owner), watch(cache.store(Nodes), self)],
      reconcile: async (_key, { client }) => {
        for (const map of maps.list()) {
          deletions++;
          await client.delete(ConfigMaps, map.metadata, { uid: map.metadata.uid });
          server.watches.stall();
        }
        return { requeueAfterMs: 10 };
      },
    });
    await clock.advance(0);
    await clock.advance(1000);
    expect(deletions).toBe(1);
    await clock.advance(10_000);
    expect(maps.size).toBe(0);
    expect(deletions).toBe(1);
  });

  test('what the watched stores do not hold is not waited for', async () => {
    const made = world();
    const { server, cache, clock } = made;
    const runs: string[] = [];
    void made.run({
      watches: [watch(cache.store(Nodes), self), watch(cache.store(ConfigMaps, { namespace: 'here' }), () => [])],
      reconcile: async (key, { client }) => {
        runs.push(key);
        if (runs.length === 1) await client.create(ConfigMaps, configMap('elsewhere', 'm'));
      },
    });
    await settle();
    server.put(Nodes, node('a'));
    await settle();
    server.put(Nodes, node('a', { x: '1' }));
    await settle();
    expect(runs).toEqual(['a', 'a']);
    expect(clock.timers).toBeLessThanOrEqual(2);
  });

  test('a write that changes nothing, and a dry run, hold nothing', async () => {
    const made = world();
    const { server, cache } = made;
    server.put(ConfigMaps, configMap('x', 'm', { owner: 'a' }));
    let runs = 0;
    void made.run({
      watches: [watch(cache.store(ConfigMaps), owner), watch(cache.store(Nodes), () => ['a'])],
      reconcile: async (_key, { client }) => {
        runs++;
        await client.patch(ConfigMaps, { namespace: 'x', name: 'm' }, { merge: { data: { owner: 'a' } } });
        await client.create(ConfigMaps, configMap('x', 'new'), { dryRun: true }).catch(() => undefined);
      },
    });
    server.intercept((request) => (request.query?.['dryRun'] === undefined ? undefined : statusResponse(500, 'InternalError')));
    await settle();
    server.put(Nodes, node('n'));
    await settle();
    expect(runs).toBe(2);
  });

  test('thousands of writes behind a stalled store cost little when it catches up', async () => {
    const made = world();
    const { server, cache, clock } = made;
    for (let i = 0; i < 2000; i++) server.put(Nodes, node(`n${i}`));
    const maps = cache.store(ConfigMaps);
    await cache.store(Nodes).whenSynced();
    await maps.whenSynced();
    let second = 0;
    server.watches.stall();
    void made.run({
      watches: [watch(cache.store(Nodes), self), watch(maps, owner)],
      lagMs: 1e9,
      concurrency: 64,
      reconcile: async (key, { client }) => {
        if (maps.get({ namespace: 'x', name: key }) === undefined) await client.create(ConfigMaps, configMap('x', key, { owner: key }));
        else second++;
      },
    });
    await clock.advance(1000);
    expect(server.objects(ConfigMaps)).toHaveLength(2000);
    const begun = performance.now();
    server.watches.resume();
    await clock.advance(1000);
    expect(second).toBe(2000);
    expect(performance.now() - begun).toBeLessThan(4000);
  });
});

describe('under any faults', () => {
  test('every node gets its one object, named by the server, and never a second one', async () => {
    const name = fc.constantFrom('a', 'b', 'c');
    const act = fc.oneof(
      { weight: 3, arbitrary: fc.record({ do: fc.constant('touch' as const), name, x: fc.nat(9) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), name }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('reset', 'end', 'compact', 'stall', 'resume', 'bookmark', 'garbage') }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(1, 100, 1000, 6000) }) },
    );
    const write = fc.constantFrom('well', 'refused', 'not sent', 'answer lost', '500 but done', '500', 'slow answer', '429');
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 20 }), fc.array(write, { maxLength: 12 }), async (acts, writes) => {
        const made = world();
        const { server, cache, clock } = made;
        const most = new Map<string, number>();
        server.intercept(async (request) => {
          if (request.method !== 'POST') return undefined;
          const fate = writes.shift();
          const done = async (): Promise<void> => void (await server.transport({ ...request }));
          if (fate === 'refused') return statusResponse(403, 'Forbidden');
          if (fate === '500') return statusResponse(500, 'InternalError');
          if (fate === '429') return statusResponse(429, 'TooManyRequests', 'slow down', { 'retry-after': '1' });
          if (fate === 'not sent') throw new Error('ECONNREFUSED');
          if (fate === 'slow answer') {
            await sleep(clock, 300);
            return undefined;
          }
          if (fate !== 'answer lost' && fate !== '500 but done') return undefined;
          writes.unshift('well');
          await done();
          if (fate === 'answer lost') throw new Error('ECONNRESET');
          return statusResponse(500, 'InternalError');
        });
        const maps = cache.store(ConfigMaps);
        const nodes = cache.store(Nodes);
        const done = made.run({
          watches: [watch(nodes, self), watch(maps, owner)],
          resyncMs: 3000,
          backoff: { baseMs: 50, maxMs: 1000 },
          reconcile: async (key, { client }) => {
            const own = maps.list().filter((map) => map.data?.['owner'] === key);
            if (nodes.get({ name: key }) === undefined || own.length > 0) return;
            const metadata = { namespace: 'x', name: undefined as unknown as string, generateName: `${key}-` };
            await client.create(ConfigMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { owner: key } });
          },
        });
        const count = (): void => {
          const now = new Map<string, number>();
          for (const map of server.objects(ConfigMaps)) now.set(map.data?.['owner'] ?? '', (now.get(map.data?.['owner'] ?? '') ?? 0) + 1);
          for (const [key, found] of now) most.set(key, Math.max(found, most.get(key) ?? 0));
        };
        for (const taken of acts) {
          if (taken.do === 'touch') server.put(Nodes, node(taken.name, { x: `${taken.x}` }));
          else if (taken.do === 'delete') server.remove(Nodes, { name: taken.name });
          else if (taken.do === 'wait') await clock.advance(taken.ms);
          else if (taken.do === 'reset') server.watches.reset();
          else if (taken.do === 'end') server.watches.end();
          else if (taken.do === 'compact') server.compact();
          else if (taken.do === 'stall') server.watches.stall();
          else if (taken.do === 'resume') server.watches.resume();
          else if (taken.do === 'bookmark') server.bookmark();
          else server.watches.inject('{"type":');
          count();
        }
        server.watches.resume();
        await clock.advance(700_000);
        count();
        expect([...most.values()].filter((found) => found > 1)).toEqual([]);
        for (const { metadata } of server.objects(Nodes)) expect(most.get(metadata.name)).toBe(1);
        made.controller.abort(new Error('done'));
        await done;
        await cache.done();
        expect(clock.timers).toBe(0);
      }),
      { numRuns: 60, endOnFailure: true },
    );
  }, 60_000);
});
