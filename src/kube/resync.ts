import type { Clock, Random } from '../api/ports.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import type { Queue } from './queue.ts';
import type { Dependence } from './writes.ts';

/** Parts of a period of resync. */
const SLICES = 60;

/**
 * Adds every key of the watched stores now, and again in each period of `ms`, spread over the whole period: neither the runs nor their adding
 * are ever a burst. Each key once a period, however many objects lead to it. Without `ms` only now. Returns its cancellation.
 */
export function resyncEvery(
  ms: number | undefined,
  watches: readonly Dependence[],
  { clock, random, queue }: { clock: Clock; random: Random; queue: Pick<Queue, 'add'> },
): () => void {
  /** Keys that were added since the start, or since this period began. */
  const added = new Set<string>();
  function addEach(watched: Dependence, objects: readonly Stored<KubeObject>[], delayMs: () => number): void {
    for (const object of objects) {
      for (const key of watched.keys(object)) {
        if (added.has(key)) continue;
        added.add(key);
        queue.add(key, { priority: 'resync', afterMs: delayMs() });
      }
    }
  }
  for (const watched of watches) addEach(watched, watched.store.list(), () => 0);
  if (ms === undefined) return () => undefined;

  const sliceMs = ms / SLICES;
  let cancel: (() => void) | undefined;
  function arm(slice: number, afterMs: number): void {
    cancel = clock.setTimer(afterMs, () => {
      if (slice === 0) added.clear();
      for (const watched of watches) {
        const objects = watched.store.list();
        const [from, to] = [slice, slice + 1].map((each) => Math.floor((objects.length * each) / SLICES));
        addEach(watched, objects.slice(from, to), () => random() * sliceMs);
      }
      arm((slice + 1) % SLICES, sliceMs);
    });
  }
  arm(0, ms);
  return () => cancel?.();
}
