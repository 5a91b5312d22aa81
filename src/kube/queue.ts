import type { Clock, Random } from '../api/ports.ts';
import type { Backoff } from './backoff.ts';

/** Retrying cannot help until the input changes: a live add. */
export class TerminalError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'TerminalError';
  }
}

export type Priority = 'live' | 'resync';

export interface QueueResult {
  requeueAfterMs?: number;
}

export interface QueueOptions {
  clock: Clock;
  random: Random;
  signal: AbortSignal;
  /** Keys processed at once, at most. */
  concurrency: number;
  /** Default 200 ms to 5 minutes. */
  backoff?: Backoff;
  process: (key: string, attempt: { failures: number }) => Promise<QueueResult | void>;
  onError: (key: string, error: unknown, retry: { failures: number; retryInMs: number | undefined }) => void;
  /** Asked before each run. False leaves the key aside until `release`. */
  mayRun?: (key: string) => boolean;
}

export interface Queue {
  /** A live add makes the key ready at once, and a terminal key eligible again; the earliest time and the highest priority win. */
  add(key: string, options?: { priority?: Priority; afterMs?: number }): void;
  /** Asks `mayRun` again for a key that was left aside. */
  release(key: string): void;
  readonly counts: { ready: number; delayed: number; running: number; held: number; terminal: number };
  /** Settles when the signal has ended it and nothing runs. */
  readonly done: Promise<void>;
}

export declare function createQueue(options: QueueOptions): Queue;
