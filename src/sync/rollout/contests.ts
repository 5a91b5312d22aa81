import type { Clock, Random } from '../../api/ports.ts';
import { halfJitterMs } from '../../kube/backoff.ts';

const RETRY = { baseMs: 1000, maxMs: 60_000 };
/** One that was put back longer ago than this is put back at once when it is changed again. */
const FORGOTTEN_MS = 600_000;

interface Contest {
  count: number;
  corrections: string;
  lastMs: number;
  notBefore: number;
}

/** Objects that another writer changes again each time they were put back: the hub puts each back less and less often, so that two writers do not fight without end. */
export class Contests {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #random: Random;
  readonly #contests = new Map<string, Contest>();

  constructor(clock: Pick<Clock, 'monotonic'>, random: Random) {
    this.#clock = clock;
    this.#random = random;
  }

  /** It was put back now. */
  add(unit: string, cluster: string, corrections: readonly string[]): void {
    const now = this.#clock.monotonic();
    for (const [id, { lastMs }] of this.#contests) if (now - lastMs > FORGOTTEN_MS) this.#contests.delete(id);
    const id = idOf(unit, cluster);
    const count = (this.#contests.get(id)?.count ?? 0) + 1;
    const waitMs = count === 1 ? 0 : halfJitterMs(RETRY, count - 1, this.#random);
    this.#contests.set(id, { count, corrections: corrections.join('; '), lastMs: now, notBefore: now + waitMs });
  }

  /** Why it is not put back yet; undefined where it is to be put back at once. */
  waiting(unit: string, cluster: string): string | undefined {
    const contest = this.#contests.get(idOf(unit, cluster));
    if (contest === undefined || contest.notBefore <= this.#clock.monotonic()) return undefined;
    return `it was put back ${contest.count} times, and changed again each time; the next try is within a minute. Last: ${contest.corrections}`;
  }

  /** After how many ms what is changed again is put back. */
  waits(): number[] {
    return [...this.#contests.values()].map(({ notBefore }) => notBefore - this.#clock.monotonic()).filter((ms) => ms > 0);
  }
}

const idOf = (unit: string, cluster: string): string => `${cluster} ${unit}`;
