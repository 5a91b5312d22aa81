import type { EntryEvent } from '../store/entry.ts';
import type { Context, EmbeddedController } from './controller.ts';

const EVENTS = '/events';

/** How long an Event is kept after its last write. */
const EVENT_TTL_MS = 60 * 60_000;

/** Forgets Events after an hour, as the real server's storage does. */
export function expiryController({ world }: Context): EmbeddedController {
  // In order of their last write, so that the first is the next to go.
  const written = new Map<string, number>();
  let cancel: (() => void) | undefined;

  function sweep(): void {
    cancel = undefined;
    const nowMs = world.clock.now();
    for (const [key, at] of written) {
      if (at + EVENT_TTL_MS > nowMs) break;
      const slash = key.indexOf('/');
      world.store.remove(EVENTS, key.slice(0, slash), key.slice(slash + 1));
      written.delete(key);
    }
    arm();
  }

  function arm(): void {
    const [oldest] = written.values();
    if (oldest === undefined || cancel !== undefined) return;
    cancel = world.clock.setTimer(Math.max(1000, oldest + EVENT_TTL_MS - world.clock.now()), sweep);
  }

  const note = (key: string) => {
    written.delete(key);
    written.set(key, world.clock.now());
    arm();
  };

  return {
    start() {
      for (const entry of world.store.table(EVENTS).entries()) note(entry.key);
    },
    onEvent({ resource, type, entry }: EntryEvent) {
      if (resource !== EVENTS) return;
      if (type === 'DELETED') written.delete(entry.key);
      else note(entry.key);
    },
    stop: () => cancel?.(),
  };
}
