import { messageOf } from '../../api/errors.ts';
import { selectorText } from '../../api/selector.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { createObjectStore } from '../object-store.ts';
import type { Difference, ObjectStore } from '../object-store.ts';
import { storeCounters } from './counters.ts';
import type { StoreCounters } from './counters.ts';
import type { ReflectorOptions, StoreOptions } from './options.ts';
import { createWeights } from './weights.ts';
import type { Weights } from './weights.ts';

export type ReflectorState =
  | { phase: 'empty' }
  | { phase: 'listing'; items: number }
  | { phase: 'listed'; resourceVersion: string }
  | { phase: 'watching'; resourceVersion: string }
  /** Between two attempts; the store goes on serving what it has. `code`: of the error, as `Unreachable` or Kubernetes' reason. */
  | { phase: 'waiting'; failures: number; code: string; error: string; retryInMs: number }
  | { phase: 'stopped' };

/**
 * What changed in the store, notified after it changed. `initial` marks the first list. A new UID under one name is `deleted`, then `added`.
 * `deleted` carries the last state known: the event's own, or the store's where a relist found it gone.
 */
export type StoreEvent<T extends KubeObject> =
  | { type: 'added'; object: Stored<T>; initial: boolean }
  | { type: 'updated'; object: Stored<T>; old: Stored<T> }
  | { type: 'deleted'; object: Stored<T> }
  /** A list is complete; notified after its differences, each time. */
  | { type: 'listed'; resourceVersion: string }
  | { type: 'bookmark'; resourceVersion: string };

export type Listener<T extends KubeObject> = (event: StoreEvent<T>) => void;

/** A list whose last page has not come. */
export interface PartialList<T extends KubeObject> {
  objects: Map<string, Stored<T>>;
  token: string | undefined;
  again: boolean;
  pages: number;
  weights: Weights;
}

/** How far the lists of one reflector are. */
export interface ListProgress<T extends KubeObject> {
  due: boolean;
  /** The list that is due compares objects of a known version, too. */
  again: boolean;
  /** Lists begun, and which of them is complete: a list shows every write that was answered before it was begun. */
  begun: number;
  done: number;
  /** It goes on from its token after a failed page. */
  partial: PartialList<T> | undefined;
  /** A list whose pages expired faster than they were read is repeated in one piece. */
  paged: boolean;
}

/** How far the watches of one reflector are. */
export interface WatchProgress {
  /** Ends the watch that is open. */
  stop: ((reason: Error) => void) | undefined;
  /** The watch that just ended was open for long. */
  lasted: boolean;
  /** A watch was stale: it may have died, the server may have been restored from a backup, or nothing has happened. */
  doubted: boolean;
  /** A request failed since the last list was begun, so the server may have another history. */
  cut: boolean;
  /** When the server itself ended the last watch, while the next one is not open; monotonic ms. */
  endedAt: number | undefined;
}

/** What one reflector keeps, and how far it is. Only the files of this folder write it. */
export interface Reflection<T extends KubeObject> {
  readonly options: ReflectorOptions<T>;
  /** Fields of each log line. */
  readonly about: { resource: string; namespace: string | undefined };
  /** Selection of each request. */
  readonly selection: Selection;
  readonly counters: StoreCounters | undefined;
  readonly store: ObjectStore<T>;
  /** Weights of what the store keeps. */
  readonly weights: Weights;
  readonly listeners: Set<Listener<T>>;
  readonly firstList: PromiseWithResolvers<void>;
  readonly lists: ListProgress<T>;
  readonly watches: WatchProgress;
  state: ReflectorState;
  resourceVersion: string | undefined;
  synced: boolean;
  /** When the server last sent something, or opened a watch again; monotonic ms. */
  lastSeenAt: number;
}

export interface Selection {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
}

export function newReflection<T extends KubeObject>(options: ReflectorOptions<T>): Reflection<T> {
  const { resource, namespace, most } = options;
  return {
    options,
    about: { resource: resource.plural, namespace },
    selection: selectionOf(options),
    counters: options.metrics === undefined ? undefined : storeCounters(options.metrics, resource),
    store: createObjectStore<T>(),
    weights: createWeights((memory) => {
      if (most?.room !== undefined) most.room.kept += memory;
    }),
    listeners: new Set(),
    firstList: Promise.withResolvers(),
    lists: { due: true, again: false, begun: 0, done: 0, partial: undefined, paged: true },
    watches: { stop: undefined, lasted: false, doubted: false, cut: false, endedAt: undefined },
    state: { phase: 'empty' },
    resourceVersion: undefined,
    synced: false,
    lastSeenAt: -Infinity,
  };
}

function selectionOf<T extends KubeObject>({ namespace, labels, fieldSelector }: StoreOptions<T>): Selection {
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(labels === undefined ? {} : { labelSelector: selectorText(labels) }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  };
}

/** Ms since the server last sent something; Infinity before the first list. */
export function ageMs<T extends KubeObject>({ options, lastSeenAt }: Reflection<T>): number {
  return options.clock.monotonic() - lastSeenAt;
}

/** What the store keeps of an object that the server sent. */
export function kept<T extends KubeObject>({ project, keepManagers }: StoreOptions<T>, object: Stored<T>): Stored<T> {
  const projected = project === undefined ? object : project(object);
  if (keepManagers === 'all') return projected;
  const entries = projected.metadata.managedFields?.filter((entry) => keepManagers?.includes(entry.manager) === true) ?? [];
  if (entries.length === 0) delete projected.metadata.managedFields;
  else projected.metadata.managedFields = entries;
  return projected;
}

export function notify<T extends KubeObject>({ listeners, options, about }: Reflection<T>, event: StoreEvent<T>): void {
  for (const listener of listeners) {
    try {
      listener(event);
    } catch (error) {
      options.log.error({ ...about, error: messageOf(error) }, `a listener of the store failed on "${event.type}"`);
    }
  }
}

export function notifyAll<T extends KubeObject>(reflection: Reflection<T>, differences: Difference<T>[], initial: boolean): void {
  for (const difference of differences) notify(reflection, difference.type === 'added' ? { ...difference, initial } : difference);
}
