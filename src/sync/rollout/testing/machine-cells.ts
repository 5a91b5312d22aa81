/** A hub and cells whose API servers note who owns a field, with one MachineSet of one fleet. Each test sets what a cell reports of its machines. */
import type { Transport } from '../../../api/transport.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { CustomResourceDefinitions, Namespaces, Secrets } from '../../../api/builtin.ts';
import { Clusters, type Cluster, type UnitStatus } from '../../../api/cluster.ts';
import { unitDigest } from '../../../api/digest.ts';
import { Fleets } from '../../../api/fleet.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { CELL_KINDS } from '../../../api/kinds.ts';
import { MachineSets, type MachineSet } from '../../../api/machine-set.ts';
import { SYSTEM_NAMESPACE } from '../../../api/names.ts';
import { Rollouts, type Rollout } from '../../../api/rollout.ts';
import type { KubeObject, Stored } from '../../../api/wire.ts';
import { createCache } from '../../../kube/cache.ts';
import type { Client } from '../../../kube/client.ts';
import { CELL_LIMITS, createClient } from '../../../kube/http-client.ts';
import { fakeApiServer } from '../../../kube/testing/api-server.ts';
import { fakeClock } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import type { StoredUnit } from '../../bundles.ts';
import { openFence } from '../../fence.ts';
import { runRolloutController } from '../controller.ts';

export const UNIT = 'MachineSet/web/web';
export const KEY = { namespace: 'web', name: 'web' };
const STEP_MS = 200;

/** Of the fleet: a set of so many machines; undefined: the commit leaves the number out. */
export function setOf(replicas: number | undefined, spec: object = {}): KubeObject {
  const content = { provider: { name: 'local' }, ...(replicas === undefined ? {} : { replicas }), ...spec };
  return { apiVersion: API_VERSION, kind: 'MachineSet', metadata: KEY, spec: content } as KubeObject;
}
export const digestOf = (object: KubeObject): string => unitDigest([object]);

export interface CommitOptions {
  /** One of before, which is judged again; absent: a new one. */
  commit?: string;
  soakSeconds?: number;
  /** Up to how many machines were counted for the limits of deletions. */
  machines?: number;
  /** Up to how many machines the set may have where this begins. */
  atMost?: number;
}

