import { answerCodes } from './errors.ts';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { ConfigMaps, CustomResourceDefinitions, Events, Leases, Nodes } from '../api/builtin.ts';
import { isCoded } from '../api/errors.ts';
import { keyOf, parseKey } from '../api/resource.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject } from '../api/wire.ts';
import { openCluster, serve, type ApiServer, type EmbeddedCluster } from '@kubenode/embedded';
import { applyIfChanged, wouldChange } from './apply.ts';
import { createCache } from './cache.ts';
import type { Client } from './client.ts';
import { systemClock } from './clock.ts';
import type { ClosableTransport } from './connect.ts';
import { createController, watch } from './controller.ts';
import { createClient } from './http-client.ts';
import { nodeHttpsTransport } from './https-transport.ts';
import { httpTransport } from './http-transport.ts';
import { loadKubeconfig } from './kubeconfig.ts';
import { runLeaderElection } from './lease.ts';
import { createRecorder } from './recorder.ts';
import { startReflector } from './reflector.ts';
import { seededRandom } from './testing/clock.ts';
import { recordingLog } from './testing/log.ts';
import { configMap, node } from './testing/objects.ts';
import { waitFor } from './testing/wait-for.ts';

const clock = systemClock({ ref: true });
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
});

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'kubenode-runtime-'));
  cleanups.push(() => rm(made, { recursive: true }));
  return made;
}

function signal(): AbortSignal {
  const controller = new AbortController();
  cleanups.push(() => controller.abort(new Error('the test is over')));
  return controller.signal;
}

const ports = (): { clock: typeof clock; random: () => number; log: ReturnType<typeof recordingLog>; signal: AbortSignal } => ({
  clock,
  random: seededRandom(1),
  log: recordingLog(),
  signal: signal(),
});

async function memoryCluster(): Promise<{ cluster: EmbeddedCluster; client: Client }> {
  const cluster = await openCluster({ name: 'blue', state: 'memory', clock });
  cleanups.push(() => cluster.close());
  return { cluster, client: createClient(cluster.asUser(), { fieldManager: 'kubenode-test' }) };
}

interface Served {
  cluster: EmbeddedCluster;
  server: ApiServer;
  stop(): Promise<void>;
}

/** Over HTTPS; with a folder it can be stopped and started again at one port. */
async function served(state: string, port = 0): Promise<Served> {
  const cluster = await openCluster({ name: 'blue', state: { dir: join(state, 'blue') }, clock });
  const server = await serve({ clusters: [cluster], listen: `127.0.0.1:${port}`, state: { dir: state }, clock });
  let stopped = false;
  const stop = async (): Promise<void> => {
    if (stopped) return;
    stopped = true;
    await server.close();
    await cluster.close();
  };
  cleanups.push(stop);
  return { cluster, server, stop };
}

describe.each([
  ['undici', httpTransport],
  ['node:https', nodeHttpsTransport],
] as const)('over HTTPS by %s', (_name, create) => {
  async function connected(): Promise<{ transport: ClosableTransport; client: Client; first: Served; state: string }> {
    const state = await folder();
    const first = await served(state);
    const path = join(state, 'kubeconfig');
    await writeFile(path, first.server.kubeconfig('blue'));
    const transport = create(await loadKubeconfig({ path, env: {}, clock }));
    cleanups.push(() => transport.close());
    return { transport, client: createClient(transport, { fieldManager: 'kubenode-test' }), first, state };
  }

  test('objects are written, read, listed in pages, watched and deleted', async () => {
    const { client } = await connected();
    expect(await client.find(ConfigMaps, { namespace: 'default', name: 'm0' })).toBeUndefined();
    for (let i = 0; i < 7; i++) await client.create(ConfigMaps, configMap('default', `m${i}`));
    const all = await client.listAll(ConfigMaps, { namespace: 'default', limit: 3 });
    expect(all.items.map((item) => item.metadata.name)).toEqual(['m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6']);
    const seen: string[] = [];
    const watching = (async () => {
      for await (const event of client.watch(ConfigMaps, {
        namespace: 'default',
        resourceVersion: all.metadata.resourceVersion,
        timeoutSeconds: 10,
      })) {
        if (event.type !== 'BOOKMARK') seen.push(`${event.type} ${event.object.metadata.name}`);
        if (event.type === 'DELETED') break;
      }
    })();
    await client.patch(ConfigMaps, { namespace: 'default', name: 'm0' }, { merge: { data: { umlaut: 'Zoë 🚀' } } });
    await client.delete(ConfigMaps, { namespace: 'default', name: 'm1' });
    await watching;
    expect(seen).toEqual(['MODIFIED m0', 'DELETED m1']);
    await expect(client.create(ConfigMaps, { ...configMap('default', 'odd'), dataa: {} } as never)).rejects.toMatchObject({ status: 400 });
    await expect(client.create(ConfigMaps, configMap('default', 'm0'))).rejects.toMatchObject({ reason: 'AlreadyExists' });
  });

  test('a server that is stopped in the middle of a watch, changed, and started again is followed', async () => {
    const { client, first, state } = await connected();
    await client.create(Nodes, node('kept'));
    await client.create(Nodes, node('gone'));
    const reflector = startReflector({ client, resource: Nodes, ...ports(), backoff: { baseMs: 10, maxMs: 50 } });
    await reflector.whenSynced();
    const { port } = first.server;
    await first.stop();
    await waitFor(() => reflector.state.phase === 'waiting');
    expect(reflector.size).toBe(2);
    const second = await served(state, port);
    const local = createClient(second.cluster.asUser());
    await local.delete(Nodes, { name: 'gone' });
    await local.create(Nodes, node('new'));
    await waitFor(() => reflector.get({ name: 'new' }) !== undefined && reflector.get({ name: 'gone' }) === undefined);
    expect(reflector.get({ name: 'kept' })).toBeDefined();
  });
});

