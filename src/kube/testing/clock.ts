import type { Clock, Random } from '../../api/ports.ts';
import { settle } from './wait-for.ts';

export interface FakeClock extends Clock {
  /** Moves time, running each timer that falls due, in order, and what it set off. */
  advance(ms: number): Promise<void>;
  /** Time passes and nothing runs, as in a stopped process; what fell due runs at the next `advance`. */
  pause(ms: number): void;
  /** Sets the wall clock forward or back; the monotonic one does not see it. */
  jump(ms: number): void;
  /** Timers that are set. */
  readonly timers: number;
}

/** `startMs` is wall time (default 2026-11-20T00:00:00Z). */
export function fakeClock(startMs = Date.UTC(2026, 10, 20)): FakeClock {
  let monotonic = 1000;
  let wallOffset = startMs - monotonic;
  let sequence = 0;
  const timers = new Map<number, { at: number; fn: () => void }>();

  function nextDue(until: number): [number, { at: number; fn: () => void }] | undefined {
    let found: [number, { at: number; fn: () => void }] | undefined;
    for (const entry of timers) if (entry[1].at <= until && (found === undefined || entry[1].at < found[1].at)) found = entry;
    return found;
  }

  return {
    now: () => monotonic + wallOffset,
    monotonic: () => monotonic,
    setTimer(ms, fn) {
      const id = sequence++;
      timers.set(id, { at: monotonic + Math.max(ms, 0), fn });
      return () => timers.delete(id);
    },
    async advance(ms) {
      const until = monotonic + ms;
      await settle();
      for (let due = nextDue(until); due !== undefined; due = nextDue(until)) {
        timers.delete(due[0]);
        monotonic = Math.max(monotonic, due[1].at);
        due[1].fn();
        await settle();
      }
      monotonic = Math.max(monotonic, until);
      await settle();
    },
    pause(ms) {
      monotonic += ms;
    },
    jump(ms) {
      wallOffset += ms;
    },
    get timers() {
      return timers.size;
    },
  };
}

/** A clock that runs `rate` times as fast as `clock` and shows wall time `offsetMs` away from it. */
export function skewedClock(clock: Clock, rate: number, offsetMs: number): Clock {
  const start = clock.monotonic();
  const wall = clock.now() + offsetMs;
  return {
    now: () => wall + (clock.monotonic() - start) * rate,
    monotonic: () => clock.monotonic() * rate,
    setTimer: (ms, fn) => clock.setTimer(ms / rate, fn),
  };
}

/** Always the same sequence for a seed (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
