import { kubeError } from './errors.ts';
import type { ObjectKey } from '../api/resource.ts';
import { matchesLabels } from '../api/selector.ts';
import type { KubeObject } from '../api/wire.ts';
import { matchesFields } from './field-selector.ts';
import type { Metrics } from './metrics.ts';
import type { IndexFunction } from './object-store.ts';
import { follow } from './reflector/loop.ts';
import type { ReflectorOptions, StoreOptions } from './reflector/options.ts';
import { ageMs, newReflection } from './reflector/reflection.ts';
import type { Listener, Reflection, ReflectorState } from './reflector/reflection.ts';
import { RELIST } from './reflector/watch.ts';
import { hasReached } from './resource-version.ts';
import type { Store } from './store.ts';

export type { IndexFunction } from './object-store.ts';
export { createRoom } from './reflector/bounds.ts';
export type { Room, StoreBounds } from './reflector/bounds.ts';
export type { ReflectorOptions, StoreOptions } from './reflector/options.ts';
export type { ReflectorState, StoreEvent } from './reflector/reflection.ts';

export interface Reflector<T extends KubeObject> extends Store<T> {
  readonly state: ReflectorState;
  /** Where it is counted. */
  readonly metrics?: Metrics | undefined;
  /** Settles when the signal has ended it; never rejects. */
  readonly done: Promise<void>;
  /**
   * Ms since the server last sent something (list, event, bookmark) or opened a watch again after a stale one; Infinity before the first list.
   * What is old must not be trusted.
   */
  ageMs(): number;
  /** Resolves when synced; rejects with the reason of `signal`, or of the reflector's own when it ends first. */
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** Called synchronously and in order. Returns its cancellation. */
  subscribe(listener: Listener<T>): () => void;
  /** Adds an index; the same name twice must be the same function. */
  addIndex(name: string, values: IndexFunction<T>): void;
  /** Whether an object like this belongs into this store; undefined where only the server knows. */
  covers(object: KubeObject): boolean | undefined;
  /** Names this moment, for `hasPassed`. */
  mark(): number;
  /** True when the store has seen this resourceVersion or a later one, or when a list begun after the mark is complete. */
  hasPassed(key: ObjectKey, resourceVersion: string | undefined, mark: number): boolean;
  /**
   * Ends the watch and lists again from the server's newest state. A list under way is finished first, and another follows. `again`: objects of a
   * known version are compared, too: what a watch sends while its kind is defined again may lack fields, and no later event makes up for it.
   */
  relist(options?: { again: boolean }): void;
}

const BY_NAMESPACE = 'metadata.namespace';

/**
 * Keeps a store in step with the server: lists in pages, then watches from the list's resourceVersion. Starts at once.
 *
 * Guarantees: the store is swapped whole by a list and then changed event by event; listeners are notified of every difference, also of deletions
 * that a relist finds; a failed or partial list changes nothing; it goes on until its signal ends it, with any answer of the server. What does not
 * change is not listed again: a stale watch costs one object and a new watch.
 *
 * Caveat: while the server cannot be reached the store grows old and shows that only by `ageMs`.
 */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const { resource } = options;
  if (options.labels !== undefined && Object.keys(options.labels).length === 0) {
    throw kubeError(
      'EmptySelector',
      `a store of ${resource.plural} with an empty label selector would select every object; leave it out instead`,
    );
  }
  const reflection = newReflection(options);
  const { store, lists, watches, listeners } = reflection;
  store.addIndex(BY_NAMESPACE, (object) => [object.metadata.namespace ?? '']);
  for (const [name, values] of Object.entries(options.indexes ?? {})) store.addIndex(name, values);
  const done = run(reflection);

  return {
    resource,
    metrics: options.metrics,
    done,
    get state() {
      const { state, resourceVersion = '' } = reflection;
      return state.phase === 'watching' ? { ...state, resourceVersion } : state;
    },
    get synced() {
      return reflection.synced;
    },
    get resourceVersion() {
      return reflection.resourceVersion;
    },
    get size() {
      return store.size;
    },
    get: (key) => store.get(key),
    list: () => store.list(),
    inNamespace: (namespace) => store.byIndex(BY_NAMESPACE, namespace),
    byIndex: (index, value) => store.byIndex(index, value),
    addIndex: (name, values) => store.addIndex(name, values),
    ageMs: () => ageMs(reflection),
    whenSynced: (signal) => whenSynced(reflection, signal),
    covers: (object) => covers(options, object),

    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },

    mark: () => lists.begun,

    hasPassed(key, version, mark) {
      if (lists.done > mark) return true;
      if (version === undefined) return false;
      return hasReached(reflection.resourceVersion, version) || hasReached(store.get(key)?.metadata.resourceVersion, version);
    },

    relist(how) {
      lists.again ||= how?.again === true;
      lists.due = true;
      watches.stop?.(RELIST);
    },
  };
}

async function run<T extends KubeObject>(reflection: Reflection<T>): Promise<void> {
  const { options, counters, firstList, store } = reflection;
  firstList.promise.catch(() => undefined);
  const shown = counters?.show(() => ({ size: store.size, ageMs: ageMs(reflection) })) ?? [];
  await follow(reflection);
  for (const end of shown) end();
  firstList.reject(options.signal.reason);
}

async function whenSynced<T extends KubeObject>({ synced, firstList }: Reflection<T>, signal: AbortSignal | undefined): Promise<void> {
  if (synced || signal === undefined) return await firstList.promise;
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([firstList.promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function covers<T extends KubeObject>({ namespace, labels, fieldSelector }: StoreOptions<T>, object: KubeObject): boolean | undefined {
  if (namespace !== undefined && object.metadata.namespace !== namespace) return false;
  if (labels !== undefined && !matchesLabels(labels, object.metadata.labels)) return false;
  return fieldSelector === undefined ? true : matchesFields(fieldSelector, object);
}