describe('the runtime on the embedded server', () => {
  test('a controller brings every object to one, through restarts of its own, and then sends no request', async () => {
    const { cluster, client } = await memoryCluster();
    for (let i = 0; i < 30; i++) await client.create(Nodes, node(`n${i}`));
    const requests: string[] = [];
    const counted = createClient((request) => {
      if (request.method !== 'GET') requests.push(`${request.method} ${request.path}`);
      return cluster.asUser()(request);
    });
    async function run(): Promise<{ stop(): Promise<void> }> {
      const controller = new AbortController();
      const own = { ...ports(), client: counted, signal: controller.signal };
      const cache = createCache({ ...own, keepManagers: ['kubenode-test'] });
      const nodes = cache.store(Nodes);
      const maps = cache.store(ConfigMaps);
      const done = createController({
        ...own,
        name: 'maps',
        watches: [watch(nodes, (object) => [keyOf(object.metadata)]), watch(maps, (object) => [object.metadata.name])],
        reconcile: async (key, context) => {
          if (nodes.get(parseKey(key)) === undefined) return;
          const desired = configMap('default', key, { node: key });
          await applyIfChanged(context.client, ConfigMaps, desired, { fieldManager: 'kubenode-test', stored: maps.get(desired.metadata) });
        },
      }).run();
      await cache.whenSynced();
      return {
        async stop() {
          controller.abort(new Error('stop'));
          await done;
          await cache.done();
        },
      };
    }
    const count = async (): Promise<number> =>
      (await client.list(ConfigMaps, { namespace: 'default' })).items.filter((map) => map.data?.['node'] !== undefined).length;

    const first = await run();
    await waitFor(async () => (await count()) > 3);
    await first.stop();
    const second = await run();
    await waitFor(async () => (await count()) === 30);
    await client.delete(ConfigMaps, { namespace: 'default', name: 'n7' });
    await waitFor(async () => (await count()) === 30);
    await second.stop();
    requests.length = 0;
    const third = await run();
    await client.create(Nodes, node('last'));
    await waitFor(async () => (await count()) === 31);
    await third.stop();
    expect(requests).toEqual(['PATCH /api/v1/namespaces/default/configmaps/last']);
  });

  test('a Lease is acquired, renewed and released', async () => {
    const { client } = await memoryCluster();
    const controller = new AbortController();
    const times = { durationMs: 2000, renewDeadlineMs: 900, retryPeriodMs: 40 };
    const options = { ...ports(), client, ...times, signal: controller.signal, namespace: 'default', name: 'cell', identity: 'a' };
    const read = async (): Promise<string | undefined> =>
      (await client.find(Leases, { namespace: 'default', name: 'cell' }))?.spec?.renewTime;
    const done = runLeaderElection(options, async (term) => {
      const first = await read();
      await waitFor(async () => (await read()) !== first);
      expect(term.isValid()).toBe(true);
      controller.abort(new Error('stop'));
    });
    await done;
    expect((await client.get(Leases, { namespace: 'default', name: 'cell' })).spec?.holderIdentity).toBe('');
  });

  test('Events are taken, and counted', async () => {
    const { client } = await memoryCluster();
    const about = await client.create(Nodes, node('a'));
    const recorder = createRecorder({ ...ports(), client, component: 'kubenode-test', instance: 'me' });
    for (let i = 0; i < 3; i++) {
      recorder.event(about, { type: 'Warning', reason: 'ProbeFailed', message: 'kubelet did not answer' });
      await recorder.flush();
    }
    const events = await client.list(Events, { namespace: 'default', fieldSelector: 'involvedObject.name=a' });
    expect(events.items).toMatchObject([{ count: 3, reason: 'ProbeFailed', involvedObject: { uid: about.metadata.uid } }]);
  });
});

