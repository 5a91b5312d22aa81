import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { ConfigMaps, Nodes } from '../api/builtin.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject } from '../api/wire.ts';
import { createClient } from './http-client.ts';
import { createRoom, startReflector } from './reflector.ts';
import type { Reflector, StoreEvent, StoreOptions } from './reflector.ts';
import { fakeApiServer, jsonResponse, statusResponse } from './testing/api-server.ts';
import type { FakeApiServer } from './testing/api-server.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import type { FakeClock } from './testing/clock.ts';
import { DISTURBANCES, disturb } from './testing/disturb.ts';
import { recordingLog } from './testing/log.ts';
import { configMap, node } from './testing/objects.ts';
import { createPipe } from './testing/pipe.ts';
import { rejection } from './testing/rejection.ts';
import { settle } from './testing/wait-for.ts';

const controllers: AbortController[] = [];
afterEach(() => controllers.splice(0).forEach((controller) => controller.abort(new Error('the test is over'))));

interface World<T extends KubeObject> {
  server: FakeApiServer;
  clock: FakeClock;
  reflector: Reflector<T>;
  events: string[];
  log: ReturnType<typeof recordingLog>;
  controller: AbortController;
}

function start<T extends KubeObject>(resource: Resource<T>, server: FakeApiServer, options: StoreOptions<T> = {}): World<T> {
  const clock = fakeClock();
  const log = recordingLog();
  const controller = new AbortController();
  controllers.push(controller);
  const reflector = startReflector({
    client: createClient(server.transport),
    resource,
    clock,
    random: seededRandom(1),
    log,
    signal: controller.signal,
    ...options,
  });
  const events: string[] = [];
  reflector.subscribe((event) => events.push(describeEvent(event)));
  return { server, clock, reflector, events, log, controller };
}

function describeEvent(event: StoreEvent<KubeObject>): string {
  if (event.type === 'listed' || event.type === 'bookmark') return event.type;
  return `${event.type} ${event.object.metadata.name}`;
}

function lists(server: FakeApiServer): number {
  return server.requests.filter(
    ({ query }) => query?.['watch'] === undefined && query?.['continue'] === undefined && query?.['limit'] !== '1',
  ).length;
}

/** Every request so far: a page, one object to compare with, or a watch. */
const kinds = (server: FakeApiServer): string[] =>
  server.requests.map(({ query }) => (query?.['watch'] !== undefined ? 'watch' : query?.['limit'] === '1' ? 'ask' : 'list'));

/** Once: the next request that fits is answered so. */
function once(server: FakeApiServer, which: 'list' | 'page' | 'watch', answer: () => ReturnType<typeof statusResponse>): void {
  const cancel = server.intercept((request) => {
    const kind = request.query?.['watch'] !== undefined ? 'watch' : request.query?.['continue'] === undefined ? 'list' : 'page';
    if (kind !== which) return undefined;
    cancel();
    return answer();
  });
}

const names = (reflector: Reflector<KubeObject>): string[] =>
  reflector
    .list()
    .map((object) => object.metadata.name)
    .sort();

const map = (namespace: string, name: string, labels: Record<string, string>): KubeObject => ({
  ...configMap(namespace, name),
  metadata: { namespace, name, labels },
});

const entry = (manager: string): object => ({ manager, operation: 'Apply', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: {} });

