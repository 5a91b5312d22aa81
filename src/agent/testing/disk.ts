import { posix } from 'node:path';
import type { FileStat, Files, FileWriteOptions } from '../ports/files.ts';
import type { FoundEntry, OpenFolder } from '../ports/folders.ts';
import { failure } from './inodes.ts';
import type { Disk } from './inodes.ts';

/** What is about to happen to the disk. */
export interface DiskOperation {
  what: 'write' | 'sync' | 'rename' | 'symlink' | 'unlink' | 'mkdir' | 'rmdir' | 'create' | 'chmod';
  path: string;
  /** Of a sync: who asked for it, innermost first. */
  site: string;
}

export interface DiskHooks {
  /** Before each change; may throw what the system would, or end the process. */
  before?: (operation: DiskOperation) => void;
  /** A sync that does nothing, for which this is true. */
  skipSync?: (site: string) => boolean;
  /** Whether operations record which function asked for a sync. */
  sites?: boolean;
  /** What reaches the disk by itself at once, so that it does not multiply what may be found: only for what nothing depends on. */
  eager?: (path: string) => boolean;
  /** Calls take a while before they have an effect, so that a caller who does not wait for one is overtaken by its next. */
  lags?: boolean;
  /** Files that are being executed. */
  busy?: () => ReadonlySet<number>;
}

/** Turns of the queue of promises that a call takes. What usually comes first takes longest. */
const LAG = { mkdir: 8, write: 6, sync: 4, change: 2 };

