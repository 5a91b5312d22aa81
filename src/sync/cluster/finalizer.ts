/** Clusters that stay while they are needed, also where somebody deletes them (docs/protocols.md#e13). */
import { FINALIZERS } from '../../api/names.ts';
import type { Client } from '../../kube/client.ts';
import { ownersOf } from '../plan.ts';
import { haltedUnits, keepCluster, releaseCluster, unitsToRemove } from '../records.ts';
import type { ClusterDependencies } from './dependencies.ts';

const HELD_NEXT = 'kubenode rollout retry NAME ends a halt, and so does a commit that changes the unit';

/** The function that it returns is called in each pass. */
export function openFinalizer({ clusters, fleets, inForceOf, recorder, signal }: ClusterDependencies): (hub: Client) => Promise<void> {
  /** By UID: deleted Clusters that are kept, and of which an Event says so. */
  const reportedHeld = new Set<string>();

  /** What fleets still declare and remove, as `fleet cluster unit`. */
  function owedRemovals(): ReadonlySet<string> {
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

  /** A Cluster stays, also where somebody deletes it, while it has a halt, or something to be removed; a person may give it free by hand (docs/protocols.md#e13). */
  async function keepClusters(hub: Client): Promise<void> {
    const owed = owedRemovals();
    for (const cluster of clusters.list()) {
      const { name, uid, finalizers, deletionTimestamp } = cluster.metadata;
      const isKept = finalizers?.includes(FINALIZERS.records) === true;
      const halted = haltedUnits(cluster, (fleet) => fleets.get({ name: fleet }) !== undefined);
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
        recorder.event(cluster, { type: 'Warning', reason: 'DeletionHeld', message });
      }
    }
  }

  return keepClusters;
}
