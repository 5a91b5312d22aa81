import type { Clock, Log, Random } from '../api/ports.ts';
import type { ObjectKey, Resource } from '../api/resource.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import type { Client } from './client.ts';
import type { Store } from './store.ts';

export type ReflectorState =
  | { phase: 'empty' }
  | { phase: 'listing'; items: number }
  | { phase: 'listed'; resourceVersion: string }
  | { phase: 'watching'; resourceVersion: string }
  /** Between two attempts; the store goes on serving what it has. */
  | { phase: 'waiting'; failures: number; error: string; retryInMs: number }
  | { phase: 'stopped' };

/**
 * What changed in the store, after it changed. `initial` marks the first list. A new UID under one name is `deleted` then `added`.
 * `deleted` carries the last state seen: the event's own, or the store's where a relist found it gone.
 */
export type StoreEvent<T extends KubeObject> =
  | { type: 'added'; object: Stored<T>; initial: boolean }
  | { type: 'updated'; object: Stored<T>; old: Stored<T> }
  | { type: 'deleted'; object: Stored<T> }
  /** A list is complete (each time) */
  | { type: 'listed'; resourceVersion: string }
  | { type: 'bookmark'; resourceVersion: string };

export type IndexFunction<T extends KubeObject> = (object: Stored<T>) => string[];

export interface StoreOptions<T extends KubeObject> {
  /** Absent: all namespaces. */
  namespace?: string;
  /** Labels that must all be equal. */
  labels?: Record<string, string>;
  fieldSelector?: string;
  indexes?: Record<string, IndexFunction<T>>;
  /** Keeps of each object only what is needed. Runs once an event; must keep metadata's name, namespace, uid and resourceVersion. */
  project?: (object: Stored<T>) => Stored<T>;
  /** managedFields are dropped, save the entries of these managers (`applyIfChanged` needs its own). */
  keepManagers?: string[];
  /** Default 500. */
  pageSize?: number;
  /** The server ends a watch after once to twice this time. Default 300. */
  watchTimeoutSeconds?: number;
}

export interface ReflectorOptions<T extends KubeObject> extends StoreOptions<T> {
  client: Client;
  resource: Resource<T>;
  clock: Clock;
  random: Random;
  log: Log;
  /** Ends it. */
  signal: AbortSignal;
}

export interface Reflector<T extends KubeObject> extends Store<T> {
  readonly state: ReflectorState;
  /** Settles when the signal has ended it; never rejects. */
  readonly done: Promise<void>;
  /** Ms since the server was last heard (list, event, bookmark); Infinity before the first list. What is old must not be trusted. */
  quietMs(): number;
  /** Resolves when synced; rejects with the signal's reason. */
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** Called synchronously, in order, after the store changed. Returns its cancellation. */
  subscribe(listener: (event: StoreEvent<T>) => void): () => void;
  /** Adds an index; the same name twice must be the same function. */
  addIndex(name: string, values: IndexFunction<T>): void;
  /** Whether an object with these coordinates and labels can be in this store. */
  covers(object: KubeObject): boolean;
  /** True when the store shows the object at this resourceVersion or a later one, or a list begun after `sinceMs` (monotonic) has completed. */
  hasPassed(key: ObjectKey, resourceVersion: string, sinceMs: number): boolean;
  /** Ends the watch and lists again from the server's newest state. */
  relist(): void;
}

/** Starts at once. */
export declare function startReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T>;
