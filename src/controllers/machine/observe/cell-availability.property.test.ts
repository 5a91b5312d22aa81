/**
 * The availability index that is kept by events, against one counted again from the same stores: after any sequence of changes, deletions, replays, broken
 * and expired watches, lists and passing time, and in the middle of the events of each of them.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { Leases, Nodes } from '../../../api/builtin.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { Machines } from '../../../api/machine.ts';
import { MachineComponentSets } from '../../../api/machine-component-set.ts';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import { createAvailabilityIndex, type AvailabilityIndex } from '../../../defender/availability-index.ts';
import { createCache } from '../../../kube/cache.ts';
import { createClient } from '../../../kube/http-client.ts';
import { fakeApiServer } from '../../../kube/testing/api-server.ts';
import { fakeClock, seededRandom } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { settle } from '../../../kube/testing/wait-for.ts';
import { kubeletLease, trackLiveness } from '../../../kube/liveness.ts';
import { keepAvailability, type CellAvailability } from './cell-availability.ts';
import { cellSets } from './cell-sets.ts';
import { countedAs } from './counted.ts';
import { watchKubelets } from './kubelets.ts';
import { remade } from './remade.ts';

const NAMES = ['a', 'b', 'c'];
const POOLS = ['web', 'db'];
const SCOPES = ['cluster', 'pool/web', 'pool/db', 'zone/h', 'zone/i'];

const name = fc.constantFrom(...NAMES);
const pool = fc.constantFrom(...POOLS);
const zone = fc.constantFrom('h', 'i', undefined);

const change = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('machine' as const),
      name,
      pool,
      zone,
      claims: fc.boolean(),
      isNew: fc.nat(4).map((drawn) => drawn === 0),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove-machine' as const), name, pool }) },
  // Gone and back under the name before it was observed, as another one.
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remake-machine' as const), name, pool }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('node' as const),
      name,
      ready: fc.boolean(),
      cordon: fc.constantFrom('none', 'ours', 'foreign'),
      zone,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remove-node' as const), name }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('remake-node' as const), name }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('renew' as const), name, seconds: fc.constantFrom(10, 40) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove-lease' as const), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('agent-lease' as const), name }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('set' as const),
      name,
      pools: fc.option(fc.subarray(POOLS, { minLength: 1 }), { nil: undefined }),
      halted: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove-set' as const), name }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('time' as const), seconds: fc.integer({ min: 1, max: 45 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('end' as const, 'reset' as const, 'stall' as const, 'resume' as const, 'bookmark' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget-history' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('relist' as const), store: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
);
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;

function openWorld() {
  const api = fakeApiServer();
  const clock = fakeClock();
  const ended = new AbortController();
  const shared = { clock, random: seededRandom(1), log: recordingLog(), signal: ended.signal };
  const cache = createCache({ ...shared, client: createClient(api.transport) });
  const stores = {
    machines: cache.store(Machines, { pageSize: 2 }),
    nodes: cache.store(Nodes, { pageSize: 2 }),
    leases: cache.store(Leases, { pageSize: 2 }),
    sets: cache.store(MachineComponentSets),
  };

  const lease = (namespace: string, leaseName: string, seconds: number): void =>
    void api.put(Leases, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { namespace, name: leaseName },
      spec: { renewTime: new Date(clock.now()).toISOString(), leaseDurationSeconds: seconds },
    });

  async function happen(each: Change): Promise<void> {
    switch (each.do) {
      case 'machine': {
        const nodeUID = api.objects(Nodes).find(({ metadata }) => metadata.name === each.name)?.metadata.uid;
        return void api.put(Machines, {
          apiVersion: API_VERSION,
          kind: 'Machine',
          metadata: { namespace: each.pool, name: each.name, ...(each.zone === undefined ? {} : { labels: { [LABELS.zone]: each.zone } }) },
          spec: {},
          status: {
            providerID: `fake://${each.name}`,
            ...(each.isNew ? {} : { firstReadyAt: '2026-11-20T00:00:00Z' }),
            ...(each.claims && nodeUID !== undefined ? { nodeRef: { name: each.name, uid: nodeUID } } : {}),
          },
        });
      }
      case 'remove-machine':
        return api.remove(Machines, { namespace: each.pool, name: each.name });
      case 'remake-machine': {
        const before = api.objects(Machines).find(({ metadata }) => metadata.name === each.name && metadata.namespace === each.pool);
        if (before === undefined) return;
        api.remove(Machines, before.metadata);
        return void api.put(Machines, { ...before, metadata: { namespace: each.pool, name: each.name } });
      }
      case 'node':
        return void api.put(Nodes, {
          apiVersion: 'v1',
          kind: 'Node',
          metadata: {
            name: each.name,
            ...(each.zone === undefined ? {} : { labels: { [LABELS.zone]: each.zone } }),
            ...(each.cordon === 'ours' ? { annotations: { [ANNOTATIONS.cordonOwner]: 'r1' } } : {}),
          },
          spec: { providerID: `fake://${each.name}`, ...(each.cordon === 'none' ? {} : { unschedulable: true }) },
          status: { conditions: [{ type: 'Ready', status: each.ready ? 'True' : 'False' }] },
        });
      case 'remove-node':
        return api.remove(Nodes, { name: each.name });
      case 'remake-node': {
        const before = api.objects(Nodes).find(({ metadata }) => metadata.name === each.name);
        if (before === undefined) return;
        api.remove(Nodes, before.metadata);
        return void api.put(Nodes, { ...before, metadata: { name: each.name } });
      }
      case 'renew':
        return lease('kube-node-lease', each.name, each.seconds);
      case 'remove-lease':
        return api.remove(Leases, { namespace: 'kube-node-lease', name: each.name });
      case 'agent-lease':
        return lease('web', each.name, 1);
      case 'set':
        return void api.put(MachineComponentSets, {
          apiVersion: API_VERSION,
          kind: 'MachineComponentSet',
          metadata: { name: each.name },
          spec: {
            componentName: 'kubelet',
            version: '1',
            batches: [1],
            ...(each.pools === undefined ? {} : { pools: each.pools }),
            paused: each.halted,
          },
        });
      case 'remove-set':
        return api.remove(MachineComponentSets, { name: each.name });
      case 'time':
        return await clock.advance(each.seconds * 1000);
      case 'forget-history':
        api.compact();
        return api.watches.end();
      case 'relist':
        return [stores.machines, stores.nodes, stores.leases, stores.sets][each.store]?.relist();
      case 'settle':
        return await settle();
      case 'bookmark':
        return api.bookmark();
      case 'end':
      case 'reset':
      case 'resume':
      case 'stall':
        return api.watches[each.do]();
      default:
        return each satisfies never;
    }
  }

  async function close(): Promise<void> {
    ended.abort(new Error('over'));
    await cache.done();
  }
  return { clock, cache, stores, happen, close };
}

/** All of it that can be asked. */
const countsOf = (availabilityIndex: AvailabilityIndex, uids: Iterable<string>, scopes: Iterable<string>): unknown => ({
  machines: [...uids].map((uid) => availabilityIndex.of(uid)),
  scopes: [...scopes].map((scope) => {
    const scopeAvailability = availabilityIndex.in(scope);
    if (scopeAvailability === undefined) return undefined;
    const sorted = <Value>(map: ReadonlyMap<string, Value>): [string, Value][] => [...map].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return {
      ...scopeAvailability,
      unavailable: sorted(scopeAvailability.unavailable),
      unhealthy: sorted(scopeAvailability.unhealthy),
      symptoms: sorted(scopeAvailability.symptoms),
    };
  }),
});

