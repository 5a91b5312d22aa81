/** What a commit is planned on: the Fleet, its Rollouts and the Clusters, read from the server together. */
import { Clusters, type Cluster, type UnitStatus } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { inForce } from '../in-force.ts';
import { wantedWithCommits } from '../wanted.ts';
import { count } from './rollouts.ts';

export interface FleetView {
  fleet: Stored<Fleet>;
  /** Those in force, by ascending sequence. */
  rollouts: Stored<Rollout>[];
  clusters: Stored<Cluster>[];
  /** By cluster: what the hub has recorded of each unit there. */
  recorded: ReadonlyMap<string, readonly UnitStatus[]>;
  /** By cluster and unit: what the Rollouts in force want, and of which commit. */
  wanted: ReturnType<typeof wantedWithCommits>;
}

/** Read from the server, not from a store: a rollout that this process or its predecessor just made must not be made twice. */
export async function observe(client: Client, read: Stored<Fleet>, signal: AbortSignal): Promise<FleetView> {
  const { name } = read.metadata;
  const all = (await client.listAll(Rollouts, { signal })).items.filter((rollout) => rollout.spec.fleet === name);
  const clusters = (await client.listAll(Clusters, { signal })).items;
  const fleet = read.status?.rollout === undefined ? await count(client, read, all, signal) : read;
  return viewOf(fleet, all, clusters);
}

/** `all`: every Rollout there is; those of other Fleets are left out. */
export function viewOf(fleet: Stored<Fleet>, all: readonly Stored<Rollout>[], clusters: Stored<Cluster>[]): FleetView {
  const { name } = fleet.metadata;
  const rollouts = inForce(
    fleet,
    all.filter((rollout) => rollout.spec.fleet === name),
  );
  const recorded = new Map(clusters.map((cluster) => [cluster.metadata.name, cluster.status?.units ?? []]));
  return { fleet, rollouts, clusters, recorded, wanted: wantedWithCommits(name, rollouts, recorded) };
}