describe('listing and watching', () => {
  test('the store is empty and unsynced until the first list is complete', async () => {
    const server = fakeApiServer();
    for (let i = 0; i < 1100; i++) server.put(Nodes, node(`n${i}`));
    const world = start(Nodes, server);
    expect(world.reflector).toMatchObject({ synced: false, size: 0, resourceVersion: undefined });
    expect(world.reflector.ageMs()).toBe(Infinity);
    const release: (() => void)[] = [];
    server.intercept(async (request) => {
      if (request.query?.['continue'] !== undefined) await new Promise<void>((resolve) => release.push(resolve));
      return undefined;
    });
    await settle();
    expect(world.reflector.state).toEqual({ phase: 'listing', items: 500 });
    expect(world.reflector).toMatchObject({ synced: false, size: 0 });
    release.pop()?.();
    await settle();
    release.pop()?.();
    await world.reflector.whenSynced();
    expect(world.reflector).toMatchObject({ synced: true, size: 1100 });
    expect(server.requests[0]?.query).toEqual({ limit: '500' });
  });

  test('changes arrive as events, after the store shows them', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    const world = start(Nodes, server);
    const seen: (string | undefined)[] = [];
    world.reflector.subscribe((event) => {
      if (event.type === 'updated') seen.push(event.old.metadata.labels?.['x'], world.reflector.get({ name: 'a' })?.metadata.labels?.['x']);
    });
    await settle();
    server.put(Nodes, node('a', { x: '1' }));
    server.put(Nodes, node('b'));
    server.remove(Nodes, { name: 'a' });
    await settle();
    expect(world.events).toEqual(['added a', 'listed', 'updated a', 'added b', 'deleted a']);
    expect(seen).toEqual([undefined, '1']);
    expect(world.reflector.state).toEqual({ phase: 'watching', resourceVersion: '104' });
  });

  test('only the first list is initial', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    const world = start(Nodes, server);
    const initial: boolean[] = [];
    world.reflector.subscribe((event) => event.type === 'added' && initial.push(event.initial));
    await settle();
    server.compact();
    server.put(Nodes, node('b'));
    world.reflector.relist();
    await settle();
    expect(initial).toEqual([true, false]);
  });

  test('one namespace, labels and fields are asked of the server, and covers() answers what belongs', async () => {
    const server = fakeApiServer();
    const world = start(ConfigMaps, server, { namespace: 'web', labels: { app: 'x' }, fieldSelector: 'metadata.name=a' });
    await settle();
    expect(server.requests[0]).toMatchObject({
      path: '/api/v1/namespaces/web/configmaps',
      query: { labelSelector: 'app=x', fieldSelector: 'metadata.name=a' },
    });
    expect(world.reflector.covers(map('web', 'a', { app: 'x', more: 'y' }))).toBe(true);
    expect(world.reflector.covers(map('other', 'a', { app: 'x' }))).toBe(false);
    expect(world.reflector.covers(map('web', 'b', { app: 'x' }))).toBe(false);
    expect(world.reflector.covers(map('web', 'a', {}))).toBe(false);
    const pods = start(Nodes, server, { fieldSelector: 'spec.unschedulable=true' });
    expect(pods.reflector.covers(node('a'))).toBeUndefined();
  });

  test('an empty label selector is refused: the server would take it for everything', () => {
    expect(() => start(Nodes, fakeApiServer(), { labels: {} })).toThrow('would select every object');
  });

  test('managedFields are dropped on ingest, except the requested ones, and a projection keeps what is needed', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a', { x: '1' }));
    server.intercept((request) => {
      if (request.query?.['watch'] !== undefined) return undefined;
      const items = server
        .objects(Nodes)
        .map((item) => ({ ...item, metadata: { ...item.metadata, managedFields: [entry('kubenode-set'), entry('kubectl')] } }));
      return jsonResponse(200, { metadata: { resourceVersion: '101' }, items });
    });
    const plain = start(Nodes, server);
    const keeping = start(Nodes, server, { keepManagers: ['kubenode-set'] });
    const keepingAll = start(Nodes, server, { keepManagers: 'all' });
    const projecting = start(Nodes, server, {
      project: ({ apiVersion, kind, metadata: { labels: _labels, ...metadata } }) => ({ apiVersion, kind, metadata }),
    });
    await settle();
    expect(plain.reflector.get({ name: 'a' })?.metadata.managedFields).toBeUndefined();
    expect(keeping.reflector.get({ name: 'a' })?.metadata.managedFields?.map((item) => item.manager)).toEqual(['kubenode-set']);
    expect(keepingAll.reflector.get({ name: 'a' })?.metadata.managedFields).toEqual([entry('kubenode-set'), entry('kubectl')]);
    expect(projecting.reflector.get({ name: 'a' })?.metadata.labels).toBeUndefined();
  });

  test('a listener that throws is logged and does not affect other listeners', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    const seen: string[] = [];
    world.reflector.subscribe(() => {
      throw new Error('broken listener');
    });
    world.reflector.subscribe((event) => seen.push(event.type));
    await settle();
    server.put(Nodes, node('a'));
    await settle();
    expect(seen).toEqual(['listed', 'added']);
    expect(world.log.lines[0]).toMatchObject({ level: 'error', fields: { error: 'broken listener' } });
  });

  test('the signal ends it, also in a wait, and rejects each waiter', async () => {
    const server = fakeApiServer();
    server.intercept(() => statusResponse(403, 'Forbidden'));
    const world = start(Nodes, server);
    const waiting = rejection(world.reflector.whenSynced());
    const impatient = new AbortController();
    const leaving = rejection(world.reflector.whenSynced(impatient.signal));
    await settle();
    impatient.abort(new Error('no patience'));
    expect(await leaving).toEqual(new Error('no patience'));
    expect(await rejection(world.reflector.whenSynced(impatient.signal))).toEqual(new Error('no patience'));
    world.controller.abort(new Error('enough'));
    await world.reflector.done;
    expect(await waiting).toEqual(new Error('enough'));
    expect(world.reflector.state).toEqual({ phase: 'stopped' });
    expect(world.clock.timers).toBe(0);
  });
});

