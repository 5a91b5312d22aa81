/** `live`: something changed. `resync`: no change is known; it comes after what is live. */
export type Priority = 'live' | 'resync';

/** Every so many runs one of lower priority is taken, so that a flood delays a resync but never stops it. */
const SHARE = 8;

/** Keys that may run now, in the order in which they do. */
export class ReadyKeys {
  readonly #live = new Set<string>();
  readonly #resync = new Set<string>();

  get size(): number {
    return this.#live.size + this.#resync.size;
  }

  has(key: string): boolean {
    return this.#live.has(key) || this.#resync.has(key);
  }

  add(key: string, priority: Priority): void {
    if (priority === 'resync') {
      this.#resync.add(key);
      return;
    }
    this.#resync.delete(key);
    this.#live.add(key);
  }

  /** The key whose turn it is after so many runs. */
  take(started: number): string | undefined {
    const resyncFirst = started % SHARE === SHARE - 1;
    return resyncFirst ? (takeFirst(this.#resync) ?? takeFirst(this.#live)) : (takeFirst(this.#live) ?? takeFirst(this.#resync));
  }
}

function takeFirst(keys: Set<string>): string | undefined {
  for (const key of keys) {
    keys.delete(key);
    return key;
  }
  return undefined;
}
