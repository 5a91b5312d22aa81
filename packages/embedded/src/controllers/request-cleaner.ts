import { listAt, textAt } from '../json.ts';
import { parsed, type Entry, type EntryEvent } from '../store/entry.ts';
import type { Context, EmbeddedController } from './controller.ts';

const REQUESTS = 'certificates.k8s.io/certificatesigningrequests';
const HOUR_MS = 3_600_000;

/** As kube-controller-manager's csrcleaner: an hour after an answer, a day after its creation without one. */
function endOf(entry: Entry): number {
  const object = parsed(entry);
  const times = listAt(object, 'status', 'conditions').map((item) => Date.parse(textAt(item, 'lastUpdateTime') ?? ''));
  const answered = Math.max(...times.filter((time) => !Number.isNaN(time)));
  if (Number.isFinite(answered)) return answered + HOUR_MS;
  return Date.parse(textAt(object, 'metadata', 'creationTimestamp') ?? '') + 24 * HOUR_MS;
}

/** Forgets requests for certificates, whose certificates go on without them. */
export function requestCleaner({ world }: Context): EmbeddedController {
  const ends = new Map<string, number>();
  let cancel: (() => void) | undefined;

  function sweep(): void {
    cancel = undefined;
    for (const [key, at] of ends) if (at <= world.clock.now()) world.store.remove(REQUESTS, '', key);
    arm();
  }

  function arm(): void {
    if (ends.size > 0) cancel ??= world.clock.setTimer(HOUR_MS / 4, sweep);
  }

  function note(entry: Entry): void {
    ends.set(entry.key, endOf(entry));
    arm();
  }

  return {
    start() {
      for (const entry of world.store.table(REQUESTS).entries()) note(entry);
    },
    onEvent({ resource, type, entry }: EntryEvent) {
      if (resource !== REQUESTS) return;
      if (type === 'DELETED') ends.delete(entry.key);
      else note(entry);
    },
    stop: () => cancel?.(),
  };
}
