import { Clusters, MOST_SETS, type Attention, type Cluster, type Orphans, type SetMachines } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { messageOf } from '../../api/errors.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { wantedReplicas, type MachineSet } from '../../api/machine-set.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { FINALIZERS } from '../../api/names.ts';
import { plainText } from '../../api/plain-text.ts';
import { hasReason } from '../../kube/api-error.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { setConditions } from '../../kube/conditions.ts';
import { runController, watch } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Bundles, StoredUnit } from '../bundles.ts';
import { attentionOf } from '../attention.ts';
import { CONNECTING, WATCHED, isCell, isWatched, openCells, type Away, type Cell, type CellContent, type ConnectCell } from '../cells.ts';
import type { Fence } from '../fence.ts';
import { inForce } from '../in-force.ts';
import { syncError } from '../errors.ts';
import { orphansOf, wantedUnits } from '../orphans.ts';
import { ownersOf } from '../plan.ts';
import { act } from './act.ts';
import { decide } from './decide.ts';
import { eventsOf } from './events.ts';
import { contentGiven, observe } from './observe.ts';
import { haltedUnits, keepCluster, releaseCluster, unitsToRemove } from '../records.ts';
import { openUnits } from './units.ts';
import { lookAgainMs } from './waits.ts';
import { needsCell, needsCurrent, type Step } from './world.ts';

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

/** How long a pass waits for what it does in cells. */
const PATIENCE_MS = 3000;
const RETRY = { baseMs: 1000, maxMs: 60_000 };
const REMOVAL_POLL_MS = 2000;
/** When what of a cluster could not be written is tried again. */
const REPORT_RETRY_MS = 30_000;
const BLOCKED_POLL_MS = 5000;
/** Stores follow one by one, and a commit makes a Cluster before it is in force: what is known to nobody for so long is nobody's. */
const ORPHANED_MS = 60_000;

