import type { Clock } from '../api/ports.ts';

/** The machine's clock. Its timers do not keep the process alive unless `ref` is true. */
export declare function systemClock(options?: { ref?: boolean }): Clock;

/** Resolves after `ms`; rejects with the signal's reason. */
export declare function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void>;

/** RFC 3339 in whole seconds, as metav1.Time: `2026-11-20T09:51:00Z`. */
export declare function rfc3339(ms: number): string;
/** With exactly six fraction digits, as metav1.MicroTime. */
export declare function microTime(ms: number): string;
