import { Clusters, type Cluster } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { CodedError, isCoded, messageOf } from '../../api/errors.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/apierror.ts';
import { applyIfChanged } from '../../kube/apply.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { setConditions } from '../../kube/conditions.ts';
import { runController, watch } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Bundles } from '../bundles.ts';
import { syncError } from '../errors.ts';
import { plan, wantedOf, type Plan } from '../plan.ts';
import type { Checkouts, Checkout, RenderedCommit } from './checkout.ts';

export interface FleetControllerOptions {
  client: Client;
  cache: Cache;
  bundles: Bundles;
  checkouts: Checkouts;
  recorder: Recorder;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

type Status = NonNullable<Fleet['status']>;

/** Faults of the surroundings: the same commit may pass next time. Everything else waits for another commit or another Fleet. */
const TRANSIENT = new Set(['Unreachable', 'ServerTimeout', 'TooManyRequests', 'InternalError', 'Conflict']);

/** Turns new commits into Rollouts. Key: the fleet's name. Errors become the Fleet's condition and change nothing else. */
export async function runFleetController(options: FleetControllerOptions): Promise<void> {
  const { cache, clock, signal } = options;
  const fleets = cache.store(Fleets);
  /** Heads that were refused for what they hold, by fleet: not looked at again until head or Fleet changes. */
  const refused = new Map<string, string>();

  async function reconcile(name: string, context: { client: Client; log: Log }): Promise<{ requeueAfterMs: number } | void> {
    const fleet = fleets.get({ name });
    if (fleet === undefined) {
      await options.checkouts.close(name);
      return;
    }
    const requeueAfterMs = (fleet.spec.source.pollSeconds ?? 30) * 1000;
    if (fleet.spec.paused === true) {
      await report(context.client, fleet, { reason: 'Paused', message: 'spec.paused is set', ready: 'Unknown' });
      return;
    }
    try {
      const mistakes = Fleets.validate({ ...fleet, status: undefined });
      if (mistakes.length > 0)
        throw syncError('InvalidFleet', mistakes.map((mistake) => `\`${mistake.path}\` ${mistake.message}`).join('; '));
      const checkout = await options.checkouts.open(fleet);
      const { oid } = await checkout.head(signal);
      const seen = `${oid} ${fleet.metadata.generation ?? 0}`;
      const done = fleet.status?.commit === oid && fleet.status.observedGeneration === fleet.metadata.generation && isReady(fleet);
      if (done || refused.get(name) === seen) return { requeueAfterMs };
      // What a human just said of this Fleet (a budget, a pause, a signer) must count for this commit already.
      const live = await context.client.get(Fleets, { name }, { signal });
      if (live.metadata.generation !== fleet.metadata.generation) {
        return { requeueAfterMs: 100 };
      }
      try {
        await accept(fleet, checkout, context);
        refused.delete(name);
      } catch (error) {
        if (!signal.aborted && !(isCoded(error) && TRANSIENT.has(error.code))) refused.set(name, seen);
        await refuse(context.client, fleet, error, oid);
      }
    } catch (error) {
      if (signal.aborted) throw error;
      await refuse(context.client, fleet, error, fleet.status?.head);
    }
    return { requeueAfterMs };
  }

  async function accept(fleet: Stored<Fleet>, checkout: Checkout, context: { client: Client; log: Log }): Promise<void> {
    const { name } = fleet.metadata;
    const fetched = await checkout.fetch(fleet.status?.commit, signal);
    const { head } = fetched;
    if (fetched.relation === 'rewritten' && fleet.spec.acceptRewrittenHead !== head) {
      throw syncError(
        'HistoryRewritten',
        `the branch was rewritten: ${short(head)} does not descend from ${short(fleet.status?.commit)}; nothing was changed`,
        {
          next: `kubectl patch fleet ${name} --type merge -p '{"spec":{"acceptRewrittenHead":"${head}"}}'`,
        },
      );
    }
    if (fetched.relation === 'tooLong' && fleet.spec.acceptRewrittenHead !== head) {
      throw syncError(
        'HistoryTooLong',
        `the history between ${short(fleet.status?.commit)} and ${short(head)} is longer than can be checked; nothing was changed`,
        {
          next: `look at it and accept it: kubectl patch fleet ${name} --type merge -p '{"spec":{"acceptRewrittenHead":"${head}"}}'`,
        },
      );
    }
    await checkout.verify(fetched, signal);
    const rendered = await checkout.render(head, signal);
    context.log.info({ fleet: name, commit: head, clusters: rendered.clusters.length, ms: Math.round(rendered.ms) }, 'rendered');

    // Read from the server, not from a store: a rollout that this process or its predecessor just made must not be made twice.
    const rollouts = (await context.client.listAll(Rollouts, { signal })).items.filter((rollout) => rollout.spec.fleet === name);
    const clusters = (await context.client.listAll(Clusters, { signal })).items;
    rollouts.sort((a, b) => a.spec.sequence - b.spec.sequence);
    const wanted = wantedOf(name, rollouts, new Map(clusters.map((cluster) => [cluster.metadata.name, cluster.status?.units ?? []])));
    const planned = plan({
      fleet,
      rendered: digestsOf(rendered),
      wanted,
      labels: new Map(rendered.clusters.map(({ name, object }) => [name, object.metadata.labels ?? {}])),
    });

    for (const cluster of rendered.clusters) {
      for (const unit of cluster.units)
        await options.bundles.put(unit.digest, { key: unit.key, objects: unit.objects, origins: unit.origins });
    }
    for (const { object } of rendered.clusters) {
      const stored = clusters.find((cluster) => cluster.metadata.name === object.metadata.name);
      await applyIfChanged<Cluster>(context.client, Clusters, object, { fieldManager: MANAGERS.sync, force: true, stored, signal });
    }
    if (planned.units.length > 0) await createRollout(context.client, fleet, fetched.commits[0], head, planned, rollouts);
    await sweep(context.client, rollouts, clusters, rendered);
    await report(context.client, fleet, {
      reason: 'Accepted',
      ready: 'True',
      message: planned.units.length === 0 ? `${short(head)} changes nothing` : `${short(head)} changes ${planned.units.length} units`,
      status: {
        head,
        commit: head,
        commitTime: fetched.commits[0]?.time ?? fleet.status?.commitTime,
        isolation: rendered.isolation,
        units: rendered.clusters.reduce((sum, cluster) => sum + cluster.units.length, 0),
      },
    });
  }

  async function createRollout(
    client: Client,
    fleet: Fleet,
    info: { subject: string; author: string } | undefined,
    commit: string,
    planned: Plan,
    rollouts: readonly Rollout[],
  ): Promise<void> {
    const sequence = 1 + Math.max(0, ...rollouts.map((rollout) => rollout.spec.sequence));
    const rollout: Rollout = {
      apiVersion: API_VERSION,
      kind: 'Rollout',
      metadata: { name: `${fleet.metadata.name}-${sequence}` },
      spec: {
        fleet: fleet.metadata.name,
        commit,
        ...(info === undefined ? {} : { subject: info.subject.slice(0, 200), author: info.author.slice(0, 100) }),
        sequence,
        stages: planned.stages,
        units: planned.units,
      },
    };
    const made = await client.create(Rollouts, rollout, { fieldManager: MANAGERS.sync, signal });
    options.recorder.event(made, {
      type: 'Normal',
      reason: 'RolloutCreated',
      message: `${short(commit)} "${info?.subject ?? ''}": ${planned.units
        .map((unit) => unit.unit)
        .join(', ')
        .slice(0, 800)}`,
    });
  }

  /** Old rollouts that nothing depends on any more go, so that their number stays bounded. */
  async function sweep(
    client: Client,
    rollouts: readonly Stored<Rollout>[],
    clusters: readonly Cluster[],
    rendered: RenderedCommit,
  ): Promise<void> {
    const named = new Set<string>();
    const expendable: string[] = [];
    for (const [age, rollout] of rollouts.toReversed().entries()) {
      const owns = rollout.spec.units.some((unit) => !named.has(unit.unit));
      for (const { unit } of rollout.spec.units) named.add(unit);
      if (age >= KEPT_ROLLOUTS && !owns) expendable.push(rollout.metadata.name);
    }
    for (const name of expendable) {
      await client.delete(Rollouts, { name }, { signal }).catch((error: unknown) => {
        if (!hasReason(error, 'NotFound')) throw error;
      });
    }
    const keep = new Set<string>(rendered.clusters.flatMap((cluster) => cluster.units.map((unit) => unit.digest)));
    for (const rollout of rollouts)
      for (const unit of rollout.spec.units)
        for (const cluster of unit.clusters) if (cluster.digest !== undefined) keep.add(cluster.digest);
    for (const cluster of clusters) {
      for (const record of cluster.status?.units ?? []) {
        if (record.digest !== undefined) keep.add(record.digest);
        for (const verified of record.verified ?? []) keep.add(verified.digest);
      }
    }
    await options.bundles.sweep(keep, clock.now(), SWEEP_AGE_MS);
  }

  async function refuse(client: Client, fleet: Stored<Fleet>, error: unknown, head: string | undefined): Promise<void> {
    const reason = error instanceof CodedError ? error.code : 'InternalError';
    const message = `${messageOf(error)}${error instanceof CodedError && error.next !== undefined ? `\nnext: ${error.next}` : ''}`;
    const before = fleet.status?.conditions?.find((condition) => condition.type === 'Ready');
    if (before?.reason !== reason || before.message !== message) {
      options.log.warn({ fleet: fleet.metadata.name, head, reason }, message);
      options.recorder.event(fleet, { type: 'Warning', reason, message: message.slice(0, 1000) });
    }
    await report(client, fleet, { reason, message, ready: 'False', ...(head === undefined ? {} : { status: { head } }) });
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
    if (canonical(next) === canonical(fleet.status ?? {})) return;
    await client.patch(
      Fleets,
      { name: fleet.metadata.name },
      { merge: { status: next } },
      { subresource: 'status', fieldManager: MANAGERS.sync, signal },
    );
  }

  await runController({
    ...options,
    name: 'fleet',
    watches: [watch(fleets, (fleet) => [fleet.metadata.name])],
    concurrency: 2,
    reconcile,
    triggers: [(add) => options.checkouts.onChange(add)],
  });
}

const KEPT_ROLLOUTS = 50;
const SWEEP_AGE_MS = 24 * 3600_000;

const short = (commit: string | undefined): string => commit?.slice(0, 10) ?? 'nothing';

function isReady(fleet: Fleet): boolean {
  return fleet.status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True') === true;
}

function digestsOf(rendered: RenderedCommit): Map<string, Map<string, string>> {
  return new Map(rendered.clusters.map((cluster) => [cluster.name, new Map(cluster.units.map((unit) => [unit.key, unit.digest]))]));
}
