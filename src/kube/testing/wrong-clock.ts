import type { Clock } from '../../api/ports.ts';
import { createServerTime, serverClock } from '../server-time.ts';

/**
 * The clock of the controllers of a process on a machine whose own wall clock is `aheadMs` ahead of the server's: the server's time,
 * from the Date of an answer that it had just now.
 */
export function clockOfWrongMachine(server: Clock, aheadMs: number): Clock {
  const own: Clock = {
    now: () => server.now() + aheadMs,
    monotonic: () => server.monotonic(),
    setTimer: (ms, fn) => server.setTimer(ms, fn),
  };
  const time = createServerTime(own);
  const clock = serverClock(own, time);
  return {
    ...clock,
    now() {
      const atMs = own.monotonic();
      time.observe({ headers: { date: new Date(server.now()).toUTCString() }, sentMs: atMs, answeredMs: atMs });
      return clock.now();
    },
  };
}
