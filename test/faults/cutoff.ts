/** Run by memory.test.ts: a store, a controller and a Lease that are cut off again and again. Prints what is left of it in memory. */
import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { ConfigMaps, Namespaces } from '../../src/api/builtin.ts';
import { keyOf, parseKey } from '../../src/api/resource.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { Connection } from '../../src/kube/connect.ts';
import { createController, watch } from '../../src/kube/controller.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { runLeaderElection } from '../../src/kube/lease.ts';
import { startReflector } from '../../src/kube/reflector.ts';
import { seededRandom } from '../../src/kube/testing/clock.ts';
import { configMap } from '../../src/kube/testing/objects.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { isWrite, startProxy, type Fault } from './proxy.ts';

const WARM_UP = 25;
const CYCLES = 100;
const OBJECTS = 100;
const LATE = { deadlineMs: 20_000 };

const connection = JSON.parse(process.env['KUBENODE_TEST_CONNECTION'] ?? '') as Connection & { server: string };
const direct = httpTransport(connection);
const admin = createClient(direct, { fieldManager: 'a-human' });
const namespace = 'memory';
await admin.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
for (let i = 0; i < OBJECTS; i++) await admin.create(ConfigMaps, configMap(namespace, `m${i}`, { text: 'x'.repeat(4000) }));

const proxy = await startProxy(connection);
const transport = httpTransport(proxy.connection, { idleTimeoutMs: 1000 });
const stop = new AbortController();
const noLog = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const ports = {
  client: createClient(transport, { fieldManager: 'test' }),
  clock: systemClock({ ref: true }),
  random: seededRandom(1),
  log: noLog,
  signal: stop.signal,
};
const backoff = { baseMs: 1, maxMs: 5 };
const store = startReflector({ ...ports, resource: ConfigMaps, namespace, backoff });
let lists = 0;
store.subscribe((event) => {
  if (event.type === 'listed') lists++;
});
await store.whenSynced();
const controller = createController({
  ...ports,
  name: 'copies',
  watches: [watch(store, (object) => [keyOf(object.metadata)])],
  backoff,
  lagMs: 20,
  reconcile: async (key, context) => {
    const object = store.get(parseKey(key));
    if (object?.data?.['n'] === undefined || object.data['n'] === object.data['seen']) return;
    await context.client.update(ConfigMaps, { ...object, data: { ...object.data, seen: object.data['n'] } });
  },
}).run();
const quick = { durationMs: 1000, renewDeadlineMs: 200, retryPeriodMs: 20 };
const election = runLeaderElection({ ...ports, ...quick, namespace, name: 'cell', identity: 'me' }, async (term) => {
  await new Promise<void>((resolve) => term.signal.addEventListener('abort', () => resolve(), { once: true }));
});

const faults: Fault[] = [
  { type: 'swallow' },
  { type: 'reset' },
  { type: 'answer', status: 503 },
  { type: 'cut', lines: 0, by: 'reset' },
  { type: 'answer', status: 429 },
];

async function cycle(i: number): Promise<void> {
  const name = `m${i % OBJECTS}`;
  proxy.next(isWrite, faults[i % faults.length] ?? { type: 'reset' });
  const before = lists;
  if (i % 4 !== 0) store.relist();
  if (i % 3 === 0) proxy.resetAll();
  await admin.patch(ConfigMaps, { namespace, name }, { merge: { data: { n: String(i) } } });
  await waitFor(() => store.get({ namespace, name })?.data?.['seen'] === String(i), LATE);
  if (i % 4 !== 0) await waitFor(() => lists > before, LATE);
}

async function heap(): Promise<number> {
  // What the proxy remembers is not the client's.
  (proxy.seen as unknown[]).length = 0;
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    await delay(20);
  }
  return process.memoryUsage().heapUsed;
}

for (let i = 0; i < WARM_UP; i++) await cycle(i);
const beforeBytes = await heap();
for (let i = 0; i < CYCLES; i++) await cycle(WARM_UP + i);
const afterBytes = await heap();
const listeners = getEventListeners(stop.signal, 'abort').length;
proxy.clear();
stop.abort(new Error('enough'));
await Promise.all([controller, election, store.done]);
await transport.close();
await proxy.close();
await direct.close();
const found = JSON.stringify({ cycles: CYCLES, beforeBytes, afterBytes, listeners, lists });
// Not Node's own way out: see src/cli/program.ts.
process.stdout.write(found, () => process.exit());
