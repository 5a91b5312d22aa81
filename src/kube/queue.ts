import { kubeError } from './errors.ts';
import type { Clock, Random } from '../api/ports.ts';
import { askedMsOf } from './api-error.ts';
import { halfJitterMs } from './backoff.ts';
import type { Backoff } from './backoff.ts';
import { ReadyKeys } from './queue/ready-keys.ts';
import type { Priority } from './queue/ready-keys.ts';
import { createSchedule } from './schedule.ts';
import type { Schedule } from './schedule.ts';

/** Retrying cannot help until the input changes: a live add. */
export class TerminalError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'TerminalError';
  }
}

export interface QueueResult {
  /** Run again after this time at the latest; ≥ 0. */
  requeueAfterMs?: number;
}

export interface QueueOptions {
  clock: Clock;
  random: Random;
  /** Ends it: the queue starts no more keys. */
  signal: AbortSignal;
  /** Keys processed at once, at most. */
  concurrency: number;
  /** Wait after a key's failures in a row. Default 200 ms to 5 minutes. */
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

const BACKOFF: Backoff = { baseMs: 200, maxMs: 300_000 };
/** Processing yields to timers and sockets after this long: a lease must be renewed also while 10,000 keys are ready. */
const SLICE_MS = 8;
const SLICE_RUNS = 256;

/** What is known of one key. */
interface Entry {
  priority: Priority;
  failures: number;
  /** Not retried until a live add. */
  terminal: boolean;
  running: boolean;
  /** Left aside by `mayRun`. */
  blocked: boolean;
  /** Added while it ran: the earliest time asked for, and whether its input changed. */
  again: { at: number; priority: Priority } | undefined;
}

interface QueueState {
  readonly options: QueueOptions;
  /** Keys that are to run, or whose state is kept. */
  readonly entries: Map<string, Entry>;
  readonly ready: ReadyKeys;
  readonly delayed: Schedule;
  readonly finished: PromiseWithResolvers<void>;
  running: number;
  blocked: number;
  terminal: number;
  /** Runs so far. */
  started: number;
  /** Timer of the next delayed key. */
  timer: { at: number; cancel: () => void } | undefined;
  /** Runs without a yield. */
  slice: { since: number; runs: number } | undefined;
  yielding: boolean;
}

/**
 * Guarantees: a key is never processed twice at once; an add during a run leads to another run; no add is lost; a failure is
 * retried with growing delay, per key; adds of one key before its run are one run.
 */
export function createQueue(options: QueueOptions): Queue {
  const { clock, signal } = options;
  const state: QueueState = {
    options,
    entries: new Map(),
    ready: new ReadyKeys(),
    delayed: createSchedule(),
    finished: Promise.withResolvers(),
    running: 0,
    blocked: 0,
    terminal: 0,
    started: 0,
    timer: undefined,
    slice: undefined,
    yielding: false,
  };
  signal.addEventListener('abort', () => stop(state), { once: true });
  if (signal.aborted) stop(state);

  return {
    done: state.finished.promise,
    get counts() {
      const { ready, delayed, running, blocked, terminal } = state;
      return { ready: ready.size, delayed: delayed.size, running, held: blocked, terminal };
    },
    add(key, { priority = 'live', afterMs = 0 } = {}) {
      if (signal.aborted) return;
      if (!(afterMs >= 0)) throw kubeError('BadDelay', `afterMs of "${key}" must be 0 or more, not ${afterMs}`);
      add(state, key, entryOf(state, key), priority, clock.monotonic() + afterMs);
      fill(state);
    },
    release(key) {
      const entry = state.entries.get(key);
      if (entry?.blocked !== true) return;
      entry.blocked = false;
      state.blocked--;
      state.ready.add(key, entry.priority);
      fill(state);
    },
  };
}

function stop(state: QueueState): void {
  state.timer?.cancel();
  if (state.running === 0) state.finished.resolve();
}

function entryOf({ entries }: QueueState, key: string): Entry {
  const entry = entries.get(key) ?? { priority: 'resync', failures: 0, terminal: false, running: false, blocked: false, again: undefined };
  entries.set(key, entry);
  return entry;
}

/** Keeps of a key only what is still to be done or remembered. */
function forget({ entries, ready, delayed }: QueueState, key: string, entry: Entry): void {
  if (entry.running || entry.blocked || entry.terminal || entry.failures > 0) return;
  if (ready.has(key) || delayed.has(key)) return;
  entries.delete(key);
}

function add(state: QueueState, key: string, entry: Entry, priority: Priority, at: number): void {
  if (entry.terminal) {
    if (priority === 'resync') return;
    entry.terminal = false;
    entry.failures = 0;
    state.terminal--;
  }
  if (entry.blocked) {
    if (priority === 'live') entry.priority = 'live';
  } else if (entry.running) {
    const again = entry.again;
    entry.again = {
      at: Math.min(at, again?.at ?? Infinity),
      priority: again?.priority === 'live' ? 'live' : priority,
    };
  } else {
    schedule(state, key, entry, priority, at);
  }
}

function schedule(state: QueueState, key: string, entry: Entry, priority: Priority, at: number): void {
  const { options, ready, delayed } = state;
  if (priority === 'live') entry.priority = 'live';
  if (at <= options.clock.monotonic()) {
    delayed.delete(key);
    ready.add(key, entry.priority);
  } else if (!ready.has(key)) {
    delayed.set(key, at);
    arm(state);
  }
}

/** Sets the timer of the key whose time comes first. */
function arm(state: QueueState): void {
  const { clock, signal } = state.options;
  const at = state.delayed.next();
  if (signal.aborted || (state.timer !== undefined && at !== undefined && state.timer.at <= at)) return;
  state.timer?.cancel();
  state.timer = at === undefined ? undefined : { at, cancel: clock.setTimer(at - clock.monotonic(), () => takeDue(state)) };
}

function takeDue(state: QueueState): void {
  state.timer = undefined;
  // A timer may fire a little early; no key is taken before its time.
  for (const key of state.delayed.due(state.options.clock.monotonic())) state.ready.add(key, entryOf(state, key).priority);
  arm(state);
  fill(state);
}

/** Starts runs until as many are under way as may be. */
function fill(state: QueueState): void {
  const { options, ready } = state;
  while (!options.signal.aborted && !state.yielding && state.running < options.concurrency) {
    if (ready.size === 0) {
      if (state.running === 0) state.slice = undefined;
      return;
    }
    if (mustYield(state)) {
      yieldSlice(state);
      return;
    }
    const key = ready.take(state.started);
    if (key === undefined) return;
    const entry = entryOf(state, key);
    if (options.mayRun?.(key) === false) {
      entry.blocked = true;
      state.blocked++;
    } else {
      void run(state, key, entry);
    }
  }
}

function mustYield(state: QueueState): boolean {
  const { clock } = state.options;
  state.slice ??= { since: clock.monotonic(), runs: 0 };
  state.slice.runs++;
  return state.slice.runs > SLICE_RUNS || clock.monotonic() - state.slice.since > SLICE_MS;
}

function yieldSlice(state: QueueState): void {
  state.yielding = true;
  state.options.clock.setTimer(0, () => {
    state.yielding = false;
    state.slice = undefined;
    fill(state);
  });
}

async function run(state: QueueState, key: string, entry: Entry): Promise<void> {
  const { process, clock, signal } = state.options;
  entry.running = true;
  entry.priority = 'resync';
  state.running++;
  state.started++;
  try {
    const result = await process(key, { failures: entry.failures });
    const after = result?.requeueAfterMs;
    if (after !== undefined && !(after >= 0)) throw kubeError('BadRequeue', `requeueAfterMs must be 0 or more, not ${after}`);
    entry.failures = 0;
    entry.running = false;
    if (after !== undefined && after !== Infinity) schedule(state, key, entry, 'live', clock.monotonic() + after);
  } catch (error) {
    entry.running = false;
    recordFailure(state, key, entry, error);
  }
  state.running--;
  const again = entry.again;
  entry.again = undefined;
  if (again !== undefined) add(state, key, entry, again.priority, again.at);
  forget(state, key, entry);
  fill(state);
  if (signal.aborted && state.running === 0) state.finished.resolve();
}

function recordFailure(state: QueueState, key: string, entry: Entry, error: unknown): void {
  const { onError, backoff = BACKOFF, clock, random } = state.options;
  entry.failures++;
  if (error instanceof TerminalError) {
    entry.terminal = true;
    state.terminal++;
    onError(key, error, { failures: entry.failures, retryInMs: undefined });
    return;
  }
  // At the earliest when the server asks for it.
  const retryInMs = Math.round(Math.max(askedMsOf(error), halfJitterMs(backoff, entry.failures, random)));
  onError(key, error, { failures: entry.failures, retryInMs });
  schedule(state, key, entry, 'live', clock.monotonic() + retryInMs);
}
