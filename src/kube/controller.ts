import { kubeError } from './errors.ts';
import { CodedError, messageOf } from '../api/errors.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { hasReason } from './api-error.ts';
import type { Backoff } from './backoff.ts';
import type { Client } from './client.ts';
import { withFields } from './log.ts';
import { createQueue, TerminalError } from './queue.ts';
import type { Queue, QueueResult } from './queue.ts';
import { createReconcileMetrics, type ReconcileOutcome, type ReconcileMetrics } from './reconcile-metrics.ts';
import type { Reflector } from './reflector.ts';
import { resyncEvery } from './resync.ts';
import { createOwnWrites } from './writes.ts';
import type { Dependence } from './writes.ts';

export type KeyFunction<T extends KubeObject> = (object: Stored<T>, old?: Stored<T>) => string[];

/** A store and the keys that each of its objects leads to; made by `watch`. */
export type Watch = Dependence;

/**
 * `keys` is asked with (object) when it appears and with its last state when it goes, and with (object, old) when it changes. Keys by a
 * field that may change must be the keys of both states: wrap it in `ofBoth`. A store that is only read is watched with `() => []`,
 * so that the controller waits for it.
 */
export function watch<T extends KubeObject>(store: Reflector<T>, keys: KeyFunction<T>): Watch {
  return { store, keys };
}

/** Keys of the new state and of the old. */
export function ofBoth<T extends KubeObject>(keys: (object: Stored<T>) => string[]): KeyFunction<T> {
  return (object, old) => (old === undefined ? keys(object) : [...new Set([...keys(object), ...keys(old)])]);
}

export interface ReconcileContext {
  /** Its writes are waited for: what depends on them does not run again before the watched stores show them. */
  client: Client;
  clock: Clock;
  random: Random;
  /** Its lines carry controller, key and reconcileID. */
  log: Log;
  signal: AbortSignal;
  reconcileID: string;
  /** Failures of this key in a row before this run. */
  failures: number;
}

export interface Reconciled {
  key: string;
  durationMs: number;
  outcome: ReconcileOutcome;
}

export interface ControllerOptions {
  /** Names it in logs. */
  name: string;
  watches: readonly Watch[];
  /** Level-based: reads the state, not the event. It must be possible to run it again at any time. */
  reconcile: (key: string, context: ReconcileContext) => Promise<QueueResult | void>;
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  /** Ends it. */
  signal: AbortSignal;
  /** Keys reconciled at once. Default 4. */
  concurrency?: number;
  /** Every key runs about this often, also without a change. Absent: only on change. */
  resyncMs?: number;
  backoff?: Backoff;
  /** How long a store may lag behind an own write before it lists again. Default 5,000. */
  lagMs?: number;
  onReconciled?: (run: Reconciled) => void;
}

export interface Controller {
  /** Reconciles the key soon. Before the watched stores are synced it is kept until they are. */
  enqueue(key: string): void;
  /** Resolves when the signal has ended it and no reconcile runs any more. To be called once. */
  run(): Promise<void>;
}

/**
 * Reconciles the keys that the watched objects lead to: each once at the start, then on change, when enqueued, after failures and at each
 * resync. Begins when every watched store is synced.
 *
 * Guarantees: the guarantees of the queue; and no key runs while a watched store lacks a write that it depends on. A failure is logged and
 * retried, never swallowed; a TerminalError waits for a change.
 *
 * Throws `NothingWatched` and `BadResync` for options with which it would never run.
 */
export function createController(options: ControllerOptions): Controller {
  checkOptions(options);
  const early = new Set<string>();
  let queue: Queue | undefined;
  return {
    enqueue(key) {
      if (queue === undefined) early.add(key);
      else queue.add(key);
    },
    async run() {
      if (!(await isSynced(options))) return;
      const started = start(options);
      queue = started.queue;
      for (const key of early) queue.add(key);
      early.clear();
      await queue.done;
      started.stop();
    },
  };
}

function checkOptions({ name, watches, resyncMs }: ControllerOptions): void {
  if (watches.length === 0) throw kubeError('NothingWatched', `controller "${name}" watches nothing and would never run`);
  if (resyncMs !== undefined && !(resyncMs > 0)) {
    throw kubeError('BadResync', `resyncMs of controller "${name}" must be more than 0, not ${resyncMs}`);
  }
}

