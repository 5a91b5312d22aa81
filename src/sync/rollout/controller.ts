import { Clusters, type Cluster } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Bundles, StoredUnit } from '../bundles.ts';
import { CONNECTING, type Away } from '../cell/away.ts';
import { isCell, type Cell } from '../cell/cell.ts';
import { openCells, type ConnectCell } from '../cell/cells.ts';
import { isWatched } from '../cell/kinds.ts';
import { ClusterKeeper } from '../cluster/finalizer.ts';
import { Reports } from '../cluster/reports.ts';
import type { Fence } from '../fence.ts';
import { inForce } from '../in-force.ts';
import { ownersOf } from '../plan.ts';
import { Executor } from './executor.ts';
import { decide } from './decide.ts';
import { eventsOf } from './events.ts';
import { contentGiven, observe } from './observe.ts';
import { openUnits } from './units.ts';
import { nextPassMs } from './waits.ts';
import { needsCurrent } from './world.ts';

export interface RolloutControllerOptions {
  client: Client;
  cache: Cache;
  bundles: Bundles;
  connect: ConnectCell;
  /** Of this term; the controllers of one hub share it. */
  fence: Fence;
  /** Renders a commit again and gives one unit of it; its digest is checked by the caller. */
  render: (fleet: string, commit: string, unit: string, cluster: string, signal: AbortSignal) => Promise<StoredUnit>;
  recorder: Recorder;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** When what of a cluster could not be written is tried again. */
const REPORT_RETRY_MS = 30_000;
const BLOCKED_POLL_MS = 5000;

/** Carries the rollouts of each fleet through its clusters. Key: the fleet's name. */
export async function runRolloutController(options: RolloutControllerOptions): Promise<void> {
  const { client, cache, clock, log, signal } = options;
  const rollouts = cache.store(Rollouts, { indexes: { fleet: (rollout) => [rollout.spec.fleet] } });
  const clusters = cache.store(Clusters);
  const fleetStore = cache.store(Fleets);
  const fleets = (): string[] => [...new Set(rollouts.list().map((rollout) => rollout.spec.fleet))];
  const inForceOf = (fleet: Stored<Fleet>) => inForce(fleet, rollouts.byIndex('fleet', fleet.metadata.name));
  const units = openUnits(options);
  const cells = openCells({ ...options, hub: client, onChange: () => fleets().forEach((fleet) => controller.enqueue(fleet)) });
  const hub = { ...options, clusters, fleets: fleetStore, inForceOf };
  const keeper = new ClusterKeeper(hub);
  const reports = new Reports(hub);
  const executor = new Executor({
    ...options,
    clusters,
    unitOf: (...wanted) => unitOf(options, ...wanted),
    wake: (fleet) => controller.enqueue(fleet),
  });

  async function reconcile(fleet: string, context: { client: Client; log: Log }): Promise<{ requeueAfterMs?: number } | void> {
    const stored = (): Seen => ({
      declared: fleetStore.get({ name: fleet }),
      rollouts: rollouts.byIndex('fleet', fleet),
      clusters: clusters.list(),
    });
    await options.fence.raise(clusters.list());
    await keeper.keep(context.client);
    // Of a Fleet that was deleted nothing is carried out, and what it has in cells is reported.
    const isGone = stored().declared === undefined && stored().rollouts.length > 0;
    if (!isGone && inForce(stored().declared, stored().rollouts).length === 0) return;
    const connections = await connectAll(clusters.list());
    const loadedMs = clock.monotonic();
    await loadUnits(fleet, connections);
    const decideOn = (seen: Seen) => {
      const members = seen.declared?.status?.clusters;
      // A Fleet that was made again has accepted nothing yet: which clusters it declares is not known (docs/protocols.md#e12).
      const mine = members === undefined ? [] : inForce(seen.declared, seen.rollouts);
      let given: ReturnType<typeof contentGiven> | undefined;
      const world = observe({
        now: clock.now(),
        fleet,
        members,
        rollouts: mine,
        clusters: seen.clusters,
        cell: (name) => connections.get(name) ?? { reason: CONNECTING, message: 'not connected yet' },
        unit: (digest) => units.get(digest),
        missing: (digest) => units.missing(digest),
        failing: (unit, cluster) => executor.failures.failing(unit, cluster),
        gone: (unit, cluster) => executor.failures.isGone(unit, cluster),
        known: (...content) => (given ??= contentGiven([...rollouts.list(), ...seen.rollouts], seen.clusters, ownersOf(mine)))(...content),
      });
      return { mine, world, decision: decide(world) };
    };
    const first = decideOn(stored());
    const { mine, world, decision } = first.decision.steps.some(needsCurrent) ? decideOn(await readNow(fleet, context.client)) : first;
    const waits: number[] = decision.again === undefined ? [] : [decision.again - clock.now()];
    // A cell that answers again, or never does, may change nothing that an event reports.
    const waited = [...connections.values()].some((connection) => isCell(connection) && !connection.synced());
    if (waited || [...world.clusters.values()].some((view) => view.blocked !== undefined)) waits.push(BLOCKED_POLL_MS);

    const byCluster = Map.groupBy(decision.steps, (step) => step.cluster);
    await executor.carryOut(byCluster, { fleet, connections, context, waits });
    for (const [name, status] of decision.statuses) {
      const rollout = mine.find((each) => each.metadata.name === name);
      if (rollout === undefined || canonical(rollout.status ?? null) === canonical(status)) continue;
      for (const event of eventsOf(rollout, status)) options.recorder.event(rollout, event);
      const { resourceVersion } = rollout.metadata;
      const patch = { metadata: { resourceVersion }, status };
      // One that was steered or written since leads to another pass.
      await context.client.patch(Rollouts, { name }, { merge: patch }, { subresource: 'status', signal }).catch((error: unknown) => {
        if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
      });
    }
    if (!(await reports.report(connections, context.client, context.log))) waits.push(REPORT_RETRY_MS);
    // Also of tries that failed before this pass: nothing else may come that leads to another.
    waits.push(...reports.waits(), ...executor.failures.waits());
    const dueAtMs = units.dueAtMs(loadedMs);
    if (dueAtMs !== undefined) waits.push(dueAtMs - clock.monotonic());
    const requeueAfterMs = nextPassMs(waits);
    return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
  }

  /**
   * From the API server itself. All Clusters, also those that no rollout names: the record of any of them may revoke a digest, or hold its halt (docs/protocols.md#e6, #e13).
   * All Rollouts, since no label says of which fleet they are: a newer one, or the pause of an older one, may be what the store does not show.
   */
  async function readNow(fleet: string, hub: Client): Promise<Seen> {
    const [declared, everyRollout, everyCluster] = await Promise.all([
      hub.find(Fleets, { name: fleet }, { signal }),
      hub.listAll(Rollouts, { signal }),
      hub.listAll(Clusters, { signal }),
    ]);
    return { declared, rollouts: everyRollout.items.filter(({ spec }) => spec.fleet === fleet), clusters: everyCluster.items };
  }

  async function connectAll(all: Stored<Cluster>[]): Promise<Map<string, Cell | Away>> {
    await cells.keep(new Set(all.map((cluster) => cluster.metadata.name)));
    const entries = await Promise.all(
      all.map(async (cluster): Promise<[string, Cell | Away]> => [cluster.metadata.name, await cells.of(cluster)]),
    );
    return new Map(entries);
  }

  /** What live objects are compared with; only of kinds that are watched, in cells that are reached. */
  async function loadUnits(fleet: string, connections: ReadonlyMap<string, Cell | Away>): Promise<void> {
    const all = clusters
      .list()
      .flatMap(({ metadata, status }) => (status?.units ?? []).map((record) => ({ record, cluster: metadata.name })));
    const wanted = all.flatMap(({ record, cluster }) => {
      const { unit, digest, commit } = record;
      const isCompared = isCell(connections.get(cluster)) && isWatched(unit.split('/')[0] ?? '');
      return record.fleet !== fleet || digest === undefined || commit === undefined || !isCompared
        ? []
        : [{ digest, commit, unit, cluster }];
    });
    await units.load(fleet, wanted);
    units.keep(new Set(all.flatMap(({ record }) => record.digest ?? [])));
  }

  const controller = createController({
    ...options,
    name: 'rollout',
    watches: [
      watch(rollouts, (rollout) => [rollout.spec.fleet]),
      watch(clusters, fleets),
      watch(fleetStore, (fleet) => [fleet.metadata.name]),
    ],
    concurrency: 2,
    resyncMs: 60_000,
    reconcile,
  });
  try {
    await controller.run();
  } finally {
    await executor.ended();
    await cells.close();
    log.debug({}, 'rollout controller stopped');
  }
}

/** What a decision is made from, of the hub's own objects. */
interface Seen {
  declared: Stored<Fleet> | undefined;
  rollouts: readonly Stored<Rollout>[];
  clusters: readonly Stored<Cluster>[];
}

/** As it was kept, else rendered again. */
async function unitOf(
  { bundles, render, signal }: Pick<RolloutControllerOptions, 'bundles' | 'render' | 'signal'>,
  fleet: string,
  digest: string,
  commit: string,
  unit: string,
  cluster: string,
): Promise<StoredUnit> {
  const known = await bundles.get(digest);
  if (known !== undefined) return known;
  const rendered = await render(fleet, commit, unit, cluster, signal);
  await bundles.put(digest, rendered);
  return rendered;
}
