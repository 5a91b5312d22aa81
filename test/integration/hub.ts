/** A hub with its real controllers, real Git and real rendering, over API servers that are embedded in this process or real. Cells are played by the test. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secrets } from '../../src/api/builtin.ts';
import { Fleets, type Fleet } from '../../src/api/fleet.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../src/api/machine-component-set.ts';
import { SYSTEM_NAMESPACE } from '../../src/api/names.ts';
import { Rollouts } from '../../src/api/rollout.ts';
import type { ApiRequest, Transport } from '../../src/api/transport.ts';
import type { Stored } from '../../src/api/wire.ts';
import { createCache } from '../../src/kube/cache.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { createRecorder } from '../../src/kube/recorder.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { openBundles } from '../../src/sync/bundles.ts';
import { openFence } from '../../src/sync/fence.ts';
import type { ConnectCell } from '../../src/sync/cell/cells.ts';
import { checkRules } from '../../src/rules/check.ts';
import { judgeObject } from '../../src/cli/object-rules.ts';
import { clientFromKubeconfig } from '../../src/cli/remote.ts';
import { openCheckouts } from '../../src/sync/fleet/checkouts.ts';
import { runFleetController } from '../../src/sync/fleet/controller.ts';
import { testRepository } from '../../src/sync/git/testing/repository.ts';
import { childBundle } from '../../src/sync/render/testing/child-bundle.ts';
import { runRolloutController } from '../../src/sync/rollout/controller.ts';
import { openServer, type TestServer } from './servers.ts';

export const CELLS = ['test', 'prod'] as const;

const MAIN = `import { fleet, MachineComponentSet, release } from 'kubenode/constructs';
import { versions } from './versions.ts';
fleet.cluster('test', { labels: { stage: 'test' } });
fleet.cluster('prod', { labels: { stage: 'prod' } });
fleet.allClusters((cluster) => {
  for (const [name, version] of Object.entries(versions)) {
    const component = release(name, version, { any: [] }, {});
    new MachineComponentSet(cluster, name, { component, soakSeconds: 0 });
  }
});
`;
export const versions = (of: Record<string, string>): string => `export const versions: Record<string, string> = ${JSON.stringify(of)};\n`;

/** Counts what is asked of one server, by method. */
export interface Counter {
  requests: { method: string; path: string; watch: boolean }[];
}

function counting(transport: Transport, counter: Counter): Transport {
  return (request: ApiRequest) => {
    counter.requests.push({ method: request.method, path: request.path, watch: request.query?.['watch'] !== undefined });
    return transport(request);
  };
}

