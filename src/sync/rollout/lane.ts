/** Whether a change of a unit on a cluster goes forward or back. */
import type { UnitStatus } from '../../api/cluster.ts';
import type { Rollout } from '../../api/rollout.ts';
import { currentLane, REMOVAL } from '../records.ts';
import { isYoung } from '../soak.ts';
import type { UnitPlacement } from './placement.ts';
import type { World } from './world.ts';

/** By which of the two had evidence here first; what never had is newer than all that did. */
export function goesBack(record: UnitStatus | undefined, target: string | undefined): boolean {
  const current = currentDigest(record);
  if (current === undefined || target === undefined || current === target) return false;
  const orderOf = (digest: string): number | undefined => {
    const found = record?.verified?.find((entry) => entry.digest === digest);
    return found === undefined ? undefined : (found.order ?? 0);
  };
  const to = orderOf(target);
  return to !== undefined && to <= (orderOf(current) ?? Infinity);
}

/** Digest that is there, wholly or in part. */
export function currentDigest(record: UnitStatus | undefined): string | undefined {
  return record?.begun === undefined || record.begun === REMOVAL ? record?.digest : record.begun;
}

/** What is there keeps the lane it came by; what is to come takes the restore lane when it was verified here. */
export function laneOf(record: UnitStatus | undefined, target: string | undefined, restorable: boolean): UnitPlacement['lane'] {
  if (record?.digest === undefined) return 'Forward';
  if (record.digest === target && record.begun === undefined) return currentLane(record);
  return restorable ? 'Restore' : 'Forward';
}

/**
 * A removal goes back where what is there is new to this cluster: then nothing relies on it here yet, and it is the way back from what a commit began. How far
 * that commit came elsewhere does not matter. One that has begun keeps its lane. What an earlier version recorded does not show it, so that is a change like any other.
 */
export function laneOfRemoval(world: World, rollout: Rollout, record: UnitStatus | undefined): UnitPlacement['lane'] {
  if (record?.begun === REMOVAL) return record.removal?.lane ?? 'Forward';
  return record !== undefined && isNew(record, world.now, longestSoakMs(rollout)) ? 'Restore' : 'Forward';
}

/** Whether what came to this cluster with some commit was never proven here, or not longer ago than this. */
export function isNew({ added }: UnitStatus, now: number, soakMs: number): boolean {
  return added !== undefined && (added.verifiedAt === undefined || isYoung(added.verifiedAt, now, soakMs));
}

export function longestSoakMs({ spec }: Rollout): number {
  return 1000 * Math.max(0, ...spec.stages.map(({ soakSeconds }) => soakSeconds));
}
