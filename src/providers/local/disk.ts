import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errnoOf } from '../errors.ts';

/** The few operations on files that nodes are made of. A port, so that a test can end the process at each of them. */
export interface Disk {
  /** With its parents; nothing when it is there. */
  makeFolder(path: string): Promise<void>;
  /** A new file, whole and on the disk when this returns. */
  write(path: string, text: string, mode: number): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Renames in this folder are on the disk when this returns. */
  syncFolder(path: string): Promise<void>;
  /** undefined: there is none. */
  read(path: string): Promise<string | undefined>;
  /** Names in a folder; undefined: there is none. */
  list(path: string): Promise<string[] | undefined>;
  /** With all that is in it; nothing when there is none. */
  remove(path: string): Promise<void>;
}

export function nodeDisk(): Disk {
  return {
    async makeFolder(path) {
      await mkdir(path, { recursive: true, mode: 0o755 });
    },
    async write(path, text, mode) {
      const file = await open(path, 'w', mode);
      try {
        // The mode given to open is cut by the umask, and a file that was there before keeps its own.
        await file.chmod(mode);
        await file.writeFile(text);
        await file.sync();
      } finally {
        await file.close();
      }
    },
    rename,
    async syncFolder(path) {
      const folder = await open(path, 'r');
      try {
        await folder.sync();
      } finally {
        await folder.close();
      }
    },
    read: (path) => absent(readFile(path, 'utf8')),
    list: (path) => absent(readdir(path)),
    async remove(path) {
      await rm(path, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

async function absent<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

let drafts = 0;

/** Replaces a file so that every reader, also after a power loss, finds the old one or the new one. */
export async function replaceFile(disk: Disk, path: string, text: string, mode: number): Promise<void> {
  const draft = join(dirname(path), `.${basename(path)}.${process.pid}.${++drafts}`);
  await disk.write(draft, text, mode);
  await disk.rename(draft, path);
  await disk.syncFolder(dirname(path));
}
