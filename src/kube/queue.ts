import { CodedError } from '../api/errors.ts';
import type { Clock, Random } from '../api/ports.ts';
import { askedMsOf } from './api-error.ts';
import { halfJitterMs } from './backoff.ts';
import type { Backoff } from './backoff.ts';
import { createSchedule } from './schedule.ts';

/** Retrying cannot help until the input changes: a live add. */
export class TerminalError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'TerminalError';
  }
}

/** `live`: something changed. `resync`: nothing is known to have changed; it comes after what is live. */
export type Priority = 'live' | 'resync';

export interface QueueResult {
  /** Run again after this time at the latest; ≥ 0. */
  requeueAfterMs?: number;
}

export interface QueueOptions {
  clock: Clock;
  random: Random;
  /** Ends it: nothing is started any more. */
  signal: AbortSignal;
  /** Keys processed at once, at most. */
  concurrency: number;
  /** Of a key's failures in a row. Default 200 ms to 5 minutes. */
  backoff?: Backoff | undefined;
  /** `failures`: in a row, before this run. */
  process: (key: string, attempt: { failures: number }) => Promise<QueueResult | void>;
  /** `retryInMs` is undefined for a TerminalError. Must not throw. */
  onError: (key: string, error: unknown, retry: { failures: number; retryInMs: number | undefined }) => void;
  /** Asked before each run. False leaves the key aside until `release`. */
  mayRun?: (key: string) => boolean;
}

export interface Queue {
  /** The earliest time and the highest priority of several adds win. A live add makes a terminal key eligible again. */
  add(key: string, options?: { priority?: Priority; afterMs?: number }): void;
  /** Makes a key that was left aside ready; `mayRun` is asked again. */
  release(key: string): void;
  readonly counts: { ready: number; delayed: number; running: number; held: number; terminal: number };
  /** Resolves when the signal has ended it and nothing runs. */
  readonly done: Promise<void>;
}

interface Entry {
  priority: Priority;
  failures: number;
  /** Not retried until a live add. */
  terminal: boolean;
  running: boolean;
  /** Left aside by `mayRun`. */
  held: boolean;
  /** Added while it ran: the earliest time asked for, and whether its input changed. */
  again: { at: number; priority: Priority } | undefined;
}

const BACKOFF: Backoff = { baseMs: 200, maxMs: 300_000 };
/** Processing yields to timers and sockets after this long: a lease must be renewed also while 10,000 keys are ready. */
const SLICE_MS = 8;
const SLICE_RUNS = 256;
/** Every so many runs one of lower priority is taken, so that a flood delays a resync but never stops it. */
const SHARE = 8;

/**
 * Guarantees: a key is never processed twice at once; an add during a run leads to another run; no add is lost; a failure is
 * retried with growing delay, per key; adds of one key before its run are one run.
 */
