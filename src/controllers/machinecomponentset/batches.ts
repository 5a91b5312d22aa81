import { resolveBatches, type CountOrPercent } from '../../api/batches.ts';
import type { Standing } from './standing.ts';

/** Where a set stands in its batches. Derived from Machines each time; nothing of it is stored (PROTOCOLS B3). */
export interface BatchState {
  /** Cumulative. */
  sizes: number[];
  /** Index of the batch under way; undefined when all have passed. */
  current: number | undefined;
  /** How many more machines may be given new content now. Without limit when all have passed: what is left came later. */
  room: number;
}

/**
 * A batch has passed when as many members as it has places hold the content with evidence, through soak, or all that can: those
 * that failed and those set aside are not waited for, and leave their places to others, so a first batch of one whose machine
 * failed or died is tried on the next one and not waved through. At least one member must pass, ever.
 */
export function batchState(batches: readonly CountOrPercent[], members: readonly Standing[]): BatchState {
  const sizes = resolveBatches(batches, members.length);
  const given = members.filter((each) => each.holds && !each.isAside);
  const passing = given.filter((each) => each.passes).length;
  const waitedFor = members.filter((each) => !each.hasFailed && !each.isAside).length;
  const found = members.length === 0 ? -1 : sizes.findIndex((size) => passing === 0 || passing < Math.min(size, waitedFor));
  const current = found < 0 ? undefined : found;
  return { sizes, current, room: current === undefined ? Infinity : Math.max(0, (sizes[current] ?? 0) - given.length) };
}
