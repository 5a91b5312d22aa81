/**
 * How long something has been seen to hold. Pure: a clock and a look in, the next clock out; all it knows is in `Machine.status.observations`
 * and in what the look sees, so that whoever looks next, this process or another, goes on where the last one stopped.
 *
 * Guarantees
 * - Of what conditions say, time counts only between two looks that saw it hold with no transition in between. A restart that missed a flap
 *   does not count it; one that missed nothing changes nothing.
 * - An end counts from when the detector says it was, between the last look and this one. A detector whose clock is off can only make the
 *   counted time shorter.
 * - Facts without transitions (a phase, a heartbeat) count between looks that are no further apart than LOOK_MS.
 * - A gap of at most `clearsAfterMs` is flapping: it is not counted, and what was counted before stays. A longer one ends it.
 */
import type { Observation } from '../api/machine.ts';

export interface HoldClock {
  /** Since when it holds, with the gaps taken out. */
  firstSeenMs: number;
  /** The last look that saw it hold, or the end of it. */
  lastSeenMs: number;
  open: boolean;
  /** Of the transitions of what it reads; empty when that has none. */
  stamp: string;
}

/** Two looks at what has no transitions vouch for the time between them if they are at most this far apart. */
export const LOOK_MS = 90_000;
/** A detector's clock may be this far ahead and still be believed. */
const AHEAD_MS = 2000;

/** How often a clock that runs is to be looked at: well inside of what is taken for flapping. */
export function refreshMs(clearsAfterMs: number): number {
  return Math.max(10_000, Math.min(60_000, clearsAfterMs / 2));
}

export interface Look {
  nowMs: number;
  holds: boolean;
  stamp: string;
  /** When the detectors say that the conditions it reads last had a transition, ms. */
  transitionsMs: readonly number[];
  holdsForMs: number;
  clearsAfterMs: number;
}

export function advance(clock: HoldClock | undefined, look: Look): HoldClock | undefined {
  const { nowMs, stamp } = look;
  const started = { firstSeenMs: nowMs, lastSeenMs: nowMs, open: true, stamp };
  if (clock === undefined) return look.holds ? started : undefined;
  // Another leader's clock was ahead of ours: what it saw it saw by now.
  const firstSeenMs = Math.min(clock.firstSeenMs, nowMs);
  const lastSeenMs = Math.min(clock.lastSeenMs, nowMs);
  const sinceMs = nowMs - lastSeenMs;
  if (!look.holds) {
    const endMs = clock.open ? endOf(clock, lastSeenMs, look) : lastSeenMs;
    return nowMs - endMs > look.clearsAfterMs ? undefined : { firstSeenMs, lastSeenMs: endMs, open: false, stamp: clock.stamp };
  }
  const reached = lastSeenMs - firstSeenMs >= look.holdsForMs;
  const watched = stamp === '' ? sinceMs <= LOOK_MS || reached : stamp === clock.stamp;
  if (clock.open && watched) {
    // Written seldom: a look that changes nothing must not cost a write.
    const write = sinceMs >= refreshMs(look.clearsAfterMs) || (!reached && nowMs - firstSeenMs >= look.holdsForMs);
    return { firstSeenMs, lastSeenMs: write ? nowMs : lastSeenMs, open: true, stamp };
  }
  return sinceMs > look.clearsAfterMs ? started : { firstSeenMs: firstSeenMs + sinceMs, lastSeenMs: nowMs, open: true, stamp };
}

/** When it ended, between the last look that saw it hold and this one. */
function endOf(clock: HoldClock, lastSeenMs: number, { nowMs, transitionsMs }: Look): number {
  if (clock.stamp === '') return nowMs - lastSeenMs <= LOOK_MS ? nowMs : lastSeenMs;
  const said = transitionsMs.filter((each) => each > lastSeenMs && each <= nowMs + AHEAD_MS);
  return said.length === 0 ? lastSeenMs : Math.min(nowMs, ...said);
}

export const heldMs = (clock: HoldClock | undefined, nowMs: number): number => (clock?.open === true ? nowMs - clock.firstSeenMs : 0);

/** `key#stamp`, with `~` behind it once it has ended. Keys hold neither `#` nor `~`. */
export function observationOf(key: string, clock: HoldClock): Observation {
  return {
    key: `${key}${clock.stamp === '' ? '' : `#${clock.stamp}`}${clock.open ? '' : '~'}`,
    firstSeen: new Date(clock.firstSeenMs).toISOString(),
    lastSeen: new Date(clock.lastSeenMs).toISOString(),
  };
}

export function clockOf({ key, firstSeen, lastSeen }: Observation): { key: string; clock: HoldClock } | undefined {
  const open = !key.endsWith('~');
  const [name = '', stamp = ''] = (open ? key : key.slice(0, -1)).split('#');
  const clock = { firstSeenMs: Date.parse(firstSeen), lastSeenMs: Date.parse(lastSeen), open, stamp };
  return Number.isNaN(clock.firstSeenMs) || Number.isNaN(clock.lastSeenMs) ? undefined : { key: name, clock };
}
