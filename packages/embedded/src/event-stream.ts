/** Events that may wait for a slow reader before its stream is ended; it comes back with its last resourceVersion. */
const BACKLOG = 10_000;

/** Waiting events are sent together, up to about this size. */
const CHUNK = 64 * 1024;

/**
 * The body of a watch: first what is there already, drawn only as fast as it is read, then events as they are pushed.
 * Chunks may be shared with other streams and must not be changed.
 *
 * Ends when `end` is called, when the reader stops or falls too far behind; rejects with the signal's reason when aborted.
 */
export class EventStream implements AsyncIterable<Uint8Array> {
  readonly #initial: Iterator<Uint8Array>;
  readonly #onEnd: () => void;
  readonly #signal: AbortSignal | undefined;
  readonly #abort = () => this.#fail();
  #queue: Uint8Array[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  #error: { reason: unknown } | undefined;

  /** `onEnd` is called once, when nothing more is wanted. */
  constructor(initial: Iterable<Uint8Array>, onEnd: () => void, signal: AbortSignal | undefined) {
    this.#initial = initial[Symbol.iterator]();
    this.#onEnd = onEnd;
    this.#signal = signal;
    if (signal?.aborted === true) this.#fail();
    else signal?.addEventListener('abort', this.#abort, { once: true });
  }

  push(chunk: Uint8Array): void {
    if (this.#ended) return;
    this.#queue.push(chunk);
    if (this.#queue.length > BACKLOG) {
      this.#queue = [];
      this.end();
    }
    this.#wake?.();
  }

  /** No more events; those that wait are still delivered. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#signal?.removeEventListener('abort', this.#abort);
    this.#onEnd();
    this.#wake?.();
  }

  #fail(): void {
    this.#error = { reason: this.#signal?.reason };
    this.#queue = [];
    this.end();
  }

  #drawInitial(): Uint8Array | undefined {
    const drawn: Uint8Array[] = [];
    for (let size = 0; size < CHUNK;) {
      const next = this.#initial.next();
      if (next.done === true) break;
      drawn.push(next.value);
      size += next.value.byteLength;
    }
    return drawn.length === 0 ? undefined : Buffer.concat(drawn);
  }

  #take(): Uint8Array {
    let size = 0;
    let count = 0;
    while (count < this.#queue.length && size < CHUNK) size += this.#queue[count++]?.byteLength ?? 0;
    const taken = this.#queue.splice(0, count);
    const [only] = taken;
    return taken.length === 1 && only !== undefined ? only : Buffer.concat(taken, size);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        if (this.#error !== undefined) throw this.#error.reason;
        const initial = this.#drawInitial();
        if (initial !== undefined) yield initial;
        else if (this.#queue.length > 0) yield this.#take();
        else if (this.#ended) return;
        else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#wake = undefined;
        }
      }
    } finally {
      this.end();
    }
  }
}
