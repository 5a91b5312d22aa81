/** KubeNode's own kinds, clients and controllers on a real API server. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ConfigMaps, CustomResourceDefinitions, Events, Leases, Namespaces, Nodes } from '../../src/api/builtin.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { ALL_KINDS } from '../../src/api/kinds.ts';
import { Machines, type Machine } from '../../src/api/machine.ts';
import { MachineSets, type MachineSet } from '../../src/api/machine-set.ts';
import { MANAGERS } from '../../src/api/names.ts';
import { keyOf, parseKey } from '../../src/api/resource.ts';
import type { Stored } from '../../src/api/wire.ts';
import { runMachineSetController } from '../../src/controllers/machine-set/controller.ts';
import { applyIfChanged } from '../../src/kube/apply.ts';
import { createCache } from '../../src/kube/cache.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createController, watch } from '../../src/kube/controller.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { runLeaderElection } from '../../src/kube/lease.ts';
import { createRecorder } from '../../src/kube/recorder.ts';
import { seededRandom } from '../../src/kube/testing/clock.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { configMap, node } from '../../src/kube/testing/objects.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { realServer, type RealServer } from './real-server.ts';

const LATE = { deadlineMs: 20_000 };
const NS = 'kubenode-controllers';

describe('on a real API server', () => {
  let real: RealServer;
  let client: Client;
  let stopped: AbortController;

  beforeAll(async () => {
    const found = realServer();
    if (found === undefined) throw new Error('npm run test:kubernetes starts the server that these tests want');
    real = found;
    client = createClient(real.transport, { fieldManager: 'a-human' });
    await client.create(Namespaces, Namespaces.parse({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } }));
    for (const kind of ALL_KINDS) {
      // Other files define them too.
      const definition = CustomResourceDefinitions.parse(kind.crd());
      if ((await client.find(CustomResourceDefinitions, definition.metadata)) === undefined)
        await client.create(CustomResourceDefinitions, definition);
    }
  }, 60_000);
  afterAll(() => real.transport.close());
  beforeEach(() => {
    stopped = new AbortController();
  });
  afterEach(() => stopped.abort(new Error('the test is over')));

  const ports = () => ({
    client: createClient(real.transport, { userAgent: 'kubenode-controller' }),
    clock: systemClock({ ref: true }),
    random: seededRandom(7),
    log: recordingLog(),
    signal: stopped.signal,
  });

  it.each(ALL_KINDS.map((kind) => [kind.kind, kind] as const))('%s is accepted with its rules, and served', async (_, kind) => {
    await waitFor(async () => {
      const { status } = await client.get(CustomResourceDefinitions, { name: `${kind.plural}.${kind.group}` });
      const is = (type: string): boolean => status?.conditions?.some((each) => each.type === type && each.status === 'True') === true;
      expect(status?.conditions?.find((each) => each.type === 'NonStructuralSchema')?.message).toBeUndefined();
      return is('Established') && is('NamesAccepted');
    }, LATE);
    await waitFor(
      async () =>
        client.list(kind).then(
          () => true,
          () => false,
        ),
      LATE,
    );
  });

  it('a controller brings every object to one, and then writes nothing', async () => {
    const names = Array.from({ length: 12 }, (_, i) => `real-${i}`);
    for (const name of names) await client.create(Nodes, node(name));
    const writes: string[] = [];
    const own = {
      ...ports(),
      client: createClient((request) => {
        if (request.method !== 'GET') writes.push(`${request.method} ${request.path}`);
        return real.transport(request);
      }),
    };
    const cache = createCache({ ...own, keepManagers: ['kubenode-test'] });
    const nodes = cache.store(Nodes);
    const maps = cache.store(ConfigMaps);
    const done = createController({
      ...own,
      name: 'maps',
      watches: [watch(nodes, (object) => [keyOf(object.metadata)]), watch(maps, (object) => [object.metadata.name])],
      reconcile: async (key, context) => {
        if (!key.startsWith('real-') || nodes.get(parseKey(key)) === undefined) return;
        const desired = configMap(NS, key, { node: key });
        await applyIfChanged(context.client, ConfigMaps, desired, { fieldManager: 'kubenode-test', stored: maps.get(desired.metadata) });
      },
    }).run();
    const count = async (): Promise<number> =>
      (await client.list(ConfigMaps, { namespace: NS })).items.filter((map) => map.data?.['node']).length;
    await waitFor(async () => (await count()) === names.length, LATE);
    await client.delete(ConfigMaps, { namespace: NS, name: 'real-7' });
    await waitFor(async () => (await count()) === names.length, LATE);
    expect(writes.toSorted()).toEqual([...names, 'real-7'].map((name) => `PATCH /api/v1/namespaces/${NS}/configmaps/${name}`).toSorted());
    stopped.abort(new Error('stop'));
    await Promise.all([done, cache.done()]);
  });

  it('a Lease is acquired, renewed and released', async () => {
    const times = { durationMs: 2000, renewDeadlineMs: 900, retryPeriodMs: 40 };
    const read = async (): Promise<string | undefined> => (await client.find(Leases, { namespace: NS, name: 'cell' }))?.spec?.renewTime;
    await runLeaderElection({ ...ports(), ...times, namespace: NS, name: 'cell', identity: 'a' }, async (term) => {
      const first = await read();
      await waitFor(async () => (await read()) !== first, LATE);
      expect(term.isValid()).toBe(true);
      stopped.abort(new Error('stop'));
    });
    expect((await client.get(Leases, { namespace: NS, name: 'cell' })).spec?.holderIdentity).toBe('');
  });

  it('Events are taken, and counted', async () => {
    const about = await client.create(Nodes, node('real-event'));
    const recorder = createRecorder({ ...ports(), component: 'kubenode-test', instance: 'me' });
    for (let i = 0; i < 3; i++) {
      recorder.event(about, { type: 'Warning', reason: 'ProbeFailed', message: 'kubelet did not answer' });
      await recorder.flush();
    }
    const events = await client.list(Events, { namespace: 'default', fieldSelector: 'involvedObject.name=real-event' });
    expect(events.items).toMatchObject([{ count: 3, reason: 'ProbeFailed', involvedObject: { uid: about.metadata.uid } }]);
  });

  it('a machine set keeps as many machines as are asked for, and their template', async () => {
    const shared = ports();
    const cache = createCache({ ...shared, keepManagers: [MANAGERS.machineSet] });
    const recorder = createRecorder({ ...shared, component: 'kubenode-test', instance: 'test' });
    const done = runMachineSetController({
      ...shared,
      cache,
      recorder,
      providers: new Map([['fake', { validate: () => [] }]]),
      term: Promise.resolve(1),
    });
    const key = { namespace: NS, name: 'web-a' };
    const machines = async (): Promise<Stored<Machine>[]> => (await client.list(Machines, { namespace: NS })).items;
    const set: MachineSet = {
      apiVersion: API_VERSION,
      kind: 'MachineSet',
      metadata: { ...key },
      spec: {
        provider: { name: 'fake' },
        replicas: 3,
        maxRetiring: '100%',
        template: { metadata: { labels: { a: '1' } }, labels: { x: '1', y: '1' } },
      },
    };
    await client.create(MachineSets, set);
    await waitFor(async () => (await machines()).length === 3, LATE);
    const path = `/apis/kubenode.io/v1alpha1/namespaces/${NS}/machinesets/web-a/scale`;
    for (const replicas of [5, 2]) {
      await client.request({
        method: 'PATCH',
        path,
        headers: { 'content-type': 'application/merge-patch+json' },
        body: JSON.stringify({ spec: { replicas } }),
      });
      await waitFor(async () => {
        // As the machine controller does, once they are drained.
        for (const { metadata, spec } of await machines())
          if (spec.retire?.epoch === 1) await client.delete(Machines, metadata, { uid: metadata.uid });
        return (await machines()).length === replicas;
      }, LATE);
      await waitFor(async () => (await client.get(MachineSets, key)).status?.replicas === replicas, LATE);
    }
    await client.patch(MachineSets, key, { merge: { spec: { template: { metadata: { labels: { a: '2' } }, labels: { x: null } } } } });
    await waitFor(async () => (await machines()).every((machine) => machine.metadata.labels?.['a'] === '2'), LATE);
    await waitFor(async () => (await machines()).every((machine) => machine.spec.labels?.['x'] === undefined), LATE);
    expect((await machines()).map((machine) => machine.spec.labels)).toEqual([{ y: '1' }, { y: '1' }]);
    stopped.abort(new Error('stop'));
    await done;
  });
});
