import type { Clock } from '../../api/ports.ts';

/** Listeners are notified this often at most. Reading the counts of peers is not paced. */
const GATHER_MS = 100;

/**
 * Peer groups whose counts changed, gathered for a while: where many machines of a zone fail at once, each of them changes the counts that all the others
 * read.
 */
export interface GroupChanges {
  add(groups: ReadonlySet<string>): void;
  stop(): void;
}

export function gatherGroupChanges(clock: Pick<Clock, 'setTimer'>, notify: (groups: ReadonlySet<string>) => void): GroupChanges {
  const changed = new Set<string>();
  let cancel: (() => void) | undefined;
  return {
    add(groups) {
      for (const group of groups) changed.add(group);
      if (changed.size === 0 || cancel !== undefined) return;
      cancel = clock.setTimer(GATHER_MS, () => {
        cancel = undefined;
        const gathered = new Set(changed);
        changed.clear();
        notify(gathered);
      });
    },
    stop: () => cancel?.(),
  };
}