export async function openHub(options: { prune?: number } = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'kubenode-hub-'));
  const clock = systemClock();
  const log = recordingLog();
  const repository = testRepository(join(dir, 'fleet'));
  const servers = new Map<string, TestServer>();
  const counters = new Map<string, Counter>();
  for (const name of ['hub', ...CELLS]) {
    servers.set(name, await openServer(name));
    counters.set(name, { requests: [] });
  }
  const clientOf = (name: string): Client => must(servers.get(name)).client;
  const hub = clientOf('hub');
  for (const cell of CELLS) {
    const data = { kubeconfig: Buffer.from(cell).toString('base64') };
    await hub.create(Secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: `cluster-${cell}`, namespace: SYSTEM_NAMESPACE },
      data,
    });
  }

  const lines = new Map<string, AbortController>(CELLS.map((cell) => [cell, new AbortController()]));
  /** Cuts a cell off: open watches end, new requests fail. */
  const away = {
    add: (cell: string): void => must(lines.get(cell)).abort(new Error(`${cell} does not answer`)),
    delete: (cell: string): void => void lines.set(cell, new AbortController()),
    has: (cell: string): boolean => must(lines.get(cell)).signal.aborted,
  };
  const connect: ConnectCell = async (kubeconfig) => {
    // The name of a cell stands for a kubeconfig of it; all else is taken for one.
    if (!servers.has(kubeconfig)) return await clientFromKubeconfig(kubeconfig);
    const transport = counting(must(servers.get(kubeconfig)).transport, must(counters.get(kubeconfig)));
    const client = createClient(async (request) => {
      const line = must(lines.get(kubeconfig));
      line.signal.throwIfAborted();
      return await transport({
        ...request,
        signal: request.signal === undefined ? line.signal : AbortSignal.any([request.signal, line.signal]),
      });
    });
    return { client, time: { estimate: () => ({ ms: clock.now(), errorMs: 0 }) }, close: async () => undefined };
  };

  let running: { stop(): Promise<void> } | undefined;
  async function start(): Promise<void> {
    const stopped = new AbortController();
    const { signal } = stopped;
    const client = createClient(must(servers.get('hub')).transport);
    const ports = { client, clock, random: Math.random, log, signal };
    const cache = createCache(ports);
    const bundles = openBundles(join(dir, 'units'));
    const checkouts = openCheckouts({
      ...ports,
      cacheDir: join(dir, 'git'),
      childPath: await childBundle(),
      isolation: 'process',
      checkRules,
      judgeObject,
    });
    const recorder = createRecorder({ ...ports, component: 'kubenode-sync', instance: 'test' });
    const fence = openFence(ports);
    const done = Promise.all([
      runFleetController({ ...ports, cache, bundles, checkouts, fence, recorder }),
      runRolloutController({ ...ports, cache, bundles, connect, fence, render: (...call) => checkouts.unit(...call), recorder }),
    ]);
    done.catch(() => undefined);
    running = {
      async stop() {
        stopped.abort(new Error('stopping'));
        await done.catch((error: unknown) => {
          if (!signal.aborted) throw error;
        });
        await checkouts.closeAll();
        await cache.done();
      },
    };
  }

  async function patchFleet(spec: object): Promise<void> {
    await hub.patch(Fleets, { name: 'main' }, { merge: { spec } });
  }

  const world = {
    dir,
    hub,
    repository,
    log,
    away,
    counters,
    start,
    patchFleet,
    cell: (name: string): Client => clientOf(name),
    async stop(): Promise<void> {
      await running?.stop();
      running = undefined;
    },
    async close(): Promise<void> {
      await world.stop();
      for (const server of servers.values()) await server.close();
      rmSync(dir, { recursive: true, force: true });
    },
    commit: (message: string, files: Record<string, string>) => repository.commit(message, files),
    /** The cell reports that the sets it has are at their content. */
    async prove(cell: string): Promise<void> {
      const client = clientOf(cell);
      for (const set of (await client.listAll(MachineComponentSets)).items) {
        const { unitDigest } = set.spec;
        const known = set.status?.observedGeneration === set.metadata.generation && set.status?.evidence?.unitDigest === unitDigest;
        if (unitDigest === undefined || known) continue;
        const status = {
          observedGeneration: set.metadata.generation,
          progress: '1/1',
          evidence: { unitDigest, at: new Date().toISOString() },
          conditions: [],
        };
        await client.patch(MachineComponentSets, { name: set.metadata.name }, { merge: { status } }, { subresource: 'status' });
      }
    },
    async halt(cell: string, name: string, message: string): Promise<void> {
      const client = clientOf(cell);
      const set = await client.get(MachineComponentSets, { name });
      const conditions = [{ type: 'Halted', status: 'True', reason: 'MaxFailed', message, lastTransitionTime: new Date().toISOString() }];
      await client.patch(
        MachineComponentSets,
        { name },
        { merge: { status: { observedGeneration: set.metadata.generation, conditions } } },
        { subresource: 'status' },
      );
    },
    async sets(cell: string): Promise<Record<string, string>> {
      const sets: Stored<MachineComponentSet>[] = (await clientOf(cell).listAll(MachineComponentSets)).items;
      return Object.fromEntries(sets.map((set) => [set.metadata.name, set.spec.version]));
    },
    async fleet(): Promise<Stored<Fleet>> {
      return await hub.get(Fleets, { name: 'main' });
    },
    /** The Ready condition once it speaks of this commit, or of this reason. */
    async verdict(reason: string): Promise<{ reason: string; message: string; status: string }> {
      return await waitFor(
        async () =>
          (await world.fleet()).status?.conditions?.find((condition) => condition.type === 'Ready' && condition.reason === reason),
        {
          deadlineMs: 200_000,
          what: `Ready with reason ${reason}; it is ${JSON.stringify((await world.fleet()).status)}`,
        },
      );
    },
    async accepted(commit: string): Promise<void> {
      await waitFor(async () => (await world.fleet()).status?.commit === commit, { deadlineMs: 200_000, what: `commit ${commit}` });
    },
    async rollout(commit: string) {
      return (await hub.listAll(Rollouts)).items.find((rollout) => rollout.spec.commit === commit);
    },
    /** Proves everything that is applied until the rollout of this commit is done. */
    async finish(commit: string): Promise<void> {
      await waitFor(
        async () => {
          for (const cell of CELLS) if (!away.has(cell)) await world.prove(cell);
          return (await world.rollout(commit))?.status?.phase === 'Done';
        },
        { deadlineMs: 200_000, what: `the rollout of ${commit}` },
      );
    },
  };

  repository.commit('Begin', { 'fleet/main.ts': MAIN, 'fleet/versions.ts': versions({ runtime: '1.0.0', kubelet: '1.0.0' }) });
  await hub.create(Fleets, {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main' },
    spec: {
      source: { path: repository.dir, pollSeconds: 1 },
      stages: CELLS.map((name) => ({ name, clusterSelector: { stage: name } })),
      ...(options.prune === undefined ? {} : { prune: { maxDeletions: options.prune } }),
    },
  });
  await start();
  return world;
}

export type TestHub = Awaited<ReturnType<typeof openHub>>;

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('absent');
  return value;
}
