import { basename, dirname, join } from 'node:path';
import { agentError } from './errors.ts';
import type { Files } from './ports/files.ts';

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
  /** Puts a file in place by a file beside it and a rename. Returns whether content or mode differed. Errors: `FileFailed` where a folder is. */
  replace(path: string, content: Uint8Array | string, mode: number): Promise<boolean>;
  /** Puts a symbolic link in place, in a folder that exists. */
  link(path: string, target: string): Promise<void>;
  remove(path: string): Promise<void>;
  /** At the end of a file that exists. */
  append(path: string, text: string): Promise<void>;
  /** Renames within one folder. */
  rename(from: string, to: string): Promise<void>;
  /** A folder and what is in it. Not durable: what is left after a loss of power is removed another time. */
  discard(path: string): Promise<void>;
}

/** Name beside a file while it is written: always the same, so that what a killed process left is found again. */
export const draftOf = (path: string): string => join(dirname(path), `.${basename(path)}.kubenode`);

/** `root`: the folder above which everything is made by others. */
export function createDurable(files: Files, root: string): Durable {
  /** Folders whose names this process has synced. */
  const settled = new Set<string>([root === '' ? '/' : root]);

  async function folder(path: string): Promise<void> {
    if (settled.has(path)) {
      // It may have been removed since by someone else.
      if ((await files.stat(path))?.kind === 'folder') return;
      settled.delete(path);
    }
    const parent = dirname(path);
    if (parent !== path) await folder(parent);
    const found = await files.stat(path);
    if (found === undefined) await files.mkdir(path);
    else if (found.kind === 'file' || found.kind === 'other') {
      throw agentError('FileFailed', `${path} is in the way: a folder is needed there`);
    }
    await files.sync(parent);
    settled.add(path);
  }

  return {
    files,
    folder,

    async replace(path, content, mode) {
      const data = typeof content === 'string' ? Buffer.from(content) : content;
      await folder(dirname(path));
      const found = await files.stat(path);
      if (found?.kind === 'folder') throw agentError('FileFailed', `${path} is a folder; a file belongs there`);
      const same =
        found?.kind === 'file' && found.mode === mode && found.size === data.length && (await files.read(path))?.equals(data) === true;
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
    },

    async link(path, target) {
      if ((await files.readlink(path)) !== target) {
        const draft = draftOf(path);
        await files.unlink(draft);
        await files.symlink(target, draft);
        await files.rename(draft, path);
      }
      await files.sync(dirname(path));
    },

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

    discard: (path) => discard(files, path),
  };
}

async function discard(files: Files, path: string): Promise<void> {
  const found = await files.stat(path);
  if (found === undefined) return;
  if (found.kind !== 'folder') return await files.unlink(path);
  for (const name of await files.list(path)) await discard(files, join(path, name));
  await files.rmdir(path);
}
