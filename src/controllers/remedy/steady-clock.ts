import type { Clock } from '../../api/ports.ts';

/**
 * Wall time that never jumps while the process runs: the wall time of the start, plus monotonic time since. Rules count time between observations, so a
 * clock that is set by an hour would make them fire an hour early, or an hour late. Whole milliseconds, as they are written down: what is read
 * again must not be earlier than what was meant.
 */
export function steadyNow(clock: Clock): () => number {
  const offsetMs = clock.now() - clock.monotonic();
  return () => Math.floor(clock.monotonic() + offsetMs);
}