const Things: Resource = {
  group: 'test.kubenode.io',
  version: 'v1',
  kind: 'Thing',
  plural: 'things',
  namespaced: false,
  parse: (value) => value as KubeObject,
};

const item = { type: 'object', required: ['name'], properties: { name: { type: 'string' }, value: { type: 'integer' } } };
const listMap = { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] };
const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'things.test.kubenode.io' },
  spec: {
    group: 'test.kubenode.io',
    scope: 'Cluster',
    names: { kind: 'Thing', listKind: 'ThingList', plural: 'things', singular: 'thing' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: {
                  size: { type: 'integer' },
                  map: { type: 'object', additionalProperties: { type: 'string' } },
                  items: { ...listMap, items: item },
                  atoms: { ...listMap, items: { ...item, 'x-kubernetes-map-type': 'atomic' } },
                  tags: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } },
                  batches: { type: 'array', 'x-kubernetes-list-type': 'atomic', items: { type: 'integer' } },
                },
              },
            },
          },
        },
      },
    ],
  },
};

function unlessEmptied(error: unknown): undefined {
  if (isCoded(error, answerCodes, 'Invalid') && error.message.includes('Invalid value: "null"')) return undefined;
  throw error;
}

describe('what would change, against the server that does it', () => {
  const name = fc.constantFrom('a', 'b', 'c');
  const items = fc.uniqueArray(fc.record({ name, value: fc.nat(2) }, { requiredKeys: ['name'] }), {
    selector: (one) => one.name,
    minLength: 1,
    maxLength: 3,
  });
  const anySpec = fc.record(
    {
      size: fc.nat(2),
      map: fc.dictionary(name, fc.constantFrom('x', 'y'), { minKeys: 1, maxKeys: 2, noNullPrototype: true }),
      items,
      atoms: items,
      tags: fc.uniqueArray(name, { minLength: 1 }),
      batches: fc.array(fc.nat(2), { minLength: 1, maxLength: 2 }),
    },
    { requiredKeys: [] },
  );
  // Whether an empty map is atomic cannot be known: it would be applied again beside the fields of others.
  const spec = anySpec.filter((one) => Object.keys(one).length > 0);
  const labels = fc.option(fc.dictionary(name, fc.constantFrom('x', 'y'), { minKeys: 1, noNullPrototype: true }), { nil: undefined });
  const step = fc.record({ manager: fc.constantFrom('one', 'two', 'updater'), spec, labels });

  test('no needed apply is ever left out, and none is made twice', async () => {
    const { client } = await memoryCluster();
    await client.create(CustomResourceDefinitions, definition);
    await waitFor(() => client.list(Things).then(Boolean, () => false));
    let things = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
        const metadata = { name: `t${things++}` };
        let stored = await client.create(Things, { apiVersion: 'test.kubenode.io/v1', kind: 'Thing', metadata });
        for (const { manager, spec, labels } of steps) {
          const fields = { spec, metadata: { ...metadata, ...(labels === undefined ? {} : { labels }) } };
          const desired = { apiVersion: 'test.kubenode.io/v1', kind: 'Thing', ...fields };
          if (manager === 'updater') {
            stored = await client.patch(Things, metadata, { merge: fields });
            continue;
          }
          const predicted = wouldChange(desired, stored, { fieldManager: manager });
          const applied = await client.apply(Things, desired, { fieldManager: manager, force: true }).catch(unlessEmptied);
          // A list that an Update manager made and that loses its last item by an apply becomes null, which the schema refuses, as on a real server.
          if (applied === undefined) {
            expect(predicted).not.toBe(false);
            continue;
          }
          const changed = applied.metadata.resourceVersion !== stored.metadata.resourceVersion;
          expect(predicted === false && changed).toBe(false);
          expect(wouldChange(desired, applied, { fieldManager: manager })).toBe(
            Object.keys(spec).length === 0 && labels === undefined ? undefined : false,
          );
          stored = applied;
        }
      }),
      { numRuns: 150 },
    );
  });
});
