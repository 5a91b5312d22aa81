import type { FSWatcher } from 'node:fs';
import type { Clock } from '../../api/ports.ts';
import type { GitFs } from './source.ts';

export interface HeadWatch {
  clock: Clock;
  /** Between reads; each is one `read`. */
  everyMs: number;
  /** What the branch is at, as text; rejects when it cannot be read. */
  read: (signal: AbortSignal) => Promise<string>;
  /** Folders in which something changes when the branch moves; found again after each read, since branches are switched. */
  folders: () => Promise<string[]>;
  fs: GitFs;
}

/**
 * Calls `onChange` when what `read` sees changes, also from readable to not and back; what is there at the start is no change.
 *
 * The file system's notice only makes the next read come at once. Notices get lost (network disks, exhausted inotify watches, folders
 * replaced), so reads come by the clock as well. Nothing here keeps the process alive.
 */
export function watchHead(options: HeadWatch, onChange: () => void): () => void {
  const { clock, everyMs, fs } = options;
  const ended = new AbortController();
  const watchers = new Map<string, FSWatcher>();
  let seen: string | undefined;
  let reading = false;
  let again = false;
  let cancel: (() => void) | undefined;

  async function readNow(): Promise<void> {
    if (ended.signal.aborted) return;
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    cancel?.();
    do {
      again = false;
      const now = await options.read(ended.signal).then(
        (oid) => oid,
        () => 'unreadable',
      );
      await rearm();
      if (ended.signal.aborted) return;
      const before = seen;
      seen = now;
      if (before !== undefined && before !== now) onChange();
    } while (again);
    reading = false;
    cancel = clock.setTimer(everyMs, notice);
  }
  function notice(): void {
    void readNow();
  }

  async function rearm(): Promise<void> {
    const folders = new Set(await options.folders().catch((): string[] => []));
    for (const [folder, watcher] of watchers) {
      if (folders.has(folder)) continue;
      watcher.close();
      watchers.delete(folder);
    }
    if (ended.signal.aborted) return;
    for (const folder of folders) {
      if (watchers.has(folder)) continue;
      try {
        const watcher = fs.watch(folder, { persistent: false }, notice);
        watcher.on('error', () => {
          watcher.close();
          watchers.delete(folder);
        });
        watchers.set(folder, watcher);
        // What happened between the read and this watch.
        again = true;
      } catch {
        // Reading by the clock remains.
      }
    }
  }

  notice();
  return () => {
    ended.abort();
    cancel?.();
    for (const watcher of watchers.values()) watcher.close();
    watchers.clear();
  };
}
