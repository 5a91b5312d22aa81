/** A stream of bytes with one reader, written from outside, that can break or hang as a connection does. */
export interface Pipe {
  readonly ended: boolean;
  write(bytes: string | Uint8Array): void;
  end(): void;
  fail(error: Error): void;
  stall(): void;
  resume(): void;
  read(): AsyncIterable<Uint8Array>;
}

/** `onClose` is called once, when it ended, failed, was aborted, or its reader left. */
export function createPipe(signal: AbortSignal | undefined, onClose: () => void): Pipe {
  const chunks: Uint8Array[] = [];
  let stalled = false;
  let ended = false;
  let failure: { error: unknown } | undefined;
  let awaken: (() => void) | undefined;
  const wake = (): void => awaken?.();

  const close = (): void => {
    if (!ended) onClose();
    ended = true;
    wake();
  };
  // Abortion reaches the reader also where nothing else does any more.
  const onAbort = (): void => {
    stalled = false;
    chunks.length = 0;
    failure = { error: signal?.reason };
    close();
  };
  signal?.addEventListener('abort', onAbort, { once: true });

  async function* read(): AsyncGenerator<Uint8Array, void> {
    try {
      for (;;) {
        const chunk = stalled ? undefined : chunks.shift();
        if (chunk !== undefined) yield chunk;
        else if (!stalled && failure !== undefined) throw failure.error;
        else if (!stalled && ended) return;
        else await new Promise<void>((resolve) => (awaken = resolve));
      }
    } finally {
      signal?.removeEventListener('abort', onAbort);
      close();
    }
  }

  return {
    get ended() {
      return ended;
    },
    write(bytes) {
      if (!ended) chunks.push(typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
      wake();
    },
    end: close,
    fail(error) {
      failure ??= { error };
      close();
    },
    stall() {
      stalled = true;
    },
    resume() {
      stalled = false;
      wake();
    },
    read,
  };
}
