import type { IncomingMessage } from 'node:http';
import { MAX_BODY } from '../call.ts';
import { entityTooLarge, tooManyRequests } from '../refusal.ts';

/** Bodies that are being read or acted on, of all connections and clusters together. */
export const BODIES_BYTES = 64 * 1024 * 1024;

/** What bodies in flight may occupy together. A request that finds no room is asked to come again, as by API priority and fairness. */
export class Bodies {
  readonly #limitBytes: number;
  #usedBytes = 0;

  constructor(limitBytes: number = BODIES_BYTES) {
    this.#limitBytes = limitBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /**
   * The body of a message; never more than MAX_BODY. `release` gives its room back, once. Throws a Refusal: 413 for a body that is too large, without reading it
   * to its end, 429 when there is no room.
   */
  async read(message: IncomingMessage): Promise<{ body: Buffer | undefined; release: () => void }> {
    const chunks: Buffer[] = [];
    let size = 0;
    const release = (): void => {
      this.#usedBytes -= size;
      size = 0;
    };
    try {
      const declared = Number(message.headers['content-length'] ?? 0);
      if (declared > MAX_BODY) throw entityTooLarge(`limit is ${MAX_BODY}`);
      if (this.#usedBytes + declared > this.#limitBytes) throw tooManyRequests('too many bodies at once, please try again later', 1);
      for await (const chunk of message) {
        const bytes = Buffer.from(chunk as Uint8Array);
        if (size + bytes.byteLength > MAX_BODY) throw entityTooLarge(`limit is ${MAX_BODY}`);
        if (this.#usedBytes + bytes.byteLength > this.#limitBytes)
          throw tooManyRequests('too many bodies at once, please try again later', 1);
        chunks.push(bytes);
        size += bytes.byteLength;
        this.#usedBytes += bytes.byteLength;
      }
    } catch (error) {
      release();
      throw error;
    }
    return { body: size === 0 ? undefined : Buffer.concat(chunks), release };
  }
}
