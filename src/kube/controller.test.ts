import { describe, expect, test } from 'vitest';
import { ConfigMaps, Nodes } from '../api/builtin.ts';
import type { Node } from '../api/builtin.ts';
import { CodedError } from '../api/errors.ts';
import { parseKey } from '../api/resource.ts';
import type { Stored } from '../api/wire.ts';
import { ApiError } from './api-error.ts';
import { createCache } from './cache.ts';
import { sleep } from './clock.ts';
import { createController, ofBoth, watch } from './controller.ts';
import { createClient } from './http-client.ts';
import { createMetrics } from './metrics.ts';
import { TerminalError } from './queue.ts';
import { startReflector } from './reflector.ts';
import { fakeApiServer, statusResponse } from './testing/api-server.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import { owner, self, world } from './testing/controller-world.ts';
import { recordingLog } from './testing/log.ts';
import { configMap, node } from './testing/objects.ts';
import { settle } from './testing/wait-for.ts';

const pickyKeys = (object: Stored<Node>): string[] => {
  if (object.metadata.name === 'odd') throw new Error('no such field');
  return self(object);
};

describe('starting', () => {
  test('no key is reconciled before every watched store is synced', async () => {
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

  test('one store of several that has stopped is a clean end, too', async () => {
    const { server, cache, clock, run } = world();
    server.intercept(() => statusResponse(503, 'ServiceUnavailable'));
    const ended = new AbortController();
    const ports = { client: createClient(server.transport), clock, random: () => 0.5, log: recordingLog() };
    const stopped = startReflector({ ...ports, resource: ConfigMaps, signal: ended.signal });
    const done = run({ watches: [watch(cache.store(Nodes), self), watch(stopped, owner)], reconcile: () => Promise.resolve() });
    await settle();
    ended.abort(new Error('not wanted any more'));
    await expect(done).resolves.toBeUndefined();
  });

  test('a store that fails otherwise is no clean end', async () => {
    const { cache, run } = world();
    const store = cache.store(Nodes);
    const broken = { ...store, whenSynced: () => Promise.reject(new Error('odd')) };
    await expect(run({ watches: [watch(broken, self)], reconcile: () => Promise.resolve() })).rejects.toThrow('odd');
  });

  test('a controller that has ended leaves no timer and no listener', async () => {
    const { server, cache, clock, run } = world();
    const store = cache.store(Nodes);
    server.put(Nodes, node('a'));
    await settle();
    const before = clock.timers;
    const ended = new AbortController();
    const asked: string[] = [];
    const keys = (object: Node): string[] => {
      asked.push(object.metadata.name);
      return self(object);
    };
    const done = run({ watches: [watch(store, keys)], resyncMs: 1, signal: ended.signal, reconcile: () => Promise.resolve() });
    await clock.advance(10);
    expect(clock.timers).toBeGreaterThan(before);
    ended.abort(new Error('over'));
    await done;
    expect(clock.timers).toBe(before);
    asked.length = 0;
    server.put(Nodes, node('b'));
    await clock.advance(10);
    expect([store.size, asked]).toEqual([2, []]);
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
  test('adding, changing and deleting an object lead to its key, which is read again', async () => {
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

  test('a failure is logged with its id and retried; a defect of ours is logged with its stack', async () => {
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

  test('each key has its turn once in each period, and the turns of all take the whole of it', async () => {
    const { server, cache, run, clock } = world();
    for (let i = 0; i < 120; i++) server.put(Nodes, node(`n${i}`));
    const runs: { key: string; at: number }[] = [];
    const begin = clock.monotonic();
    void run({
      watches: [watch(cache.store(Nodes), self)],
      resyncMs: 60_000,
      reconcile: (key) => Promise.resolve(void runs.push({ key, at: clock.monotonic() - begin })),
    });
    await clock.advance(59_999);
    expect(runs.splice(0)).toHaveLength(120);
    for (const from of [60_000, 120_000, 180_000]) {
      await clock.advance(from + 59_999 - (clock.monotonic() - begin));
      const turns = runs.splice(0);
      expect(new Set(turns.map(({ key }) => key)).size).toBe(120);
      expect(turns).toHaveLength(120);
      const inThirds = [0, 20_000, 40_000].map(
        (third) => turns.filter(({ at }) => at - from >= third && at - from < third + 20_000).length,
      );
      expect(Math.min(...inThirds)).toBeGreaterThanOrEqual(36);
    }
  });

  test('an object that a store reports about itself leads to no key, and is no failure', async () => {
    const { server, cache, run, clock, log } = world();
    const store = cache.store(Nodes);
    server.put(Nodes, node('a'));
    const runs: string[] = [];
    void run({ watches: [watch(store, self)], reconcile: (key) => Promise.resolve(void runs.push(key)) });
    await settle();
    server.bookmark();
    store.relist();
    await clock.advance(100);
    expect([runs, log.lines]).toEqual([['a'], []]);
  });

  test.each([
    [new TerminalError('the spec is wrong'), { level: 'error', message: 'failed; is not tried again before a change' }],
    [new ApiError(409, { reason: 'Conflict', message: 'changed' }), { level: 'debug', message: 'failed; is retried' }],
    [new CodedError('Odd', 'known'), { level: 'warn', message: 'failed; is retried' }],
    [new Error('not known'), { level: 'error', message: 'failed; is retried' }],
  ])('%s is logged once, as what it is', async (thrown, expected) => {
    const { server, cache, run, log } = world();
    server.put(Nodes, node('a'));
    void run({ watches: [watch(cache.store(Nodes), self)], reconcile: () => Promise.reject(thrown) });
    await settle();
    expect(log.lines).toMatchObject([expected]);
  });

  test('a store may lag behind an own write for as long as the controller lets it', async () => {
    const { server, cache, run, clock } = world();
    const maps = cache.store(ConfigMaps);
    server.put(Nodes, node('a'));
    void run({
      watches: [watch(cache.store(Nodes), self), watch(maps, owner)],
      lagMs: 1000,
      reconcile: async (_key, { client }) => {
        if (maps.size === 0) await client.create(ConfigMaps, configMap('x', 'm', { owner: 'a' }));
      },
    });
    server.intercept((request) => {
      if (request.method === 'POST') server.watches.stall();
      return undefined;
    });
    await settle();
    await clock.advance(999);
    expect(maps.size).toBe(0);
    await clock.advance(1);
    expect(maps.size).toBe(1);
  });

  test('a key that many objects lead to is reconciled once a resync period, too', async () => {
    const { server, cache, run, clock } = world();
    for (let index = 0; index < 100; index++) server.put(Nodes, node(`node-${index}`));
    const times: number[] = [];
    void run({
      watches: [watch(cache.store(Nodes), () => ['all']), watch(cache.store(Nodes), () => ['all'])],
      resyncMs: 60_000,
      reconcile: () => Promise.resolve(void times.push(clock.monotonic())),
    });
    await clock.advance(1000);
    times.length = 0;
    await clock.advance(599_000);
    expect(times.length).toBeGreaterThanOrEqual(9);
    expect(times.length).toBeLessThanOrEqual(10);
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

  test('what is enqueued before the stores are synced runs once they are, and what comes later at once', async () => {
    const { server, cache, clock, create, controller } = world();
    const ran: string[] = [];
    let failing = true;
    server.intercept(() => (failing ? statusResponse(503, 'ServiceUnavailable') : undefined));
    const enqueuing = create({
      watches: [watch(cache.store(Nodes), self)],
      reconcile: (key) => Promise.resolve(void ran.push(key)),
    });
    enqueuing.enqueue('before the run');
    const done = enqueuing.run();
    enqueuing.enqueue('before the lists');
    await settle();
    expect(ran).toEqual([]);
    failing = false;
    await clock.advance(5000);
    expect(ran).toEqual(['before the run', 'before the lists']);
    enqueuing.enqueue('later');
    await settle();
    expect(ran.at(-1)).toBe('later');
    controller.abort(new Error('stop'));
    await done;
    enqueuing.enqueue('after the end');
    await settle();
    expect(ran).not.toContain('after the end');
  });

  test('outcomes are reported', async () => {
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

test('runs and stores are counted, and a controller that has ended shows no queue', async () => {
  const server = fakeApiServer();
  const clock = fakeClock();
  const metrics = createMetrics();
  const stopped = new AbortController();
  const ports = { client: createClient(server.transport), clock, random: seededRandom(1), log: recordingLog(), signal: stopped.signal };
  const [counted, uncounted] = [createCache({ ...ports, metrics }), createCache(ports)];
  const shown = (name: string): string[] =>
    metrics
      .text()
      .split('\n')
      .filter((line) => line.startsWith(name))
      .map((line) => line.slice(name.length));
  for (const name of ['a', 'b', 'bad']) server.put(Nodes, node(name));
  let failing = true;
  server.intercept((request) =>
    failing && request.query?.['watch'] === undefined ? statusResponse(503, 'ServiceUnavailable') : undefined,
  );
  const done = createController({
    ...ports,
    name: 'things',
    watches: [watch(uncounted.store(ConfigMaps), () => []), watch(counted.store(Nodes), self)],
    reconcile: async (key) => {
      await sleep(clock, 10);
      if (key === 'bad') throw new TerminalError('no');
      return key === 'b' ? { requeueAfterMs: 60_000 } : undefined;
    },
  }).run();
  expect(shown('kubenode_store_failures_total')).toEqual(['{resource="nodes"} 0']);
  // Nothing was listed: its age is not known.
  expect(shown('kubenode_store_stale_seconds')).toEqual([]);
  await settle();
  failing = false;
  await clock.advance(5000);
  expect(shown('kubenode_reconcile_total')).toEqual([
    '{controller="things",result="done"} 1',
    '{controller="things",result="requeued"} 1',
    '{controller="things",result="failed"} 0',
    '{controller="things",result="terminal"} 1',
  ]);
  expect(shown('kubenode_reconcile_seconds_bucket{controller="things",le="0.02"')).toEqual(['} 3']);
  expect(shown('kubenode_reconcile_seconds_bucket{controller="things",le="0.005"')).toEqual(['} 0']);
  expect(shown('kubenode_workqueue_keys')).toContain('{controller="things",state="delayed"} 1');
  expect(shown('kubenode_store_')).toEqual([
    'failures_total{resource="nodes"} 1',
    'lists_total{resource="nodes"} 1',
    'objects{resource="nodes"} 3',
    expect.stringMatching(/^stale_seconds\{resource="nodes"\} [0-4]\.[0-9]+$/),
  ]);
  stopped.abort(new Error('stop'));
  await Promise.all([done, counted.done(), uncounted.done()]);
  expect([...shown('kubenode_workqueue_keys'), ...shown('kubenode_store_objects')]).toEqual([]);
});
