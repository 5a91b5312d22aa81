/**
 * How many disruptions began lately, as the ledger remembers it. Buckets of 5 minutes; those older than an hour are put together by the hour.
 *
 * Guarantees
 * - In any 60 consecutive minutes no more begin than `maxPerHour` allows, in any 24 hours no more than `maxPerDay`: a bucket counts until all of it
 *   is older than that. What begins therefore stops counting up to 5 minutes late for an hour, up to 60 minutes late for a day.
 * - Rate time never goes back: it is the clock's, or the begin of the newest bucket if a leader before had a clock that was ahead. So a
 *   clock that is behind neither loses counts nor counts twice; one that was ahead delays.
 * - Pure. Counting is part of the ledger write that reserves, giving back part of the one that cancels: each happens exactly as often as that.
 */
import type { LedgerReservation, StartsBucket } from '../api/disruption-ledger.ts';
import { classOf } from './request.ts';

const MINUTE_MS = 60_000;
const FINE_MINUTES = 5;
const COARSE_MINUTES = 60;

export type RateSpan = 'Hour' | 'Day';
const SPAN_MS: Readonly<Record<RateSpan, number>> = { Hour: 60 * MINUTE_MS, Day: 24 * 60 * MINUTE_MS };

/** So many different counts a ledger may have; above it no operation that a rate limits is reserved. */
export const MAX_COUNTS = 10_000;

/** In a bucket: the number of starts then, of any class in any scope, is not known. */
const UNKNOWN = '*';
/** More than any rate allows. */
const UNKNOWN_STARTS = 1_000_000_000;

const keyOf = (asked: string, scope: string): string => `${asked} ${scope}`;
const beginOf = (bucket: StartsBucket): number => Date.parse(bucket.from);
const endOf = (bucket: StartsBucket): number => beginOf(bucket) + bucket.minutes * MINUTE_MS;
const floor = (ms: number, minutes: number): number => Math.floor(ms / (minutes * MINUTE_MS)) * minutes * MINUTE_MS;
const iso = (ms: number): string => new Date(ms).toISOString();

const rateNow = (buckets: readonly StartsBucket[], nowMs: number): number => Math.max(nowMs, ...buckets.map(beginOf));

export interface Counts {
  /** Starts within the span until now, of these classes. */
  within(span: RateSpan, classes: Iterable<string>, scope: string): number;
  /** When fewer than `max` would count if nothing else began. */
  belowAt(span: RateSpan, classes: Iterable<string>, scope: string, max: number): number;
  /** One more of this class in these scopes, in what this counts from now on; `countStarts` writes it into the ledger. */
  add(asked: string, scopes: readonly string[]): void;
  /** As if this reservation had been given back. */
  remove(reservation: LedgerReservation): void;
  /** How many different counts there are. */
  readonly size: number;
}

export function countsOf(buckets: readonly StartsBucket[], nowMs: number): Counts {
  const now = rateNow(buckets, nowMs);
  const sums = { Hour: new Map<string, number>(), Day: new Map<string, number>() };
  let size = 0;
  const plus = (sum: Map<string, number>, key: string, count: number): void => void sum.set(key, (sum.get(key) ?? 0) + count);
  for (const bucket of buckets) {
    const entries = Object.entries(bucket.starts);
    size += entries.length;
    for (const span of ['Hour', 'Day'] as const)
      if (countsIn(bucket, span, now)) for (const [key, count] of entries) plus(sums[span], key, count);
  }
  return {
    size,
    within(span, classes, scope) {
      if (sums[span].size === 0) return 0;
      let sum = sums[span].get(UNKNOWN) ?? 0;
      for (const asked of classes) sum += sums[span].get(keyOf(asked, scope)) ?? 0;
      return sum;
    },
    belowAt(span, classes, scope, max) {
      const keys = [UNKNOWN, ...[...classes].map((asked) => keyOf(asked, scope))];
      let left = this.within(span, classes, scope);
      for (const bucket of buckets.toSorted((a, b) => beginOf(a) - beginOf(b))) {
        if (!countsIn(bucket, span, now)) continue;
        left -= keys.reduce((sum, key) => sum + (bucket.starts[key] ?? 0), 0);
        if (left < max) return endOf(bucket) + SPAN_MS[span];
      }
      // Those that were added just now.
      return floor(now, FINE_MINUTES) + FINE_MINUTES * MINUTE_MS + SPAN_MS[span];
    },
    add(asked, scopes) {
      for (const scope of scopes) for (const span of ['Hour', 'Day'] as const) plus(sums[span], keyOf(asked, scope), 1);
    },
    remove({ counted }) {
      const bucket = counted === undefined ? undefined : bucketAt(buckets, counted.at);
      if (counted === undefined || bucket === undefined) return;
      for (const span of ['Hour', 'Day'] as const)
        if (countsIn(bucket, span, now)) for (const scope of counted.scopes) plus(sums[span], keyOf(counted.class, scope), -1);
    },
  };
}

