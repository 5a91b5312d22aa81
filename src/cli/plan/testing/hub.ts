/** A hub on which a plan is made, then its commit merged, and both compared: the real fleet controller over a real repository and a fake API server; rollouts are judged by the real decision over cells that prove all. */
import * as fs from 'node:fs';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as git from 'isomorphic-git';
import { Clusters, type Cluster, type UnitStatus } from '../../../api/cluster.ts';
import { Fleets, type Fleet } from '../../../api/fleet.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { Rollouts, type Rollout } from '../../../api/rollout.ts';
import type { Stored } from '../../../api/wire.ts';
import { createCache } from '../../../kube/cache.ts';
import { createClient } from '../../../kube/http-client.ts';
import { fakeApiServer } from '../../../kube/testing/api-server.ts';
import { fakeClock } from '../../../kube/testing/clock.ts';
import { recordingLog } from '../../../kube/testing/log.ts';
import { checkRules } from '../../../rules/check.ts';
import type { StoredUnit } from '../../../sync/bundles.ts';
import { openFence } from '../../../sync/fence.ts';
import { openCheckouts } from '../../../sync/fleet/checkouts.ts';
import { runFleetController } from '../../../sync/fleet/controller.ts';
import type { Renderer } from '../../../sync/fleet/render-tree.ts';
import { inForce } from '../../../sync/in-force.ts';
import { childBundle } from '../../../sync/render/testing/child-bundle.ts';
import { decide, type Decision } from '../../../sync/rollout/decide.ts';
import { judgeObject } from '../../object-rules.ts';
import { makePlan, type Made } from '../make.ts';
import { planLines } from '../lines.ts';
import { takeSnapshot, type HubSnapshot } from '../snapshot.ts';

export const SIGNAL = AbortSignal.timeout(280_000);
const AT = '2026-11-20T00:00:00Z';