/** False: it was ended before. */
async function isSynced({ watches, signal }: ControllerOptions): Promise<boolean> {
  try {
    await Promise.all(watches.map(({ store }) => store.whenSynced(signal)));
    return true;
  } catch (error) {
    if (signal.aborted || watches.some(({ store }) => store.state.phase === 'stopped')) return false;
    throw error;
  }
}

function start(options: ControllerOptions): { queue: Queue; stop: () => void } {
  const { watches, clock, random, signal } = options;
  const log = withFields(options.log, { controller: options.name });
  const metrics = createReconcileMetrics(watches.find(({ store }) => store.metrics !== undefined)?.store.metrics, options.name);
  const runs: Runs = { options, log, metrics, ids: new Map() };
  const queue = createQueue({
    clock,
    random,
    signal,
    concurrency: options.concurrency ?? 4,
    process: (key, { failures }) => reconcileOnce(runs, ownWrites.clientFor(options.client, key), key, failures),
    onError: (key, error, failure) => logFailure(runs, key, error, failure),
    mayRun: (key) => ownWrites.isCurrent(key),
    backoff: options.backoff,
  });

  const safe = watches.map((each) => tolerant(each, log));
  const subscriptions = safe.map((watched) =>
    watched.store.subscribe((event) => {
      if (event.type === 'listed' || event.type === 'bookmark') return;
      for (const key of watched.keys(event.object, event.type === 'updated' ? event.old : undefined)) queue.add(key);
    }),
  );
  // After the listeners: what an event both adds and frees is then one run.
  const ownWrites = createOwnWrites({ clock, dependences: safe, onReady: (key) => queue.release(key), lagMs: options.lagMs });
  const stopResync = resyncEvery(options.resyncMs, safe, { clock, random, queue });
  const endShow = metrics?.show(queue);
  return {
    queue,
    stop() {
      endShow?.();
      stopResync();
      ownWrites.stop();
      for (const cancel of subscriptions) cancel();
    },
  };
}

/** A mapping that throws on one odd object must not stop the others. */
function tolerant(watched: Watch, log: Log): Watch {
  return {
    store: watched.store,
    keys(object, old) {
      try {
        return watched.keys(object, old);
      } catch (error) {
        const { namespace, name } = object.metadata;
        log.error({ kind: object.kind, namespace, name, error: messageOf(error) }, 'an object is left out: its keys cannot be computed');
        return [];
      }
    },
  };
}

interface Retry {
  /** In a row, this one included. */
  failures: number;
  /** Undefined: not before it changes. */
  retryInMs: number | undefined;
}

interface Runs {
  options: ControllerOptions;
  log: Log;
  metrics: ReconcileMetrics | undefined;
  /** reconcileID by key, of the runs under way. */
  ids: Map<string, string>;
}

async function reconcileOnce(runs: Runs, client: Client, key: string, failures: number): Promise<QueueResult | void> {
  const { clock, random, signal, reconcile, onReconciled } = runs.options;
  const reconcileID = Math.floor(random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0');
  runs.ids.set(key, reconcileID);
  const begun = clock.monotonic();
  const ended = (outcome: ReconcileOutcome): void => {
    const durationMs = clock.monotonic() - begun;
    runs.metrics?.ended(outcome, durationMs);
    onReconciled?.({ key, durationMs, outcome });
  };
  try {
    const log = withFields(runs.log, { key, reconcileID });
    const result = await reconcile(key, { client, clock, random, log, signal, reconcileID, failures });
    ended(result?.requeueAfterMs === undefined ? 'done' : 'requeued');
    runs.ids.delete(key);
    return result;
  } catch (error) {
    ended(error instanceof TerminalError ? 'terminal' : 'failed');
    throw error;
  }
}

function logFailure({ options, log, ids }: Runs, key: string, error: unknown, { failures, retryInMs }: Retry): void {
  const fields = { key, reconcileID: ids.get(key), failures, retryInMs, error: messageOf(error) };
  ids.delete(key);
  if (options.signal.aborted) log.debug(fields, 'ended while it ran');
  else if (error instanceof TerminalError) log.error(fields, 'failed; is not tried again before a change');
  // A conflict is how one learns that another was faster.
  else if (hasReason(error, 'Conflict')) log.debug(fields, 'failed; is retried');
  else if (error instanceof CodedError) log.warn(fields, 'failed; is retried');
  // What has no code is a defect of ours: where it happened is needed.
  else log.error({ ...fields, stack: error instanceof Error ? error.stack : undefined }, 'failed; is retried');
}
