import { setImmediate } from 'node:timers';

/** Tasks run in one go before the event loop gets its turn. */
const BATCH = 200;

/**
 * The work queue of the in-process controllers. A task runs soon after what caused it, never inside it; one key waits at
 * most once.
 */
export class Tasks {
  readonly #waiting = new Map<string, () => void>();
  readonly #onError: (error: unknown, key: string) => void;
  #scheduled = false;
  #closed = false;

  constructor(onError: (error: unknown, key: string) => void) {
    this.#onError = onError;
  }

  add(key: string, run: () => void): void {
    if (this.#closed) return;
    this.#waiting.set(key, run);
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#drain());
  }

  #drain(): void {
    for (let done = 0; done < BATCH; done++) {
      const next = this.#waiting.entries().next();
      if (next.done === true) {
        this.#scheduled = false;
        return;
      }
      const [key, run] = next.value;
      this.#waiting.delete(key);
      try {
        run();
      } catch (error) {
        this.#onError(error, key);
      }
    }
    setImmediate(() => this.#drain());
  }

  close(): void {
    this.#closed = true;
    this.#waiting.clear();
  }
}
