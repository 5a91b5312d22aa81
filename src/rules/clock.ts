/**
 * How long something has been seen to hold. Pure: a clock and a look in, the next clock out; all it knows is in `Machine.status.observations`,
 * so that whoever looks next, this process or another, goes on where the last one stopped.
 *
 * Guarantees
 * - Time counts only between two looks that both saw it hold, and only if either nothing it reads had a transition in between or the looks were
 *   no further apart than LOOK_MS: what nobody watched does not count.
 * - A gap of at most `clearsAfterMs` is flapping: it is not counted, and what was counted before stays. A longer one ends it.
 * - Once it has held for `holdsForMs` in a look, only a look that sees it not hold takes that back.
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

/** A clock that runs is looked at this often, … */
export const REFRESH_MS = 60_000;
/** … and two looks at most this far apart vouch for the time between them. */
export const LOOK_MS = 90_000;

export interface Look {
  nowMs: number;
  holds: boolean;
  stamp: string;
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
    const endMs = clock.open && sinceMs <= LOOK_MS ? nowMs : lastSeenMs;
    return nowMs - endMs > look.clearsAfterMs ? undefined : { firstSeenMs, lastSeenMs: endMs, open: false, stamp: clock.stamp };
  }
  const reached = lastSeenMs - firstSeenMs >= look.holdsForMs;
  const watched = sinceMs <= LOOK_MS || (stamp !== '' && stamp === clock.stamp);
  if (clock.open && (reached || watched)) {
    // Written seldom: a look that changes nothing must not cost a write.
    const due = nowMs - firstSeenMs >= look.holdsForMs;
    const write = sinceMs >= REFRESH_MS || (due && !reached) || stamp !== clock.stamp;
    return { firstSeenMs, lastSeenMs: write ? nowMs : lastSeenMs, open: true, stamp };
  }
  return sinceMs > look.clearsAfterMs ? started : { firstSeenMs: firstSeenMs + sinceMs, lastSeenMs: nowMs, open: true, stamp };
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
