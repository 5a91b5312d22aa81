import { posix } from 'node:path';
import type { Disk } from '../local/disk.ts';

interface Folder {
  names: Map<string, Folder | string>;
  /** What a loss of power leaves of them. */
  durable: Map<string, Folder | string>;
}

/** A disk in memory that can lose its power: names that were not synced are as they were. What is written takes a while to be there. */
export function memoryDisk(): { disk: Disk; losePower: () => void } {
  const folder = (): Folder => ({ names: new Map(), durable: new Map() });
  const root = folder();
  const missing = (path: string): Error => Object.assign(new Error(`ENOENT: ${path}`), { code: 'ENOENT' });
  const find = (path: string): Folder | string | undefined => {
    let at: Folder | string | undefined = root;
    for (const name of path.split('/').filter(Boolean)) at = typeof at === 'object' ? at.names.get(name) : undefined;
    return at;
  };
  const parentOf = (path: string): Folder => {
    const found = find(posix.dirname(path));
    if (typeof found !== 'object') throw missing(path);
    return found;
  };
  /** What usually comes first takes longest. */
  const LAG = { change: 8, sync: 2 };
  const later = async (turns = LAG.change): Promise<void> => {
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
  };
  const lose = (at: Folder): void => {
    at.names = new Map(at.durable);
    for (const inner of at.names.values()) if (typeof inner === 'object') lose(inner);
  };
  const disk: Disk = {
    async makeFolder(path) {
      await later();
      const names = path.split('/').filter(Boolean);
      for (const length of names.keys()) {
        const each = `/${names.slice(0, length + 1).join('/')}`;
        if (find(each) === undefined) parentOf(each).names.set(posix.basename(each), folder());
      }
    },
    async write(path, text) {
      await later();
      parentOf(path).names.set(posix.basename(path), text);
    },
    async rename(from, to) {
      await later();
      const found = find(from);
      if (found === undefined) throw missing(from);
      parentOf(to).names.set(posix.basename(to), found);
      parentOf(from).names.delete(posix.basename(from));
    },
    async syncFolder(path) {
      await later(LAG.sync);
      const found = find(path);
      if (typeof found !== 'object') throw missing(path);
      found.durable = new Map(found.names);
    },
    async read(path) {
      const found = find(path);
      return typeof found === 'string' ? found : undefined;
    },
    async list(path) {
      const found = find(path);
      return typeof found === 'object' ? [...found.names.keys()] : undefined;
    },
    async remove(path) {
      await later();
      const parent = find(posix.dirname(path));
      if (typeof parent === 'object') parent.names.delete(posix.basename(path));
    },
  };
  return { disk, losePower: () => lose(root) };
}
