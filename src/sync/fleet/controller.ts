import { Clusters, type Cluster } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { CodedError, isCoded, messageOf } from '../../api/errors.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import { applyIfChanged, wouldChange } from '../../kube/apply.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { setConditions } from '../../kube/conditions.ts';
import { runController, watch } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Bundles } from '../bundles.ts';
import { TooManyDeletions } from '../deletions.ts';
import { syncError } from '../errors.ts';
import type { Fence } from '../fence.ts';
import { inForce } from '../in-force.ts';
import { machinesOf, replicasOf } from '../going.ts';
import { refuseMoves } from '../moves.ts';
import { carriedBy, plan, removingBy, wantedWithCommits, withoutCommits } from '../plan.ts';
import { REMOVAL } from '../records.ts';
import type { Checkouts, Checkout, RenderedCommit } from './checkout.ts';
import {
  digestsInUse,
  dueOf,
  HELD_BACK,
  expendable,
  failedTry,
  isSameRollout,
  machinesSeen,
  rolloutOf,
  triedOf,
  type Tries,
} from './decide.ts';

export interface FleetControllerOptions {
  client: Client;
  cache: Cache;
  bundles: Bundles;
  checkouts: Checkouts;
  /** Of this term; the controllers of one hub share it. */
  fence: Fence;
  recorder: Recorder;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

type Status = NonNullable<Fleet['status']>;

/**
 * Turns new commits into Rollouts. Key: the fleet's name. Errors become the Fleet's condition and change nothing else; only a verdict about
 * the content refuses a commit, everything else is tried again.
 *
 * The Fleet's status is written only as it was read: a hub that was deposed meanwhile neither sets the accepted commit back nor brings a
 * Rollout into force.
 */
export async function runFleetController(options: FleetControllerOptions): Promise<void> {
  const { cache, clock, random, signal } = options;
  const fleets = cache.store(Fleets);
  const clusterStore = cache.store(Clusters);
  const tries = new Map<string, Tries>();
  /** Of fleets whose sets are held back: what the clusters that this waits for said of their machines then. */
  const heldOver = new Map<string, { clusters: readonly string[]; seen: string }>();

  async function reconcile(name: string, context: { client: Client; log: Log }): Promise<{ requeueAfterMs: number } | void> {
    const fleet = fleets.get({ name });
    if (fleet === undefined) {
      tries.delete(name);
      heldOver.delete(name);
      await options.checkouts.close(name);
      return;
    }
    // What a hub of an earlier term has read of a Cluster is another one from now on.
    await options.fence.raise([]);
    try {
      if (fleet.spec.paused !== true) return { requeueAfterMs: await follow(fleet, context) };
      await report(context.client, fleet, { reason: 'Paused', message: 'spec.paused is set', ready: 'Unknown' });
      return undefined;
    } catch (error) {
      // Another has written the Fleet since it was read: all is judged again.
      if (!(error instanceof Outdated)) throw error;
      return { requeueAfterMs: OUTDATED_MS };
    }
  }

  /** One look at the branch. Returns after how many ms the next is due. */
  async function follow(fleet: Stored<Fleet>, context: { client: Client; log: Log }): Promise<number> {
    const { name } = fleet.metadata;
    let head: string | undefined;
    try {
      const mistakes = Fleets.validate({ ...fleet, status: undefined });
      if (mistakes.length > 0)
        throw syncError('InvalidFleet', mistakes.map((mistake) => `\`${mistake.path}\` ${mistake.message}`).join('; '));
      const checkout = await options.checkouts.open(fleet);
      const { oid } = await checkout.head(signal);
      head = oid;
      // What a human just said of this Fleet (a budget, a pause, a signer) must count for this commit already.
      const over = heldOver.get(name);
      const waited = over === undefined || over.seen !== machinesSeen(clusterStore.list(), over.clusters);
      const due = dueOf(fleet, oid, tries.get(name), clock.monotonic(), waited);
      if (due.state !== 'Due') await putBack(fleet, checkout, context);
      if (due.state === 'Later') return Math.min(due.afterMs, pollMsOf(fleet));
      if (due.state !== 'Due') return pollMsOf(fleet);
      const live = await context.client.get(Fleets, { name }, { signal });
      if (
        live.metadata.generation !== fleet.metadata.generation ||
        dueOf(live, oid, tries.get(name), clock.monotonic(), waited).state !== 'Due'
      )
        return OUTDATED_MS;
      await accept(live, checkout, context);
      tries.delete(name);
      return pollMsOf(fleet);
    } catch (error) {
      if (signal.aborted || error instanceof Outdated || isCoded(error, 'Deposed')) throw error;
      const failed = failedTry(tries.get(name), triedOf(fleet, head), error, clock.monotonic(), random);
      tries.set(name, failed);
      await refuse(context.client, fleet, error, head ?? fleet.status?.head, failed.refused);
      return failed.refused ? pollMsOf(fleet) : Math.min(pollMsOf(fleet), failed.notBeforeMs - clock.monotonic());
    }
  }

  /**
   * Makes Clusters again that the accepted commit declares and somebody deleted. Nothing is judged here, and no record comes back: a Cluster that has a halt is not
   * gone (docs/protocols.md#e12, #e13). What cannot be made is tried again at the next look.
   */
  async function putBack(fleet: Stored<Fleet>, checkout: Checkout, { client, log }: { client: Client; log: Log }): Promise<void> {
    const { name } = fleet.metadata;
    const { commit, clusters: declared = [] } = fleet.status ?? {};
    const missing = declared.filter((each) => clusterStore.get({ name: each }) === undefined);
    if (commit === undefined || missing.length === 0) return;
    try {
      const listed = (await client.listAll(Clusters, { signal })).items;
      const gone = missing.filter((each) => !listed.some(({ metadata }) => metadata.name === each));
      if (gone.length === 0) return;
      const rendered = await checkout.render(commit, signal);
      for (const { object } of rendered.clusters.filter((each) => gone.includes(each.name))) {
        await declare(client, fleet, object, listed);
        log.warn({ fleet: name, cluster: object.metadata.name, commit }, 'makes a Cluster again that somebody deleted');
        const message = `somebody deleted it, and ${short(commit)} declares it; the hub starts without its former records`;
        const made = await client.find(Clusters, { name: object.metadata.name }, { signal });
        if (made !== undefined) options.recorder.event(made, { type: 'Warning', reason: 'ClusterMadeAgain', message });
      }
    } catch (error) {
      if (signal.aborted || error instanceof Outdated || isCoded(error, 'Deposed')) throw error;
      const message = `${missing.slice(0, 5).join(', ')} cannot be made again as ${short(commit)} declares it: ${messageOf(error)}; it is tried again`;
      log.warn({ fleet: name, commit }, message);
      options.recorder.event(fleet, { type: 'Warning', reason: 'ClusterNotMade', message: message.slice(0, 1000) });
    }
  }

  async function accept(read: Stored<Fleet>, checkout: Checkout, context: { client: Client; log: Log }): Promise<void> {
    const { client } = context;
    const { name } = read.metadata;
    const fetched = await checkout.fetch(read.status?.commit, signal);
    const { head } = fetched;
    if (fetched.relation === 'rewritten' && read.spec.acceptRewrittenHead !== head) {
      throw syncError(
        'HistoryRewritten',
        `the branch was rewritten: ${short(head)} does not descend from ${short(read.status?.commit)}; nothing was changed`,
        {
          next: `kubectl patch fleet ${name} --type merge -p '{"spec":{"acceptRewrittenHead":"${head}"}}'`,
        },
      );
    }
    if (fetched.relation === 'tooLong' && read.spec.acceptRewrittenHead !== head) {
      throw syncError(
        'HistoryTooLong',
        `the history between ${short(read.status?.commit)} and ${short(head)} is longer than can be checked; nothing was changed`,
        {
          next: `look at it and accept it: kubectl patch fleet ${name} --type merge -p '{"spec":{"acceptRewrittenHead":"${head}"}}'`,
        },
      );
    }
    const accepted = fetched.relation === 'descendant' ? read.status?.commit : undefined;
    await checkout.verify({ ...fetched, ...(accepted === undefined ? {} : { accepted }) }, signal);
    const rendered = await checkout.render(head, signal);
    context.log.info({ fleet: name, commit: head, clusters: rendered.clusters.length, ms: Math.round(rendered.ms) }, 'rendered');

    // Read from the server, not from a store: a rollout that this process or its predecessor just made must not be made twice.
    const all = (await client.listAll(Rollouts, { signal })).items.filter((rollout) => rollout.spec.fleet === name);
    const clusters = (await client.listAll(Clusters, { signal })).items;
    const fleet = read.status?.rollout === undefined ? await count(client, read, all) : read;
    const rollouts = inForce(fleet, all);
    const recorded = new Map(clusters.map((cluster) => [cluster.metadata.name, cluster.status?.units ?? []]));
    const wanted = wantedWithCommits(name, rollouts, recorded);
    refuseMoves({
      fleet,
      head,
      declared: rendered.clusters.map(({ object }) => object),
      clusters,
      isWanted: (cluster) => (wanted.get(cluster)?.size ?? 0) > 0,
    });
    const before = [
      ...[...wanted.values()].flatMap((units) => [...units].map(([unit, each]) => ({ unit, ...each }))),
      ...[...recorded.values()].flat().flatMap(({ unit, digest, commit }) => (digest === undefined ? [] : [{ unit, digest, commit }])),
      // Only how many machines they were: where that is lost it is not rendered for.
      ...[...recorded.values()]
        .flat()
        .flatMap(({ unit, verified = [] }) => verified.map(({ digest }) => ({ unit, digest, commit: undefined }))),
    ];
    const planned = plan({
      fleet,
      rendered: digestsOf(rendered),
      wanted: withoutCommits(wanted),
      carried: carriedBy(rollouts),
      removing: removingBy(name, rollouts, recorded),
      labels: new Map(rendered.clusters.map(({ name, object }) => [name, object.metadata.labels ?? {}])),
      replicas: await replicasOf(
        rendered.clusters,
        before,
        options.bundles,
        async (commit) => (await checkout.render(commit, signal)).clusters,
      ),
      machines: machinesOf(clusters, (cluster, unit) => {
        const isOurs = recorded.get(cluster)?.some((each) => each.unit === unit && each.fleet === name) === true;
        return isOurs && wanted.get(cluster)?.has(unit) !== true;
      }),
      there: (cluster, unit) => {
        const records = recorded.get(cluster) ?? [];
        const { digest, begun } = records.find((each) => each.unit === unit) ?? {};
        // Without any record it may be that they were lost.
        return records.length === 0 ? undefined : [digest, begun].flatMap((each) => (each === undefined || each === REMOVAL ? [] : each));
      },
      given: (cluster) =>
        (recorded.get(cluster) ?? []).map(({ unit, digest, begun, verified = [] }) => ({
          unit,
          digests: [digest, begun, ...verified.map((each) => each.digest)].flatMap((each) => each ?? []),
        })),
      commitOf: (cluster, unit) => wanted.get(cluster)?.get(unit)?.commit,
    });

    for (const cluster of rendered.clusters) {
      for (const unit of cluster.units)
        await options.bundles.put(unit.digest, { key: unit.key, objects: unit.objects, origins: unit.origins });
    }
    for (const { object } of rendered.clusters) await declare(client, fleet, object, clusters);
    const [info] = fetched.commits;
    const { made, over } =
      planned.units.length === 0
        ? { made: undefined, over: fleet }
        : await createRollout(client, fleet, rolloutOf(fleet, info, head, planned, nextOf(fleet)));
    const { heldBack } = planned;
    if (heldBack === undefined) heldOver.delete(name);
    else heldOver.set(name, { clusters: heldBack.waitsFor, seen: machinesSeen(clusters, heldBack.waitsFor) });
    const changes = `${short(head)} changes ${['nothing', '1 unit'][planned.units.length] ?? `${planned.units.length} units`}`;
    const said = heldBack === undefined ? changes : `${changes}, but ${heldBack.message}\nnext: ${heldBack.next}`;
    await report(client, over, {
      reason: heldBack === undefined ? 'Accepted' : HELD_BACK,
      ready: heldBack === undefined ? 'True' : 'False',
      message: said,
      status: {
        head,
        commit: head,
        commitTime: info?.time ?? fleet.status?.commitTime,
        ...(made === undefined ? {} : { rollout: { sequence: made.spec.sequence, uid: made.metadata.uid } }),
        clusters: rendered.clusters.map((cluster) => cluster.name).sort(),
        isolation: rendered.isolation,
        units: rendered.clusters.reduce((sum, cluster) => sum + cluster.units.length, 0),
      },
    });
    if (heldBack !== undefined && isNews(read, HELD_BACK, said)) {
      context.log.warn({ fleet: name, commit: head, all: heldBack.all }, `held back: ${heldBack.message}`);
      options.recorder.event(fleet, { type: 'Warning', reason: HELD_BACK, message: said.slice(0, 1000) });
    }
    if (made !== undefined) {
      options.recorder.event(made, {
        type: 'Normal',
        reason: 'RolloutCreated',
        message: `${short(head)} "${info?.subject ?? ''}": ${planned.units
          .map((unit) => unit.unit)
          .join(', ')
          .slice(0, 800)}`,
      });
    }
    await sweep(client, made === undefined ? rollouts : [...rollouts, made], clusters, rendered);
  }

  /** From here on Rollouts are in force only when the status names them. */
  async function count(client: Client, fleet: Stored<Fleet>, rollouts: readonly Stored<Rollout>[]): Promise<Stored<Fleet>> {
    const sequence = Math.max(0, ...rollouts.map((rollout) => rollout.spec.sequence));
    return await writeStatus(client, fleet, { ...fleet.status, rollout: { sequence } });
  }

  /** Applies a Cluster, where it differs. Another hub may have accepted another commit since the Fleet was read: what it has written stays. */
  async function declare(client: Client, fleet: Stored<Fleet>, object: Cluster, listed: readonly Stored<Cluster>[]): Promise<void> {
    const { name } = object.metadata;
    const applying = { fieldManager: MANAGERS.sync, force: true, signal };
    const known = listed.find((cluster) => cluster.metadata.name === name);
    if (known !== undefined && wouldChange(object, known, applying) === false) return;
    const stored = await client.find(Clusters, { name }, { signal });
    if (stored !== undefined) options.fence.require(stored);
    const { metadata } = await client.get(Fleets, { name: fleet.metadata.name }, { signal });
    if (metadata.resourceVersion !== fleet.metadata.resourceVersion) throw new Outdated();
    await applyIfChanged<Cluster>(client, Clusters, object, { ...applying, stored, asRead: true }).catch((error: unknown) => {
      throw hasReason(error, 'Conflict') ? new Outdated() : error;
    });
  }

  /**
   * Creates the next Rollout. One of that name that is not in force was left by a hub that died or was deposed: it is taken if it says the same, and
   * else removed. That it is being removed is in the Fleet's status before, in a write conditioned on the Fleet as it was read: so no other hub has
   * brought it into force, nor takes it from then on. Returns the Fleet as it was written last.
   */
  async function createRollout(
    client: Client,
    fleet: Stored<Fleet>,
    rollout: Rollout,
  ): Promise<{ made: Stored<Rollout>; over: Stored<Fleet> }> {
    const { name } = rollout.metadata;
    try {
      return { made: await client.create(Rollouts, rollout, { fieldManager: MANAGERS.sync, signal }), over: fleet };
    } catch (error) {
      if (!hasReason(error, 'AlreadyExists')) throw error;
    }
    const left = await client.find(Rollouts, { name }, { signal });
    const removing = left !== undefined && fleet.status?.removing === left.metadata.uid;
    if (left !== undefined && isSameRollout(left, rollout) && !removing) return { made: left, over: fleet };
    if (left !== undefined && left.spec.fleet !== fleet.metadata.name)
      throw syncError('NotOurs', `Rollout "${name}" belongs to fleet "${left.spec.fleet}"`, { next: 'give this Fleet another name' });
    let over = fleet;
    if (left !== undefined) {
      const { uid } = left.metadata;
      if (!removing) over = await writeStatus(client, fleet, { ...fleet.status, removing: uid });
      await client.delete(Rollouts, { name }, { uid, signal }).catch((error: unknown) => {
        if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
      });
    }
    return { made: await client.create(Rollouts, rollout, { fieldManager: MANAGERS.sync, signal }), over };
  }

  /** Old rollouts that nothing depends on any more go, so that their number stays bounded. */
  async function sweep(
    client: Client,
    rollouts: readonly Stored<Rollout>[],
    clusters: readonly Cluster[],
    rendered: RenderedCommit,
  ): Promise<void> {
    for (const { metadata } of expendable(rollouts)) {
      const { name, uid, resourceVersion } = metadata;
      // One that was paused since is no longer expendable.
      await client.delete(Rollouts, { name }, { uid, resourceVersion, signal }).catch((error: unknown) => {
        if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
      });
    }
    const keep = digestsInUse(rollouts, clusters);
    for (const cluster of rendered.clusters) for (const unit of cluster.units) keep.add(unit.digest);
    await options.bundles.sweep(keep, SWEEP_AGE_MS);
  }

  async function refuse(client: Client, fleet: Stored<Fleet>, error: unknown, head: string | undefined, refused: boolean): Promise<void> {
    const reason = error instanceof CodedError ? error.code : 'InternalError';
    const said = refused ? `${short(head)} is refused: ${messageOf(error)}` : `${messageOf(error)}; it is tried again`;
    const message = `${said}${error instanceof CodedError && error.next !== undefined ? `\nnext: ${error.next}` : ''}`;
    const live = await client.get(Fleets, { name: fleet.metadata.name }, { signal });
    if (live.metadata.generation !== fleet.metadata.generation || live.status?.commit !== fleet.status?.commit) throw new Outdated();
    await report(client, live, { reason, message, ready: 'False', ...(head === undefined ? {} : { status: { head } }) });
    if (!isNews(live, reason, message)) return;
    const all = error instanceof TooManyDeletions ? { all: error.all } : {};
    options.log.warn({ fleet: fleet.metadata.name, head, reason, ...all }, message);
    options.recorder.event(fleet, { type: 'Warning', reason, message: message.slice(0, 1000) });
  }

  async function report(
    client: Client,
    fleet: Stored<Fleet>,
    {
      reason,
      message,
      ready,
      status = {},
    }: { reason: string; message: string; ready: 'True' | 'False' | 'Unknown'; status?: { [K in keyof Status]?: Status[K] | undefined } },
  ): Promise<void> {
    const generation = fleet.metadata.generation;
    const conditions = setConditions(
      fleet.status?.conditions,
      [
        {
          type: 'Ready',
          status: ready,
          reason,
          message: message.slice(0, 32_000),
          ...(generation === undefined ? {} : { observedGeneration: generation }),
        },
      ],
      clock.now(),
    );
    const next = { ...fleet.status, ...status, conditions, ...(generation === undefined ? {} : { observedGeneration: generation }) };
    if (canonical(next) !== canonical(fleet.status ?? {})) await writeStatus(client, fleet, next);
  }

  /** Conditioned on the Fleet as it was read. */
  async function writeStatus(client: Client, fleet: Stored<Fleet>, status: object): Promise<Stored<Fleet>> {
    const { name, resourceVersion } = fleet.metadata;
    return await client
      .patch(
        Fleets,
        { name },
        { merge: { metadata: { resourceVersion }, status } },
        { subresource: 'status', fieldManager: MANAGERS.sync, signal },
      )
      .catch((error: unknown) => {
        throw hasReason(error, 'Conflict') ? new Outdated() : error;
      });
  }

  await runController({
    ...options,
    name: 'fleet',
    watches: [watch(fleets, (fleet) => [fleet.metadata.name])],
    concurrency: 2,
    reconcile,
    triggers: [
      (add) => options.checkouts.onChange(add),
      // Only this, of all that becomes of a Cluster: each look asks the source for its head.
      (add) =>
        clusterStore.subscribe((event) => {
          if (event.type !== 'deleted') return;
          const { name } = event.object.metadata;
          for (const { metadata, status } of fleets.list()) if (status?.clusters?.includes(name) === true) add(metadata.name);
        }),
    ],
  });
}

/** The Fleet was written by another since it was read. */
class Outdated extends Error {}

const OUTDATED_MS = 100;
const SWEEP_AGE_MS = 24 * 3600_000;

const short = (commit: string | undefined): string => commit?.slice(0, 10) ?? 'nothing';

/** Whether its condition said something else before. */
function isNews({ status }: Fleet, reason: string, message: string): boolean {
  const before = status?.conditions?.find(({ type }) => type === 'Ready');
  return before?.reason !== reason || before.message !== message;
}

const pollMsOf = (fleet: Fleet): number => (fleet.spec.source.pollSeconds ?? 30) * 1000;
const nextOf = (fleet: Fleet): number => 1 + (fleet.status?.rollout?.sequence ?? 0);

function digestsOf(rendered: RenderedCommit): Map<string, Map<string, string>> {
  return new Map(rendered.clusters.map((cluster) => [cluster.name, new Map(cluster.units.map((unit) => [unit.key, unit.digest]))]));
}
