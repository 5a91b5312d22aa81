import type { Clock } from '../../../api/ports.ts';

/** A pass over thousands of waiting machines takes long, and every event asks for one. After a pass this long, the next waits `REST` times as long. */
const LONG_MS = 5;
const REST = 3;

/** How often passes judge. */
export interface Pace {
  /** How long the next pass has to wait, ms; 0 where it need not. */
  restMs(): number;
  /** Runs `judge`. A long one delays the next pass. */
  timed<T>(judge: () => T): T;
}

export function createPace(clock: Pick<Clock, 'monotonic'>): Pace {
  let notBeforeMs = -Infinity;
  return {
    restMs: () => Math.max(0, notBeforeMs - clock.monotonic()),
    timed(judge) {
      const begun = clock.monotonic();
      const judged = judge();
      const tookMs = clock.monotonic() - begun;
      if (tookMs > LONG_MS) notBeforeMs = clock.monotonic() + REST * tookMs;
      return judged;
    },
  };
}
