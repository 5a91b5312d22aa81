import { posix } from 'node:path';

/**
 * A disk in memory that knows what of it would survive a loss of power. Data is durable by a sync of its file, names by a sync of their
 * folder. `legal` gives every disk that may be found after the lights go out.
 */
type Inode =
  /** `durable`: what a sync saw last. `lost`: a sync failed, and the system has forgotten that the data is not on the disk. */
  | { kind: 'file'; data: Buffer; durable: Buffer | undefined; lost: boolean; mode: number; writtenMs?: number }
  | { kind: 'folder'; names: Map<string, number>; durable: Map<string, number>; mode?: number }
  | { kind: 'link'; target: string };

interface Renaming {
  folder: number;
  changes: [name: string, inode: number | undefined][];
}

/** `weak`: unsynced names, any of them, as POSIX allows. `ordered`: a beginning of them, as file systems with a journal do. */
export type Model = 'weak' | 'ordered';

/** More pending changes than this are not taken in every combination. */
const COMBINED = 3;

export function failure(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

export class Disk {
  inodes = new Map<number, Inode>([[1, { kind: 'folder', names: new Map(), durable: new Map() }]]);
  pending: Renaming[] = [];
  next = 2;
  /** Bytes of content that it has. */
  capacity = 1e9;
  /** Folders that are kept open. */
  openFolders = 0;
  /** As inotify does, a watch follows its folder, not the folder's name. */
  watches: { folder: number | undefined; onChange: (name: string | undefined) => void }[] = [];

  clone(): Disk {
    const copy = new Disk();
    copy.next = this.next;
    copy.capacity = this.capacity;
    copy.pending = [...this.pending];
    copy.inodes = new Map(
      [...this.inodes].map(([id, inode]) => [
        id,
        inode.kind === 'folder' ? { ...inode, names: new Map(inode.names), durable: new Map(inode.durable) } : { ...inode },
      ]),
    );
    return copy;
  }

  /** The inode of a path; `follow`: through a link at its end too. */
  find(path: string, follow: boolean, depth = 0): number | undefined {
    if (depth > 8) throw failure('ELOOP', path);
    let at = 1;
    const parts = path.split('/').filter(Boolean);
    for (const [index, part] of parts.entries()) {
      const folder = this.inodes.get(at);
      if (folder?.kind !== 'folder') return undefined;
      const next = folder.names.get(part);
      if (next === undefined) return undefined;
      const inode = this.inodes.get(next);
      const last = index === parts.length - 1;
      if (inode?.kind === 'link' && (follow || !last)) {
        const base = `/${parts.slice(0, index).join('/')}`;
        return this.find(posix.resolve(base, inode.target, parts.slice(index + 1).join('/')), follow, depth + 1);
      }
      at = next;
    }
    return at;
  }

  folderOf(path: string): { id: number; folder: Extract<Inode, { kind: 'folder' }> } {
    const id = this.find(posix.dirname(path), true);
    const folder = id === undefined ? undefined : this.inodes.get(id);
    if (id === undefined || folder === undefined) throw failure('ENOENT', path);
    if (folder.kind !== 'folder') throw failure('ENOTDIR', path);
    return { id, folder };
  }

  change(path: string, changes: Renaming['changes']): void {
    const { id, folder } = this.folderOf(path);
    for (const [name, inode] of changes) {
      if (inode === undefined) folder.names.delete(name);
      else folder.names.set(name, inode);
    }
    this.pending.push({ folder: id, changes });
    for (const [name] of changes) this.notify(posix.dirname(path), name);
  }

  add(inode: Inode): number {
    this.inodes.set(this.next, inode);
    return this.next++;
  }

  get used(): number {
    let used = 0;
    const visit = (id: number): void => {
      const inode = this.inodes.get(id);
      if (inode?.kind === 'file') used += inode.data.length;
      if (inode?.kind === 'folder') for (const each of inode.names.values()) visit(each);
    };
    visit(1);
    return used;
  }

  /** Where a folder is now. */
  pathOf(id: number): string | undefined {
    const visit = (at: number, path: string): string | undefined => {
      if (at === id) return path === '' ? '/' : path;
      const inode = this.inodes.get(at);
      if (inode?.kind !== 'folder') return undefined;
      for (const [name, each] of inode.names) {
        const found = visit(each, `${path}/${name}`);
        if (found !== undefined) return found;
      }
      return undefined;
    };
    return visit(1, '');
  }

  notify(folder: string, name?: string): void {
    const id = this.find(folder, true);
    for (const watch of this.watches) if (watch.folder === id) queueMicrotask(() => watch.onChange(name));
  }

  syncFile(id: number): void {
    const inode = this.inodes.get(id);
    if (inode?.kind === 'file' && !inode.lost) inode.durable = inode.data;
    else if (inode?.kind === 'file') inode.durable ??= Buffer.alloc(0);
  }

  syncFolder(id: number): void {
    const settle = this.pending.filter((each) => each.folder === id);
    this.pending = this.pending.filter((each) => each.folder !== id);
    for (const each of settle) this.#settle(each);
  }

  #settle({ folder, changes }: Renaming): void {
    const inode = this.inodes.get(folder);
    if (inode?.kind !== 'folder') return;
    for (const [name, id] of changes) {
      if (id === undefined) inode.durable.delete(name);
      else inode.durable.set(name, id);
    }
  }

  /** Everything that is there now, durably: a disk that someone prepared. */
  settleAll(): void {
    for (const id of this.inodes.keys()) {
      this.syncFile(id);
      this.syncFolder(id);
    }
  }

  /** After a loss of power now, where nothing had reached the disk by itself. */
  darkest(): Disk {
    const first = this.legal('ordered').next();
    if (first.done === true) throw new Error('there is always a disk');
    return first.value;
  }

  /** Every disk that may be found after a loss of power now, each only once. */
  *legal(model: Model): Generator<Disk> {
    const seen = new Set<string>();
    for (const kept of this.#subsets(model)) {
      const names = this.clone();
      names.pending = [];
      for (const each of kept) names.#settle(each);
      for (const inode of names.inodes.values()) if (inode.kind === 'folder') inode.names = new Map(inode.durable);
      names.#forgetUnreachable();
      for (const disk of names.#dataChoices()) {
        const key = disk.key();
        if (seen.has(key)) continue;
        seen.add(key);
        yield disk;
      }
    }
  }

  #subsets(model: Model): Renaming[][] {
    const { pending } = this;
    if (model === 'ordered') return Array.from({ length: pending.length + 1 }, (_each, count) => pending.slice(0, count));
    if (pending.length <= COMBINED) {
      return Array.from({ length: 2 ** pending.length }, (_each, bits) => pending.filter((_change, index) => (bits >> index) % 2 === 1));
    }
    return [[], pending, ...pending.map((each) => [each]), ...pending.map((each) => pending.filter((other) => other !== each))];
  }

  #forgetUnreachable(): void {
    const reached = new Set<number>();
    const visit = (id: number): void => {
      if (reached.has(id)) return;
      reached.add(id);
      const inode = this.inodes.get(id);
      if (inode?.kind === 'folder') for (const each of inode.names.values()) visit(each);
    };
    visit(1);
    for (const id of this.inodes.keys()) if (!reached.has(id)) this.inodes.delete(id);
  }

  /** Unsynced data: what was durable before, torn in the middle, zeros instead, or whole. */
  *#dataChoices(): Generator<Disk> {
    const dirty = [...this.inodes].flatMap(([id, inode]) =>
      inode.kind === 'file' && (inode.durable === undefined || !inode.durable.equals(inode.data)) ? [{ id, inode }] : [],
    );
    const options = dirty.map(({ inode }) => {
      const before = inode.durable ?? Buffer.alloc(0);
      const grown = inode.data.length > before.length && inode.data.subarray(0, before.length).equals(before);
      const base = grown ? before.length : 0;
      const half = inode.data.subarray(0, base + Math.ceil((inode.data.length - base) / 2));
      return [before, half, Buffer.concat([inode.data.subarray(0, base), Buffer.alloc(inode.data.length - base)]), inode.data];
    });
    const count = dirty.length <= 2 ? options.reduce((product, each) => product * each.length, 1) : 4;
    for (let choice = 0; choice < count; choice++) {
      const disk = this.clone();
      let rest = choice;
      for (const [index, { id }] of dirty.entries()) {
        const each = options[index] ?? [];
        // Too many to combine: all the same way.
        const data = each[dirty.length <= 2 ? rest % each.length : choice] ?? Buffer.alloc(0);
        rest = Math.floor(rest / each.length);
        const inode = disk.inodes.get(id);
        if (inode?.kind === 'file') inode.data = data;
      }
      for (const inode of disk.inodes.values()) {
        if (inode.kind !== 'file') continue;
        inode.durable = inode.data;
        inode.lost = false;
      }
      yield disk;
    }
  }

  /** Equal for equal trees. */
  key(): string {
    const lines: string[] = [];
    const visit = (id: number, path: string): void => {
      const inode = this.inodes.get(id);
      if (inode?.kind === 'file') lines.push(`${path} ${inode.mode} ${inode.data.toString('latin1')}`);
      if (inode?.kind === 'link') lines.push(`${path} > ${inode.target}`);
      if (inode?.kind !== 'folder') return;
      lines.push(`${path}/${inode.mode === undefined || inode.mode === 0o755 ? '' : ` ${inode.mode}`}`);
      for (const name of [...inode.names.keys()].sort()) visit(inode.names.get(name) ?? 0, `${path}/${name}`);
    };
    visit(1, '');
    return lines.join('\n');
  }
}
