/** Runs one function after another. An abort rejects the call at once; a function that has begun still ends before the next begins. */
export type Exclusive = <T>(signal: AbortSignal, fn: () => Promise<T>) => Promise<T>;

export function exclusive(): Exclusive {
  let last: Promise<unknown> = Promise.resolve();
  return async (signal, fn) => {
    const run = after(last, signal, fn);
    last = run.catch(() => undefined);
    const aborted = Promise.withResolvers<never>();
    const abort = () => aborted.reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    try {
      return await Promise.race([run, aborted.promise]);
    } finally {
      signal.removeEventListener('abort', abort);
    }
  };
}

async function after<T>(before: Promise<unknown>, signal: AbortSignal, fn: () => Promise<T>): Promise<T> {
  await before;
  signal.throwIfAborted();
  return await fn();
}
