import { Clusters, type Cluster } from '../../api/cluster.ts';
import { isCoded } from '../../api/errors.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { Rollouts } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch } from '../../kube/controller.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { lateText } from '../deletions/pending.ts';
import { inForce } from '../in-force.ts';
import { syncError, syncErrorCodes } from '../errors.ts';
import { accept } from './accept.ts';
import { putBack } from './clusters.ts';
import { dueOf, failedTry, machinesSeen, triedOf, type Due } from './decide.ts';
import { emptyMemory, type FleetDependencies, type FleetRun } from './dependencies.ts';
import { Outdated, reportFailure, reportFleet } from './status.ts';

export interface FleetControllerOptions extends Omit<FleetDependencies, 'fleets' | 'clusters' | 'rollouts' | 'memory'> {
  client: Client;
  cache: Cache;
}

const OUTDATED_MS = 100;

/**
 * Turns new commits into Rollouts. Key: the fleet's name. Errors become the Fleet's condition and change nothing else; only a verdict about
 * the content refuses a commit, everything else is tried again.
 *
 * The Fleet's status is written only as it was read: a hub that was deposed meanwhile neither sets the accepted commit back nor brings a
 * Rollout into force.
 */
export async function runFleetController(options: FleetControllerOptions): Promise<void> {
  const { cache, checkouts } = options;
  const fleets = cache.store(Fleets);
  const clusters = cache.store(Clusters);
  const rollouts = cache.store(Rollouts);
  const deps: FleetDependencies = { ...options, fleets, clusters, rollouts, memory: emptyMemory() };
  const controller = createController({
    ...options,
    name: 'fleet',
    watches: [watch(fleets, (fleet) => [fleet.metadata.name])],
    concurrency: 2,
    reconcile: (name, run) => reconcile(deps, run, name),
  });
  const add = (key: string): void => controller.enqueue(key);
  // Of all that becomes of a Cluster only its deletion: each reconcile asks the source for its head.
  const subscriptions = [checkouts.onChange(add), onDeletedCluster(fleets, clusters, add)];
  try {
    await controller.run();
  } finally {
    for (const cancel of subscriptions) cancel();
  }
}

function onDeletedCluster(fleets: Reflector<Fleet>, clusters: Reflector<Cluster>, add: (key: string) => void): () => void {
  return clusters.subscribe((event) => {
    if (event.type !== 'deleted') return;
    const { name } = event.object.metadata;
    for (const { metadata, status } of fleets.list()) if (status?.clusters?.includes(name) === true) add(metadata.name);
  });
}

async function reconcile(deps: FleetDependencies, run: FleetRun, name: string): Promise<{ requeueAfterMs: number } | void> {
  const { fleets, memory, checkouts, fence } = deps;
  const fleet = fleets.get({ name });
  if (fleet === undefined) {
    memory.tries.delete(name);
    memory.heldOver.delete(name);
    memory.late.delete(name);
    await checkouts.close(name);
    return;
  }
  // What a hub of an earlier term has read of a Cluster is another one from now on.
  await fence.raise([]);
  try {
    if (fleet.spec.paused !== true) return { requeueAfterMs: await follow(deps, run, fleet) };
    await reportFleet(deps, run.client, fleet, { reason: 'Paused', message: 'spec.paused is set', ready: 'Unknown' });
    return undefined;
  } catch (error) {
    // Another has written the Fleet since it was read: all is judged again.
    if (!(error instanceof Outdated)) throw error;
    return { requeueAfterMs: OUTDATED_MS };
  }
}

/** Asks the branch for its head, and accepts it where that is due. Returns after how many ms the head is asked for again. */
async function follow(deps: FleetDependencies, run: FleetRun, fleet: Stored<Fleet>): Promise<number> {
  const { checkouts, clock, memory, random, signal } = deps;
  const { tries } = memory;
  const { name } = fleet.metadata;
  let head: string | undefined;
  try {
    requireValid(fleet);
    const checkout = await checkouts.open(fleet);
    ({ oid: head } = await checkout.head(signal));
    const due = dueNow(deps, fleet, head);
    if (due.state !== 'Due') await putBack(deps, run, fleet, checkout);
    if (due.state === 'Later') return Math.min(due.afterMs, pollMsOf(fleet));
    if (due.state !== 'Due') return pollMsOf(fleet);
    // What a person just wrote into this Fleet (a budget, a pause, a signer) must count for this commit already.
    const live = await run.client.get(Fleets, { name }, { signal });
    if (live.metadata.generation !== fleet.metadata.generation || dueNow(deps, live, head).state !== 'Due') return OUTDATED_MS;
    await accept(deps, run, live, checkout);
    tries.delete(name);
    return pollMsOf(fleet);
  } catch (error) {
    if (signal.aborted || error instanceof Outdated || isCoded(error, syncErrorCodes, 'Deposed')) throw error;
    const failed = failedTry(tries.get(name), triedOf(fleet, head), error, clock.monotonic(), random);
    tries.set(name, failed);
    await reportFailure(deps, run.client, fleet, { error, head: head ?? fleet.status?.head, refused: failed.refused });
    return failed.refused ? pollMsOf(fleet) : Math.max(0, Math.min(pollMsOf(fleet), failed.notBeforeMs - clock.monotonic()));
  }
}

function requireValid(fleet: Stored<Fleet>): void {
  const errors = Fleets.validate({ ...fleet, status: undefined });
  if (errors.length > 0) throw syncError('InvalidFleet', errors.map(({ path, message }) => `\`${path}\` ${message}`).join('; '));
}

function dueNow({ clusters, rollouts, clock, memory }: FleetDependencies, fleet: Stored<Fleet>, head: string): Due {
  const { name } = fleet.metadata;
  const over = memory.heldOver.get(name);
  const waited = over === undefined || over.seen !== machinesSeen(clusters.list(), over.clusters);
  const mine = inForce(
    fleet,
    rollouts.list().filter(({ spec }) => spec.fleet === name),
  );
  const late = lateText(mine, clusters.list());
  return dueOf(fleet, head, memory.tries.get(name), clock.monotonic(), {
    waited,
    late: late !== undefined && late !== memory.late.get(name),
  });
}

const pollMsOf = (fleet: Fleet): number => (fleet.spec.source.pollSeconds ?? 30) * 1000;