/** The finest: an hour's bucket lies over those that are not put into it yet. */
function bucketAt(buckets: readonly StartsBucket[], time: string): StartsBucket | undefined {
  const at = Date.parse(time);
  return buckets.filter((each) => beginOf(each) <= at && at < endOf(each)).toSorted((a, b) => a.minutes - b.minutes)[0];
}

/** An hour's bucket contains only what had left the last hour when it was made. */
const countsIn = (bucket: StartsBucket, span: RateSpan, now: number): boolean =>
  (span === 'Day' || bucket.minutes < COARSE_MINUTES) && endOf(bucket) > now - SPAN_MS[span];

/** Which reservations a rate limits. */
export type Rated = (asked: string, scope: string) => boolean;

/** Counts each reservation where a rate limits it, and notes at the reservation where that was; without such a rate no count changes. */
export function countStarts(
  buckets: readonly StartsBucket[],
  reservations: readonly LedgerReservation[],
  nowMs: number,
  rated: Rated,
): { hours: StartsBucket[]; reservations: LedgerReservation[] } {
  const now = rateNow(buckets, nowMs);
  const starts: Record<string, number> = {};
  const counted = reservations.map((reservation) => {
    const asked = classOf(reservation);
    const scopes = reservation.scopes.filter((scope) => rated(asked, scope));
    if (scopes.length === 0) return reservation;
    for (const scope of scopes) starts[keyOf(asked, scope)] = (starts[keyOf(asked, scope)] ?? 0) + 1;
    return { ...reservation, counted: { at: iso(now), class: asked, scopes } };
  });
  if (Object.keys(starts).length === 0) return { hours: [...buckets], reservations: counted };
  return {
    hours: compact([...buckets, { from: iso(floor(now, FINE_MINUTES)), minutes: FINE_MINUTES, starts }], now),
    reservations: counted,
  };
}

/** As if until then more had begun than any rate allows: who counted it is lost. */
export function countUnknown(buckets: readonly StartsBucket[], atMs: number): StartsBucket[] {
  const now = rateNow(buckets, atMs);
  const unknown = { from: iso(floor(now, FINE_MINUTES)), minutes: FINE_MINUTES, starts: { [UNKNOWN]: UNKNOWN_STARTS } };
  return compact([...buckets, unknown], now);
}

/** Without what this reservation counted; the reservation must go in the same write. A bucket that is gone has nothing to give back. */
export function giveBack(buckets: readonly StartsBucket[], reservation: LedgerReservation): StartsBucket[] {
  const { counted } = reservation;
  if (counted === undefined) return [...buckets];
  const bucket = bucketAt(buckets, counted.at);
  if (bucket === undefined) return [...buckets];
  const starts = { ...bucket.starts };
  for (const scope of counted.scopes) {
    const key = keyOf(counted.class, scope);
    const left = (starts[key] ?? 0) - 1;
    if (left > 0) starts[key] = left;
    else delete starts[key];
  }
  // Also an empty one stays: rate time must not go back.
  return buckets.map((each) => (each === bucket ? { ...each, starts } : each));
}

function compact(buckets: readonly StartsBucket[], now: number): StartsBucket[] {
  const settled = floor(now, FINE_MINUTES);
  const merged = new Map<string, StartsBucket>();
  for (const bucket of buckets) {
    const end = endOf(bucket);
    if (end <= settled - SPAN_MS.Day) continue;
    const old = bucket.minutes < COARSE_MINUTES && end <= settled - SPAN_MS.Hour;
    const from = old ? iso(floor(beginOf(bucket), COARSE_MINUTES)) : bucket.from;
    const minutes = old ? COARSE_MINUTES : bucket.minutes;
    const key = `${from} ${minutes}`;
    const starts = { ...merged.get(key)?.starts };
    for (const [name, count] of Object.entries(bucket.starts)) starts[name] = (starts[name] ?? 0) + count;
    merged.set(key, { from, minutes, starts });
  }
  return [...merged.values()].sort((a, b) => beginOf(a) - beginOf(b) || b.minutes - a.minutes);
}