/** The disk as a port. */
export function simulatedFiles(disk: Disk, hooks: DiskHooks = {}): Files {
  async function lag(turns: number): Promise<void> {
    if (hooks.lags === true) for (let turn = 0; turn < turns; turn++) await Promise.resolve();
  }
  const before = (what: DiskOperation['what'], path: string, site = ''): void => hooks.before?.({ what, path, site });
  const sync = (path: string, id: number): void => {
    const site = hooks.sites === true || hooks.skipSync !== undefined ? callers() : '';
    try {
      before('sync', path, site);
    } catch (error) {
      // The system forgets that the data is not on the disk: a later sync will report success.
      const inode = disk.inodes.get(id);
      if (inode?.kind === 'file') inode.lost = true;
      throw error;
    }
    if (hooks.skipSync?.(site) === true) return;
    disk.syncFile(id);
    disk.syncFolder(id);
  };
  const settle = (path: string): void => {
    if (hooks.eager?.(path) !== true) return;
    const file = disk.find(path, false);
    if (file !== undefined) disk.syncFile(file);
    disk.syncFolder(disk.folderOf(path).id);
  };
  const idOf = (path: string, follow: boolean): number => {
    const id = disk.find(path, follow);
    if (id === undefined) throw failure('ENOENT', path);
    return id;
  };
  const bytes = (path: string): Buffer | undefined => {
    const id = disk.find(path, true);
    const inode = id === undefined ? undefined : disk.inodes.get(id);
    if (inode?.kind === 'folder') throw failure('EISDIR', path);
    return inode?.kind === 'file' ? inode.data : undefined;
  };

  const files: Files = {
    read: async (path) => bytes(path),
    async *chunks(path) {
      if (disk.inodes.get(idOf(path, false))?.kind === 'link') throw failure('ELOOP', path);
      const data = bytes(path);
      if (data === undefined) throw failure('ENOENT', path);
      if (data.length > 0) yield data;
    },
    async list(path) {
      const id = disk.find(path, true);
      const inode = id === undefined ? undefined : disk.inodes.get(id);
      return inode?.kind === 'folder' ? [...inode.names.keys()].sort() : [];
    },
    async stat(path): Promise<FileStat | undefined> {
      const id = disk.find(path, false);
      const inode = id === undefined ? undefined : disk.inodes.get(id);
      if (id === undefined || inode === undefined) return undefined;
      return inode.kind === 'file'
        ? { kind: 'file', mode: inode.mode, size: inode.data.length, inode: id }
        : { kind: inode.kind, mode: (inode.kind === 'folder' ? inode.mode : undefined) ?? 0o755, size: 0, inode: id };
    },
    async readlink(path) {
      const id = disk.find(path, false);
      const inode = id === undefined ? undefined : disk.inodes.get(id);
      return inode?.kind === 'link' ? inode.target : undefined;
    },
    async realpath(path) {
      return disk.find(path, true) === undefined ? undefined : realpathOf(disk, path);
    },
    async mkdir(path) {
      await lag(LAG.mkdir);
      before('mkdir', path);
      if (disk.find(path, false) !== undefined) return;
      disk.change(path, [[posix.basename(path), disk.add({ kind: 'folder', names: new Map(), durable: new Map() })]]);
    },
    async chmodFolder(path, mode) {
      await lag(LAG.change);
      before('chmod', path);
      const inode = disk.inodes.get(idOf(path, false));
      if (inode?.kind !== 'folder') throw failure('ENOTDIR', path);
      inode.mode = mode;
    },
    async write(path, data, options: FileWriteOptions) {
      await lag(LAG.write);
      let id = disk.find(path, false);
      let inode = id === undefined ? undefined : disk.inodes.get(id);
      if (inode?.kind === 'link') throw failure('ELOOP', path);
      if (inode?.kind === 'folder') throw failure('EISDIR', path);
      if (id !== undefined && hooks.busy?.().has(id) === true) throw failure('ETXTBSY', path);
      if (inode === undefined || id === undefined) {
        before('create', path);
        inode = { kind: 'file', data: Buffer.alloc(0), durable: undefined, lost: false, mode: options.mode };
        id = disk.add(inode);
        disk.change(path, [[posix.basename(path), id]]);
      } else if (options.append !== true) {
        before('write', path);
        inode.data = Buffer.alloc(0);
      }
      const put = (chunk: Uint8Array): void => {
        before('write', path);
        if (disk.used + chunk.length > disk.capacity) throw failure('ENOSPC', path);
        if (inode?.kind === 'file') inode.data = Buffer.concat([inode.data, chunk]);
      };
      if (data instanceof Uint8Array) put(data);
      else for await (const chunk of data) put(chunk);
      inode.mode = options.mode;
      disk.notify(posix.dirname(path), posix.basename(path));
      if (options.sync === true) sync(path, id);
      settle(path);
    },
    async sync(path) {
      await lag(LAG.sync);
      sync(path, idOf(path, true));
    },
    async rename(from, to) {
      await lag(LAG.change);
      before('rename', to);
      const id = idOf(from, false);
      const over = disk.find(to, false);
      const target = over === undefined ? undefined : disk.inodes.get(over);
      if (target?.kind === 'folder' && (disk.inodes.get(id)?.kind !== 'folder' || target.names.size > 0)) throw failure('EISDIR', to);
      if (disk.folderOf(from).id === disk.folderOf(to).id) {
        disk.change(to, [
          [posix.basename(from), undefined],
          [posix.basename(to), id],
        ]);
      } else {
        disk.change(to, [[posix.basename(to), id]]);
        disk.change(from, [[posix.basename(from), undefined]]);
      }
      settle(to);
    },
    async symlink(target, path) {
      await lag(LAG.change);
      before('symlink', path);
      if (disk.find(path, false) !== undefined) throw failure('EEXIST', path);
      disk.change(path, [[posix.basename(path), disk.add({ kind: 'link', target })]]);
    },
    async unlink(path) {
      await lag(LAG.change);
      if (disk.find(path, false) === undefined) return;
      before('unlink', path);
      if (disk.inodes.get(idOf(path, false))?.kind === 'folder') throw failure('EISDIR', path);
      disk.change(path, [[posix.basename(path), undefined]]);
    },
    async rmdir(path) {
      await lag(LAG.change);
      const id = disk.find(path, false);
      if (id === undefined) return;
      before('rmdir', path);
      const inode = disk.inodes.get(id);
      if (inode?.kind !== 'folder') throw failure('ENOTDIR', path);
      if (inode.names.size > 0) throw failure('ENOTEMPTY', path);
      disk.change(path, [[posix.basename(path), undefined]]);
    },
    async space() {
      return { used: disk.used, available: Math.max(disk.capacity - disk.used, 0) };
    },
    async open(path) {
      const id = disk.find(path, true);
      return id === undefined ? undefined : openFolder(disk, id, before, () => lag(LAG.change));
    },
    watch(folder, onChange) {
      const watch = { folder: idOf(folder, true), onChange };
      disk.watches.push(watch);
      return () => void (disk.watches = disk.watches.filter((each) => each !== watch));
    },
  };
  return files;
}

