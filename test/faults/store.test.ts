/** A reflector and its store, while what lies between them and the server breaks. */
import { setTimeout as delay } from 'node:timers/promises';
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { ConfigMaps, Namespaces, type ConfigMap } from '../../src/api/builtin.ts';
import { keyOf } from '../../src/api/resource.ts';
import { hasReason } from '../../src/kube/api-error.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { ClosableTransport } from '../../src/kube/connect.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../../src/kube/https-transport.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { compareVersions } from '../../src/kube/resource-version.ts';
import { startReflector, type Reflector, type StoreOptions } from '../../src/kube/reflector.ts';
import { seededRandom, skewedClock } from '../../src/kube/testing/clock.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { configMap } from '../../src/kube/testing/objects.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { inventions, record, watchTruth, type Reported, type Truth } from './history.ts';
import { isList, isWatch, startProxy, type Fault, type FaultProxy } from './proxy.ts';
import { KINDS, report, type BrokenServer } from './servers.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

const LATE = { deadlineMs: 30_000 };
const clock = systemClock({ ref: true });

describe.each(KINDS)('$name', ({ name: serverName, open }) => {
  let server: BrokenServer;
  let proxy: FaultProxy;
  let direct: ClosableTransport;
  let client: Client;
  let stopped: AbortController;
  let namespace: string;
  let transports: ClosableTransport[];
  /** The answers to the writes of `scribble`. */
  let written: Set<string>;
  let spaces = 0;

  beforeAll(async () => {
    server = await open();
  });
  afterAll(() => server.close());

  beforeEach(async () => {
    stopped = new AbortController();
    transports = [];
    written = new Set();
    direct = httpTransport(server.connection);
    client = createClient(direct, { fieldManager: 'a-human' });
    namespace = await newNamespace();
    proxy = await startProxy(server.connection);
  });
  afterEach(async () => {
    stopped.abort(new Error('the test is over'));
    for (const transport of [direct, ...transports]) await transport.close();
    await proxy.close();
  });

  async function newNamespace(): Promise<string> {
    const name = `store-${spaces++}`;
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    return name;
  }

  type Create = typeof httpTransport | typeof nodeHttpsTransport;

  function reflect(options: StoreOptions<ConfigMap> & { create?: Create; rate?: number; in?: string } = {}): {
    reflector: Reflector<ConfigMap>;
    reported: Reported;
  } {
    const transport = (options.create ?? httpTransport)(proxy.connection, { idleTimeoutMs: 700 });
    transports.push(transport);
    const reflector = startReflector({
      client: createClient(transport),
      resource: ConfigMaps,
      namespace: options.in ?? namespace,
      clock: skewedClock(clock, options.rate ?? 1, 0),
      random: seededRandom(1),
      log: recordingLog(),
      signal: stopped.signal,
      backoff: { baseMs: 5, maxMs: 50 },
      ...(options.pageSize === undefined ? {} : { pageSize: options.pageSize }),
      ...(options.watchTimeoutSeconds === undefined ? {} : { watchTimeoutSeconds: options.watchTimeoutSeconds }),
    });
    return { reflector, reported: record(reflector) };
  }

  /** The store has what the server has now. */
  async function converged(reflector: Reflector<ConfigMap>, truth: Truth, within = namespace): Promise<void> {
    const now = await client.listAll(ConfigMaps, { namespace: within });
    await truth.reached(now.items.reduce((max, { metadata }) => later(max, metadata.resourceVersion), '1'));
    const wanted = now.items.map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`).toSorted();
    const has = (): string[] =>
      reflector
        .list()
        .map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`)
        .toSorted();
    await waitFor(() => JSON.stringify(has()) === JSON.stringify(wanted), LATE).catch(() => expect(has()).toEqual(wanted));
  }
  const later = (a: string, b: string): string => ((compareVersions(a, b) ?? 0) < 0 ? b : a);

  /** `n` writes to a handful of objects: most change one, some delete it and make it again. */
  async function scribble(n: number, random: () => number, by: Client = client, within = namespace): Promise<void> {
    for (let i = 0; i < n; i++) {
      const key = { namespace: within, name: `m${Math.floor(random() * 5)}` };
      const at = String(i);
      if (random() < 0.15) await by.delete(ConfigMaps, key).catch(unlessAbsent);
      else {
        const desired = configMap(key.namespace, key.name, { at, text: 'Zoë 🚀'.repeat(5) });
        const { metadata } = await by.apply(ConfigMaps, desired, { fieldManager: 'scribble' });
        written.add(`${metadata.uid}@${metadata.resourceVersion}`);
      }
    }
  }
  const unlessAbsent = (error: unknown): void => {
    if (!hasReason(error, 'NotFound')) throw error;
  };

  test.each([
    ['undici', httpTransport],
    ['node:https', nodeHttpsTransport],
  ] as const)('every version is reported once and in order through resets, broken lines and refusals, by %s', async (_, create) => {
    const truth = await watchTruth(client, ConfigMaps, namespace, stopped.signal);
    const { reflector, reported } = reflect({ create });
    await reflector.whenSynced();
    const random = seededRandom(11);
    const faults: Fault[] = [
      { type: 'cut', lines: 2, by: 'reset' },
      { type: 'cut', lines: 0, by: 'end' },
      { type: 'answer', status: 503 },
      { type: 'reset' },
      { type: 'cut', lines: 5, by: 'end' },
      { type: 'answer', status: 500 },
      { type: 'answer', status: 429 },
      { type: 'delay', ms: 60 },
      { type: 'cut', lines: 1, by: 'reset' },
      { type: 'swallow' },
    ];
    for (const fault of faults) {
      proxy.next(isWatch, fault);
      proxy.resetAll();
      await scribble(8, random);
      await waitFor(() => proxy.seen.some((request) => request.fault === fault.type), LATE);
    }
    proxy.clear();
    proxy.resetAll();
    await scribble(8, random);
    await converged(reflector, truth);
    await waitFor(() => [...reported.history].length === truth.history.size, LATE);
    expect(reported.lists).toBe(1);
    expect(Object.fromEntries(reported.history)).toEqual(Object.fromEntries(truth.history));
    expect(inventions(reported, truth)).toEqual([]);
    expect(truth.gaps).toBe(0);
  });

  test('a watch that stops without being closed is noticed, and what was missed is found by a list', async () => {
    const truth = await watchTruth(client, ConfigMaps, namespace, stopped.signal);
    // Its minute passes in six seconds; the server's watches last one to two.
    const { reflector, reported } = reflect({ rate: 10, watchTimeoutSeconds: 1 });
    await reflector.whenSynced();
    await scribble(10, seededRandom(3));
    await converged(reflector, truth);
    await waitFor(() => reflector.state.phase === 'watching', LATE);
    proxy.stallAll();
    const since = performance.now();
    await scribble(10, seededRandom(4));
    await converged(reflector, truth);
    report(serverName, 'a stalled watch, at ten times the speed of time, until the store was right', performance.now() - since);
    expect(reported.lists).toBeGreaterThan(1);
    expect(inventions(reported, truth)).toEqual([]);
  });

  test('Retry-After is waited for, by lists and by watches', async () => {
    await scribble(5, seededRandom(6));
    proxy.next(isList, { type: 'answer', status: 429, retryAfterSeconds: 1 });
    proxy.next(isWatch, { type: 'answer', status: 503, retryAfterSeconds: 1 });
    const { reflector } = reflect();
    await waitFor(() => proxy.seen.filter(isWatch).length === 2, LATE);
    await reflector.whenSynced();
    for (const kind of [isList, isWatch]) {
      const [refused, again] = proxy.seen.filter(kind);
      expect((again?.at ?? 0) - (refused?.at ?? 0)).toBeGreaterThanOrEqual(999);
    }
    expect(proxy.seen).toHaveLength(4);
  });

  test('a burst of 5xx in a paged list costs no page twice and reports nothing before the list is whole', async () => {
    for (let i = 0; i < 9; i++) await client.create(ConfigMaps, configMap(namespace, `p${i}`));
    const listed = (await client.listAll(ConfigMaps, { namespace })).items.length;
    proxy.next((request) => isList(request) && request.path.includes('continue='), { type: 'answer', status: 500 }, 6);
    const { reflector, reported } = reflect({ pageSize: 4 });
    await waitFor(() => proxy.seen.filter((request) => request.fault === 'answer').length === 3, LATE);
    expect(reported.history.size).toBe(0);
    await reflector.whenSynced();
    expect(reflector.size).toBe(listed);
    const paths = proxy.seen.filter((request) => isList(request) && request.status === 200).map(({ path }) => path);
    expect(paths).toHaveLength(new Set(paths).size);
  });

  test('a server killed in mid-watch and mid-write is followed: nothing is invented, and the store ends right', async () => {
    const truth = await watchTruth(client, ConfigMaps, namespace, stopped.signal);
    const { reflector, reported } = reflect();
    await reflector.whenSynced();
    const random = seededRandom(7);
    for (let round = 0; round < 2; round++) {
      await scribble(5, random);
      const writing = scribble(500, random).catch(() => 'died');
      await delay(30 + random() * 60);
      await server.kill();
      expect(await writing).toBe('died');
      await server.start();
      const since = performance.now();
      await client.list(ConfigMaps, { namespace });
      await converged(reflector, truth);
      report(serverName, 'after it was killed, from when it was ready until the store was right', performance.now() - since);
    }
    await scribble(5, random);
    await converged(reflector, truth);
    // The undisturbed watcher is cut off too: what it did not see, the writer has answers for, save of the one write that the kill cut off.
    const living = new Set((await client.list(ConfigMaps, { namespace })).items.map(({ metadata }) => metadata.uid));
    const strangers: string[] = [];
    for (const [key, steps] of reported.history) {
      const versions = steps.map((step) => step.split('@')[1] ?? '');
      expect([key, versions]).toEqual([key, versions.toSorted((a, b) => compareVersions(a, b) ?? 0)]);
      for (const step of steps) {
        if (step.startsWith('-')) expect(living).not.toContain(step.slice(1).split('@')[0]);
        else if (!truth.states.has(step) && !written.has(step)) strangers.push(step);
      }
    }
    expect(strangers.length).toBeLessThanOrEqual(2);
  });

  test('a history that is gone is answered by one list, and its differences are reported', async () => {
    for (const name of ['kept', 'changed', 'gone', 'again']) await client.create(ConfigMaps, configMap(namespace, name));
    const { reflector, reported } = reflect();
    await reflector.whenSynced();
    const before = new Map([...reported.history].map(([key, steps]) => [key, steps.length]));
    proxy.accept('none');
    proxy.resetAll();
    const { uid: oldUid } = (await client.get(ConfigMaps, { namespace, name: 'again' })).metadata;
    await client.patch(ConfigMaps, { namespace, name: 'changed' }, { merge: { data: { a: '1' } } });
    await client.patch(ConfigMaps, { namespace, name: 'changed' }, { merge: { data: { a: '2' } } });
    for (const name of ['gone', 'again']) await client.delete(ConfigMaps, { namespace, name });
    const again = await client.create(ConfigMaps, configMap(namespace, 'again'));
    await server.forget();
    proxy.accept('all');
    const since = performance.now();
    await waitFor(() => reflector.get({ namespace, name: 'gone' }) === undefined && reported.lists === 2, LATE);
    report(serverName, 'a history that was gone, until the store was right', performance.now() - since);
    const steps = (name: string): string[] =>
      reported.history.get(keyOf({ namespace, name }))?.slice(before.get(keyOf({ namespace, name }))) ?? [];
    expect(steps('kept')).toEqual([]);
    expect(steps('changed')).toHaveLength(1);
    expect(reflector.get({ namespace, name: 'changed' })?.data).toEqual({ a: '2' });
    expect(steps('gone')).toEqual([expect.stringMatching(/^-/)]);
    expect(steps('again')).toEqual([expect.stringMatching(`^-${oldUid}@`), `${again.metadata.uid}@${again.metadata.resourceVersion}`]);
  });

  test('a list whose pages expire under it is made in one piece', async () => {
    for (let i = 0; i < 9; i++) await client.create(ConfigMaps, configMap(namespace, `p${i}`));
    let forgotten: Promise<void> | undefined;
    proxy.next(
      (request) => {
        if (!isList(request) || !request.path.includes('continue=')) return false;
        forgotten ??= client
          .create(ConfigMaps, configMap(namespace, 'late'))
          .then(() => client.delete(ConfigMaps, { namespace, name: 'p0' }))
          .then(() => server.forget());
        return true;
      },
      { type: 'delay', ms: 1 },
    );
    // Delayed until the pages have expired.
    proxy.next((request) => isList(request) && request.path.includes('continue='), { type: 'reset' }, 10_000);
    const { reflector, reported } = reflect({ pageSize: 4 });
    await waitFor(() => forgotten !== undefined, LATE);
    await forgotten;
    proxy.clear();
    await reflector.whenSynced();
    const items = await client.listAll(ConfigMaps, { namespace });
    await waitFor(() => reflector.size === items.items.length, LATE);
    expect(reflector.get({ namespace, name: 'late' })).toBeDefined();
    expect(reflector.get({ namespace, name: 'p0' })).toBeUndefined();
    expect(reported.lists).toBe(1);
  });

  test('a bookmark carries a watch without events past a history that is gone', async () => {
    const elsewhere = await newNamespace();
    // A real server sends its bookmark two seconds before a watch ends, if that is long enough.
    const { reflector, reported } = reflect({ watchTimeoutSeconds: server.compact === undefined ? 1 : 8 });
    await reflector.whenSynced();
    const listedAt = reflector.resourceVersion ?? '';
    // A real server sends a watch no bookmark of the version that it opened at.
    await waitFor(() => proxy.seen.some((request) => isWatch(request) && request.status === 200), LATE);
    // Nothing happens here; there, the version goes on.
    const last = await client.create(ConfigMaps, configMap(elsewhere, 'last'));
    await waitFor(() => (compareVersions(reflector.resourceVersion ?? '', last.metadata.resourceVersion) ?? -1) >= 0, LATE);
    expect(compareVersions(listedAt, last.metadata.resourceVersion)).toBeLessThan(0);
    const versions = (): (string | null)[] =>
      proxy.seen.filter(isWatch).map(({ path }) => new URLSearchParams(path.split('?')[1]).get('resourceVersion'));
    const asked = versions().length;
    await server.compact?.();
    proxy.resetAll();
    await waitFor(() => versions().length > asked, LATE);
    await client.create(ConfigMaps, configMap(namespace, 'after'));
    await waitFor(() => reflector.get({ namespace, name: 'after' }) !== undefined, LATE);
    expect(reported.lists).toBe(1);
    expect(compareVersions(versions().at(-1) ?? '', last.metadata.resourceVersion)).toBeGreaterThanOrEqual(0);
  });

  test('random faults: nothing is missed, invented or reported twice', async () => {
    const fault = fc.oneof(
      fc.record({ type: fc.constant('cut' as const), lines: fc.nat(6), by: fc.constantFrom('reset' as const, 'end' as const) }),
      fc.record({ type: fc.constant('answer' as const), status: fc.constantFrom(429, 500, 502, 503, 504, 401) }),
      fc.record({ type: fc.constant('delay' as const), ms: fc.nat(80) }),
      fc.record({ type: fc.constantFrom('reset' as const, 'swallow' as const) }),
    );
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('write' as const), n: fc.integer({ min: 1, max: 8 }) }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('order' as const), fault, times: fc.integer({ min: 1, max: 3 }) }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('reset' as const, 'close' as const, 'open' as const) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('relist' as const) }) },
    );
    const seed = 20_261_120;
    const numRuns = 12;
    process.stdout.write(`  ${serverName}: random faults: seed ${seed}, ${numRuns} schedules\n`);
    let schedules = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), fc.boolean(), async (steps, undici) => {
        const within = await newNamespace();
        const random = seededRandom(schedules++);
        const truth = await watchTruth(client, ConfigMaps, within, stopped.signal);
        const { reflector, reported } = reflect({ in: within, create: undici ? httpTransport : nodeHttpsTransport });
        let relisted = false;
        for (const one of steps) {
          if (one.do === 'write') await scribble(one.n, random, client, within);
          else if (one.do === 'order')
            proxy.next((request) => request.path.includes(within) && !request.path.includes('apply'), one.fault, one.times);
          else if (one.do === 'reset') proxy.resetAll();
          else if (one.do === 'close') {
            proxy.accept('none');
            proxy.resetAll();
          } else if (one.do === 'open') proxy.accept('all');
          else {
            relisted = true;
            reflector.relist();
          }
        }
        proxy.accept('all');
        proxy.clear();
        await scribble(2, random, client, within);
        await converged(reflector, truth, within);
        expect(inventions(reported, truth)).toEqual([]);
        if (relisted) return;
        // From the first list on every step of every object is there: its history ends with what was reported.
        for (const [key, steps] of reported.history) expect(truth.history.get(key)?.slice(-steps.length)).toEqual(steps);
      }),
      { numRuns, seed, endOnFailure: true },
    );
  });
});
