import { isCoded } from '../../api/errors.ts';
import { cliError, cliErrorCodes } from '../errors.ts';

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
      if (isCoded(error, cliErrorCodes, 'Interrupted', 'StartFailed', 'Violated')) throw error;
      last = error;
    }
    if (performance.now() > deadline)
      throw cliError('TimedOut', `within ${ms / 1000} s it did not come true that ${what}`, { cause: last });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
