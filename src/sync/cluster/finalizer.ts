/** Clusters that stay while they are needed, also where a user deletes them (docs/protocols.md#e13). */
import { Clusters, type Cluster } from '../../api/cluster.ts';
import { FINALIZERS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { ownersOf } from '../plan.ts';
import type { ClusterDependencies } from './dependencies.ts';

const KEPT_NEXT = 'kubenode rollout retry NAME ends a halt, and so does a commit that changes the unit';

export class ClusterKeeper {
  readonly #dependencies: Omit<ClusterDependencies, 'clock'>;
  /** By UID: deleted Clusters that are kept, and have an Event of it. */
  readonly #reportedKept = new Set<string>();

  constructor(dependencies: Omit<ClusterDependencies, 'clock'>) {
    this.#dependencies = dependencies;
  }

  /** A Cluster stays while it has a halt, or something to be removed; a person may take the finalizer away by hand (docs/protocols.md#e13). */
  async keep(hub: Client): Promise<void> {
    const { clusters, fleets, recorder, signal } = this.#dependencies;
    const owed = owedRemovals(this.#dependencies);
    for (const cluster of clusters.list()) {
      const { name, uid, finalizers, deletionTimestamp } = cluster.metadata;
      const isKept = finalizers?.includes(FINALIZERS.records) === true;
      const halted = haltedUnits(cluster, (fleet) => fleets.get({ name: fleet }) !== undefined);
      const removed = unitsToRemove(cluster, (fleet, unit) => owed.has(`${fleet} ${name} ${unit}`));
      const isDue = halted.length + removed.length > 0;
      if (isKept && !isDue) await releaseCluster(hub, cluster, signal);
      // A removal, or a halt of an earlier version or of a Fleet that was gone for a while.
      else if (!isKept && isDue && deletionTimestamp === undefined) await keepCluster(hub, cluster, signal);
      else if (isKept && deletionTimestamp !== undefined && !this.#reportedKept.has(uid)) {
        this.#reportedKept.add(uid);
        recorder.event(cluster, { type: 'Warning', reason: 'DeletionHeld', message: keptText(halted, removed) });
      }
    }
  }
}

/** What fleets still declare and remove, as `fleet cluster unit`. */
function owedRemovals({ fleets, inForceOf }: Pick<ClusterDependencies, 'fleets' | 'inForceOf'>): ReadonlySet<string> {
  const owed = fleets.list().flatMap((fleet) => {
    const { name } = fleet.metadata;
    const members = fleet.status?.clusters;
    return [...ownersOf(inForceOf(fleet))].flatMap(([unit, { clusters: wanted }]) =>
      wanted.flatMap((each) =>
        each.digest === undefined && members?.includes(each.name) !== false ? [`${name} ${each.name} ${unit}`] : [],
      ),
    );
  });
  return new Set(owed);
}

const firstOf = (units: readonly string[]): string => units.slice(0, 5).join(', ');

function keptText(halted: readonly string[], removed: readonly string[]): string {
  return [
    ...(halted.length === 0 ? [] : [`it goes when what it halted is over: ${firstOf(halted)}. ${KEPT_NEXT}`]),
    ...(removed.length === 0 ? [] : [`it goes when what a commit removes there is gone: ${firstOf(removed)}`]),
  ].join('; ');
}

/**
 * A Cluster that a user deletes takes its records along: with this it stays while `haltedUnits` or `unitsToRemove` names any (docs/protocols.md#e13).
 * It is there before a halt is recorded. True where it was written. One that is being deleted takes no new finalizer.
 */
export async function addFinalizer(hub: Client, { metadata }: Stored<Cluster>, signal: AbortSignal): Promise<boolean> {
  const { name, resourceVersion, deletionTimestamp, finalizers = [] } = metadata;
  if (finalizers.includes(FINALIZERS.records) || deletionTimestamp !== undefined) return false;
  await hub.patch(
    Clusters,
    { name },
    { merge: { metadata: { resourceVersion, finalizers: [...finalizers, FINALIZERS.records] } } },
    { signal },
  );
  return true;
}

/** The same where the Cluster is from a store, which may be late: then the next pass does it. */
async function keepCluster(hub: Client, cluster: Stored<Cluster>, signal: AbortSignal): Promise<void> {
  await unlessOvertaken(addFinalizer(hub, cluster, signal));
}

async function unlessOvertaken(write: Promise<unknown>): Promise<void> {
  await write.catch((error: unknown) => {
    if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
  });
}

/** What keeps a Cluster that a user deletes: units that are halted there, of fleets that there are. */
function haltedUnits({ status }: Cluster, isFleet: (name: string) => boolean): string[] {
  return (status?.units ?? []).filter(({ halt, fleet }) => halt !== undefined && isFleet(fleet)).map(({ unit }) => unit);
}

/** And units that are to be removed there: only its record names them. `isOwed`: a rollout in force removes the unit of this fleet there. */
function unitsToRemove({ status }: Cluster, isOwed: (fleet: string, unit: string) => boolean): string[] {
  return (status?.units ?? [])
    .filter(({ fleet, unit, digest, inventory = [] }) => isOwed(fleet, unit) && (digest !== undefined || inventory.length > 0))
    .map(({ unit }) => unit);
}

/** Takes the finalizer from a Cluster that nothing keeps any more; conditioned on it, so that a halt which is recorded at that moment keeps it. */
async function releaseCluster(hub: Client, { metadata }: Stored<Cluster>, signal: AbortSignal): Promise<void> {
  const { name, resourceVersion, finalizers = [] } = metadata;
  const left = finalizers.filter((finalizer) => finalizer !== FINALIZERS.records);
  await unlessOvertaken(hub.patch(Clusters, { name }, { merge: { metadata: { resourceVersion, finalizers: left } } }, { signal }));
}
