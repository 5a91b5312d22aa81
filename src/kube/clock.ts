import type { Clock } from '../api/ports.ts';

/** Longest delay that Node's timers take; beyond it they fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** The machine's clock. Its timers do not keep the process alive unless `ref` is true. */
export function systemClock(options: { ref?: boolean } = {}): Clock {
  function setTimer(ms: number, fn: () => void): () => void {
    let timer: NodeJS.Timeout;
    const arm = (left: number): void => {
      timer = left > LONGEST_MS ? setTimeout(() => arm(left - LONGEST_MS), LONGEST_MS) : setTimeout(fn, Math.max(left, 0));
      if (options.ref !== true) timer.unref();
    };
    arm(ms);
    return () => clearTimeout(timer);
  }
  return { now: () => Date.now(), monotonic: () => performance.now(), setTimer };
}

/** Resolves after `ms`; rejects with the signal's reason. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const cancel = clock.setTimer(ms, () => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    function onAbort(): void {
      cancel();
      reject(signal?.reason);
    }
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/**
 * Runs `fn` with a signal that is aborted when `signal` is, or after `ms` with the error that `late` makes.
 * (`AbortSignal.any` would keep a listener on a long-lived signal for every call.)
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  signal: AbortSignal,
  late: () => Error,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const cancel = clock.setTimer(ms, () => controller.abort(late()));
  try {
    return await fn(controller.signal);
  } finally {
    cancel();
    signal.removeEventListener('abort', onAbort);
  }
}

/** RFC 3339 in whole seconds, as metav1.Time: `2026-11-20T09:51:00Z`. */
export function rfc3339(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** With exactly six fraction digits, as metav1.MicroTime; the server refuses fewer. */
export function microTime(ms: number): string {
  const micros = Math.floor((ms - Math.floor(ms)) * 1000);
  return `${new Date(Math.floor(ms)).toISOString().slice(0, 23)}${String(micros).padStart(3, '0')}Z`;
}
