import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ConfigMaps, Nodes } from '../api/builtin.ts';
import { sleep } from './clock.ts';
import { watch } from './controller.ts';
import type { ControllerOptions, ReconcileContext } from './controller.ts';
import { statusResponse } from './testing/api-server.ts';
import { owner, self, world } from './testing/controller-world.ts';
import type { World } from './testing/controller-world.ts';
import { DISTURBANCES, disturb } from './testing/disturb.ts';
import { configMap, node } from './testing/objects.ts';
import { settle } from './testing/wait-for.ts';

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

  test('a key that was blocked runs once its write is shown, though nothing else happens', async () => {
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

  test('a store that lags too long lists again, and the key is freed by that', async () => {
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
  ])(
    'an answer %s to a write leads to %s lists of the store: only a write that may have been done is searched for',
    async (status, lists) => {
      const made = world();
      const { server, clock } = made;
      start(made);
      await settle();
      const cancel = server.intercept((request) => {
        if (request.method !== 'POST') return undefined;
        cancel();
        return statusResponse(status, 'AnyReason');
      });
      server.put(Nodes, node('a'));
      await clock.advance(60_000);
      const listed = server.requests.filter(
        (request) => request.path.endsWith('/configmaps') && request.method === 'GET' && request.query?.['watch'] === undefined,
      );
      expect(listed).toHaveLength(lists);
      expect(server.objects(ConfigMaps)).toHaveLength(1);
    },
  );

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

  test('no key waits for what the watched stores do not have', async () => {
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

  test('a write that changes nothing, and a dry run, block no key', async () => {
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
      { weight: 4, arbitrary: fc.record({ do: fc.constantFrom(...DISTURBANCES) }) },
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
          else disturb(server, taken.do);
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
