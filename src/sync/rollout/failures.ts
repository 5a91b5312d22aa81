import { messageOf } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Clock, Random } from '../../api/ports.ts';
import { hasReason } from '../../kube/api-error.ts';
import { halfJitterMs } from '../../kube/backoff.ts';

const RETRY = { baseMs: 1000, maxMs: 60_000 };

/** Steps that failed, by cluster and unit, and when each is tried again. */
export class StepFailures {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #random: Random;
  readonly #failures = new Map<string, { count: number; message: string; notBefore: number }>();
  /** Units that a cell turned out to lack: Namespaces are not watched, and only a write into one finds that out. */
  readonly #gone = new Set<string>();

  constructor(clock: Pick<Clock, 'monotonic'>, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  remove(unit: string, cluster: string): void {
    this.#failures.delete(idOf(unit, cluster));
    this.#gone.delete(idOf(unit, cluster));
  }

  /** Returns the message, fit for a log. */
  add(unit: string, cluster: string, error: unknown): string {
    const id = idOf(unit, cluster);
    const lacking = namespaceLacking(error);
    if (lacking !== undefined) this.#gone.add(idOf(`Namespace/${lacking}`, cluster));
    const message = plainText(messageOf(error));
    const count = (this.#failures.get(id)?.count ?? 0) + 1;
    this.#failures.set(id, { count, message, notBefore: this.#clock.monotonic() + halfJitterMs(RETRY, count, this.#random) });
    return message;
  }

  /** Why the last try failed, while the next is not due. */
  failing(unit: string, cluster: string): string | undefined {
    const failed = this.#failures.get(idOf(unit, cluster));
    return failed !== undefined && failed.notBefore > this.#clock.monotonic() ? failed.message : undefined;
  }

  /** Whether a Namespace turned out to be lacking there. */
  isGone(unit: string, cluster: string): boolean {
    return this.#gone.has(idOf(unit, cluster));
  }

  /** After how many ms what failed is tried again. */
  waits(): number[] {
    return [...this.#failures.values()].map(({ notBefore }) => notBefore - this.#clock.monotonic()).filter((ms) => ms > 0);
  }
}

const idOf = (unit: string, cluster: string): string => `${cluster} ${unit}`;

/** The namespace for want of which a write was refused. */
function namespaceLacking(error: unknown): string | undefined {
  return hasReason(error, 'NotFound') && error.details?.kind === 'namespaces' ? error.details.name : undefined;
}