test('invariant 2: what is kept by events is what counting all machines again would give, at every moment', async () => {
  const seen = { comparisons: 0, unavailable: 0, stale: 0, inSets: 0 };
  await fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 12 }), fc.array(change, { minLength: 10, maxLength: 60 }), async (before, after) => {
      const { clock, cache, stores, happen, close } = openWorld();
      try {
        for (const each of before) await happen(each);
        while (!cache.states().every(({ synced }) => synced)) await clock.advance(1000);
        const liveness = trackLiveness(stores.leases, clock);
        const uids = new Set<string>();
        const scopes = new Set(SCOPES);
        let kept: CellAvailability | undefined;
        const differences: unknown[] = [];
        function compare(): void {
          if (kept === undefined) return;
          const { facts } = cellSets(stores.sets.list());
          const again = createAvailabilityIndex(
            stores.machines.list().map((machine) => {
              const answers = liveness.isAlive(kubeletLease(machine.metadata.name));
              return countedAs(machine, stores.nodes.get({ name: machine.metadata.name }), answers, facts);
            }),
          );
          for (const { metadata } of stores.machines.list()) uids.add(metadata.uid);
          for (const { metadata } of stores.sets.list()) scopes.add(`set/${metadata.uid}`);
          const [found, expected] = [countsOf(kept.current(), uids, scopes), countsOf(again, uids, scopes)];
          seen.comparisons++;
          seen.unavailable += again.in('cluster')?.unavailable.size ?? 0;
          seen.stale += again.in('cluster')?.symptoms.get('KubeletStale') ?? 0;
          seen.inSets += [...scopes].filter((scope) => scope.startsWith('set/') && again.in(scope) !== undefined).length;
          if (JSON.stringify(found) !== JSON.stringify(expected)) differences.push({ found, expected });
        }
        const kubelets = watchKubelets(stores.leases, liveness, clock);
        kept = keepAvailability({ stores, kubelets, sets: remade(stores.sets, cellSets) });
        // Compares while a store sends what has changed.
        for (const store of [stores.machines, stores.nodes, stores.leases, stores.sets]) store.subscribe(compare);
        for (const each of after) {
          await happen(each);
          if (each.do !== 'renew') compare();
        }
        await clock.advance(60_000);
        compare();
        kept.stop();
        kubelets.stop();
        liveness.stop();
        expect(differences.slice(0, 1)).toEqual([]);
      } finally {
        await close();
      }
    }),
    { numRuns: 300 },
  );
  // What never came up was not tried.
  for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(100);
}, 60_000);
