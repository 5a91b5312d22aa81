import { CodedError } from '../../api/errors.ts';

/** Waits for a value, which it reads every 100 ms; its error names what it waited for. */
export async function until<T>(what: string, ms: number, read: () => Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + ms;
  let last: unknown;
  for (;;) {
    try {
      const value = await read();
      if (value !== undefined && value !== false) return value;
      last = undefined;
    } catch (error) {
      if (error instanceof CodedError && ['Interrupted', 'StartFailed', 'Violated'].includes(error.code)) throw error;
      last = error;
    }
    if (performance.now() > deadline)
      throw new CodedError('TimedOut', `within ${ms / 1000} s it did not come true that ${what}`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