export async function planHub(spec: Partial<Fleet['spec']> = {}, metadata: object = {}) {
  const root = mkdtempSync(join(tmpdir(), 'kubenode-plan-'));
  await git.init({ fs, dir: root, defaultBranch: 'main' });
  const renderer: Renderer = { childPath: await childBundle(), isolation: 'process', checkRules, judgeObject };
  const server = fakeApiServer();
  const clock = fakeClock();
  const log = recordingLog();
  const kept = new Map<string, StoredUnit>();
  const stop = new AbortController();
  let running: Promise<unknown> | undefined;
  const client = createClient(server.transport);
  server.put(Fleets, {
    apiVersion: API_VERSION,
    kind: 'Fleet',
    metadata: { name: 'main', generation: 1, ...metadata },
    spec: {
      source: { path: root, branch: 'main' },
      stages: [
        { name: 'test', clusterSelector: { stage: 'test' }, soakSeconds: 600 },
        { name: 'prod', clusterSelector: { stage: 'prod' } },
      ],
      ...spec,
    },
  });
  const write = (text: string, path = 'fleet/main.ts'): void => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const hub = {
    root,
    server,
    client,
    renderer,
    kept,
    write,
    async commit(text: string, path = 'fleet/main.ts'): Promise<string> {
      write(text, path);
      await git.add({ fs, dir: root, filepath: path });
      return await git.commit({ fs, dir: root, message: 'c', author: { name: 'a', email: 'a@example.com' } });
    },
    fleet: (): Stored<Fleet> => {
      const [found] = server.objects(Fleets);
      if (found === undefined) throw new Error('no Fleet');
      return found;
    },
    ready: () => hub.fleet().status?.conditions?.find(({ type }) => type === 'Ready'),
    rollouts: (): Stored<Rollout>[] => inForce(hub.fleet(), server.objects(Rollouts)),
    clusters: (): Stored<Cluster>[] => server.objects(Clusters),
    cluster(name: string): Stored<Cluster> {
      const found = hub.clusters().find(({ metadata }) => metadata.name === name);
      if (found === undefined) throw new Error(`no Cluster ${name}`);
      return found;
    },
    /** Lets the real controller judge the head of the branch: it accepts it, or refuses it. */
    async judged(head: string): Promise<void> {
      if (running === undefined) {
        const ports = { client, clock, random: () => 0.5, log, signal: stop.signal };
        const checkouts = openCheckouts({ ...ports, ...renderer, cacheDir: join(root, '.cache') });
        const bundles = {
          get: async (digest: string) => kept.get(digest),
          put: async (digest: string, unit: StoredUnit) => void kept.set(digest, unit),
          sweep: async () => undefined,
        };
        const recorder = { event: () => undefined, flush: async () => undefined };
        running = runFleetController({ ...ports, cache: createCache(ports), bundles, checkouts, fence: openFence(ports), recorder });
      }
      for (let tries = 0; tries < 600; tries++) {
        await new Promise((done) => setTimeout(done, 50));
        await clock.advance(1000);
        const { status } = hub.fleet();
        const verdict = status?.conditions?.find(({ type }) => type === 'Ready');
        if (status?.head === head && (status.commit === head || verdict?.status === 'False')) return;
      }
      throw new Error(`not judged: ${JSON.stringify(hub.fleet().status)}`);
    },
    update(name: string, change: (cluster: Cluster) => void): void {
      const cluster = structuredClone(hub.cluster(name));
      change(cluster);
      server.put(Clusters, cluster);
    },
    /** All that Rollouts want is there, with evidence since `at`; machines as its sets declare. */
    prove(at = AT): void {
      for (const { metadata } of hub.clusters()) {
        hub.update(metadata.name, (cluster) => {
          const units: UnitStatus[] = [...(cluster.status?.units ?? [])];
          for (const rollout of hub.rollouts())
            for (const { unit, clusters } of rollout.spec.units)
              for (const { name, digest } of clusters) {
                if (name !== metadata.name) continue;
                const index = units.findIndex((each) => each.unit === unit);
                const [before] = index < 0 ? [] : units.splice(index, 1);
                if (digest === undefined) continue;
                if (before?.digest === digest) {
                  units.push(before);
                  continue;
                }
                const others = before?.verified ?? [];
                units.push({
                  unit,
                  fleet: 'main',
                  digest,
                  commit: rollout.spec.commit,
                  appliedAt: at,
                  evidence: digest,
                  verified: [
                    { digest, commit: rollout.spec.commit, at, order: 1 + Math.max(0, ...others.map(({ order }) => order ?? 0)) },
                    ...others.filter((each) => each.digest !== digest),
                  ],
                });
              }
          const sets = units.flatMap(({ unit, digest }) => {
            const spec = kept.get(digest ?? '')?.objects.at(-1) as { kind: string; spec?: { replicas?: number } } | undefined;
            if (spec?.kind !== 'MachineSet') return [];
            const replicas = spec.spec?.replicas ?? 0;
            return [{ set: unit.slice('MachineSet/'.length), replicas, wanted: replicas }];
          });
          const total = sets.reduce((sum, { replicas }) => sum + replicas, 0);
          cluster.status = {
            ...cluster.status,
            units,
            machines: { total, ready: total, sets },
            conditions: [{ type: 'Reachable', status: 'True', reason: 'Connected', message: '', lastTransitionTime: at }],
          };
        });
      }
    },
    snapshot: async (): Promise<HubSnapshot> => await takeSnapshot(client, Date.parse('2026-11-22T00:00:00Z')),
    async plan(revision?: string): Promise<Made> {
      return await makePlan({ folder: root, revision, fleet: undefined }, await hub.snapshot(), renderer, SIGNAL);
    },
    text: async (revision?: string): Promise<string> => planLines(await hub.plan(revision)).join('\n'),
    /** What the hub does now, by the real decision, where each cell has what is recorded. */
    decide(now: number): Decision {
      return decide({
        now,
        fleet: 'main',
        members: new Set(hub.fleet().status?.clusters ?? []),
        rollouts: hub.rollouts(),
        clusters: new Map(
          hub.clusters().map(({ metadata: { name }, spec, status }) => {
            const units = new Map((status?.units ?? []).map((each) => [each.unit, each]));
            return [
              name,
              {
                name,
                blocked: spec.paused === true ? 'the Cluster is paused' : undefined,
                units,
                failing: () => undefined,
                live: (unit) => {
                  const record = units.get(unit);
                  return record?.digest === undefined
                    ? { state: 'Absent' as const }
                    : {
                        state: 'Present' as const,
                        unitDigest: record.digest,
                        drifted: false,
                        evidence: true,
                        halted: undefined,
                        ceiling: undefined,
                        progress: undefined,
                      };
                },
              },
            ];
          }),
        ),
      });
    },
    async close(): Promise<void> {
      stop.abort(new Error('the test is over'));
      await Promise.allSettled([running]);
      rmSync(root, { recursive: true });
    },
  };
  return hub;
}
export type PlanHub = Awaited<ReturnType<typeof planHub>>;

/** A fleet of one cluster `p` in stage prod, with a MachineSet and a ConfigMap that have this config. `more`: code for each cluster, which has the pool `web`. */
export const fleetText = (config: string, more = '', annotations = '{}') => `import { fleet, MachineSet } from 'kubenode/constructs';
import { ApiObject } from 'cdk8s';
fleet.cluster('p', { labels: { stage: 'prod' } });
fleet.allClusters((cluster) => {
  const web = cluster.pool('web');
  new MachineSet(web, 'a', { replicas: 2, provider: { name: 'local', config: ${config} } });
  new ApiObject(web, 'settings', { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'settings', namespace: 'web', annotations: ${annotations} }, data: ${config} });
  ${more}
});`;

/** For `more`: an object whose removal is a deletion. */
export const SERVICE_ACCOUNT =
  "new ApiObject(web, 'z', { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'z', namespace: 'web' } });";

/** Commits this, and the hub accepts it. Returns the commit. */
export async function acceptedBy(hub: PlanHub, text: string): Promise<string> {
  const head = await hub.commit(text);
  await hub.judged(head);
  const ready = hub.ready();
  if (ready?.status !== 'True') throw new Error(`the hub did not accept the fleet: ${JSON.stringify(ready)}`);
  return head;
}
