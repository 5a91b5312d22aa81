import { basename, dirname, join } from 'node:path';
import { discardIn } from './discard.ts';
import { agentError } from '../errors.ts';
import type { Files } from '../ports/files.ts';
import { bytesOf } from '../ports/folders.ts';

/**
 * The few ways in which the agent changes a disk. When one of them returns, its effect survives a loss of power; when the
 * process dies inside, either the old or the new is there, never a part.
 *
 * An effect that is found already there is still synced: the process that made it may have been killed before it could.
 */
export interface Durable {
  readonly files: Files;
  /** Makes the folder and its parents below the root. */
  folder(path: string): Promise<void>;
  /** Writes a file by a file beside it and a rename. Returns whether content or mode differed. Errors: `FileFailed` where a folder is. */
  replace(path: string, content: Uint8Array | string, mode: number): Promise<boolean>;
  /** The same in a folder that exists. */
  put(path: string, content: Uint8Array | string, mode: number): Promise<boolean>;
  /** Makes a folder, unless it is there, in one that exists. `above`: a path of that one, `path`: where the new one really is. */
  folderIn(above: string, path: string): Promise<void>;
  /** Writes a symbolic link, in a folder that exists. */
  link(path: string, target: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** At the end of a file that exists. */
  append(path: string, text: string): Promise<void>;
  /** Renames within one folder. */
  rename(from: string, to: string): Promise<void>;
  /** A folder and what is in it, in a folder of the agent's own. No link below is followed. Not durable: what is left after a loss of power is removed another time. */
  discard(path: string): Promise<void>;
}

/** Name beside a file while it is written: always the same, so that what a killed process left is found again. */
export const draftOf = (path: string): string => join(dirname(path), `.${basename(path)}.kubenode`);

/** The disk, and folders whose names this process has synced. */
interface Synced {
  readonly files: Files;
  readonly settled: Set<string>;
}

/** `root`: the folder above which everything is made by others. */
export function createDurable(files: Files, root: string): Durable {
  const disk: Synced = { files, settled: new Set([root === '' ? '/' : root]) };
  return {
    files,
    folder: (path) => folder(disk, path),
    put: (path, content, mode) => put(disk, path, content, mode),
    async replace(path, content, mode) {
      await folder(disk, dirname(path));
      return await put(disk, path, content, mode);
    },
    folderIn: (above, path) => folderIn(disk, above, path),
    link: (path, target) => link(disk, path, target),
    async remove(path) {
      await files.unlink(path);
      await files.unlink(draftOf(path));
      if ((await files.stat(dirname(path))) !== undefined) await files.sync(dirname(path));
    },
    async append(path, text) {
      await files.write(path, Buffer.from(text), { mode: 0o600, append: true, sync: true });
    },
    async rename(from, to) {
      await files.rename(from, to);
      await files.sync(dirname(to));
    },
    async discard(path) {
      const above = await files.open(dirname(path));
      if (above === undefined) return;
      try {
        await discardIn(above, bytesOf(basename(path)));
      } finally {
        await above.close();
      }
    },
  };
}

async function folder(disk: Synced, path: string): Promise<void> {
  await ensure(disk, path);
}

async function ensure(disk: Synced, path: string): Promise<void> {
  const { files, settled } = disk;
  if (settled.has(path)) {
    // It may have been removed since by someone else.
    if ((await files.stat(path))?.kind === 'folder') return;
    settled.delete(path);
  }
  const parent = dirname(path);
  if (parent !== path) await ensure(disk, parent);
  const found = await files.stat(path);
  if (found === undefined) await files.mkdir(path);
  else if (found.kind === 'file' || found.kind === 'other') {
    throw agentError('FileFailed', `${path} is in the way: a folder is needed there`);
  }
  await files.sync(parent);
  settled.add(path);
}

async function put({ files }: Synced, path: string, content: Uint8Array | string, mode: number): Promise<boolean> {
  const data = typeof content === 'string' ? Buffer.from(content) : content;
  const found = await files.stat(path);
  if (found?.kind === 'folder') throw agentError('FileFailed', `${path} is a folder; a file belongs there`);
  const same =
    found?.kind === 'file' && found.mode === mode && found.size === data.length && (await hasContent(files, path, data).catch(() => false));
  if (!same) {
    const draft = draftOf(path);
    // Never written through: a link that someone put there would lead elsewhere.
    await files.unlink(draft);
    try {
      await files.write(draft, data, { mode, sync: true });
    } catch (error) {
      // On a disk that is full every byte counts.
      await files.unlink(draft).catch(() => undefined);
      throw error;
    }
    await files.rename(draft, path);
  }
  await files.sync(dirname(path));
  return !same;
}

async function folderIn({ files, settled }: Synced, above: string, path: string): Promise<void> {
  const name = join(above, basename(path));
  const there = (await files.stat(name)) !== undefined;
  if (there && settled.has(path)) return;
  if (!there) await files.mkdir(name);
  await files.sync(above);
  settled.add(path);
}

async function link({ files }: Synced, path: string, target: string): Promise<void> {
  if ((await files.readlink(path)) !== target) {
    const draft = draftOf(path);
    await files.unlink(draft);
    await files.symlink(target, draft);
    await files.rename(draft, path);
  }
  await files.sync(dirname(path));
}

/** Whether a regular file has this content. Reads no more than that. Errors: as `Files.chunks`. */
export async function hasContent(files: Files, path: string, data: Uint8Array): Promise<boolean> {
  let length = 0;
  for await (const chunk of files.chunks(path)) {
    if (length + chunk.length > data.length || Buffer.compare(chunk, data.subarray(length, length + chunk.length)) !== 0) return false;
    length += chunk.length;
  }
  return length === data.length;
}
