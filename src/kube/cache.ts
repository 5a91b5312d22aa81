import type { Clock, Log, Random } from '../api/ports.ts';
import type { Resource } from '../api/resource.ts';
import type { KubeObject } from '../api/wire.ts';
import type { Client } from './client.ts';
import type { Reflector, ReflectorState, StoreOptions } from './reflector.ts';

export interface CacheOptions {
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** Owns the reflectors of one API server, so that controllers which watch one thing share one store. */
export interface Cache {
  /** The store of a resource and selection; started by the first caller. Indexes add up; another `project` for one selection is an error. */
  store<T extends KubeObject>(resource: Resource<T>, options?: StoreOptions<T>): Reflector<T>;
  /** Resolves when every store asked for so far is synced. */
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** For health and metrics: one entry a store. */
  states(): { resource: string; namespace: string | undefined; size: number; synced: boolean; quietMs: number; state: ReflectorState }[];
  /** Settles when the signal has ended every reflector. */
  readonly done: Promise<void>;
}

export declare function createCache(options: CacheOptions): Cache;
