import type { Clock } from '../api/ports.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import type { Client } from './client.ts';
import type { Reflector } from './reflector.ts';

export interface OwnWritesOptions {
  clock: Clock;
  /** Stores that must show a write before what depends on it runs again, with the keys that depend on an object. */
  watches: { store: Reflector<KubeObject>; keys(object: Stored<KubeObject>, old?: Stored<KubeObject>): string[] }[];
  /** How long a store may lag behind a write before it is told to list again. Default 5,000. */
  lagMs?: number;
  /** A key that was held may run. */
  onReady: (key: string) => void;
}

/** Which of this process' writes its stores have not shown yet (KEP-5647). */
export interface OwnWrites {
  /** A client whose successful writes hold `key` and every key that the written object leads to. */
  clientFor(client: Client, key: string): Client;
  /** Whether every write that `key` depends on has been seen. */
  isCurrent(key: string): boolean;
  stop(): void;
}

export declare function createOwnWrites(options: OwnWritesOptions): OwnWrites;
