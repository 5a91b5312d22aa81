import { resolveBatches, type CountOrPercent } from '../../api/batches.ts';
import { idOf, type Content } from './content.ts';
import { isInFlight, type Standing, type Standings } from './standing.ts';

/** Where one content of a set stands in its batches. Derived from Machines each time; nothing of it is stored (docs/protocols.md#b3). */
export interface BatchState {
  /** Whose batches these are: see `Standing.cohort`; undefined where no machine has this content as its target. */
  cohort: number | undefined;
  /** Cumulative. */
  sizes: number[];
  /** Index of the batch under way; undefined when all have passed. */
  current: number | undefined;
  /** How many more machines of the cohort may be given new content now. Without limit when all have passed. */
  room: number;
}

/** docs/protocols.md#b3, #b8: each content that a set gives, its own and its canary's, is proven by the machines that have that very content. */
export interface SetBatches {
  /** What the status reports: the batches of the main content; once they have passed, those of the canary. */
  shown: BatchState;
  /** Each content that members have as their target was proven, and all its batches have passed. */
  havePassed: boolean;
  /** By the id of the content. */
  byContent: ReadonlyMap<string, BatchState>;
}

export function setBatches(
  batches: readonly CountOrPercent[],
  { members, former }: Pick<Standings, 'members' | 'former'>,
  main: Content,
): SetBatches {
  const groups = Map.groupBy(members, (each) => idOf(each.target));
  // Also a member whose label made it a canary's, or one of the others, while the former content was in flight there.
  const elsewhere = members.filter(({ entry, target }) => entry !== undefined && idOf(entry) !== idOf(target));
  const inFlight = Map.groupBy([...former, ...elsewhere].filter(isInFlight), ({ entry }) => idOf(entry));
  const byContent = new Map([...groups].map(([id, group]) => [id, withPlacesOf(inFlight.get(id) ?? [], batchState(batches, group))]));
  const own = byContent.get(idOf(main));
  const underWay = [own, ...byContent.values()].find((each) => each?.current !== undefined);
  const shown = underWay ?? own ?? batchState(batches, members);
  return { shown, havePassed: underWay === undefined, byContent };
}

/** How many machines of a cohort may be given this content now. What no member has as its target waits until the others have passed. */
export function roomFor({ byContent, havePassed }: SetBatches, content: Content, cohort: number): number {
  const state = byContent.get(idOf(content));
  if (state === undefined) return havePassed ? Infinity : 0;
  return state.current === undefined || state.cohort === cohort ? state.room : 0;
}

/**
 * Content in flight on a machine that is to have other content now, or none, or that left in the middle of it and is selected again. It takes a slot of the
 * batch under way, and is no part of it.
 */
function withPlacesOf({ length }: readonly Standing[], state: BatchState): BatchState {
  return { ...state, room: Math.max(0, state.room - length) };
}

/**
 * `members`: all that have one content as their target. Those that were there when the content came go first; those that the set selected later
 * follow in batches of their own, so that the many that have it already do not open the last batch for them (docs/protocols.md#b5).
 */
function batchState(batches: readonly CountOrPercent[], members: readonly Standing[]): BatchState {
  const cohorts = [...new Set(members.map((each) => each.cohort))].toSorted((a, b) => a - b);
  let last: BatchState | undefined;
  for (const cohort of cohorts) {
    const own = members.filter((each) => each.cohort === cohort);
    const later = members.filter((each) => each.cohort > cohort && each.isGiven && isInFlight(each));
    // An earlier cohort has passed, so one of its members has.
    last = cohortState(batches, cohort, own, last !== undefined);
    if (last.current !== undefined) return withPlacesOf(later, last);
  }
  return last ?? { cohort: undefined, sizes: resolveBatches(batches, 0), current: undefined, room: Infinity };
}

/**
 * A batch has passed when as many members as it has slots have the content with evidence, through soak, or all that can: those
 * that failed and those set aside are not waited for, and leave their slots to others, so a first batch of one whose machine
 * failed or died is tried on the next one and not waved through. At least one member must pass, ever.
 */
function cohortState(batches: readonly CountOrPercent[], cohort: number, members: readonly Standing[], hasPassing: boolean): BatchState {
  const sizes = resolveBatches(batches, members.length);
  const given = members.filter((each) => each.isGiven && !each.isAside);
  const passing = given.filter((each) => each.passes).length;
  const waitedFor = members.filter((each) => !each.hasFailed && !each.isAside).length;
  const isProved = passing > 0 || (hasPassing && waitedFor === 0);
  const current = sizes.findIndex((size) => !isProved || passing < Math.min(size, waitedFor));
  const size = sizes[current];
  if (size === undefined) return { cohort, sizes, current: undefined, room: Infinity };
  return { cohort, sizes, current, room: Math.max(0, size - given.length) };
}
