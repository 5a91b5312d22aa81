import type { Clock } from '@kubenode/api-machinery/ports';

/** How often a watch that asked for bookmarks gets one. */
const BOOKMARK_INTERVAL_MS = 60_000;

/** One timer for all watches that want bookmarks; none while there are none. */
export class Bookmarks {
  readonly #clock: Clock;
  readonly #send = new Set<() => void>();
  #cancel: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(send: () => void): () => void {
    this.#send.add(send);
    this.#cancel ??= this.#clock.setTimer(BOOKMARK_INTERVAL_MS, () => this.#tick());
    return () => {
      this.#send.delete(send);
      if (this.#send.size === 0) this.stop();
    };
  }

  #tick(): void {
    this.#cancel = undefined;
    for (const send of this.#send) send();
    if (this.#send.size > 0) this.#cancel = this.#clock.setTimer(BOOKMARK_INTERVAL_MS, () => this.#tick());
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
