import type { Clock } from '../../api/ports.ts';
import { agentError } from '../errors.ts';

/** A slower transfer is ended, and goes on later where it was. */
const RATE = { bytes: 64 * 1024, everyMs: 60_000 };
const LONGEST_MS = 3_600_000;

/** One transfer, with an end of its own: by its caller, by its rate or by its length. */
export interface ArtifactTransfer {
  signal: AbortSignal;
  /** So many bytes more came. */
  count(bytes: number): void;
  /** The outcome of something that may not end by itself. */
  within<T>(work: Promise<T>): Promise<T>;
  close(): void;
}

/** A server that sends a byte now and then would delay a change without end. */
export function limitedTransfer(clock: Clock, caller: AbortSignal): ArtifactTransfer {
  const controller = new AbortController();
  const end = (why: Error): void => controller.abort(why);
  const onAbort = (): void => controller.abort(caller.reason);
  if (caller.aborted) onAbort();
  caller.addEventListener('abort', onAbort, { once: true });
  const ended = new Promise<never>((_resolve, reject) => {
    const give = (): void => reject(controller.signal.reason as Error);
    if (controller.signal.aborted) give();
    controller.signal.addEventListener('abort', give, { once: true });
  });
  ended.catch(() => undefined);
  let received = 0;
  let cancelRate = clock.setTimer(RATE.everyMs, checkRate);
  const cancelEnd = clock.setTimer(LONGEST_MS, () =>
    end(agentError('TooSlow', `the transfer took longer than ${LONGEST_MS / 60_000} minutes; it goes on where it was`)),
  );
  function checkRate(): void {
    if (received < RATE.bytes) {
      return end(
        agentError('TooSlow', `${received} bytes came in ${RATE.everyMs / 1000} s, at least ${RATE.bytes} must; it goes on where it was`),
      );
    }
    received = 0;
    cancelRate = clock.setTimer(RATE.everyMs, checkRate);
  }
  return {
    signal: controller.signal,
    count: (bytes) => void (received += bytes),
    within: (work) => Promise.race([work, ended]),
    close() {
      cancelRate();
      cancelEnd();
      caller.removeEventListener('abort', onAbort);
      // What still comes is not waited for.
      end(new Error('the transfer is over'));
    },
  };
}
