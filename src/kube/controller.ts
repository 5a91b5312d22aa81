import { CodedError, messageOf } from '../api/errors.ts';
import type { Clock, Log, Random } from '../api/ports.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { hasReason } from './api-error.ts';
import type { Backoff } from './backoff.ts';
import type { Client } from './client.ts';
import { withFields } from './log.ts';
import type { Metrics } from './metrics.ts';
import { createQueue, TerminalError } from './queue.ts';
import type { Queue, QueueResult } from './queue.ts';
import type { Reflector } from './reflector.ts';
import { createOwnWrites } from './writes.ts';
import type { Dependence } from './writes.ts';

export type KeyFunction<T extends KubeObject> = (object: Stored<T>, old?: Stored<T>) => string[];

/** A store and the keys that each of its objects leads to; made by `watch`. */
export type Watch = Dependence;

/**
 * `keys` is asked with (object) when it appears and with its last state when it goes, and with (object, old) when it changes. Keys by a
 * field that may change must be those of both states: wrap it in `ofBoth`. A store that is only read is watched with `() => []`,
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
  outcome: 'done' | 'requeued' | 'failed' | 'terminal';
}

export interface ControllerOptions {
  /** Names it in logs. */
  name: string;
  watches: readonly Watch[];
  /** What else leads to keys than the watched stores: each is given `add` once the controller runs, and returns its cancellation. */
  triggers?: readonly ((add: (key: string) => void) => () => void)[];
  /** Level-based: looks at what is, not at what happened. Must bear being run again at any time. */
  reconcile: (key: string, context: ReconcileContext) => Promise<QueueResult | void>;
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  /** Ends it. */
  signal: AbortSignal;
  /** Keys reconciled at once. Default 4. */
  concurrency?: number;
  /** Every key runs about this often, whatever happens. Absent: only on change. */
  resyncMs?: number;
  backoff?: Backoff;
  /** How long a store may lag behind an own write before it lists again. Default 5,000. */
  lagMs?: number;
  onReconciled?: (run: Reconciled) => void;
}

/**
 * Reconciles the keys that the watched objects lead to: each once at the start, then on change, on request, after failures and at each
 * resync. Begins when every watched store is synced.
 *
 * Guarantees: those of the queue; and no key runs while a watched store lacks a write that it depends on. A failure is logged and
 * retried, never swallowed; a TerminalError waits for a change.
 * Resolves when the signal has ended it and no reconcile runs any more.
 */
