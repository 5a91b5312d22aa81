/** Ports for what a pure core must not reach by itself. Fakes stand beside the real ones in `src/kube/testing`. */

export interface Clock {
  /** Wall time, ms since the epoch. Only for timestamps that others read. */
  now(): number;
  /** Monotonic ms; for every measurement of a duration. */
  monotonic(): number;
  /** Runs `fn` once after `ms`; returns its cancellation. Timers do not keep a process alive unless `ref` is true. */
  setTimer(ms: number, fn: () => void): () => void;
}

/** 0 ≤ x < 1. */
export type Random = () => number;

/** A structured log line; pino satisfies it. Never pass secrets. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}
