/**
 * How long something has been seen to match. Pure: a clock and a sample in, the next clock out; all it knows is in `Machine.status.observations`
 * and in the sample, so that the process that takes the next one, this or another, goes on where the last one stopped.
 *
 * Guarantees
 * - For conditions, time counts only between two samples that saw it match with no transition in between. A restart that missed a flap
 *   does not count it; one that missed nothing changes nothing.
 * - An end counts from the time that the detector reports, between the last sample and this one. A detector whose clock is off can only make the
 *   counted time shorter.
 * - Facts without transitions (a phase, a heartbeat) count between samples that are no further apart than SAMPLE_MS.
 * - A gap of at most `clearsAfterMs` is flapping: it is not counted, and what was counted before stays. A longer one ends it.
 */
import type { Observation } from '../api/machine.ts';

export interface MatchClock {
  /** Since when it matches, with the gaps taken out. */
  firstSeenMs: number;
  /** The last sample that saw it match, or the end of it. */
  lastSeenMs: number;
  open: boolean;
  /** Stamp of the transitions of what it reads; empty when that has none. */
  stamp: string;
}

/** Two samples of a fact without transitions prove the time between them if they are at most this far apart. */
export const SAMPLE_MS = 90_000;
/** A detector's clock may be this far ahead and still be believed. */
const AHEAD_MS = 2000;

/** How often a clock that runs needs a sample: well within the time that counts as flapping. */
export function refreshMs(clearsAfterMs: number): number {
  return Math.max(10_000, Math.min(60_000, clearsAfterMs / 2));
}

export interface Sample {
  nowMs: number;
  matches: boolean;
  stamp: string;
  /** When the conditions it reads last had a transition, by their detectors, ms. */
  transitionsMs: readonly number[];
  holdsForMs: number;
  clearsAfterMs: number;
}

export function advance(clock: MatchClock | undefined, sample: Sample): MatchClock | undefined {
  const { nowMs, stamp } = sample;
  const started = { firstSeenMs: nowMs, lastSeenMs: nowMs, open: true, stamp };
  if (clock === undefined) return sample.matches ? started : undefined;
  // Another leader's clock was ahead of ours: its sample counts as taken now.
  const firstSeenMs = Math.min(clock.firstSeenMs, nowMs);
  const lastSeenMs = Math.min(clock.lastSeenMs, nowMs);
  const sinceMs = nowMs - lastSeenMs;
  if (!sample.matches) {
    const endMs = clock.open ? endOf(clock, lastSeenMs, sample) : lastSeenMs;
    return nowMs - endMs > sample.clearsAfterMs ? undefined : { firstSeenMs, lastSeenMs: endMs, open: false, stamp: clock.stamp };
  }
  const reached = lastSeenMs - firstSeenMs >= sample.holdsForMs;
  const watched = stamp === '' ? sinceMs <= SAMPLE_MS || reached : stamp === clock.stamp;
  if (clock.open && watched) {
    // Written seldom: a sample that changes nothing must not cost a write.
    const write = sinceMs >= refreshMs(sample.clearsAfterMs) || (!reached && nowMs - firstSeenMs >= sample.holdsForMs);
    return { firstSeenMs, lastSeenMs: write ? nowMs : lastSeenMs, open: true, stamp };
  }
  return sinceMs > sample.clearsAfterMs ? started : { firstSeenMs: firstSeenMs + sinceMs, lastSeenMs: nowMs, open: true, stamp };
}

/** When it ended, between the last sample that saw it match and this one. */
function endOf(clock: MatchClock, lastSeenMs: number, { nowMs, transitionsMs }: Sample): number {
  if (clock.stamp === '') return nowMs - lastSeenMs <= SAMPLE_MS ? nowMs : lastSeenMs;
  const ended = transitionsMs.filter((each) => each > lastSeenMs && each <= nowMs + AHEAD_MS);
  return ended.length === 0 ? lastSeenMs : Math.min(nowMs, ...ended);
}

export const matchedMs = (clock: MatchClock | undefined, nowMs: number): number => (clock?.open === true ? nowMs - clock.firstSeenMs : 0);

/** `key#stamp`, with `~` behind it once it has ended. Keys contain neither `#` nor `~`. */
export function observationOf(key: string, clock: MatchClock): Observation {
  return {
    key: `${key}${clock.stamp === '' ? '' : `#${clock.stamp}`}${clock.open ? '' : '~'}`,
    firstSeen: new Date(clock.firstSeenMs).toISOString(),
    lastSeen: new Date(clock.lastSeenMs).toISOString(),
  };
}

export function clockOf({ key, firstSeen, lastSeen }: Observation): { key: string; clock: MatchClock } | undefined {
  const open = !key.endsWith('~');
  const [name = '', stamp = ''] = (open ? key : key.slice(0, -1)).split('#');
  const clock = { firstSeenMs: Date.parse(firstSeen), lastSeenMs: Date.parse(lastSeen), open, stamp };
  return Number.isNaN(clock.firstSeenMs) || Number.isNaN(clock.lastSeenMs) ? undefined : { key: name, clock };
}
