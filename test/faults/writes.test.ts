/** Writes whose answers are lost: by the client alone, and by controllers that must carry out each intent once all the same. */
import { setTimeout as delay } from 'node:timers/promises';
import * as fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { ConfigMaps, Namespaces, type ConfigMap } from '../../src/api/builtin.ts';
import { keyOf, parseKey } from '../../src/api/resource.ts';
import type { Stored } from '../../src/api/wire.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { ClosableTransport } from '../../src/kube/connect.ts';
import { createController, watch } from '../../src/kube/controller.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../../src/kube/https-transport.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { startReflector, type Reflector } from '../../src/kube/reflector.ts';
import { seededRandom } from '../../src/kube/testing/clock.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { configMap } from '../../src/kube/testing/objects.ts';
import { rejection } from '../../src/kube/testing/rejection.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { isWatch, isWrite, startProxy, type Fault, type FaultProxy } from './proxy.ts';
import { KINDS, report, type BrokenServer } from './servers.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

const LATE = { deadlineMs: 30_000 };
const clock = systemClock({ ref: true });

describe.each(KINDS)('$name', ({ name: serverName, open }) => {
  let server: BrokenServer;
  let proxy: FaultProxy;
  let client: Client;
  let namespace: string;
  let stopped: AbortController;
  const cleanups: (() => unknown)[] = [];
  let spaces = 0;

  beforeAll(async () => {
    server = await open();
  });
  afterAll(() => server.close());
  beforeEach(async () => {
    stopped = new AbortController();
    client = createClient(opened(httpTransport(server.connection)), { fieldManager: 'a-human' });
    namespace = await newNamespace();
    proxy = await startProxy(server.connection);
    cleanups.push(() => proxy.close());
  });
  afterEach(async () => {
    stopped.abort(new Error('the test is over'));
    for (const cleanup of cleanups.splice(0)) await cleanup();
  });

  function opened(transport: ClosableTransport): ClosableTransport {
    cleanups.push(() => transport.close());
    return transport;
  }

  async function newNamespace(): Promise<string> {
    const name = `writes-${spaces++}`;
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    return name;
  }

  describe.each([
    ['undici', httpTransport],
    ['node:https', nodeHttpsTransport],
  ] as const)('by %s', (_, create) => {
    const faults: [string, Fault, string, boolean][] = [
      ['is reset before the server had it', { type: 'reset' }, 'Unreachable', false],
      ['is carried out and answered by a reset', { type: 'swallow' }, 'Unreachable', true],
      ['is carried out and never answered', { type: 'mute' }, 'Unreachable', true],
      ['is carried out and answered by half an answer', { type: 'cut', lines: 0, by: 'reset' }, 'Unreachable', true],
      ['is refused with 429', { type: 'answer', status: 429, retryAfterSeconds: 7 }, 'TooManyRequests', false],
      ['is refused with 503', { type: 'answer', status: 503, retryAfterSeconds: 7 }, 'ServiceUnavailable', false],
    ];
    test.each(faults)('a write that %s is sent once, and its fate is reported', async (__, fault, code, carriedOut) => {
      const through = createClient(opened(create(proxy.connection, { idleTimeoutMs: 500 })), { fieldManager: 'test' });
      const stored = await client.create(ConfigMaps, configMap(namespace, 'old'));
      const key = { namespace, name: 'old' };
      const writes: [string, () => Promise<unknown>][] = [
        ['POST', () => through.create(ConfigMaps, configMap(namespace, 'new'))],
        ['PUT', () => through.update(ConfigMaps, { ...stored, data: { put: '1' } })],
        ['PATCH', () => through.patch(ConfigMaps, key, { merge: { data: { merged: '1' } } })],
        ['PATCH', () => through.apply(ConfigMaps, configMap(namespace, 'old', { applied: '1' }), { fieldManager: 'test' })],
        ['DELETE', () => through.delete(ConfigMaps, key)],
      ];
      // Each unresponsive connection takes a second to be noticed; two kinds of write are enough there.
      for (const [method, write] of fault.type === 'mute' ? writes.slice(0, 2) : writes) {
        // The write goes out on a connection that was used before: there libraries are tempted to send it again.
        await through.get(ConfigMaps, { namespace, name: 'old' });
        const before = proxy.seen.length;
        proxy.next(isWrite, fault);
        const error = await rejection(write());
        expect(error).toMatchObject({ code, ...(fault.type === 'answer' ? { retryAfterSeconds: 7 } : {}) });
        const sent = proxy.seen.slice(before);
        expect(sent.map((request) => request.method)).toEqual([method]);
        if (carriedOut) expect(sent[0]?.status).toBeLessThan(300);
      }
      const names = (await client.list(ConfigMaps, { namespace })).items.map(({ metadata }) => metadata.name);
      expect(names.filter((name) => !name.startsWith('kube-'))).toEqual(
        fault.type === 'mute' ? ['new', 'old'] : [carriedOut ? 'new' : 'old'],
      );
    });

    test('a write whose signal was aborted while its token was fetched is not sent', async () => {
      const aborted = new AbortController();
      const token = async (): Promise<string> => {
        aborted.abort(new Error('given up'));
        await delay(1);
        return server.connection.token;
      };
      const through = createClient(opened(create({ ...proxy.connection, token })));
      const error = await rejection(through.create(ConfigMaps, configMap(namespace, 'never'), { signal: aborted.signal }));
      expect(error).toMatchObject({ message: 'given up' });
      await delay(50);
      expect(proxy.seen).toEqual([]);
    });
  });

  interface World {
    intents: Reflector<ConfigMap>;
    effects: Reflector<ConfigMap>;
    own: Omit<Parameters<typeof createController>[0], 'name' | 'watches' | 'reconcile'>;
  }

  async function world(within: string, seed: number): Promise<World> {
    const through = createClient(opened(httpTransport(proxy.connection, { idleTimeoutMs: 400 })), { fieldManager: 'test' });
    const backoff = { baseMs: 5, maxMs: 40 };
    const own = {
      client: through,
      clock,
      random: seededRandom(seed),
      log: recordingLog(),
      signal: stopped.signal,
      backoff,
      lagMs: 150,
    };
    const store = (role: string): Reflector<ConfigMap> =>
      startReflector({ ...own, resource: ConfigMaps, namespace: within, labels: { role } });
    const made = { intents: store('intent'), effects: store('effect'), own };
    await made.intents.whenSynced();
    await made.effects.whenSynced();
    return made;
  }

  const labelled = (within: string, name: string, role: string, data: Record<string, string>): ConfigMap => {
    const made = configMap(within, name, data);
    return { ...made, metadata: { ...made.metadata, labels: { role } } };
  };

  /** For every intent one effect, which writes down each number that it carried out: never one twice. */
  function carryOut({ intents, effects, own }: World, within: string): Promise<void> {
    return createController({
      ...own,
      name: 'effects',
      watches: [
        watch(intents, (object) => [keyOf(object.metadata)]),
        watch(effects, (object) => [keyOf({ namespace: within, name: object.metadata.name.replace('effect', 'intent') })]),
      ],
      reconcile: async (key, context) => {
        const wanted = intents.get(parseKey(key))?.data?.['n'];
        if (wanted === undefined) return;
        const name = parseKey(key).name.replace('intent', 'effect');
        const effect = effects.get({ namespace: within, name });
        const done = effect?.data?.['log']?.split(' ') ?? [];
        if (done.at(-1) === wanted) return;
        const log = [...done, wanted].join(' ');
        if (effect === undefined) await context.client.create(ConfigMaps, labelled(within, name, 'effect', { log }));
        else await context.client.update(ConfigMaps, { ...effect, data: { log } });
      },
    }).run();
  }

  /** All states of the effects, from a watcher that nothing disturbs. */
  async function logsOf(within: string): Promise<{ logs: Map<string, string[]> }> {
    const logs = new Map<string, string[]>();
    const direct = createClient(opened(nodeHttpsTransport(server.connection)));
    const take = (object: Stored<ConfigMap>): void => {
      const { name } = object.metadata;
      const known = logs.get(name) ?? [];
      const log = object.data?.['log'] ?? '';
      if (known.at(-1) !== log) logs.set(name, [...known, log]);
    };
    void (async () => {
      while (!stopped.signal.aborted) {
        try {
          const from = await direct.list(ConfigMaps, { namespace: within, labelSelector: 'role=effect' });
          from.items.forEach(take);
          const { resourceVersion } = from.metadata;
          const options = { namespace: within, labelSelector: 'role=effect', resourceVersion, signal: stopped.signal };
          for await (const event of direct.watch(ConfigMaps, options)) if (event.type !== 'BOOKMARK') take(event.object);
        } catch {
          await delay(10);
        }
      }
    })();
    return { logs };
  }

  async function intend(within: string, name: string, n: number): Promise<void> {
    await client.apply(ConfigMaps, labelled(within, name, 'intent', { n: String(n) }), { fieldManager: 'intents', force: true });
  }

  async function carriedOut(within: string, wanted: Map<string, number>, logs: Map<string, string[]>): Promise<void> {
    const last = async (): Promise<string[]> =>
      (await client.list(ConfigMaps, { namespace: within, labelSelector: 'role=effect' })).items.map(
        (effect) => `${effect.metadata.name.replace('effect', 'intent')} ${effect.data?.['log']?.split(' ').at(-1)}`,
      );
    const all = JSON.stringify([...wanted].map(([name, n]) => `${name} ${n}`).toSorted());
    await waitFor(async () => JSON.stringify((await last()).toSorted()) === all, { ...LATE, what: 'every intent to be carried out' });
    for (const [name, n] of wanted) {
      const effect = name.replace('intent', 'effect');
      await waitFor(() => logs.get(effect)?.at(-1)?.split(' ').at(-1) === String(n), LATE);
      const states = logs.get(effect) ?? [];
      for (const [i, state] of states.entries()) {
        const numbers = state.split(' ').map(Number);
        // Each write added one number, and that one is new.
        expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
        if (i > 0) expect(numbers.slice(0, -1).join(' ')).toBe(states[i - 1]);
      }
    }
  }

  test('Retry-After is waited for by a controller', async () => {
    const made = await world(namespace, 1);
    proxy.next(isWrite, { type: 'answer', status: 429, retryAfterSeconds: 1 });
    const done = carryOut(made, namespace);
    await intend(namespace, 'intent-0', 1);
    await waitFor(() => proxy.seen.filter(isWrite).length === 2, LATE);
    const [refused, again] = proxy.seen.filter(isWrite);
    expect((again?.at ?? 0) - (refused?.at ?? 0)).toBeGreaterThanOrEqual(999);
    stopped.abort(new Error('stop'));
    await done;
  });

  test('random faults: every intent is carried out by one conditioned write, though answers are lost or writes arrive late', async () => {
    const fault = fc.oneof(
      { weight: 4, arbitrary: fc.record({ type: fc.constantFrom('swallow' as const, 'mute' as const, 'reset' as const) }) },
      { weight: 2, arbitrary: fc.record({ type: fc.constantFrom('belated' as const, 'delay' as const), ms: fc.nat(250) }) },
      { weight: 2, arbitrary: fc.record({ type: fc.constant('answer' as const), status: fc.constantFrom(429, 500, 503, 504) }) },
      { weight: 1, arbitrary: fc.constant({ type: 'cut' as const, lines: 0, by: 'reset' as const }) },
    );
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.record({ do: fc.constant('intend' as const), which: fc.nat(2), waitMs: fc.constantFrom(0, 0, 20, 60) }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('order' as const), fault, times: fc.integer({ min: 1, max: 2 }) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('stall' as const), ms: fc.nat(200) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('reset' as const) }) },
    );
    const seed = 20_261_121;
    const numRuns = 12;
    process.stdout.write(`  ${serverName}: random lost answers: seed ${seed}, ${numRuns} schedules\n`);
    let schedules = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 6, maxLength: 16 }), async (steps) => {
        const within = await newNamespace();
        const made = await world(within, schedules++);
        const { logs } = await logsOf(within);
        const done = carryOut(made, within);
        const wanted = new Map<string, number>();
        for (const one of steps) {
          if (one.do === 'intend') {
            const name = `intent-${one.which}`;
            wanted.set(name, (wanted.get(name) ?? 0) + 1);
            await intend(within, name, wanted.get(name) ?? 0);
            await delay(one.waitMs);
          } else if (one.do === 'order') proxy.next(isWrite, one.fault, one.times);
          else if (one.do === 'reset') proxy.resetAll();
          else {
            // The watches come back late: until then the stores are old.
            proxy.next(isWatch, { type: 'delay', ms: one.ms }, 2);
            proxy.resetAll();
          }
        }
        proxy.clear();
        await carriedOut(within, wanted, logs);
        const own = stopped;
        stopped = new AbortController();
        own.abort(new Error('the schedule is over'));
        await done;
      }),
      { numRuns, seed, endOnFailure: true },
    );
  });

  test('what is made under a random name is made once, though the answer is lost and the store gets no events', async () => {
    const made = await world(namespace, 3);
    const { intents, effects, own } = made;
    const done = createController({
      ...own,
      name: 'children',
      watches: [
        watch(intents, (object) => [keyOf(object.metadata)]),
        watch(effects, (object) => [keyOf({ namespace, name: object.data?.['of'] ?? '' })]),
      ],
      reconcile: async (key, context) => {
        const { name: of } = parseKey(key);
        if (intents.get(parseKey(key)) === undefined || effects.list().some((child) => child.data?.['of'] === of)) return;
        const name = `${of}-${Math.floor(context.random() * 2 ** 32).toString(16)}`;
        await context.client.create(ConfigMaps, labelled(namespace, name, 'effect', { of }));
      },
    }).run();
    const lost: Fault[] = [
      { type: 'swallow' },
      { type: 'mute' },
      { type: 'cut', lines: 0, by: 'reset' },
      { type: 'swallow' },
      { type: 'delay', ms: 50 },
    ];
    for (const [i, fault] of lost.entries()) {
      proxy.next(isWatch, { type: 'delay', ms: 400 }, 2);
      proxy.next(isWrite, fault);
      proxy.resetAll();
      await intend(namespace, `intent-${i}`, 1);
      await waitFor(() => proxy.seen.filter((request) => isWrite(request) && request.fault === fault.type).length > 0, LATE);
    }
    const children = async (): Promise<string[]> =>
      (await client.list(ConfigMaps, { namespace, labelSelector: 'role=effect' })).items
        .map((child) => child.data?.['of'] ?? '')
        .toSorted();
    const wanted = lost.map((__, i) => `intent-${i}`);
    await waitFor(async () => (await children()).length >= wanted.length, LATE);
    await waitFor(() => effects.size >= wanted.length, LATE);
    await delay(300);
    expect(await children()).toEqual(wanted);
    stopped.abort(new Error('stop'));
    await done;
  });

  test('a server killed in mid-write loses no intent and carries out none twice', async () => {
    const made = await world(namespace, 4);
    const { logs } = await logsOf(namespace);
    const done = carryOut(made, namespace);
    const wanted = new Map<string, number>();
    const writing = async (from: number): Promise<void> => {
      for (let n = from; n < from + 400; n++) {
        const name = `intent-${n % 3}`;
        // Asked for before it is known whether the server took it.
        await intend(namespace, name, n).catch(() => Promise.reject(new Error('died')));
        wanted.set(name, n);
      }
    };
    const first = rejection(writing(1));
    await delay(150);
    await server.kill();
    expect(await first).toMatchObject({ message: 'died' });
    await server.start();
    const since = performance.now();
    for (let i = 0; i < 3; i++) {
      wanted.set(`intent-${i}`, 1000 + i);
      await intend(namespace, `intent-${i}`, 1000 + i);
    }
    await carriedOut(namespace, wanted, logs);
    report(serverName, 'after it was killed in mid-write, until every intent was carried out', performance.now() - since);
    stopped.abort(new Error('stop'));
    await done;
  });
});
