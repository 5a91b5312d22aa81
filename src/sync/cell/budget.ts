import type { Clock } from '../../api/ports.ts';

export interface Budget {
  /** False where that is more than is left: then it takes nothing. */
  take(amount: number): boolean;
}

/** So much at once, and so much a second after that. */
export function createBudget(clock: Pick<Clock, 'monotonic'>, { atOnce, aSecond }: { atOnce: number; aSecond: number }): Budget {
  let left = atOnce;
  let at = clock.monotonic();
  return {
    take(amount: number): boolean {
      const now = clock.monotonic();
      left = Math.min(atOnce, left + ((now - at) / 1000) * aSecond);
      at = now;
      if (amount > left) return false;
      left -= amount;
      return true;
    },
  };
}
