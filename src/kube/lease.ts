import type { Clock, Log, Random } from '../api/ports.ts';
import type { Client } from './client.ts';

export interface LeaseOptions {
  client: Client;
  clock: Clock;
  random: Random;
  log: Log;
  /** Stops: the term is ended, `lead` awaited, the Lease released. */
  signal: AbortSignal;
  namespace: string;
  name: string;
  /** Unique a process: two processes of one identity would both lead. */
  identity: string;
  /** How long others wait after the last renewal they saw. Default 15,000. */
  durationMs?: number;
  /** A leader that could not renew for this long steps down; less than `durationMs`. Default 10,000. */
  renewDeadlineMs?: number;
  /** Default 2,000. */
  retryPeriodMs?: number;
}

/** One acquisition of the Lease; a new acquisition, also by the same process, is a new term. */
export interface Term {
  /** `spec.leaseTransitions` of this acquisition. */
  readonly transitions: number;
  /** Aborted when the term ends, for whatever reason. */
  readonly signal: AbortSignal;
  /** False from the moment the term can no longer be relied on, also where a paused process has not yet run its timers. */
  isValid(): boolean;
}

/**
 * Runs `lead` once a term. Resolves when `signal` stopped it; rejects with what `lead` threw (the Lease is released then).
 * `lead` must return soon after its term's signal is aborted; a new term begins only after it did.
 */
export declare function runLeaderElection(options: LeaseOptions, lead: (term: Term) => Promise<void>): Promise<void>;
