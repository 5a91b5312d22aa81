/** One pass over the rollouts of a fleet: observe, decide, act, report. */
import type { Cluster } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { CONNECTING, type Away } from '../cell/away.ts';
import { isCell, type Cell } from '../cell/cell.ts';
import type { Cells } from '../cell/cells.ts';
import { isWatched } from '../cell/kinds.ts';
import type { ClusterKeeper } from '../cluster/finalizer.ts';
import type { Reports } from '../cluster/reports.ts';
import type { Fence } from '../fence.ts';
import { inForce } from '../in-force.ts';
import { ownersOf } from '../plan.ts';
import { fitStatus } from '../rollout-limits.ts';
import { writeEach, type StatusWrites } from '../status-writes.ts';
import { decide, type Decision } from './decide.ts';
import { eventsOf } from './events.ts';
import type { Executor } from './executor.ts';
import { fromServer, fromStores, type HubObjects, type HubStores } from './hub-objects.ts';
import { contentGiven, observe } from './observe.ts';
import type { openUnits, WantedUnit } from './units.ts';
import { nextPassMs } from './waits.ts';
import { needsCurrent, type World } from './world.ts';

/** When what of a cluster could not be written is tried again. */
const REPORT_RETRY_MS = 30_000;
const BLOCKED_POLL_MS = 5000;

/** What passes share. */
export interface PassDependencies {
  stores: HubStores;
  cells: Cells;
  units: ReturnType<typeof openUnits>;
  keeper: ClusterKeeper;
  executor: Executor;
  reports: Reports;
  fence: Fence;
  recorder: Recorder;
  clock: Clock;
  signal: AbortSignal;
}

interface PassContext {
  client: Client;
  log: Log;
}

type Connections = ReadonlyMap<string, Cell | Away>;

/** Returns after how many ms the next one is due; undefined where only a change leads to one. */
export async function runPass(dependencies: PassDependencies, fleet: string, context: PassContext): Promise<number | undefined> {
  const { stores, units, keeper, executor, reports, fence, clock } = dependencies;
  await fence.raise(stores.clusters.list());
  await keeper.keep(context.client);
  const stored = fromStores(stores, fleet);
  // Of a Fleet that was deleted nothing is carried out, and what it has in cells is reported.
  const isGone = stored.declared === undefined && stored.rollouts.length > 0;
  if (!isGone && inForce(stored.declared, stored.rollouts).length === 0) return undefined;
  const connections = await connectAll(dependencies.cells, stores.clusters.list());
  const loadedMs = clock.monotonic();
  await loadUnits(dependencies, fleet, connections);
  const { mine, world, decision } = await decideNow(dependencies, fleet, connections, context.client);
  const waits: number[] = decision.again === undefined ? [] : [decision.again - clock.now()];
  // A cell that answers again, or never does, may change nothing that an event reports.
  const waited = [...connections.values()].some((connection) => isCell(connection) && !connection.synced());
  if (waited || [...world.clusters.values()].some((view) => view.blocked !== undefined)) waits.push(BLOCKED_POLL_MS);

  const byCluster = Map.groupBy(decision.steps, (step) => step.cluster);
  await executor.carryOut(byCluster, { fleet, connections, context, waits });
  const statuses = await writeStatuses(dependencies, decision, mine, context);
  const isReported = await reports.report(connections, context.client, context.log);
  // It may be the hub's own server that does not answer.
  if (statuses.failed !== undefined) throw statuses.failed.error;
  if (!statuses.isWhole || !isReported) waits.push(REPORT_RETRY_MS);
  // Also of tries that failed before this pass: nothing else may come that leads to another.
  waits.push(...reports.waits(), ...executor.failures.waits(), ...executor.contests.waits());
  const dueAtMs = units.dueAtMs(loadedMs);
  if (dueAtMs !== undefined) waits.push(dueAtMs - clock.monotonic());
  return nextPassMs(waits);
}

async function connectAll(cells: Cells, clusters: readonly Stored<Cluster>[]): Promise<Connections> {
  await cells.keep(new Set(clusters.map((cluster) => cluster.metadata.name)));
  const entries = await Promise.all(
    clusters.map(async (cluster): Promise<[string, Cell | Away]> => [cluster.metadata.name, await cells.of(cluster)]),
  );
  return new Map(entries);
}