describe('recovering', () => {
  test('a watch that ends is resumed from the last version, without another list', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    server.put(Nodes, node('a'));
    await world.clock.advance(10_000);
    server.watches.end();
    server.put(Nodes, node('b'));
    await settle();
    expect(names(world.reflector)).toEqual(['a', 'b']);
    expect(lists(server)).toBe(1);
    expect(server.requests.at(-1)?.query).toMatchObject({ resourceVersion: '101' });
  });

  test('a bookmark alone moves the version from which a watch is resumed', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    server.put(ConfigMaps, configMap('x', 'y'));
    server.bookmark();
    await world.clock.advance(10_000);
    expect(world.events.at(-1)).toBe('bookmark');
    server.watches.end();
    await settle();
    expect(server.requests.at(-1)?.query?.['resourceVersion']).toBe('101');
    expect(world.reflector.resourceVersion).toBe('101');
  });

  test('a reset in mid-watch loses no event', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    server.watches.reset();
    server.put(Nodes, node('a'));
    await settle();
    expect(world.reflector.state.phase).toBe('waiting');
    await world.clock.advance(1000);
    expect(names(world.reflector)).toEqual(['a']);
    expect(lists(server)).toBe(1);
  });

  test('a watch that is ended at once each time is not reopened without rest', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    server.intercept((request) => {
      if (request.query?.['watch'] !== undefined) setImmediate(() => server.watches.end());
      return undefined;
    });
    await world.clock.advance(60_000);
    expect(server.requests.length).toBeLessThan(25);
    expect(server.requests.length).toBeGreaterThan(4);
    expect(world.reflector.state).toMatchObject({ phase: 'waiting', code: 'ShortWatch' });
  });

  test('a server that calls each version too old is asked ever less often', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    server.intercept(() => statusResponse(410, 'Expired'));
    server.watches.reset();
    const before = server.requests.length;
    await world.clock.advance(600_000);
    expect(server.requests.length - before).toBeLessThan(60);
  });

  test('objects are found by their namespace, and cluster-scoped objects have none', async () => {
    const server = fakeApiServer();
    for (const [namespace, name] of [
      ['web', 'a'],
      ['web', 'b'],
      ['db', 'c'],
    ] as const)
      server.put(ConfigMaps, map(namespace, name, {}));
    server.put(Nodes, node('n'));
    const maps = start(ConfigMaps, server).reflector;
    const nodes = start(Nodes, server).reflector;
    await settle();
    const found = (reflector: Reflector<KubeObject>, namespace: string) =>
      reflector.inNamespace(namespace).map(({ metadata }) => metadata.name);
    expect([found(maps, 'web').toSorted(), found(maps, 'db'), found(maps, 'none')]).toEqual([['a', 'b'], ['c'], []]);
    expect(found(nodes, '')).toEqual(['n']);
  });

  test('410 on a watch lists again and reports the deletions that were missed', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('gone'));
    server.put(Nodes, node('stays'));
    const world = start(Nodes, server);
    await settle();
    server.watches.reset();
    server.remove(Nodes, { name: 'gone' });
    server.put(Nodes, node('new'));
    server.compact();
    await world.clock.advance(5000);
    expect(world.events).toEqual(['added gone', 'added stays', 'listed', 'added new', 'deleted gone', 'listed']);
    expect(names(world.reflector)).toEqual(['new', 'stays']);
  });

  test('a server that comes back without its history is listed soon, however long it was away', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    const cancel = server.intercept(() => {
      throw new Error('ECONNREFUSED');
    });
    server.watches.reset();
    await world.clock.advance(600_000);
    cancel();
    server.put(Nodes, node('a'));
    server.compact();
    while (server.watches.open === 0 && !world.log.lines.some((line) => String(line.fields['error']).includes('too old'))) {
      await world.clock.advance(100);
    }
    await world.clock.advance(900);
    expect(names(world.reflector)).toEqual(['a']);
  });

  test('an object recreated under its name while no watch was open is a deletion and an addition', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    const world = start(Nodes, server);
    await settle();
    const uid = world.reflector.get({ name: 'a' })?.metadata.uid;
    server.watches.reset();
    server.remove(Nodes, { name: 'a' });
    server.put(Nodes, node('a'));
    server.compact();
    await world.clock.advance(5000);
    expect(world.events.slice(2)).toEqual(['deleted a', 'added a', 'listed']);
    expect(world.reflector.get({ name: 'a' })?.metadata.uid).not.toBe(uid);
  });

  test('while a later list fails the store serves what it has', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    const world = start(Nodes, server);
    await settle();
    server.intercept((request) => (request.query?.['watch'] === undefined ? statusResponse(500, 'InternalError') : undefined));
    world.reflector.relist();
    await world.clock.advance(20_000);
    expect(world.reflector).toMatchObject({ synced: true, size: 1 });
    expect(world.events).toEqual(['added a', 'listed']);
    expect(world.reflector.ageMs()).toBeGreaterThanOrEqual(20_000);
  });

  test('a page that fails is asked for again; what was read is kept, and what is partial is not shown', async () => {
    const server = fakeApiServer();
    for (let i = 0; i < 600; i++) server.put(Nodes, node(`n${i}`));
    once(server, 'page', () => statusResponse(500, 'InternalError'));
    const world = start(Nodes, server);
    await settle();
    expect(world.reflector).toMatchObject({ synced: false, size: 0, state: { phase: 'waiting', failures: 1 } });
    await world.clock.advance(1000);
    expect(world.reflector.size).toBe(600);
    expect(lists(server)).toBe(1);
  });

  test('an expired page starts the list again, in one piece', async () => {
    const server = fakeApiServer();
    for (let i = 0; i < 600; i++) server.put(Nodes, node(`n${i}`));
    once(server, 'page', () => statusResponse(410, 'Expired'));
    const world = start(Nodes, server);
    await world.clock.advance(1000);
    expect(world.reflector.size).toBe(600);
    expect(server.requests.map((request) => request.query?.['limit'])).toEqual(['500', '500', undefined, undefined]);
    world.reflector.relist();
    await settle();
    expect(server.requests.at(-3)?.query?.['limit']).toBe('500');
  });

  test('Retry-After is honoured', async () => {
    const server = fakeApiServer();
    once(server, 'list', () => statusResponse(429, 'TooManyRequests', 'slow down', { 'retry-after': '20' }));
    const world = start(Nodes, server);
    await world.clock.advance(20_000);
    expect(server.requests).toHaveLength(1);
    await world.clock.advance(1000);
    expect(world.reflector.synced).toBe(true);
  });

  test('a burst of failures is answered with growing waits, then everything is right', async () => {
    const server = fakeApiServer();
    const cancel = server.intercept(() => statusResponse(503, 'ServiceUnavailable'));
    const world = start(Nodes, server);
    await world.clock.advance(300_000);
    expect(server.requests.length).toBeLessThan(40);
    expect(world.log.lines.every((line) => line.level === 'warn')).toBe(true);
    cancel();
    server.put(Nodes, node('a'));
    await world.clock.advance(30_000);
    expect(names(world.reflector)).toEqual(['a']);
  });

  test('a stalled watch is noticed by its age, and what it missed comes with the next one', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server, { watchTimeoutSeconds: 3600 });
    await settle();
    server.watches.stall();
    server.put(Nodes, node('a'));
    server.put(Nodes, node('b'));
    server.remove(Nodes, { name: 'b' });
    await world.clock.advance(129_000);
    expect(world.reflector.size).toBe(0);
    await world.clock.advance(2000);
    expect(names(world.reflector)).toEqual(['a']);
    expect(world.log.lines).toMatchObject([{ level: 'debug', fields: { ageMs: 130_000 }, message: 'the watch of nodes is stale' }]);
  });

  test('invariant 10: a kind where nothing happens is never listed again, also when its server has no bookmark to send', async () => {
    const server = fakeApiServer();
    for (let i = 0; i < 1100; i++) server.put(Nodes, node(`n${i}`));
    const world = start(Nodes, server, { watchTimeoutSeconds: 300 });
    await settle();
    const first = server.requests.length;
    let oldest = 0;
    for (let minute = 0; minute < 120; minute++) {
      await world.clock.advance(63_700);
      oldest = Math.max(oldest, world.reflector.ageMs());
      if (minute % 5 === 1) server.watches.end();
    }
    expect(lists(server)).toBe(1);
    expect(oldest).toBeLessThanOrEqual(130_000);
    const asked = server.requests.slice(first).filter(({ query }) => query?.['watch'] === undefined);
    expect(asked.every(({ query }) => query?.['limit'] === '1')).toBe(true);
    expect(asked.length).toBeLessThanOrEqual(60);
    expect(world.events.filter((event) => !event.startsWith('added'))).toEqual(['listed']);
    expect(world.log.lines.filter(({ level }) => level !== 'debug')).toEqual([]);
  });

  test('a store that is doubted reports that until the server has answered twice', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server, { watchTimeoutSeconds: 3600 });
    await settle();
    const cancel = server.intercept((request) =>
      request.query?.['watch'] === undefined ? undefined : statusResponse(503, 'ServiceUnavailable'),
    );
    await world.clock.advance(300_000);
    expect(world.reflector.ageMs()).toBe(300_000);
    expect(world.reflector.state.phase).toBe('waiting');
    cancel();
    await world.clock.advance(31_000);
    expect(world.reflector.ageMs()).toBeLessThan(31_000);
    expect(lists(server)).toBe(1);
    expect(kinds(server).slice(-2)).toEqual(['ask', 'watch']);
  });

  test('a watch that opens proves nothing about what it watches, where nothing was doubted', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server, { watchTimeoutSeconds: 3600 });
    await settle();
    await world.clock.advance(60_000);
    server.watches.end();
    await settle();
    expect(kinds(server)).toEqual(['list', 'watch', 'watch']);
    expect(world.reflector.ageMs()).toBe(60_000);
  });

  test.each(['end', 'reset'] as const)(
    'failures before a watch that was open for long do not count where it comes to its %s',
    async (how) => {
      const server = fakeApiServer();
      const cancel = server.intercept(() => statusResponse(503, 'ServiceUnavailable'));
      const world = start(Nodes, server);
      await world.clock.advance(60_000);
      expect(world.reflector.state).toMatchObject({ phase: 'waiting', failures: expect.toSatisfy((n: number) => n > 2) as number });
      cancel();
      await world.clock.advance(60_000);
      expect(world.reflector.state.phase).toBe('watching');
      server.intercept(() => statusResponse(503, 'ServiceUnavailable'));
      server.watches[how]();
      await settle();
      expect(world.reflector.state).toMatchObject({ phase: 'waiting', failures: 1 });
    },
  );

  test('failures of lists count, however long the watch before them was open', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    await world.clock.advance(60_000);
    server.intercept(() => statusResponse(503, 'ServiceUnavailable'));
    world.reflector.relist();
    await world.clock.advance(60_000);
    expect(world.reflector.state).toMatchObject({ phase: 'waiting', failures: expect.toSatisfy((n: number) => n > 2) as number });
  });

  test('the first answer that a version is too old begins the count of failures again, also before anything was watched', async () => {
    const server = fakeApiServer();
    const cancel = server.intercept(() => statusResponse(503, 'ServiceUnavailable'));
    const world = start(Nodes, server);
    await world.clock.advance(60_000);
    cancel();
    once(server, 'list', () => statusResponse(410, 'Expired'));
    await world.clock.advance(30_000);
    const failures = world.log.lines.map(({ fields }) => fields['failures']);
    expect(failures.slice(-2)).toEqual([failures.length - 1, 1]);
  });

  test('a list whose first page is too old is read in pages again', async () => {
    const server = fakeApiServer();
    once(server, 'list', () => statusResponse(410, 'Expired'));
    const world = start(Nodes, server);
    await world.clock.advance(1000);
    expect(world.reflector.synced).toBe(true);
    expect(server.requests.slice(0, 2).map(({ query }) => query?.['limit'])).toEqual(['500', '500']);
  });

  test('only an addition reports whether it is of the first list', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    const world = start(Nodes, server);
    const fields: string[][] = [];
    world.reflector.subscribe((event) => fields.push(Object.keys(event).toSorted()));
    await settle();
    server.put(Nodes, node('a', { x: '1' }));
    server.remove(Nodes, { name: 'a' });
    await settle();
    expect(fields).toEqual([
      ['initial', 'object', 'type'],
      ['resourceVersion', 'type'],
      ['object', 'old', 'type'],
      ['object', 'type'],
    ]);
  });

  test('a watch that its server did not end in time is opened again, also where it sends events', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server, { watchTimeoutSeconds: 300 });
    await settle();
    for (let minute = 0; minute < 12; minute++) {
      await world.clock.advance(60_000);
      server.put(Nodes, node('a', { minute: `${minute}` }));
    }
    expect(server.requests.filter(({ query }) => query?.['watch'] !== undefined)).toHaveLength(2);
    expect(lists(server)).toBe(1);
  });

  test('a watch that gets only its bookmarks is left alone', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server, { watchTimeoutSeconds: 3600 });
    await settle();
    for (let minute = 0; minute < 30; minute++) {
      server.bookmark();
      await world.clock.advance(60_000);
    }
    expect(server.requests).toHaveLength(2);
  });

  test('a list, or the head of a watch, that never comes is given up', async () => {
    const server = fakeApiServer();
    let hang = true;
    server.intercept((request) => {
      if (!hang) return undefined;
      return new Promise((_, reject) => request.signal?.addEventListener('abort', () => reject(request.signal?.reason)));
    });
    const world = start(Nodes, server);
    await world.clock.advance(59_000);
    expect(server.requests).toHaveLength(1);
    await world.clock.advance(3000);
    expect(server.requests).toHaveLength(2);
    hang = false;
    await world.clock.advance(65_000);
    expect(world.reflector.synced).toBe(true);
    hang = true;
    server.watches.reset();
    await world.clock.advance(62_000);
    hang = false;
    server.put(Nodes, node('a'));
    await world.clock.advance(62_000);
    expect(names(world.reflector)).toEqual(['a']);
  });

  test('garbage in the stream ends the watch and loses nothing', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    server.watches.inject('\u0000 not json\n');
    server.put(Nodes, node('a'));
    await world.clock.advance(1000);
    expect(names(world.reflector)).toEqual(['a']);
  });

  test('an event older than what is known is never taken; the truth is listed', async () => {
    const server = fakeApiServer();
    const first = server.put(Nodes, node('a', { x: '1' }));
    server.put(Nodes, node('a', { x: '2' }));
    const world = start(Nodes, server);
    await settle();
    server.watches.inject(`${JSON.stringify({ type: 'MODIFIED', object: first })}\n`);
    await world.clock.advance(1000);
    expect(world.reflector.get({ name: 'a' })?.metadata.labels).toEqual({ x: '2' });
    expect(lists(server)).toBe(2);
  });

  test('an event that comes twice is reported once', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    const object = server.put(Nodes, node('a'));
    server.watches.inject(`${JSON.stringify({ type: 'ADDED', object })}\n`);
    await settle();
    expect(world.events).toEqual(['listed', 'added a']);
  });

  test('a server restored from a backup is believed: older versions, fewer objects', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    server.put(Nodes, node('lost'));
    const world = start(Nodes, server);
    await settle();
    server.watches.reset();
    server.remove(Nodes, { name: 'lost' });
    server.rewind(50);
    await world.clock.advance(5000);
    expect(names(world.reflector)).toEqual(['a']);
    expect(world.reflector.resourceVersion).toBe('50');
  });

  test('a server restored from a backup that keeps the watch open but sends nothing, as real ones do, is detected', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    server.put(Nodes, node('lost'));
    const world = start(Nodes, server);
    await settle();
    server.bookmark();
    await settle();
    // A real server waits with a watch from the future until its versions get there.
    const resumeEvents = server.intercept((request) => {
      if (request.query?.['watch'] === undefined || Number(request.query['resourceVersion']) <= 60) return undefined;
      return { status: 200, headers: {}, body: createPipe(request.signal, () => undefined).read() };
    });
    server.watches.reset();
    server.remove(Nodes, { name: 'lost' });
    server.rewind(50);
    await world.clock.advance(200_000);
    resumeEvents();
    expect(names(world.reflector)).toEqual(['a']);
    expect(world.reflector.state).toEqual({ phase: 'watching', resourceVersion: '50' });
    // What was listed is not doubted: it is not asked for again before it is watched.
    expect(kinds(server)).toEqual(['list', 'watch', 'watch', 'ask', 'list', 'watch']);
  });

  test('a server restored from a backup that has counted on past what was seen is detected where it has more or less', async () => {
    const server = fakeApiServer();
    server.put(Nodes, node('a'));
    server.put(Nodes, node('lost'));
    const world = start(Nodes, server);
    await settle();
    server.watches.stall();
    server.remove(Nodes, { name: 'lost' });
    server.rewind(500);
    await world.clock.advance(200_000);
    expect(names(world.reflector)).toEqual(['a']);
  });

  describe('a server restored from a backup that has counted on past what was seen, with as many objects,', () => {
    /** To a version of long ago; then as many writes as are needed to count past all that was ever seen, of which the last are of another object. */
    function putBack(server: FakeApiServer): void {
      server.rewind(50);
      server.put(Nodes, node('lost', { x: 'restored' }));
      for (let write = 0; write < 200; write++) server.put(Nodes, node('a', { write: String(write) }));
    }

    /** `lost` was seen with another label, and the watch was cut: the writes of after the backup are others. */
    async function restored(options: StoreOptions<ReturnType<typeof node>>, cut: (server: FakeApiServer) => void) {
      const server = fakeApiServer();
      server.put(Nodes, node('a'));
      server.put(Nodes, node('lost', { x: 'seen' }));
      const world = start(Nodes, server, options);
      await settle();
      cut(server);
      putBack(server);
      return world;
    }
    const label = (world: World<ReturnType<typeof node>>): unknown => world.reflector.get({ name: 'lost' })?.metadata.labels?.['x'];

    test('is found out where the watch was cut and all is listed for that', async () => {
      const world = await restored({ relistAfterCut: true }, (server) => server.watches.reset());
      await world.clock.advance(5000);
      expect(label(world)).toBe('restored');
      expect(kinds(world.server)).toEqual(['list', 'watch', 'list', 'watch']);
    });

    test('is not found out where a watch that was cut is continued', async () => {
      const world = await restored({}, (server) => server.watches.reset());
      await world.clock.advance(5000);
      expect([label(world), kinds(world.server)]).toEqual(['seen', ['list', 'watch', 'watch']]);
    });

    test('is found out where the server ended the watch, and answered the next one late', async () => {
      const server = fakeApiServer();
      server.put(Nodes, node('a'));
      server.put(Nodes, node('lost', { x: 'seen' }));
      const world = start(Nodes, server, { relistAfterCut: true });
      await settle();
      await world.clock.advance(20_000);
      const answer = Promise.withResolvers<undefined>();
      const answerNow = server.intercept(({ query }) => (query?.['watch'] === undefined ? undefined : answer.promise));
      server.watches.end();
      putBack(server);
      await world.clock.advance(6000);
      answerNow();
      answer.resolve(undefined);
      await world.clock.advance(1000);
      expect(label(world)).toBe('restored');
      expect(kinds(server)).toEqual(['list', 'watch', 'watch', 'list', 'watch']);
    });

    test('costs nothing where the server ends its watches in time', async () => {
      const server = fakeApiServer();
      const world = start(Nodes, server, { relistAfterCut: true });
      await settle();
      for (let round = 0; round < 3; round++) {
        await world.clock.advance(20_000);
        server.watches.end();
        await world.clock.advance(1000);
      }
      expect(kinds(server)).toEqual(['list', 'watch', 'watch', 'watch', 'watch']);
    });

    test('is not taken for one history with a list of before: another follows', async () => {
      const server = fakeApiServer();
      for (const name of ['a', 'b', 'c']) server.put(Nodes, node(name));
      once(server, 'page', () => statusResponse(500, 'InternalError'));
      const world = start(Nodes, server, { relistAfterCut: true, pageSize: 2 });
      await world.clock.advance(10_000);
      expect(lists(server)).toBe(2);
      expect(world.reflector.state.phase).toBe('watching');
    });
  });

  test('what a watch reported wrongly of a version is found by a list again, and by no other', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    // As while its kind is defined again: the object of this version, without some of its fields.
    const object = server.put(Nodes, node('b'));
    server.watches.inject(`${JSON.stringify({ type: 'ADDED', object })}\n`);
    const whole = server.put(Nodes, node('a', { x: '1' }));
    await settle();
    world.reflector.relist();
    await settle();
    server.intercept((request) => {
      if (request.query?.['watch'] !== undefined) return undefined;
      const items = [object, { ...whole, metadata: { ...whole.metadata, labels: { x: '1', y: '2' } } }];
      return jsonResponse(200, { metadata: { resourceVersion: whole.metadata.resourceVersion }, items });
    });
    world.reflector.relist();
    await settle();
    expect(world.reflector.get({ name: 'a' })?.metadata.labels).toEqual({ x: '1' });
    world.reflector.relist({ again: true });
    await settle();
    expect(world.reflector.get({ name: 'a' })?.metadata.labels).toEqual({ x: '1', y: '2' });
    expect(world.events.slice(-2)).toEqual(['updated a', 'listed']);
    expect(world.events.filter((event) => event.endsWith(' b'))).toEqual(['added b']);
  });

  test('relist during a list is not lost', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    const mark = world.reflector.mark();
    world.reflector.relist();
    await settle();
    expect(lists(server)).toBe(2);
    expect(world.reflector.hasPassed({ name: 'a' }, undefined, mark)).toBe(true);
  });
});

