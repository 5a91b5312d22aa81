/**
 * Spans of time that come again by a schedule on the wall clock of a zone, or that are named once.
 *
 * Guarantees over daylight saving: a duration is time that passes, not what clocks show. A start in an hour that is skipped is at the moment of
 * the jump. In an hour that is repeated a window starts once, the first time; a freeze starts both times: a time in doubt is closed.
 */
import { Cron } from 'croner';
import { instantsOf, parseWall, wallOf } from './zoned-time.ts';

/** `from` belongs to it, `until` does not. Instants, ms. */
export interface Span {
  from: number;
  until: number;
}

export interface Calendar {
  /** The span that this instant is in, as far on as spans follow without a gap. */
  at(instantMs: number): Span | undefined;
  /** When the next span begins after this instant. */
  next(instantMs: number): number | undefined;
}

const MINUTE_MS = 60_000;
/** No clock is put back further. */
const REPEATED_MS = 3 * 60 * MINUTE_MS;
/** A schedule that starts very often is not followed further than this in one question; what is answered is true as far as it goes. */
const MAX_STARTS = 60;
const MAX_STEPS = 100;

/** Throws what croner throws, with its reason, for a schedule that is none: five fields, or a nickname such as `@daily`. */
export function parseSchedule(schedule: string): Cron {
  // Runs on wall times as if they were UTC: only `instantsOf` converts them to a zone.
  return new Cron(schedule, { timezone: 'UTC', mode: '5-part', paused: true });
}

export interface Recurrence {
  timeZone: string;
  schedule: string;
  durationMinutes: number;
}

/** `repeated`: what a start in a repeated hour is. Throws for an unknown zone and for a schedule that is none. */
export function recurring({ timeZone, schedule, durationMinutes }: Recurrence, repeated: 'Once' | 'Twice'): Calendar {
  const cron = parseSchedule(schedule);
  const durationMs = durationMinutes * MINUTE_MS;
  let known: { after: number; next: number | undefined } | undefined;
  let span: Span | undefined;

  function startAfter(instantMs: number): number | undefined {
    const wall = wallOf(instantMs, timeZone);
    const unsettled =
      wallOf(instantMs - REPEATED_MS, timeZone) !== wall - REPEATED_MS || wallOf(instantMs + REPEATED_MS, timeZone) !== wall + REPEATED_MS;
    let best: number | undefined;
    let at = cron.nextRun(new Date(unsettled && repeated === 'Twice' ? wall - REPEATED_MS : wall));
    for (; at !== null; at = cron.nextRun(at)) {
      const { first, last } = instantsOf(at.getTime(), timeZone);
      if (best !== undefined && first >= best) break;
      const hit = first > instantMs ? first : repeated === 'Twice' && last > instantMs ? last : undefined;
      if (hit === undefined) continue;
      best = Math.min(hit, best ?? hit);
      if (hit === first) break;
    }
    return best;
  }

  function next(instantMs: number): number | undefined {
    if (known !== undefined && known.after <= instantMs && (known.next ?? Infinity) > instantMs) return known.next;
    known = { after: instantMs, next: startAfter(instantMs) };
    return known.next;
  }

  return {
    next,
    at(instantMs) {
      if (span !== undefined && span.from <= instantMs && instantMs < span.until) return span;
      const from = next(instantMs - durationMs);
      if (from === undefined || from > instantMs) return undefined;
      let until = from + durationMs;
      let start: number | undefined = from;
      for (let starts = 0; starts < MAX_STARTS; starts++) {
        start = next(start);
        if (start === undefined || start > until) break;
        until = start + durationMs;
      }
      span = { from, until };
      return span;
    },
  };
}

/** From one wall time to another, both `YYYY-MM-DDTHH:MM`; as long as it can be where the clock shows one of them twice. */
export function once({ timeZone, from, until }: { timeZone: string; from: string; until: string }): Calendar & Span {
  const [begin, end] = [parseWall(from), parseWall(until)];
  if (begin === undefined || end === undefined) throw new RangeError(`"${from}" to "${until}" is not a span of wall times`);
  const span = { from: instantsOf(begin, timeZone).first, until: instantsOf(end, timeZone).last };
  return {
    ...span,
    at: (instantMs) => (span.from <= instantMs && instantMs < span.until ? span : undefined),
    next: (instantMs) => (span.from > instantMs ? span.from : undefined),
  };
}

/**
 * The first instant from this one on that is in a window (any time is, where there is none) and in no freeze. undefined: none within
 * `horizonMs`, or none that was found in a bounded search.
 */
export function nextOpen(
  instantMs: number,
  { windows, freezes }: { windows: readonly Calendar[]; freezes: readonly Calendar[] },
  horizonMs: number,
): number | undefined {
  let at = instantMs;
  for (let steps = 0; steps < MAX_STEPS; steps++) {
    const starts = windows.map((window) => (window.at(at) === undefined ? window.next(at) : at));
    const open = windows.length === 0 ? at : Math.min(...starts.map((start) => start ?? Infinity));
    if (open > instantMs + horizonMs) return undefined;
    const frozen = freezes.map((freeze) => freeze.at(open)?.until ?? 0);
    const until = Math.max(0, ...frozen);
    if (until === 0) return open;
    at = until;
  }
  return undefined;
}
