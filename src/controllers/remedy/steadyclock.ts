import type { Clock } from '../../api/ports.ts';

/**
 * Wall time that never jumps while the process runs: that of the start, plus monotonic time since. Rules count time between looks, so a
 * clock that is set by an hour would make them fire an hour early, or an hour late.
 */
export function steadyNow(clock: Clock): () => number {
  const offsetMs = clock.now() - clock.monotonic();
  return () => clock.monotonic() + offsetMs;
}
