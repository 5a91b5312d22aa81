/** The Rollouts of a fleet: the next is created, old ones go. */
import type { Cluster } from '../../api/cluster.ts';
import type { Fleet } from '../../api/fleet.ts';
import { MANAGERS } from '../../api/names.ts';
import { Rollouts, type Rollout } from '../../api/rollout.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { syncError } from '../errors.ts';
import type { RenderedCommit } from './checkout.ts';
import { digestsInUse, expendable, isSameRollout } from './decide.ts';
import type { FleetDependencies } from './dependencies.ts';
import { writeStatus } from './status.ts';

const SWEEP_AGE_MS = 24 * 3600_000;

/** From here on Rollouts are in force only when the status names them. */
export async function count(
  client: Client,
  fleet: Stored<Fleet>,
  rollouts: readonly Stored<Rollout>[],
  signal: AbortSignal,
): Promise<Stored<Fleet>> {
  const sequence = Math.max(0, ...rollouts.map((rollout) => rollout.spec.sequence));
  return await writeStatus(client, fleet, { ...fleet.status, rollout: { sequence } }, signal);
}

/**
 * Creates the next Rollout. One of that name that is not in force was left by a hub that died or was deposed: it is taken if it has the same content, and
 * else removed. That it is being removed is in the Fleet's status before, in a write conditioned on the Fleet as it was read: so no other hub has
 * brought it into force, nor takes it from then on. Returns the Fleet as it was written last.
 */
export async function createRollout(
  client: Client,
  fleet: Stored<Fleet>,
  rollout: Rollout,
  signal: AbortSignal,
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
    if (!removing) over = await writeStatus(client, fleet, { ...fleet.status, removing: uid }, signal);
    await client.delete(Rollouts, { name }, { uid, signal }).catch((error: unknown) => {
      if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
    });
  }
  return { made: await client.create(Rollouts, rollout, { fieldManager: MANAGERS.sync, signal }), over };
}

/** Old rollouts that nothing depends on any more go, so that their number stays bounded. */
export async function sweep(
  { bundles, signal }: Pick<FleetDependencies, 'bundles' | 'signal'>,
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
  await bundles.sweep(keep, SWEEP_AGE_MS);
}