/** Carries the rollouts of each fleet through its clusters. Key: the fleet's name. */
export async function runRolloutController(options: RolloutControllerOptions): Promise<void> {
  const { client, cache, clock, random, log, signal } = options;
  const rollouts = cache.store(Rollouts, { indexes: { fleet: (rollout) => [rollout.spec.fleet] } });
  const clusters = cache.store(Clusters);
  const fleetStore = cache.store(Fleets);
  const fleets = (): string[] => [...new Set(rollouts.list().map((rollout) => rollout.spec.fleet))];
  const failures = new Map<string, { count: number; message: string; notBefore: number }>();
  /** Namespaces that a cell turned out to lack, by cluster and unit. They are not watched; only who writes into one learns of it. */
  const gone = new Set<string>();
  /** By UID: deleted Clusters that are kept, and of which an Event says so. */
  const reportedHeld = new Set<string>();
  /** Since when clusters that report no orphans have some; ms of the monotonic clock. */
  const orphanedSince = new Map<string, number>();
  /** What is done in cells, by fleet and cluster. */
  const under = new Map<string, Promise<void>>();
  const units = openUnits(options);
  let wake: (key: string) => void = () => undefined;
  const cells = openCells({ ...options, hub: client, onChange: () => fleets().forEach((fleet) => wake(fleet)) });

  async function reconcile(fleet: string, context: { client: Client; log: Log }): Promise<{ requeueAfterMs?: number } | void> {
    const stored = (): Seen => ({
      declared: fleetStore.get({ name: fleet }),
      rollouts: rollouts.byIndex('fleet', fleet),
      clusters: clusters.list(),
    });
    await options.fence.raise(clusters.list());
    await keepClusters(context.client);
    // Of a Fleet that was deleted nothing is carried out, and what it has in cells is reported.
    const isGone = stored().declared === undefined && stored().rollouts.length > 0;
    if (!isGone && inForce(stored().declared, stored().rollouts).length === 0) return;
    const connections = await connectAll(clusters.list());
    const loadedMs = clock.monotonic();
    await loadUnits(fleet, connections);
    const decideOn = (seen: Seen) => {
      const mine = inForce(seen.declared, seen.rollouts);
      let given: ReturnType<typeof contentGiven> | undefined;
      const world = observe({
        now: clock.now(),
        fleet,
        members: seen.declared?.status?.clusters,
        rollouts: mine,
        clusters: seen.clusters,
        cell: (name) => connections.get(name) ?? { reason: CONNECTING, message: 'not connected yet' },
        unit: (digest) => units.get(digest),
        missing: (digest) => units.missing(digest),
        failing: (unit, cluster) => {
          const failed = failures.get(`${cluster} ${unit}`);
          return failed !== undefined && failed.notBefore > clock.monotonic() ? failed.message : undefined;
        },
        gone: (unit, cluster) => gone.has(`${cluster} ${unit}`),
        known: (...content) => (given ??= contentGiven([...rollouts.list(), ...seen.rollouts], seen.clusters, ownersOf(mine)))(...content),
      });
      return { mine, world, decision: decide(world) };
    };
    const first = decideOn(stored());
    const { mine, world, decision } = first.decision.steps.some(needsCurrent) ? decideOn(await readNow(fleet, context.client)) : first;
    const waits: number[] = decision.again === undefined ? [] : [decision.again - clock.now()];
    // A cell that answers again, or never does, may have nothing to say of which an event tells.
    const waited = [...connections.values()].some((connection) => isCell(connection) && !connection.synced());
    if (waited || [...world.clusters.values()].some((view) => view.blocked !== undefined)) waits.push(BLOCKED_POLL_MS);

    const byCluster = Map.groupBy(decision.steps, (step) => step.cluster);
    await carryOutAll(byCluster, { fleet, connections, context, waits });
    for (const [name, status] of decision.statuses) {
      const rollout = mine.find((each) => each.metadata.name === name);
      if (rollout === undefined || canonical(rollout.status ?? null) === canonical(status)) continue;
      for (const event of eventsOf(rollout, status)) options.recorder.event(rollout, event);
      const { resourceVersion } = rollout.metadata;
      const patch = { metadata: { resourceVersion }, status };
      // One that was steered or written since leads to another look.
      await context.client.patch(Rollouts, { name }, { merge: patch }, { subresource: 'status', signal }).catch((error: unknown) => {
        if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
      });
    }
    if (!(await reportClusters(connections, context.client, context.log))) waits.push(REPORT_RETRY_MS);
    for (const since of orphanedSince.values()) waits.push(Math.max(0, since + ORPHANED_MS - clock.monotonic()));
    // Also of tries that failed before this look: nothing else may come that leads to another.
    for (const { notBefore } of failures.values()) if (notBefore > clock.monotonic()) waits.push(notBefore - clock.monotonic());
    const dueAtMs = units.dueAtMs(loadedMs);
    if (dueAtMs !== undefined) waits.push(dueAtMs - clock.monotonic());
    const requeueAfterMs = lookAgainMs(waits);
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

  /** What fleets still declare and remove, as `fleet cluster unit`. */
  function owedRemovals(): ReadonlySet<string> {
    const owed = fleetStore.list().flatMap((fleet) => {
      const { name } = fleet.metadata;
      const members = fleet.status?.clusters;
      return [...ownersOf(inForce(fleet, rollouts.byIndex('fleet', name)))].flatMap(([unit, { clusters: wanted }]) =>
        wanted.flatMap((each) =>
          each.digest === undefined && members?.includes(each.name) !== false ? [`${name} ${each.name} ${unit}`] : [],
        ),
      );
    });
    return new Set(owed);
  }

  /** A Cluster stays, also where somebody deletes it, while it has a halt, or something to be removed; a person may give it free by hand (docs/protocols.md#e13). */
  async function keepClusters(hub: Client): Promise<void> {
    const owed = owedRemovals();
    for (const cluster of clusters.list()) {
      const { name, uid, finalizers, deletionTimestamp } = cluster.metadata;
      const isKept = finalizers?.includes(FINALIZERS.records) === true;
      const halted = haltedUnits(cluster, (fleet) => fleetStore.get({ name: fleet }) !== undefined);
      const removed = unitsToRemove(cluster, (fleet, unit) => owed.has(`${fleet} ${name} ${unit}`));
      const isDue = halted.length + removed.length > 0;
      if (isKept && !isDue) await releaseCluster(hub, cluster, signal);
      // A removal, or a halt of an earlier version or of a Fleet that was gone for a while.
      else if (!isKept && isDue && deletionTimestamp === undefined) await keepCluster(hub, cluster, signal);
      else if (isKept && deletionTimestamp !== undefined && !reportedHeld.has(uid)) {
        reportedHeld.add(uid);
        const message = [
          ...(halted.length === 0 ? [] : [`it goes when what it halted is over: ${halted.slice(0, 5).join(', ')}. ${HELD_NEXT}`]),
          ...(removed.length === 0 ? [] : [`it goes when what a commit removes there is gone: ${removed.slice(0, 5).join(', ')}`]),
        ].join('; ');
        options.recorder.event(cluster, { type: 'Warning', reason: 'DeletionHeld', message });
      }
    }
  }

  /**
   * Each cluster by itself: what takes longer than `PATIENCE_MS` goes on while the next pass does what is due elsewhere, and leads to another pass when it has
   * ended. Until then nothing else begins in that cell; what is only recorded is, as everything is conditioned on the records (docs/protocols.md#e16).
   */
  async function carryOutAll(byCluster: ReadonlyMap<string, readonly Step[]>, pass: Pass): Promise<void> {
    const waited = [...byCluster].map(async ([cluster, steps]) => {
      const id = `${pass.fleet} ${cluster}`;
      if (!under.has(id)) return await started(id, carryOut(cluster, steps, pass));
      const recorded = steps.filter((step) => !needsCell(step));
      if (recorded.length > 0) await carryOut(cluster, recorded, pass);
    });
    const all = Promise.all(waited);
    const patience = new AbortController();
    const late = sleep(clock, PATIENCE_MS, patience.signal).catch(() => undefined);
    await Promise.race([all, late]).finally(() => patience.abort());
    // It fails only where the hub ends.
    all.catch(() => undefined);
    signal.throwIfAborted();
  }

  function started(id: string, work: Promise<void>): Promise<void> {
    const [fleet = ''] = id.split(' ');
    let isLate = false;
    const cancel = clock.setTimer(PATIENCE_MS, () => (isLate = true));
    const ended = work.finally(() => {
      cancel();
      under.delete(id);
      if (isLate && !signal.aborted) wake(fleet);
    });
    ended.catch(() => undefined);
    under.set(id, ended);
    return ended;
  }

  async function carryOut(cluster: string, steps: readonly Step[], pass: Pass): Promise<void> {
    const { fleet, connections, context, waits } = pass;
    const connected = connections.get(cluster);
    const cell = isCell(connected) && connected.away() === undefined ? connected.content : undefined;
    for (const { do: step, unit, because } of steps) context.log.info({ step, unit, cluster }, because);
    const errors = await act(cluster, steps, {
      hub: context.client,
      fence: options.fence,
      fleet,
      clock,
      cell,
      corrected(step, corrections) {
        context.log.warn({ unit: step.unit, cluster, corrections }, 'put back what somebody changed');
        const about = clusters.get({ name: cluster });
        if (about !== undefined)
          options.recorder.event(about, { type: 'Warning', reason: 'DriftCorrected', message: correctedText(corrections) });
      },
      unit: (digest, commit, unit, cluster) => unitOf(fleet, digest, commit, unit, cluster),
      signal,
    }).catch((error: unknown) => new Map(steps.map((step) => [step, error])));
    signal.throwIfAborted();
    for (const step of steps) {
      const id = `${cluster} ${step.unit}`;
      if (!errors.has(step)) {
        failures.delete(id);
        gone.delete(id);
        if (step.do === 'Remove') waits.push(REMOVAL_POLL_MS);
        // The hub's own record is seen by its watch; another look is due anyway when nothing else moves.
        waits.push(5000);
        continue;
      }
      const lacking = namespaceLacking(errors.get(step));
      if (lacking !== undefined) gone.add(`${cluster} Namespace/${lacking}`);
      const error = plainText(messageOf(errors.get(step)));
      const count = (failures.get(id)?.count ?? 0) + 1;
      const delay = halfJitterMs(RETRY, count, random);
      failures.set(id, { count, message: error, notBefore: clock.monotonic() + delay });
      context.log.warn({ unit: step.unit, cluster, error }, `${step.do} failed`);
    }
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

  async function unitOf(fleet: string, digest: string, commit: string, unit: string, cluster: string): Promise<StoredUnit> {
    const known = await options.bundles.get(digest);
    if (known !== undefined) return known;
    const rendered = await options.render(fleet, commit, unit, cluster, signal);
    await options.bundles.put(digest, rendered);
    return rendered;
  }

  /** What is reported of one cell may be refused, since it comes from there; no other waits for that. Returns whether all was reported. */
  async function reportClusters(connections: Map<string, Cell | Away>, hub: Client, log: Log): Promise<boolean> {
    let isWhole = true;
    let failed: { error: unknown } | undefined;
    const fleets = fleetStore.list();
    const names = new Set(fleets.map(({ metadata }) => metadata.name));
    const wanted = wantedUnits(fleets.map((fleet) => inForce(fleet, rollouts.byIndex('fleet', fleet.metadata.name))));
    for (const name of orphanedSince.keys()) if (clusters.get({ name }) === undefined) orphanedSince.delete(name);
    for (const cluster of clusters.list()) {
      const connection = connections.get(cluster.metadata.name);
      if (connection === undefined) continue;
      try {
        const orphansIn = (objects: readonly KubeObject[]): Orphans | undefined =>
          orphansOf(objects, cluster, wanted.get(cluster.metadata.name) ?? new Set(), names);
        await reportCluster(cluster, connection, orphansIn, hub);
      } catch (error) {
        signal.throwIfAborted();
        isWhole = false;
        const message = plainText(messageOf(error));
        log.warn({ cluster: cluster.metadata.name, error: message }, 'its status cannot be written');
        options.recorder.event(cluster, { type: 'Warning', reason: 'StatusNotWritten', message });
        if (!hasReason(error, 'Invalid', 'BadRequest', 'RequestEntityTooLarge')) failed ??= { error };
      }
    }
    // The hub's own server may be what does not answer.
    if (failed !== undefined) throw failed.error;
    return isWhole;
  }

  /** What is found first is reported only once it was so for a while. */
  function reportedOrphans({ metadata: { name }, status }: Cluster, found: Orphans | undefined): Orphans | undefined {
    if (found === undefined || status?.orphans !== undefined) {
      orphanedSince.delete(name);
      return found;
    }
    const since = orphanedSince.get(name) ?? clock.monotonic();
    orphanedSince.set(name, since);
    return clock.monotonic() - since >= ORPHANED_MS ? found : undefined;
  }

  async function reportCluster(
    cluster: Stored<Cluster>,
    cell: Cell | Away,
    orphansIn: (objects: readonly KubeObject[]) => Orphans | undefined,
    hub: Client,
  ): Promise<void> {
    // What it says may make it away.
    const content = isCell(cell) ? cell.read((each) => contentOf(each, orphansIn)) : undefined;
    const away = isCell(cell) ? cell.away() : cell;
    if (away?.reason === CONNECTING || (away === undefined && isCell(cell) && !cell.synced())) return;
    if (away === undefined && isCell(cell) && cell.isOnTrial()) return;
    const before = cluster.status?.conditions?.find(({ type }) => type === 'Reachable');
    const reason = away?.reason ?? 'Connected';
    const conditions = setConditions(
      cluster.status?.conditions,
      [
        {
          type: 'Reachable',
          status: away === undefined ? 'True' : 'False',
          reason,
          message: plainText(away?.message ?? '', 32_000),
          ...(cluster.metadata.generation === undefined ? {} : { observedGeneration: cluster.metadata.generation }),
        },
      ],
      clock.now(),
    );
    // What was said last stays while it is away.
    const machines = content?.machines;
    const attention = content?.attention ?? cluster.status?.attention ?? [];
    const orphans = content === undefined ? cluster.status?.orphans : reportedOrphans(cluster, content.orphans);
    // The first that is reached, or the one that is said to be meant.
    const cellUID = away === undefined && isCell(cell) ? cell.uid() : cluster.status?.cellUID;
    const reported = {
      conditions,
      attention,
      ...(cellUID === undefined ? {} : { cellUID }),
      ...(machines === undefined ? {} : { machines }),
      ...(orphans === undefined ? {} : { orphans }),
    };
    const { units: _units, orphans: named, ...known } = cluster.status ?? {};
    const reportedBefore = { attention: [], ...known, ...(named === undefined ? {} : { orphans: named }) };
    if (canonical({ ...known, ...reported }) === canonical(reportedBefore)) return;
    // A merge keeps what it does not name.
    const status = {
      ...reported,
      ...(machines === undefined ? {} : { machines: { sets: null, ...machines } }),
      ...(orphans === undefined && named !== undefined ? { orphans: null } : {}),
    };
    const written = await hub
      .patch(
        Clusters,
        { name: cluster.metadata.name },
        { merge: { metadata: { resourceVersion: cluster.metadata.resourceVersion }, status } },
        { subresource: 'status', signal },
      )
      .catch((error: unknown) => {
        if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
      });
    // What was judged from an older state of the object is not reported.
    if (written === undefined || before?.reason === reason || (before === undefined && away === undefined)) return;
    const message = away === undefined ? 'the hub reaches it again' : away.message;
    options.recorder.event(cluster, { type: away === undefined ? 'Normal' : 'Warning', reason, message });
  }

  try {
    await runController({
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
      triggers: [
        (add) => {
          wake = add;
          return () => undefined;
        },
      ],
    });
  } finally {
    await Promise.allSettled(under.values());
    await cells.close();
    log.debug({}, 'rollout controller stopped');
  }
}

const HELD_NEXT = 'kubenode rollout retry NAME ends a halt, and so does a commit that changes the unit';

const correctedText = (corrections: readonly string[]): string => `put back as Git has it: ${corrections.join('; ')}`.slice(0, 1000);

/** One pass over a fleet. */
interface Pass {
  fleet: string;
  connections: ReadonlyMap<string, Cell | Away>;
  context: { client: Client; log: Log };
  /** When to look again, ms. */
  waits: number[];
}

/** What a decision is made from, of the hub's own objects. */
interface Seen {
  declared: Stored<Fleet> | undefined;
  rollouts: readonly Stored<Rollout>[];
  clusters: readonly Stored<Cluster>[];
}

/** The namespace for want of which a write was refused. */
function namespaceLacking(error: unknown): string | undefined {
  return hasReason(error, 'NotFound') && error.details?.kind === 'namespaces' ? error.details.name : undefined;
}

/** What a cell says of itself, as its Cluster holds it. */
function contentOf(
  cell: CellContent,
  orphansIn: (objects: readonly KubeObject[]) => Orphans | undefined,
): { attention: Attention[]; machines: ReturnType<typeof countMachines>; orphans: Orphans | undefined } {
  const objects = WATCHED.flatMap(({ kind }) => cell.store(kind)?.list() ?? []);
  return { attention: attentionOf(objects), machines: countMachines(cell), orphans: orphansIn(objects) };
}

/** No set has as many, nor is named so. */
const MOST_MACHINES = 1_000_000;
const LONGEST_NAME = 253;

function countMachines(cell: CellContent): NonNullable<NonNullable<Cluster['status']>['machines']> {
  const found = (cell.store('MachineSet')?.list() ?? []).map((each) => each as Stored<MachineSet>);
  const sets = found.map((each): SetMachines => {
    const { metadata, status } = each;
    const { replicas = 0, deletingReplicas = 0 } = status ?? {};
    const wanted = metadata.deletionTimestamp === undefined ? wantedReplicas(each) : 0;
    const set = `${metadata.namespace ?? ''}/${metadata.name}`;
    const numbers = [replicas, deletingReplicas, wanted, status?.readyReplicas ?? 0];
    if (!numbers.every((each) => Number.isInteger(each) && each >= 0 && each <= MOST_MACHINES) || set.length > 2 * LONGEST_NAME)
      throw syncError('ContentInvalid', `MachineSet ${set.slice(0, LONGEST_NAME)} has a name or a number of machines that none can have`);
    return { set, replicas, wanted, ...(deletingReplicas === 0 ? {} : { deleting: deletingReplicas }) };
  });
  return {
    total: sets.reduce((sum, { replicas }) => sum + replicas, 0),
    ready: found.reduce((sum, { status }) => sum + (status?.readyReplicas ?? 0), 0),
    // A partial list would hide what goes.
    ...(sets.length > MOST_SETS ? {} : { sets: sets.sort((a, b) => (a.set < b.set ? -1 : 1)) }),
  };
}