export async function runController(options: ControllerOptions): Promise<void> {
  const { name, watches, clock, random, signal } = options;
  if (watches.length === 0) throw new CodedError('NothingWatched', `controller "${name}" watches nothing and would never run`);
  if (options.resyncMs !== undefined && !(options.resyncMs > 0)) {
    throw new CodedError('BadResync', `resyncMs of controller "${name}" must be more than 0, not ${options.resyncMs}`);
  }
  try {
    await Promise.all(watches.map(({ store }) => store.whenSynced(signal)));
  } catch (error) {
    if (signal.aborted || watches.some(({ store }) => store.state.phase === 'stopped')) return;
    throw error;
  }

  const log = withFields(options.log, { controller: name });
  const metrics = watches.find(({ store }) => store.metrics !== undefined)?.store.metrics;
  const runs = metrics === undefined ? undefined : runsOf(metrics, name);
  /** Of the runs under way. */
  const ids = new Map<string, string>();
  const queue = createQueue({
    clock,
    random,
    signal,
    concurrency: options.concurrency ?? 4,
    process: reconcile,
    onError: logFailure,
    mayRun: (key) => ownWrites.isCurrent(key),
    backoff: options.backoff,
  });

  /** A mapping that throws on one odd object must not stop the others. */
  function keysOf(watched: Watch, object: Stored<KubeObject>, old?: Stored<KubeObject>): string[] {
    try {
      return watched.keys(object, old);
    } catch (error) {
      const { namespace, name } = object.metadata;
      log.error({ kind: object.kind, namespace, name, error: messageOf(error) }, 'an object is left out: its keys cannot be told');
      return [];
    }
  }

  async function reconcile(key: string, { failures }: { failures: number }): Promise<QueueResult | void> {
    const reconcileID = Math.floor(random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0');
    ids.set(key, reconcileID);
    const begun = clock.monotonic();
    const ended = (outcome: Reconciled['outcome']): void => {
      const durationMs = clock.monotonic() - begun;
      runs?.ended(outcome, durationMs);
      options.onReconciled?.({ key, durationMs, outcome });
    };
    try {
      const result = await options.reconcile(key, {
        client: ownWrites.clientFor(options.client, key),
        clock,
        random,
        log: withFields(log, { key, reconcileID }),
        signal,
        reconcileID,
        failures,
      });
      ended(result?.requeueAfterMs === undefined ? 'done' : 'requeued');
      ids.delete(key);
      return result;
    } catch (error) {
      ended(error instanceof TerminalError ? 'terminal' : 'failed');
      throw error;
    }
  }

  function logFailure(key: string, error: unknown, { failures, retryInMs }: { failures: number; retryInMs: number | undefined }): void {
    const fields = { key, reconcileID: ids.get(key), failures, retryInMs, error: messageOf(error) };
    ids.delete(key);
    if (signal.aborted) log.debug(fields, 'ended while it ran');
    else if (error instanceof TerminalError) log.error(fields, 'failed for good; waits for a change');
    // A conflict is how one learns that another was faster.
    else if (hasReason(error, 'Conflict')) log.debug(fields, 'failed; is retried');
    else if (error instanceof CodedError) log.warn(fields, 'failed; is retried');
    // What has no code is a mistake of ours: where it happened is needed.
    else log.error({ ...fields, stack: error instanceof Error ? error.stack : undefined }, 'failed; is retried');
  }

  /** Keys that were added since the start, or since this period of resync began. */
  const added = new Set<string>();

  /** Each key once, however many objects lead to it. */
  function addEach(watched: Watch, objects: readonly Stored<KubeObject>[], delay: () => number): void {
    for (const object of objects) {
      for (const key of keysOf(watched, object)) {
        if (added.has(key)) continue;
        added.add(key);
        queue.add(key, { priority: 'resync', afterMs: delay() });
      }
    }
  }

  const cancellations = watches.map((watched) =>
    watched.store.subscribe((event) => {
      if (event.type === 'listed' || event.type === 'bookmark') return;
      const keys = keysOf(watched, event.object, event.type === 'updated' ? event.old : undefined);
      for (const key of keys) queue.add(key);
    }),
  );
  // After the listeners: what an event both adds and frees is then one run.
  const ownWrites = createOwnWrites({
    clock,
    dependences: watches.map((watched) => ({ store: watched.store, keys: (object, old) => keysOf(watched, object, old) })),
    onReady: (key) => queue.release(key),
    lagMs: options.lagMs,
  });
  for (const watched of watches) addEach(watched, watched.store.list(), () => 0);
  for (const trigger of options.triggers ?? []) cancellations.push(trigger((key) => queue.add(key)));
  const endShow = runs?.show(queue);
  const stopResync = options.resyncMs === undefined ? undefined : resyncEvery(options.resyncMs);

  /** Spread over the whole period, so that neither the runs nor their adding are ever a burst. */
  function resyncEvery(ms: number): () => void {
    const sliceMs = ms / RESYNC_SLICES;
    let cancel: (() => void) | undefined;
    function arm(slice: number, afterMs: number): void {
      cancel = clock.setTimer(afterMs, () => {
        if (slice === 0) added.clear();
        for (const watched of watches) {
          const objects = watched.store.list();
          const [from, to] = [slice, slice + 1].map((each) => Math.floor((objects.length * each) / RESYNC_SLICES));
          addEach(watched, objects.slice(from, to), () => random() * sliceMs);
        }
        arm((slice + 1) % RESYNC_SLICES, sliceMs);
      });
    }
    arm(0, ms);
    return () => cancel?.();
  }

  await queue.done;
  endShow?.();
  stopResync?.();
  ownWrites.stop();
  for (const cancel of cancellations) cancel();
}

/** Of a period of resync. */
const RESYNC_SLICES = 60;
const OUTCOMES: readonly Reconciled['outcome'][] = ['done', 'requeued', 'failed', 'terminal'];
const SECONDS = [0.005, 0.02, 0.1, 0.5, 2, 10, 60];

/** The numbers that controller-runtime has of a controller, under names of ours. */
function runsOf(metrics: Metrics, controller: string) {
  const total = metrics.counter('kubenode_reconcile_total', 'Reconciles, by how they ended.');
  const seconds = metrics.histogram('kubenode_reconcile_seconds', 'How long reconciles took.', SECONDS);
  for (const result of OUTCOMES) total.add({ controller, result }, 0);
  return {
    ended(result: Reconciled['outcome'], durationMs: number): void {
      total.add({ controller, result });
      seconds.observe({ controller }, durationMs / 1000);
    },
    show: (queue: Queue) =>
      metrics.gauge(
        'kubenode_workqueue_keys',
        'Keys of a controller: ready to run, running, waiting for their time, held until a write is seen, or given up until they change.',
        () => Object.entries(queue.counts).map(([state, count]) => [{ controller, state }, count] as const),
      ),
  };
}
