import { Clusters, type Cluster } from '../../api/cluster.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { inForce } from '../in-force.ts';

/** What a decision about the rollouts of one fleet is made from, of the hub's own objects. */
export interface HubObjects {
  declared: Stored<Fleet> | undefined;
  rollouts: readonly Stored<Rollout>[];
  clusters: readonly Stored<Cluster>[];
}

export interface HubStores {
  /** With an index `fleet`. */
  rollouts: Reflector<Rollout>;
  clusters: Reflector<Cluster>;
  fleets: Reflector<Fleet>;
}

export function openStores(cache: Cache): HubStores {
  return {
    rollouts: cache.store(Rollouts, { indexes: { fleet: (rollout) => [rollout.spec.fleet] } }),
    clusters: cache.store(Clusters),
    fleets: cache.store(Fleets),
  };
}

/** Rollouts of a Fleet that its status names. */
export function inForceOf({ rollouts }: HubStores, fleet: Stored<Fleet>): readonly Stored<Rollout>[] {
  return inForce(fleet, rollouts.byIndex('fleet', fleet.metadata.name));
}

/** Fleets of which there are Rollouts. */
export function fleetNames({ rollouts }: HubStores): string[] {
  return [...new Set(rollouts.list().map((rollout) => rollout.spec.fleet))];
}

export function fromStores({ fleets, rollouts, clusters }: HubStores, fleet: string): HubObjects {
  return { declared: fleets.get({ name: fleet }), rollouts: rollouts.byIndex('fleet', fleet), clusters: clusters.list() };
}

/**
 * From the API server itself. All Clusters, also those that no rollout names: the record of any of them may revoke a digest, or have its halt (docs/protocols.md#e6, #e13).
 * All Rollouts, since no label names their fleet: a newer one, or the pause of an older one, may be what the store does not show.
 */
export async function fromServer(hub: Client, fleet: string, signal: AbortSignal): Promise<HubObjects> {
  const [declared, everyRollout, everyCluster] = await Promise.all([
    hub.find(Fleets, { name: fleet }, { signal }),
    hub.listAll(Rollouts, { signal }),
    hub.listAll(Clusters, { signal }),
  ]);
  return { declared, rollouts: everyRollout.items.filter(({ spec }) => spec.fleet === fleet), clusters: everyCluster.items };
}