export async function machineCells(names: readonly string[]) {
  const clock = fakeClock();
  const hub = fakeApiServer();
  const units = new Map<string, StoredUnit>();
  const servers = new Map<string, EmbeddedCluster>();
  for (const name of names) servers.set(name, await openCluster({ name, state: 'memory', clock }));
  let stop = new AbortController();
  let running: Promise<void> | undefined;
  let refusing: string | undefined;

  function serverOf(name: string): EmbeddedCluster {
    const found = servers.get(name);
    if (found === undefined) throw new Error(`no cell ${name}`);
    return found;
  }
  /** As the hub reaches it. */
  function transportOf(name: string): Transport {
    const transport = serverOf(name).asUser();
    return async (request) => {
      if (refusing === name && request.method !== 'GET') throw new Error('the cell refuses each write');
      const answer = await transport(request);
      await world.after?.(name, request);
      return answer;
    };
  }
  const clientOf = (name: string): Client => createClient(serverOf(name).asUser());

  for (const name of names) {
    for (const kind of CELL_KINDS) await clientOf(name).create(CustomResourceDefinitions, CustomResourceDefinitions.parse(kind.crd()));
    await clientOf(name).create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
    const secret = { namespace: SYSTEM_NAMESPACE, name: `cluster-${name}` };
    const kubeconfig = Buffer.from(name).toString('base64');
    hub.put(Clusters, { apiVersion: API_VERSION, kind: 'Cluster', metadata: { name, generation: 1 }, spec: {} });
    hub.put(Secrets, { apiVersion: 'v1', kind: 'Secret', metadata: secret, data: { kubeconfig } });
  }

  const cluster = (name: string): Stored<Cluster> | undefined => hub.objects(Clusters).find(({ metadata }) => metadata.name === name);
  const record = (name: string): UnitStatus | undefined => cluster(name)?.status?.units?.find(({ unit }) => unit === UNIT);
  const status = (name: string): Rollout['status'] => hub.objects(Rollouts).find(({ metadata }) => metadata.name === name)?.status;

  const world = {
    clock,
    /** Runs after each request of the hub to a cell, before the hub has the answer. */
    after: undefined as undefined | ((name: string, request: Parameters<Transport>[0]) => Promise<void>),
    units,
    record,
    status,
    cell: clientOf,
    live: (name: string): Promise<Stored<MachineSet> | undefined> => clientOf(name).find(MachineSets, KEY),
    placement: (name: string, on: string) => status(name)?.units?.[0]?.clusters?.find((each) => each.name === on),
    start(): void {
      stop = new AbortController();
      const ports = { client: createClient(hub.transport), clock, random: () => 0.5, log: recordingLog(), signal: stop.signal };
      running = runRolloutController({
        ...ports,
        cache: createCache(ports),
        bundles: {
          get: async (digest) => units.get(digest),
          put: async (digest, unit) => void units.set(digest, unit),
          sweep: async () => undefined,
        },
        fence: openFence(ports),
        connect: async (name) => ({
          client: createClient(transportOf(name), { limits: CELL_LIMITS, clock }),
          time: { estimate: () => ({ ms: clock.now(), errorMs: 0 }) },
          close: async () => undefined,
        }),
        render: () => Promise.reject(new Error('the commit is not there')),
        recorder: { event: () => undefined, flush: async () => undefined },
      });
    },
    async stop(): Promise<void> {
      stop.abort(new Error('the hub ends'));
      await running?.catch(() => undefined);
    },
    async close(): Promise<void> {
      await world.stop();
      for (const server of servers.values()) await server.close();
    },
    async pass(ms = 3000): Promise<void> {
      for (let passed = 0; passed < ms; passed += STEP_MS) await clock.advance(STEP_MS);
    },
    /** The one cell that takes no write of the hub. */
    refuse(name: string | undefined): void {
      refusing = name;
    },
    pause(name: string, paused: boolean): void {
      const stored = cluster(name);
      if (stored !== undefined) hub.put(Clusters, { ...stored, spec: { ...stored.spec, paused } });
    },
    /** A commit that wants this set in all clusters, or none (`null`). In force at once; each cluster is a stage. */
    commit(object: KubeObject | null, { commit, soakSeconds = 0, machines, atMost }: CommitOptions = {}): string {
      const sequence = 1 + hub.objects(Rollouts).length;
      const from = commit ?? `c${sequence}`;
      const name = `main-${sequence}`;
      const digest = object === null ? undefined : digestOf(object);
      if (object !== null && digest !== undefined) units.set(digest, { key: UNIT, objects: [object], origins: [undefined] });
      const counted = { ...(machines === undefined ? {} : { machines }), ...(atMost === undefined ? {} : { atMost }) };
      const { metadata } = hub.put(Rollouts, {
        apiVersion: API_VERSION,
        kind: 'Rollout',
        metadata: { name, generation: 1, creationTimestamp: new Date(clock.now()).toISOString() },
        spec: {
          fleet: 'main',
          commit: from,
          sequence,
          stages: names.map((each) => ({ name: each, clusters: [each], soakSeconds, maxClusters: 1 })),
          units: [{ unit: UNIT, clusters: names.map((each) => ({ name: each, ...(digest === undefined ? {} : { digest }), ...counted })) }],
        },
      });
      hub.put(Fleets, {
        apiVersion: API_VERSION,
        kind: 'Fleet',
        metadata: { name: 'main', generation: 1 },
        spec: { source: { path: '/fleet' }, stages: [{ name: 'all', clusterSelector: {} }] },
        status: { commit: from, clusters: [...names], rollout: { sequence, uid: metadata.uid } },
      });
      return name;
    },
    /** As the controller of its cell reports it. */
    async has(name: string, replicas: number): Promise<void> {
      const { metadata } = await clientOf(name).get(MachineSets, KEY);
      const counts = { replicas, readyReplicas: replicas, availableReplicas: replicas };
      const merge = { status: { ...counts, observedGeneration: metadata.generation } };
      await clientOf(name).patch(MachineSets, KEY, { merge }, { subresource: 'status' });
      await world.pass();
    },
  };
  return world;
}
export type MachineCells = Awaited<ReturnType<typeof machineCells>>;