export function createQueue(options: QueueOptions): Queue {
  const { clock, random, signal } = options;
  const entries = new Map<string, Entry>();
  const ready = { live: new Set<string>(), resync: new Set<string>() };
  const delayed = createSchedule();
  const finished = Promise.withResolvers<void>();
  let running = 0;
  let held = 0;
  let terminal = 0;
  let started = 0;
  let timer: { at: number; cancel: () => void } | undefined;
  let slice: { since: number; runs: number } | undefined;
  let yielding = false;

  function entryOf(key: string): Entry {
    const entry = entries.get(key) ?? { priority: 'resync', failures: 0, terminal: false, running: false, held: false, again: undefined };
    entries.set(key, entry);
    return entry;
  }

  function schedule(key: string, entry: Entry, priority: Priority, at: number): void {
    const isReady = ready.live.has(key) || ready.resync.has(key);
    if (priority === 'live') entry.priority = 'live';
    if (at <= clock.monotonic()) {
      delayed.delete(key);
      if (isReady && entry.priority === 'live') ready.resync.delete(key);
      ready[entry.priority].add(key);
    } else if (!isReady) {
      delayed.set(key, at);
      arm();
    }
  }

  function arm(): void {
    const at = delayed.next();
    if (signal.aborted || (timer !== undefined && at !== undefined && timer.at <= at)) return;
    timer?.cancel();
    timer =
      at === undefined
        ? undefined
        : {
            at,
            cancel: clock.setTimer(at - clock.monotonic(), () => {
              timer = undefined;
              // A timer may fire a little early; nothing is taken before its time.
              for (const key of delayed.due(clock.monotonic())) {
                const entry = entryOf(key);
                ready[entry.priority].add(key);
              }
              arm();
              fill();
            }),
          };
  }

  function nextKey(): string | undefined {
    const resyncFirst = started % SHARE === SHARE - 1;
    for (const set of resyncFirst ? [ready.resync, ready.live] : [ready.live, ready.resync]) {
      for (const key of set) {
        set.delete(key);
        return key;
      }
    }
    return undefined;
  }

  function mustYield(): boolean {
    slice ??= { since: clock.monotonic(), runs: 0 };
    slice.runs++;
    return slice.runs > SLICE_RUNS || clock.monotonic() - slice.since > SLICE_MS;
  }

  function fill(): void {
    while (!signal.aborted && !yielding && running < options.concurrency) {
      if (ready.live.size + ready.resync.size === 0) {
        if (running === 0) slice = undefined;
        return;
      }
      if (mustYield()) {
        yielding = true;
        clock.setTimer(0, () => {
          yielding = false;
          slice = undefined;
          fill();
        });
        return;
      }
      const key = nextKey();
      if (key === undefined) return;
      const entry = entryOf(key);
      if (options.mayRun?.(key) === false) {
        entry.held = true;
        held++;
      } else {
        void run(key, entry);
      }
    }
  }

  async function run(key: string, entry: Entry): Promise<void> {
    entry.running = true;
    entry.priority = 'resync';
    running++;
    started++;
    try {
      const result = await options.process(key, { failures: entry.failures });
      const after = result?.requeueAfterMs;
      if (after !== undefined && !(after >= 0)) throw new CodedError('BadRequeue', `requeueAfterMs must be 0 or more, not ${after}`);
      entry.failures = 0;
      entry.running = false;
      if (after !== undefined && after !== Infinity) schedule(key, entry, 'live', clock.monotonic() + after);
    } catch (error) {
      entry.running = false;
      failed(key, entry, error);
    }
    running--;
    const again = entry.again;
    entry.again = undefined;
    if (again !== undefined) addTo(key, entry, again.priority, again.at);
    forget(key, entry);
    fill();
    if (signal.aborted && running === 0) finished.resolve();
  }

  function failed(key: string, entry: Entry, error: unknown): void {
    entry.failures++;
    if (error instanceof TerminalError) {
      entry.terminal = true;
      terminal++;
      options.onError(key, error, { failures: entry.failures, retryInMs: undefined });
      return;
    }
    // A server that says when to come back is heard.
    const askedMs = askedMsOf(error);
    const retryInMs = Math.round(Math.max(askedMs, halfJitterMs(options.backoff ?? BACKOFF, entry.failures, random)));
    options.onError(key, error, { failures: entry.failures, retryInMs });
    schedule(key, entry, 'live', clock.monotonic() + retryInMs);
  }

  /** Keeps of a key only what is still to be done or remembered. */
  function forget(key: string, entry: Entry): void {
    if (entry.running || entry.held || entry.terminal || entry.failures > 0) return;
    if (ready.live.has(key) || ready.resync.has(key) || delayed.has(key)) return;
    entries.delete(key);
  }

  function addTo(key: string, entry: Entry, priority: Priority, at: number): void {
    if (entry.terminal) {
      if (priority === 'resync') return;
      entry.terminal = false;
      entry.failures = 0;
      terminal--;
    }
    if (entry.held) {
      if (priority === 'live') entry.priority = 'live';
    } else if (entry.running) {
      const again = entry.again;
      entry.again = {
        at: Math.min(at, again?.at ?? Infinity),
        priority: again?.priority === 'live' ? 'live' : priority,
      };
    } else {
      schedule(key, entry, priority, at);
    }
  }

  signal.addEventListener(
    'abort',
    () => {
      timer?.cancel();
      if (running === 0) finished.resolve();
    },
    { once: true },
  );
  if (signal.aborted) finished.resolve();

  return {
    done: finished.promise,
    get counts() {
      return { ready: ready.live.size + ready.resync.size, delayed: delayed.size, running, held, terminal };
    },
    add(key, { priority = 'live', afterMs = 0 } = {}) {
      if (signal.aborted) return;
      if (!(afterMs >= 0)) throw new CodedError('BadDelay', `afterMs of "${key}" must be 0 or more, not ${afterMs}`);
      addTo(key, entryOf(key), priority, clock.monotonic() + afterMs);
      fill();
    },
    release(key) {
      const entry = entries.get(key);
      if (entry?.held !== true) return;
      entry.held = false;
      held--;
      ready[entry.priority].add(key);
      fill();
    },
  };
}
