/**
 * What time it is on the API server, from the `Date` of its answers. Instants that are stored in objects, and all that is compared with them,
 * are in this time: no two machines' clocks need agree (docs/protocols.md#h5). Leader election, timers and durations stay on the own monotonic clock.
 *
 * Each answer bounds the difference between the server's clock and the own monotonic one: the header was written between the request and its
 * answer, and names a whole second. Bounds of several answers are intersected, so the error shrinks below a second; between answers it grows
 * with the drift that two clocks may have.
 *
 * Guarantees
 * - An answer that came late only gives wide bounds; one that took longer than MAX_ROUND_MS, or that a proxy kept (`Age`), proves nothing.
 * - The reported time moves only as far as an answer disproves it.
 * - Answers that contradict what is known by more than STEP_MS (the server's clock was set, a proxy repeats an old `Date`, servers disagree)
 *   make the time unknown, until no answer had one of the two times for SETTLE_MS; a new time needs several answers that agree with each other.
 */
import { kubeError } from './errors.ts';
import type { Clock } from '../api/ports.ts';
import type { ApiResponse, Transport } from '../api/transport.ts';

/** An answer that took longer proves nothing. */
const MAX_ROUND_MS = 8000;
/** What is known less exactly is not known. */
const MAX_ERROR_MS = 5000;
/** Servers of one cluster may differ by as much; it counts as error. */
const STEP_MS = 5000;
/** How long two contradicting times are both remembered. */
const SETTLE_MS = 60_000;
/** Answers, and the time over which they came, that establish another time. */
const CONFIRMING = 3;
const CONFIRMING_MS = 5000;
/** How far two clocks may drift apart, as a share of the time that passed. */
const DRIFT = 0.0005;

export interface Answer {
  headers: ApiResponse['headers'];
  /** When the request was sent and its answer began, monotonic ms. */
  sentMs: number;
  answeredMs: number;
}

export interface Estimate {
  /** Wall ms of the API server. */
  ms: number;
  /** It is at most this far off, either way. */
  errorMs: number;
}

export interface ServerTime {
  observe(answer: Answer): void;
  /** undefined: the time is not known, not known well enough, or contradicted. */
  estimate(): Estimate | undefined;
}

/** Bounds of the server's wall clock minus the own monotonic clock, ms. */
interface Bounds {
  low: number;
  high: number;
}

interface Known extends Bounds {
  /** When it was last confirmed, and when and how often it was since it was first, monotonic ms. */
  atMs: number;
  sinceMs: number;
  answers: number;
}

/** undefined: the answer has no usable time. */
export function boundsOf({ headers, sentMs, answeredMs }: Answer): Bounds | undefined {
  const second = Date.parse(headers['date'] ?? '');
  const age = headers['age'];
  if (Number.isNaN(second) || (age !== undefined && age !== '0') || answeredMs - sentMs > MAX_ROUND_MS) return undefined;
  return { low: second - answeredMs, high: second + 1000 - sentMs };
}

const overlaps = (a: Bounds, b: Bounds): boolean => a.low <= b.high && b.low <= a.high;
const gapOf = (a: Bounds, b: Bounds): number => Math.max(a.low - b.high, b.low - a.high);
const widened = (known: Known, nowMs: number): Known => {
  const drift = Math.max(0, nowMs - known.atMs) * DRIFT;
  return { ...known, low: known.low - drift, high: known.high + drift };
};

export function createServerTime(clock: Pick<Clock, 'monotonic'>, onDoubt: (apartMs: number) => void = () => undefined): ServerTime {
  let known: Known | undefined;
  let rival: Known | undefined;
  /** What is added to the monotonic clock; kept for as long as the bounds allow. */
  let offset = 0;

  function confirmed(before: Known, found: Bounds, nowMs: number): Known {
    const wide = widened(before, nowMs);
    const [low, high] = overlaps(wide, found)
      ? [Math.max(wide.low, found.low), Math.min(wide.high, found.high)]
      : [Math.min(wide.low, found.low), Math.max(wide.high, found.high)];
    return { ...before, low, high, atMs: nowMs, answers: before.answers + 1 };
  }

  function settle(next: Known, isFirst: boolean): void {
    known = next;
    offset = isFirst ? (next.low + next.high) / 2 : Math.min(Math.max(offset, next.low), next.high);
  }

  return {
    observe(answer) {
      const found = boundsOf(answer);
      if (found === undefined) return;
      const nowMs = answer.answeredMs;
      const fresh: Known = { ...found, atMs: nowMs, sinceMs: nowMs, answers: 1 };
      if (known === undefined) return settle(fresh, true);
      if (gapOf(widened(known, nowMs), found) <= STEP_MS) return settle(confirmed(known, found, nowMs), false);
      if (rival === undefined || !overlaps(widened(rival, nowMs), found)) {
        if (rival === undefined) onDoubt(gapOf(known, found));
        rival = fresh;
        return;
      }
      rival = confirmed(rival, found, nowMs);
      const isSettled = rival.answers >= CONFIRMING && nowMs - rival.sinceMs >= CONFIRMING_MS && nowMs - known.atMs >= SETTLE_MS;
      if (!isSettled) return;
      settle(rival, true);
      rival = undefined;
    },
    estimate() {
      if (known === undefined) return undefined;
      const nowMs = clock.monotonic();
      if (rival !== undefined && nowMs - rival.atMs < SETTLE_MS) return undefined;
      rival = undefined;
      const { low, high } = widened(known, nowMs);
      const errorMs = Math.max(high - offset, offset - low);
      return errorMs > MAX_ERROR_MS ? undefined : { ms: nowMs + offset, errorMs };
    },
  };
}

/** The same transport; `time` learns from what it answers. */
export function timedTransport(transport: Transport, time: Pick<ServerTime, 'observe'>, clock: Pick<Clock, 'monotonic'>): Transport {
  return async (request) => {
    const sentMs = clock.monotonic();
    const response = await transport(request);
    // What fails on the way may be answered by another machine than the API server.
    if (response.status < 300) time.observe({ headers: response.headers, sentMs, answeredMs: clock.monotonic() });
    return response;
  };
}

/**
 * A clock whose wall time is the API server's; its timers and its monotonic time come from `clock`.
 * Errors: `now` throws `ServerTimeUnknown`: a decision or a record that needs it must wait.
 */
export function serverClock(clock: Clock, time: Pick<ServerTime, 'estimate'>): Clock {
  return {
    ...clock,
    now() {
      const estimate = time.estimate();
      if (estimate !== undefined) return estimate.ms;
      throw kubeError(
        'ServerTimeUnknown',
        'the time of the API server is not known: it has sent no usable Date, or its answers contradict each other',
        {
          next: 'compare the clocks of the API servers, and of a proxy before them; KubeNode decides nothing until they agree',
        },
      );
    },
  };
}
