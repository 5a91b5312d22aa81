import type { Cluster, Orphans } from '../../api/cluster.ts';
import type { Clock } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';

/** Stores follow one by one, and a commit makes a Cluster before it is in force: an object belongs to no unit only where none has named it for this long. */
const ORPHANED_MS = 60_000;

/** Orphans in clusters that report none yet. They are reported only once they were there for a while. */
export class NewOrphans {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** By cluster; ms of the monotonic clock. */
  readonly #since = new Map<string, number>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Forgets clusters that there are no more. */
  keep(isKnown: (cluster: string) => boolean): void {
    for (const name of this.#since.keys()) if (!isKnown(name)) this.#since.delete(name);
  }

  /** Which of the orphans that were found are to be reported now. */
  reported({ metadata: { name }, status }: Stored<Cluster>, found: Orphans | undefined): Orphans | undefined {
    if (found === undefined || status?.orphans !== undefined) {
      this.#since.delete(name);
      return found;
    }
    const now = this.#clock.monotonic();
    const since = this.#since.get(name) ?? now;
    this.#since.set(name, since);
    return now - since >= ORPHANED_MS ? found : undefined;
  }

  /** After how many ms each is to be reported. */
  waits(): number[] {
    return [...this.#since.values()].map((since) => Math.max(0, since + ORPHANED_MS - this.#clock.monotonic()));
  }
}