/** What live objects are compared with; only of kinds that are watched, in cells that are reached. */
async function loadUnits({ stores, units }: PassDependencies, fleet: string, connections: Connections): Promise<void> {
  const all = stores.clusters
    .list()
    .flatMap(({ metadata, status }) => (status?.units ?? []).map((record) => ({ record, cluster: metadata.name })));
  const wanted = all.flatMap(({ record, cluster }) => {
    const { unit, digest, commit } = record;
    const isCompared = isCell(connections.get(cluster)) && isWatched(unit.split('/')[0] ?? '');
    return record.fleet !== fleet || digest === undefined || commit === undefined || !isCompared ? [] : [{ digest, commit, unit, cluster }];
  });
  const sets = dueSets(stores, fleet, connections);
  await units.load(fleet, [...wanted, ...sets]);
  units.keep(new Set([...all.flatMap(({ record }) => record.digest ?? []), ...sets.map(({ digest }) => digest)]));
}

/** MachineSets that have other content than is wanted: their machines may go for a number that is wanted no more. */
function dueSets(stores: HubStores, fleet: string, connections: Connections): WantedUnit[] {
  const { declared, rollouts } = fromStores(stores, fleet);
  const recorded = new Map(stores.clusters.list().map(({ metadata, status }) => [metadata.name, status?.units ?? []]));
  return [...ownersOf(inForce(declared, rollouts))].flatMap(([unit, { rollout, clusters }]) =>
    clusters.flatMap(({ name: cluster, digest, commit = rollout.spec.commit }) => {
      if (digest === undefined || !unit.startsWith(`${MachineSets.kind}/`) || !isCell(connections.get(cluster))) return [];
      const record = recorded.get(cluster)?.find((each) => each.unit === unit);
      return record?.digest === digest && record.begun === undefined ? [] : [{ digest, commit, unit, cluster }];
    }),
  );
}

interface Decided {
  /** Rollouts that are in force. */
  mine: readonly Stored<Rollout>[];
  world: World;
  decision: Decision;
}

/** From stores, and again from the API server where a step must not rest on what is late (docs/protocols.md#e14). */
async function decideNow(dependencies: PassDependencies, fleet: string, connections: Connections, hub: Client): Promise<Decided> {
  const first = decideOn(dependencies, fleet, connections, fromStores(dependencies.stores, fleet));
  if (!first.decision.steps.some(needsCurrent)) return first;
  return decideOn(dependencies, fleet, connections, await fromServer(hub, fleet, dependencies.signal));
}

function decideOn(dependencies: PassDependencies, fleet: string, connections: Connections, objects: HubObjects): Decided {
  const { stores, units, executor, clock } = dependencies;
  const { declared, rollouts, clusters } = objects;
  const members = declared?.status?.clusters;
  // A Fleet that was made again has accepted nothing yet: which clusters it declares is not known (docs/protocols.md#e12).
  const mine = members === undefined ? [] : inForce(declared, rollouts);
  let given: ReturnType<typeof contentGiven> | undefined;
  const world = observe({
    now: clock.now(),
    fleet,
    members,
    ...(stores.fleets.synced ? { fleets: stores.fleets.list().map(({ metadata }) => metadata.name) } : {}),
    rollouts: mine,
    clusters,
    cell: (name) => connections.get(name) ?? { reason: CONNECTING, message: 'not connected yet' },
    unit: (digest) => units.get(digest),
    missing: (digest) => units.missing(digest),
    failing: (unit, cluster) => executor.failures.failing(unit, cluster),
    contested: (unit, cluster) => executor.contests.waiting(unit, cluster),
    gone: (unit, cluster) => executor.failures.isGone(unit, cluster),
    known: (...content) => (given ??= contentGiven([...stores.rollouts.list(), ...rollouts], clusters, ownersOf(mine)))(...content),
  });
  return { mine, world, decision: decide(world) };
}

async function writeStatuses(
  dependencies: PassDependencies,
  { statuses }: Decision,
  rollouts: readonly Stored<Rollout>[],
  { client, log }: PassContext,
): Promise<StatusWrites> {
  const { recorder, signal } = dependencies;
  const decided = rollouts.filter(({ metadata }) => statuses.has(metadata.name));
  const write = async (rollout: Stored<Rollout>): Promise<void> => {
    const status = statuses.get(rollout.metadata.name);
    if (status !== undefined) await writeStatus(dependencies, rollout, fitStatus(rollout, status), client);
  };
  return await writeEach(decided, write, { recorder, log, signal });
}

async function writeStatus(
  { recorder, signal }: PassDependencies,
  rollout: Stored<Rollout>,
  status: NonNullable<Rollout['status']>,
  hub: Client,
): Promise<void> {
  if (canonical(rollout.status ?? null) === canonical(status)) return;
  const { name, resourceVersion } = rollout.metadata;
  const patch = { metadata: { resourceVersion }, status };
  // One that was steered or written since leads to another pass.
  const written = await hub.patch(Rollouts, { name }, { merge: patch }, { subresource: 'status', signal }).catch((error: unknown) => {
    if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
  });
  if (written === undefined) return;
  // What is not in the status would be reported again by each pass.
  for (const event of eventsOf(rollout, status)) recorder.event(rollout, event);
}
