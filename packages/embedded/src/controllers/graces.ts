import { textAt } from '../json.ts';
import { parsed, type Entry, type EntryEvent } from '../store/entry.ts';
import { PODS } from './budgets.ts';
import { discard, type Context, type EmbeddedController } from './controller.ts';

/**
 * Ends pods when their grace period is over. On a real cluster the kubelet does this once the containers have stopped;
 * here there need not be one.
 */
export function gracesController({ world, tasks }: Context): EmbeddedController {
  const timers = new Map<string, () => void>();

  function follow(entry: Entry): void {
    timers.get(entry.uid)?.();
    timers.delete(entry.uid);
    if (!entry.json.includes('"deletionTimestamp"')) return;
    const deletion = textAt(parsed(entry), 'metadata', 'deletionTimestamp');
    if (deletion === undefined) return;
    const end = () => {
      timers.delete(entry.uid);
      tasks.add(`grace ${entry.key}`, () => {
        const served = world.registry.byStorage(PODS);
        if (served !== undefined) discard(world, served, entry, { gracePeriodSeconds: 0 });
      });
    };
    timers.set(entry.uid, world.clock.setTimer(Math.max(0, Date.parse(deletion) - world.clock.now()), end));
  }

  return {
    start() {
      for (const entry of world.store.table(PODS).entries()) follow(entry);
    },
    onEvent({ resource, type, entry }: EntryEvent) {
      if (resource !== PODS) return;
      if (type !== 'DELETED') follow(entry);
      else {
        timers.get(entry.uid)?.();
        timers.delete(entry.uid);
      }
    },
    stop() {
      for (const cancel of timers.values()) cancel();
    },
  };
}
