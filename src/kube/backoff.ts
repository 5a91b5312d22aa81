import type { Random } from '../api/ports.ts';

export interface Backoff {
  /** Wait after the first failure. */
  baseMs: number;
  maxMs: number;
}

/** `base × 2^(failures-1)`, at most max. */
export function ceilingMs(backoff: Backoff, failures: number): number {
  return Math.min(backoff.maxMs, backoff.baseMs * 2 ** Math.min(Math.max(failures - 1, 0), 50));
}

/** Between 0 and the ceiling: for many clients of one server, which must not return together. */
export function fullJitterMs(backoff: Backoff, failures: number, random: Random): number {
  return random() * ceilingMs(backoff, failures);
}

/** Between half the ceiling and the ceiling: for one retrier, which must not return at once. */
export function halfJitterMs(backoff: Backoff, failures: number, random: Random): number {
  return ceilingMs(backoff, failures) * (0.5 + random() / 2);
}
