/**
 * Runs in a process of its own, as after a restart: reads all Machines, through the runtime of the controllers or with nothing but undici and
 * JSON.parse. Reports when its modules are loaded, gets its options in one message, and answers with one.
 */
import { Agent } from 'undici';
import { messageOf } from '../src/api/errors.ts';
import { Machines } from '../src/api/machine.ts';
import { MANAGERS } from '../src/api/names.ts';
import { keyOf, parseKey, pathOf } from '../src/api/resource.ts';
import { createCache } from '../src/kube/cache.ts';
import { systemClock } from '../src/kube/clock.ts';
import type { Connection } from '../src/kube/connect.ts';
import { createController, watch } from '../src/kube/controller.ts';
import { createClient } from '../src/kube/http-client.ts';
import { httpTransport } from '../src/kube/http-transport.ts';
import { counting } from './expense.ts';

export interface ResyncOrder {
  how: 'runtime' | 'raw';
  connection: Connection & { token: string };
  machines: number;
}

/** Times in ms since the first line of the work. */
export interface Resynced {
  /** Every Machine is in the store, and its indexes; raw: has been parsed. */
  syncedMs: number;
  /** The first reconcile of every Machine has ended; raw: as `syncedMs`. */
  reconciledMs: number;
  /** Processor time until then. */
  cpuMs: number;
  requests: number;
  peakBytes: number;
}

const LIMIT = 500;

async function runtime({ connection, machines }: ResyncOrder): Promise<Omit<Resynced, 'cpuMs' | 'peakBytes'>> {
  const began = performance.now();
  const ended = new AbortController();
  const transport = httpTransport(connection);
  const asked = counting(transport);
  const warn = (fields: object, text: string): void => void process.stderr.write(`${text} ${JSON.stringify(fields)}\n`);
  const log = { debug: () => undefined, info: () => undefined, warn, error: warn };
  const client = createClient(asked);
  const ports = { client, clock: systemClock({ ref: true }), random: Math.random, log, signal: ended.signal };
  const cache = createCache({ ...ports, keepManagers: [MANAGERS.machine, MANAGERS.machineSet] });
  const store = cache.store(Machines);
  // As the machine controller and the set controller find them.
  store.addIndex('name', ({ metadata }) => [metadata.name]);
  store.addIndex('component', ({ spec }) => spec.components?.map(({ name }) => name) ?? []);
  const reconciled = new Set<string>();
  const all = Promise.withResolvers<number>();
  const controller = createController({
    ...ports,
    name: 'resync',
    watches: [watch(store, ({ metadata }) => [keyOf(metadata)])],
    concurrency: 8,
    reconcile: async (key) => {
      if (store.get(parseKey(key)) === undefined) throw new Error(`${key} is not in the store`);
      reconciled.add(key);
      if (reconciled.size === machines) all.resolve(performance.now() - began);
    },
  }).run();
  await cache.whenSynced();
  const syncedMs = performance.now() - began;
  const reconciledMs = await all.promise;
  const requests = asked.count;
  ended.abort(new Error('measured'));
  await controller;
  await cache.done();
  await transport.close();
  return { syncedMs, reconciledMs, requests };
}

async function raw({ connection, machines }: ResyncOrder): Promise<Omit<Resynced, 'cpuMs' | 'peakBytes'>> {
  const began = performance.now();
  const { server: origin, ca, token } = connection;
  const agent = new Agent({ connect: ca === undefined ? {} : { ca } });
  const items: unknown[] = [];
  let requests = 0;
  for (let from = ''; from !== '' || requests === 0;) {
    const path = `${pathOf(Machines)}?limit=${LIMIT}${from === '' ? '' : `&continue=${encodeURIComponent(from)}`}`;
    const headers = { accept: 'application/json', authorization: `Bearer ${token}` };
    const { statusCode, body } = await agent.request({ origin, path, method: 'GET', headers });
    const text = await body.text();
    if (statusCode !== 200) throw new Error(`GET ${path}: ${statusCode} ${text.slice(0, 500)}`);
    const page = JSON.parse(text) as { metadata: { continue?: string }; items: unknown[] };
    items.push(...page.items);
    from = page.metadata.continue ?? '';
    requests++;
  }
  const syncedMs = performance.now() - began;
  if (items.length !== machines) throw new Error(`${items.length} Machines were listed, there should be ${machines}`);
  await agent.destroy();
  return { syncedMs, reconciledMs: syncedMs, requests };
}

process.once('disconnect', () => process.exit(1));
process.send?.('ready');
process.once('message', (order: ResyncOrder) => void answer(order));

async function answer(order: ResyncOrder): Promise<void> {
  const cpu = process.cpuUsage();
  try {
    const found = order.how === 'raw' ? await raw(order) : await runtime(order);
    const { user, system } = process.cpuUsage(cpu);
    const resynced: Resynced = { ...found, cpuMs: (user + system) / 1000, peakBytes: process.resourceUsage().maxRSS * 1024 };
    process.send?.(resynced, () => process.exit(0));
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`);
    process.exit(1);
  }
}
