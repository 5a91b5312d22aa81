import type { Clock } from '@kubenode/api-machinery/ports';

/** Real time, for tests that talk over sockets. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(ms, fn) {
    const timer = setTimeout(fn, Math.min(ms, 2 ** 31 - 1));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