function openFolder(
  disk: Disk,
  id: number,
  before: (what: 'unlink' | 'rmdir', path: string) => void,
  lag: () => Promise<void>,
): OpenFolder | undefined {
  const folder = disk.inodes.get(id);
  if (folder?.kind !== 'folder') return undefined;
  disk.openFolders += 1;
  const where = (): string => disk.pathOf(id) ?? '(deleted)';
  const identity = `1:${id}`;
  return {
    identity,
    device: '1',
    guarded: true,
    stablePath: where(),
    realpath: async () => where(),
    async *names() {
      yield* [...folder.names.keys()].sort();
    },
    async stat(name): Promise<FoundEntry | undefined> {
      const found = folder.names.get(name);
      const inode = found === undefined ? undefined : disk.inodes.get(found);
      if (inode === undefined) return undefined;
      const file = inode.kind === 'file' ? inode : undefined;
      const writtenMs = file?.writtenMs ?? Infinity;
      return { kind: inode.kind, identity: `1:${found}`, device: '1', writtenMs, bytes: file?.data.length ?? 0, links: 1, owned: true };
    },
    async open(name) {
      const found = folder.names.get(name);
      return found === undefined ? undefined : openFolder(disk, found, before, lag);
    },
    async readlink(name) {
      const inode = disk.inodes.get(folder.names.get(name) ?? 0);
      return inode?.kind === 'link' ? inode.target : undefined;
    },
    async rmdir(name) {
      await lag();
      const inode = disk.inodes.get(folder.names.get(name) ?? 0);
      if (inode === undefined) return;
      const path = posix.join(where(), name);
      before('rmdir', path);
      if (inode.kind !== 'folder') throw failure('ENOTDIR', path);
      if (inode.names.size > 0) throw failure('ENOTEMPTY', path);
      disk.change(path, [[name, undefined]]);
    },
    async unlink(name) {
      await lag();
      const path = posix.join(where(), name);
      before('unlink', path);
      if (disk.inodes.get(folder.names.get(name) ?? 0)?.kind === 'folder') throw failure('EISDIR', path);
      disk.change(path, [[name, undefined]]);
    },
    async close() {
      disk.openFolders -= 1;
    },
  };
}

function realpathOf(disk: Disk, path: string, depth = 0): string {
  if (depth > 8) throw failure('ELOOP', path);
  let real = '/';
  const parts = path.split('/').filter(Boolean);
  for (const [index, part] of parts.entries()) {
    const next = posix.join(real, part);
    const id = disk.find(next, false);
    const inode = id === undefined ? undefined : disk.inodes.get(id);
    if (inode?.kind === 'link') return realpathOf(disk, posix.resolve(real, inode.target, parts.slice(index + 1).join('/')), depth + 1);
    real = next;
  }
  return real;
}

/** The functions of the agent that a sync was asked by: the innermost, and what called that. */
function callers(): string {
  const stack = new Error('where').stack ?? '';
  const frames: string[] = [];
  for (const line of stack.split('\n')) {
    const match = /at (?:async )?(?:Object\.)?(\S+) .*\/src\/agent\/([a-z/-]+)\.ts:(\d+)/.exec(line);
    if (match?.[1] === undefined || match[2] === undefined || /^(ports|testing)\//.test(match[2])) continue;
    const at = frames.length === 0 ? `:${match[3]}` : '';
    frames.push(`${match[1]}@${match[2]}${at}`);
    if (frames.length === 2) break;
  }
  return frames.join(' < ');
}