describe('a server that is not trusted', () => {
  const most = { objects: 3, characters: 5000, pages: 4 };
  const code = (reflector: Reflector<KubeObject>): string =>
    reflector.state.phase === 'waiting' ? reflector.state.code : reflector.state.phase;

  test.each([
    ['objects', [1, 2, 3, 4].map((n) => configMap('web', `a${n}`)), 'more than 3 objects'],
    ['content', [{ ...configMap('web', 'a'), data: { big: 'x'.repeat(6000) } }], 'more than 5000 characters'],
  ])('a list of too many %s is given up, and what was there stays', async (_what, objects, message) => {
    const server = fakeApiServer();
    for (const object of objects) server.put(ConfigMaps, object);
    const { reflector } = start(ConfigMaps, server, { most });
    await settle();
    expect(reflector.state).toMatchObject({ phase: 'waiting', code: 'StoreTooLarge', error: expect.stringContaining(message) as string });
    expect([reflector.size, reflector.synced]).toEqual([0, false]);
  });

  test('a list whose pages never end is given up', async () => {
    const server = fakeApiServer();
    server.intercept(() => jsonResponse(200, { metadata: { resourceVersion: '9', continue: 'more' }, items: [] }));
    const { reflector } = start(ConfigMaps, server, { most });
    await settle();
    expect(code(reflector)).toBe('StoreTooLarge');
    expect(server.requests).toHaveLength(4);
  });

  test('a watch that brings too much ends, and what it brought too much is not kept; when there is less all is right', async () => {
    const server = fakeApiServer();
    server.put(ConfigMaps, configMap('web', 'a1'));
    const { reflector, clock } = start(ConfigMaps, server, { most });
    await settle();
    for (const name of ['a2', 'a3']) server.put(ConfigMaps, configMap('web', name));
    server.put(ConfigMaps, configMap('web', 'a3'));
    server.remove(ConfigMaps, { namespace: 'web', name: 'a1' });
    server.put(ConfigMaps, configMap('web', 'a4'));
    await settle();
    expect([reflector.size, code(reflector)]).toEqual([3, 'watching']);
    server.put(ConfigMaps, configMap('web', 'a5'));
    await settle();
    expect([reflector.size, code(reflector)]).toEqual([3, 'StoreTooLarge']);
    server.remove(ConfigMaps, { namespace: 'web', name: 'a2' });
    await clock.advance(60_000);
    expect([reflector.list().map(({ metadata }) => metadata.name), code(reflector)]).toEqual([['a3', 'a4', 'a5'], 'watching']);
  });

  test('what fits exactly is taken: pages, objects and characters', async () => {
    const server = fakeApiServer();
    for (const name of ['a', 'b', 'c', 'd']) server.put(ConfigMaps, configMap('web', name));
    const kept = server.objects(ConfigMaps).map((object) => JSON.stringify(object).length);
    const characters = kept.reduce((sum, each) => sum + each, 0);
    for (const [most, expected] of [
      [{ pages: 4, objects: 4, characters }, 'watching'],
      [{ pages: 3, objects: 4, characters }, 'StoreTooLarge'],
      [{ pages: 4, objects: 3, characters }, 'StoreTooLarge'],
      [{ pages: 4, objects: 4, characters: characters - 1 }, 'StoreTooLarge'],
    ] as const) {
      const { reflector } = start(ConfigMaps, server, { most, pageSize: 1 });
      await settle();
      expect([most, code(reflector)]).toEqual([most, expected]);
    }
  });

  test('a list may have one page alone, and what is watched after it counts as none', async () => {
    const server = fakeApiServer();
    server.put(ConfigMaps, configMap('web', 'a'));
    const { reflector } = start(ConfigMaps, server, { most: { ...most, pages: 1 } });
    await settle();
    server.put(ConfigMaps, configMap('web', 'b'));
    await settle();
    expect([reflector.size, code(reflector)]).toEqual([2, 'watching']);
  });

  test('a room is full at its last byte, of a list, of what a list leaves, and of an event', async () => {
    const server = fakeApiServer();
    server.put(ConfigMaps, configMap('web', 'a'));
    const measured = createRoom(1_000_000);
    start(ConfigMaps, server, { most: { ...most, room: measured } });
    await settle();
    const one = measured.kept;
    for (const [bytes, expected] of [
      [one, 'watching'],
      [one - 1, 'StoreTooLarge'],
    ] as const) {
      const { reflector } = start(ConfigMaps, server, { most: { ...most, room: createRoom(bytes) } });
      await settle();
      expect(code(reflector)).toBe(expected);
    }
    const shared = createRoom(2 * one);
    const options = { most: { ...most, room: shared } };
    const [first, second, third] = [
      start(ConfigMaps, server, options),
      start(ConfigMaps, server, options),
      start(ConfigMaps, server, options),
    ];
    await settle();
    expect([first, second, third].map(({ reflector }) => code(reflector))).toEqual(['watching', 'watching', 'StoreTooLarge']);
    expect([shared.kept, shared.listed]).toEqual([2 * one, 0]);
    // The same again replaces what is kept.
    first.reflector.relist();
    await settle();
    expect([code(first.reflector), shared.kept]).toEqual(['watching', 2 * one]);
    server.put(ConfigMaps, configMap('web', 'b'));
    await settle();
    expect([first, second].map(({ reflector }) => code(reflector))).toEqual(['StoreTooLarge', 'StoreTooLarge']);
    expect(shared.kept).toBe(2 * one);
  });

  test('what a list leaves of a room is counted rightly list after list', async () => {
    const server = fakeApiServer();
    server.put(ConfigMaps, configMap('web', 'a'));
    const measured = createRoom(1_000_000);
    const { reflector } = start(ConfigMaps, server, { most: { ...most, room: measured } });
    await settle();
    const one = measured.kept;
    const room = { ...measured, most: 2 * one, kept: one };
    const other = start(ConfigMaps, server, { most: { ...most, room } });
    await settle();
    other.reflector.relist();
    await settle();
    expect([code(reflector), code(other.reflector), room.kept]).toEqual(['watching', 'watching', 2 * one]);
    server.watches.stall();
    server.put(ConfigMaps, configMap('web', 'b'));
    other.reflector.relist();
    await settle();
    expect([code(other.reflector), room.kept, room.listed]).toEqual(['StoreTooLarge', 2 * one, 0]);
  });

  test('what a list no longer has is not counted', async () => {
    const server = fakeApiServer();
    for (const name of ['a', 'b', 'c']) server.put(ConfigMaps, configMap('web', name));
    const { reflector } = start(ConfigMaps, server, { most });
    await settle();
    server.watches.stall();
    server.remove(ConfigMaps, { namespace: 'web', name: 'a' });
    reflector.relist();
    await settle();
    server.watches.resume();
    server.put(ConfigMaps, configMap('web', 'd'));
    await settle();
    expect([names(reflector), code(reflector)]).toEqual([['b', 'c', 'd'], 'watching']);
  });

  test('what a list has in a newer version weighs what it is now', async () => {
    const server = fakeApiServer();
    for (const name of ['a', 'b']) server.put(ConfigMaps, { ...configMap('web', name), data: { big: 'x'.repeat(2000) } });
    const { reflector, clock } = start(ConfigMaps, server, { most });
    await settle();
    server.watches.stall();
    for (const name of ['a', 'b']) server.put(ConfigMaps, configMap('web', name));
    server.put(ConfigMaps, { ...configMap('web', 'c'), data: { big: 'x'.repeat(3000) } });
    reflector.relist();
    await clock.advance(5000);
    expect([reflector.size, code(reflector)]).toEqual([3, 'watching']);
  });

  const stored = (name: string, data: Record<string, string>, version = '5', uid = `uid-${name}`): object => ({
    ...configMap('web', name),
    data,
    metadata: { namespace: 'web', name, uid, resourceVersion: version, creationTimestamp: '2026-11-20T00:00:00Z' },
  });
  const large = { big: 'x'.repeat(2000) };
  const event = (type: string, object: object): string => `${JSON.stringify({ type, object })}\n`;

  test('of objects that come again under one name, page after page, one is kept', async () => {
    const server = fakeApiServer();
    let pages = 0;
    server.intercept(({ signal }) => {
      if (++pages > 3) return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
      return jsonResponse(200, { metadata: { resourceVersion: '9', continue: 'more' }, items: [stored('a', large)] });
    });
    const { reflector } = start(ConfigMaps, server, { most: { ...most, pages: 100 } });
    await settle();
    expect([pages, reflector.state]).toEqual([4, { phase: 'listing', items: 1 }]);
  });

  test.each([
    ['comes small in the same version', (name: string) => event('MODIFIED', stored(name, {}))],
    ['is reported as deleted with another UID', (name: string) => event('DELETED', stored(name, {}, '5', 'another'))],
  ])('an object that %s weighs what is kept of it', async (_what, after) => {
    const server = fakeApiServer();
    const { reflector } = start(ConfigMaps, server, { most });
    await settle();
    for (const name of ['a', 'b', 'c']) {
      server.watches.inject(event('MODIFIED', stored(name, large)));
      server.watches.inject(after(name));
    }
    await settle();
    expect([reflector.size, code(reflector)]).toEqual([2, 'StoreTooLarge']);
  });

  test('an object that a later list has small in the same version weighs what is kept of it', async () => {
    const server = fakeApiServer();
    const items: object[] = [];
    let watched = createPipe(undefined, () => undefined);
    server.intercept(({ query, signal }) => {
      if (query?.['watch'] === undefined) return jsonResponse(200, { metadata: { resourceVersion: '9' }, items });
      watched = createPipe(signal, () => undefined);
      return { status: 200, headers: {}, body: watched.read() };
    });
    const { reflector } = start(ConfigMaps, server, { most });
    await settle();
    for (const name of ['a', 'b', 'c']) {
      watched.write(event('MODIFIED', stored(name, large)));
      await settle();
      items.push(stored(name, {}));
      reflector.relist();
      await settle();
    }
    expect([reflector.size, code(reflector)]).toEqual([2, 'StoreTooLarge']);
  });

  test('what a refused event would have weighed is not counted', async () => {
    const server = fakeApiServer();
    const { reflector, clock } = start(ConfigMaps, server, { most });
    await settle();
    server.watches.inject(event('MODIFIED', stored('a', { big: 'x'.repeat(6000) })));
    await settle();
    expect(code(reflector)).toBe('StoreTooLarge');
    await clock.advance(10_000);
    server.watches.inject(event('MODIFIED', stored('a', large)));
    await settle();
    expect([reflector.size, code(reflector)]).toEqual([1, 'watching']);
  });

  test('stores that share a room keep together no more than it has, by what their objects become in memory', async () => {
    const server = fakeApiServer();
    server.put(ConfigMaps, { ...configMap('web', 'a'), data: { a: '' } });
    const room = createRoom(20_000);
    const one = start(ConfigMaps, server, { most: { ...most, room } });
    await settle();
    expect(code(one.reflector)).toBe('watching');
    const [kept] = [room.kept];
    expect(kept).toBeGreaterThan(1000);
    expect(room.listed).toBe(0);
    const dense = { ...node('n'), status: { capacity: Object.fromEntries(Array.from({ length: 110 }, (_, index) => [`c${index}`, '1'])) } };
    server.put(Nodes, dense);
    const other = start(Nodes, server, { most: { ...most, room } });
    await settle();
    expect(other.reflector.state).toMatchObject({ code: 'StoreTooLarge', error: expect.stringContaining('20000 bytes') as string });
    expect([room.kept, room.listed, code(one.reflector)]).toEqual([kept, 0, 'watching']);
    server.put(Nodes, node('n'));
    await other.clock.advance(10_000);
    expect(code(other.reflector)).toBe('watching');
    server.watches.inject(event('MODIFIED', { ...dense, metadata: { ...dense.metadata, uid: 'u', resourceVersion: '99' } }));
    await settle();
    expect(code(other.reflector)).toBe('StoreTooLarge');
    expect(room.kept).toBeLessThan(20_000);
  });

  test('that sends a bookmark before each failure is asked ever more rarely, and its words are cut in the log', async () => {
    const server = fakeApiServer();
    server.intercept(({ query }) => {
      if (query?.['watch'] === undefined) return undefined;
      const [bookmark, bad] = [{ metadata: { resourceVersion: '9' } }, { kind: 'Status', message: 'm'.repeat(100_000) }];
      const pipe = createPipe(undefined, () => undefined);
      pipe.write(event('BOOKMARK', bookmark) + event('ERROR', bad));
      pipe.end();
      return { status: 200, headers: {}, body: pipe.read() };
    });
    const { clock, reflector, log } = start(Nodes, server);
    await clock.advance(300_000);
    expect(server.requests.length).toBeLessThan(40);
    expect(reflector.state).toMatchObject({ phase: 'waiting', error: expect.stringMatching(/^.{1024}$/) as string });
    expect(Math.max(...log.lines.map((line) => JSON.stringify(line).length))).toBeLessThan(2000);
  });

  const inOrder = (...versions: string[]): string =>
    versions
      .map((resourceVersion) => ({ name: 'a', uid: 'u', creationTimestamp: '2026-11-20T00:00:00Z', resourceVersion }))
      .map((metadata) => event('MODIFIED', { ...node('a'), metadata }))
      .join('');
  test.each([
    ['bring an older version', inOrder('20', '19')],
    ['report that the version of the list is too old', event('ERROR', { kind: 'Status', code: 410, reason: 'Expired', message: 'old' })],
  ])('whose lists are well and whose watches %s is asked ever more rarely', async (_what, bytes) => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    server.intercept(({ query }) => {
      if (query?.['watch'] === undefined) return undefined;
      const pipe = createPipe(undefined, () => undefined);
      pipe.write(bytes);
      return { status: 200, headers: {}, body: pipe.read() };
    });
    await world.clock.advance(300_000);
    expect(server.requests.length).toBeLessThan(60);
  });

  test('is asked again in time, however long it asks to be left alone', async () => {
    const server = fakeApiServer();
    const cancel = server.intercept(() => statusResponse(429, 'TooManyRequests', 'go away', { 'retry-after': '31536000' }));
    const world = start(Nodes, server, { longestWaitMs: 60_000 });
    await settle();
    expect(world.reflector.state).toMatchObject({ phase: 'waiting', retryInMs: 60_000 });
    cancel();
    await world.clock.advance(60_000);
    expect(world.reflector.synced).toBe(true);
  });
});

