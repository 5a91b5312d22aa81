import type { Clock, Random } from '../../api/ports.ts';

export interface FakeClock extends Clock {
  /** Moves time, running each timer that falls due, in order, and what it set off. */
  advance(ms: number): Promise<void>;
  /** Timers that are set. */
  readonly timers: number;
}

/** `startMs` is wall time (default 2026-11-20T00:00:00Z). */
export declare function fakeClock(startMs?: number): FakeClock;

/** Always the same sequence for a seed. */
export declare function seededRandom(seed: number): Random;
