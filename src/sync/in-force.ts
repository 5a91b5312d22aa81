import type { Fleet } from '../api/fleet.ts';
import type { Rollout } from '../api/rollout.ts';
import type { Stored } from '../api/wire.ts';

/**
 * The rollouts of a fleet that count, by ascending sequence. A Rollout is in force once the Fleet's status names it, which is one write
 * conditioned on the status that its commit was judged by: what a deposed hub creates after that stays without effect. Without the Fleet none is.
 */
export function inForce(fleet: Fleet | undefined, rollouts: readonly Stored<Rollout>[]): Stored<Rollout>[] {
  if (fleet === undefined) return [];
  const newest = fleet.status?.rollout;
  return rollouts
    .filter(
      ({ spec, metadata }) =>
        newest === undefined ||
        spec.sequence < newest.sequence ||
        (spec.sequence === newest.sequence && (newest.uid === undefined || newest.uid === metadata.uid)),
    )
    .toSorted((a, b) => a.spec.sequence - b.spec.sequence);
}