describe('whether a version has passed', () => {
  test('by the object, by any later event, or by a list begun after the mark', async () => {
    const server = fakeApiServer();
    const world = start(Nodes, server);
    await settle();
    const mark = world.reflector.mark();
    expect(world.reflector.hasPassed({ name: 'a' }, '101', mark)).toBe(false);
    server.put(Nodes, node('a'));
    await settle();
    expect(world.reflector.hasPassed({ name: 'a' }, '101', mark)).toBe(true);
    expect(world.reflector.hasPassed({ name: 'b' }, '101', mark)).toBe(true);
    expect(world.reflector.hasPassed({ name: 'a' }, '102', mark)).toBe(false);
    expect(world.reflector.hasPassed({ name: 'a' }, undefined, mark)).toBe(false);
    world.reflector.relist();
    await settle();
    expect(world.reflector.hasPassed({ name: 'a' }, '999', mark)).toBe(true);
    expect(world.reflector.hasPassed({ name: 'a' }, '999', world.reflector.mark())).toBe(false);
  });
});

describe('under any faults', () => {
  test('the store converges to the server, and the events rebuild it', async () => {
    const name = fc.constantFrom('a', 'b', 'c', 'd');
    const act = fc.oneof(
      { weight: 5, arbitrary: fc.record({ do: fc.constant('put' as const), name, x: fc.nat(9) }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('remove' as const), name }) },
      {
        weight: 4,
        arbitrary: fc.record({
          do: fc.constantFrom(...DISTURBANCES, 'relist', 'fail', 'heal'),
        }),
      },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 100, 1000, 30_000) }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 25 }), async (acts) => {
        const server = fakeApiServer();
        const world = start(Nodes, server, { pageSize: 2 });
        const reported = new Map<string, string>();
        const violations: string[] = [];
        world.reflector.subscribe((event) => {
          if (event.type === 'listed' || event.type === 'bookmark') return;
          const { name, uid, resourceVersion } = event.object.metadata;
          if (reported.has(name) === (event.type === 'added')) violations.push(`${name} was ${event.type}`);
          if (event.type === 'deleted') reported.delete(name);
          else reported.set(name, `${uid} ${resourceVersion}`);
        });
        const faults: (() => void)[] = [];
        const heal = (): void => faults.splice(0).forEach((cancel) => cancel());
        for (const taken of acts) {
          if (taken.do === 'put') server.put(Nodes, node(taken.name, { x: `${taken.x}` }));
          else if (taken.do === 'remove') server.remove(Nodes, { name: taken.name });
          else if (taken.do === 'wait') await world.clock.advance(taken.ms);
          else if (taken.do === 'relist') world.reflector.relist();
          else if (taken.do === 'fail') faults.push(server.intercept(() => statusResponse(500, 'InternalError')));
          else if (taken.do === 'heal') heal();
          else disturb(server, taken.do);
        }
        heal();
        server.watches.resume();
        await world.clock.advance(700_000);
        const truth = new Map(server.objects(Nodes).map(({ metadata }) => [metadata.name, `${metadata.uid} ${metadata.resourceVersion}`]));
        expect(violations).toEqual([]);
        expect(reported).toEqual(truth);
        expect(
          new Map(world.reflector.list().map(({ metadata }) => [metadata.name, `${metadata.uid} ${metadata.resourceVersion}`])),
        ).toEqual(truth);
        world.controller.abort(new Error('done'));
        await world.reflector.done;
        expect(world.log.lines.filter((line) => line.level === 'error')).toEqual([]);
      }),
      { numRuns: 100, endOnFailure: true },
    );
  });
});
