import type { Clock, Log, Random } from '../api/ports.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import type { Backoff } from './backoff.ts';
import type { Client } from './client.ts';
import type { QueueResult } from './queue.ts';
import type { Reflector } from './reflector.ts';

export type KeyFunction<T extends KubeObject> = (object: Stored<T>, old?: Stored<T>) => string[];

/** A store and the keys that each of its objects leads to; made by `watch`. */
export interface Watch {
  readonly store: Reflector<KubeObject>;
  keys(object: Stored<KubeObject>, old?: Stored<KubeObject>): string[];
}

/** `keys` sees (object), (object, old) on updates, (last state) on deletion; keys by a field that may change: wrap it in `ofBoth`. */
export declare function watch<T extends KubeObject>(store: Reflector<T>, keys: KeyFunction<T>): Watch;

/** Keys of the new state and of the old. */
export declare function ofBoth<T extends KubeObject>(keys: (object: Stored<T>) => string[]): KeyFunction<T>;

export interface ReconcileContext {
  /** Writes through it are awaited: the key does not run again before the watched stores show them. */
  client: Client;
  clock: Clock;
  random: Random;
  /** Carries controller, key and reconcileID. */
  log: Log;
  signal: AbortSignal;
  reconcileID: string;
  /** Failures of this key in a row before this run. */
  failures: number;
}

export interface ControllerOptions {
  name: string;
  watches: Watch[];
  reconcile: (key: string, context: ReconcileContext) => Promise<QueueResult | void>;
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
  /** Keys reconciled at once. Default 4. */
  concurrency?: number;
  /** Every key runs at least about this often. Absent: only on change. */
  resyncMs?: number;
  backoff?: Backoff;
  /** How long a store may lag behind an own write before it lists again. Default 5,000. */
  lagMs?: number;
  onReconciled?: (run: { key: string; durationMs: number; outcome: 'done' | 'requeued' | 'failed' | 'terminal' }) => void;
}

/** Resolves when the signal has ended it and no reconcile runs any more. */
export declare function runController(options: ControllerOptions): Promise<void>;
