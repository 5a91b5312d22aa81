import type { Clock, Log, Random } from '../../api/ports.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { awayOf, type Away } from './away.ts';

const RETRY = { baseMs: 5000, maxMs: 60_000 };
/** A failure that comes this long after the cell was tried again is a first one. */
const FORGOTTEN_MS = 120_000;

/** A method of a client. */
export type Verb = keyof Client;

export interface CellFailuresOptions {
  clock: Clock;
  random: Random;
  log: Log;
  /** It is away from now on. */
  onFailure: () => void;
}

/** Failures of one cell: after each it is away for a while, longer each time. */
export class CellFailures {
  readonly #cell: string;
  readonly #options: CellFailuresOptions;
  /** `verb`: of the request that failed, until one like it is answered. */
  #last: { count: number; notBefore: number; away: Away; verb: Verb | undefined } | undefined;

  constructor(cell: string, options: CellFailuresOptions) {
    this.#cell = cell;
    this.#options = options;
  }

  /** It failed a moment ago, and nothing is asked of it until it is tried again. */
  away(): Away | undefined {
    return this.#last !== undefined && this.#options.clock.monotonic() < this.#last.notBefore ? this.#last.away : undefined;
  }

  /** It is tried again, and a request like the one that failed was not answered yet. */
  isOnTrial(): boolean {
    const last = this.#last;
    return last?.verb !== undefined && this.away() === undefined && this.#options.clock.monotonic() - last.notBefore < FORGOTTEN_MS;
  }

  add(error: unknown, code: string, verb?: Verb): void {
    // What was under way at the same time is of the same turn.
    if (this.away() !== undefined) return;
    const { clock, random, log, onFailure } = this.#options;
    const now = clock.monotonic();
    const count = this.#last !== undefined && now - this.#last.notBefore < FORGOTTEN_MS ? this.#last.count + 1 : 1;
    const away = awayOf(error, code);
    const retryInMs = halfJitterMs(RETRY, count, random);
    this.#last = { count, notBefore: now + retryInMs, away, verb };
    log.warn(
      { cluster: this.#cell, reason: away.reason, error: away.message, failures: count, retryInMs },
      'a cell is left alone for a while',
    );
    onFailure();
  }

  answered(verb: Verb): void {
    if (this.#last?.verb === verb && this.away() === undefined) this.#last.verb = undefined;
  }

  /** Resolves when it is tried again, where this made it away; at once where something else did. */
  async over(reason: string, signal: AbortSignal | undefined): Promise<void> {
    if (this.#last === undefined || this.#last.away.reason !== reason || this.away() === undefined) return;
    await sleep(this.#options.clock, this.#last.notBefore - this.#options.clock.monotonic(), signal);
  }
}
