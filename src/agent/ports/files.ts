import { agentError, codeOf } from '../errors.ts';
import { openFolder } from './folders.ts';
import type { OpenFolder } from './folders.ts';
import {
  chmod,
  close,
  fchmod,
  fs,
  fstat,
  fsync,
  lstat,
  mkdir,
  open,
  read,
  readFile,
  readdir,
  readlink,
  realpath,
  rename,
  rmdir,
  statfs,
  symlink,
  unlink,
  write,
} from './node-fs.ts';

export interface FileStat {
  kind: 'file' | 'folder' | 'link' | 'other';
  /** Permission bits. */
  mode: number;
  size: number;
  /** Another one for a folder that was made again under the same name. */
  inode: number;
}

export interface FileWriteOptions {
  mode: number;
  /** Appends to what is there, instead of replacing it. */
  append?: boolean;
  /** Returns when the data would survive a loss of power. A sync that fails is never repeated: what was written may be gone. */
  sync?: boolean;
}

/**
 * A disk. Only `write` with `sync`, and `sync`, are durable: names (new files, renames, removals) become so by `sync` of
 * their folder. Errors are Node's (`code`), except that what is absent reads as undefined or empty.
 */
export interface Files {
  /** A regular file of at most 64 MiB. Errors: `FileFailed`. */
  read(path: string): Promise<Buffer | undefined>;
  /** The bytes of a regular file; follows no link at the end. Errors: ENOENT, `FileFailed`. */
  chunks(path: string): AsyncIterable<Uint8Array>;
  /** Sorted. Empty when absent. */
  list(path: string): Promise<string[]>;
  /** The state of the link itself where there is one. */
  stat(path: string): Promise<FileStat | undefined>;
  readlink(path: string): Promise<string | undefined>;
  realpath(path: string): Promise<string | undefined>;
  /** One level, mode 0755. There already: no error. */
  mkdir(path: string): Promise<void>;
  /** Follows no link. Errors: ENOTDIR, ELOOP when no folder is there. */
  chmodFolder(path: string, mode: number): Promise<void>;
  /** Follows no link at the end: what is there must be a file or nothing. */
  write(path: string, data: Uint8Array | AsyncIterable<Uint8Array>, options: FileWriteOptions): Promise<void>;
  sync(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  symlink(target: string, path: string): Promise<void>;
  /** Not there: no error. */
  unlink(path: string): Promise<void>;
  /** Empty folders. Not there: no error. */
  rmdir(path: string): Promise<void>;
  /** The file system that a path is on, in bytes: what is used, and what the agent may still use. Errors: ENOENT. */
  space(path: string): Promise<{ used: number; available: number }>;
  /** A folder, to delete in it. undefined: there is none. */
  open(path: string): Promise<OpenFolder | undefined>;
  /** Calls back soon after something in the folder changed, perhaps several times, with its name where that is known. Returns its end. Errors: ENOENT. */
  watch(folder: string, onChange: (name: string | undefined) => void): () => void;
}

const CHUNK = 64 * 1024;
/** Who may write a file must not decide how much memory the agent takes. */
const MOST_READ = 64 * 1024 * 1024;

/** Does not wait for a pipe that another program put there. Returns the size. Errors: `FileFailed`. */
async function regular(file: number, path: string): Promise<number> {
  const found = await fstat(file);
  if (!found.isFile()) throw agentError('FileFailed', `${path} is no regular file`);
  return found.size;
}

async function writeAll(file: number, data: Uint8Array): Promise<void> {
  for (let done = 0; done < data.length;) {
    const { bytesWritten } = await write(file, data, done, data.length - done, null);
    done += bytesWritten;
  }
}

async function readWhole(path: string): Promise<Buffer> {
  const file = await open(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    if ((await regular(file, path)) > MOST_READ) throw agentError('FileFailed', `${path} is larger than ${MOST_READ} bytes`);
    return await readFile(file);
  } finally {
    await close(file);
  }
}

export function nodeFiles(): Files {
  return {
    read: (path) => absent(readWhole(path), undefined),
    async *chunks(path) {
      // A link that someone put there is not followed, and a pipe is not waited for.
      const file = await open(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
      try {
        await regular(file, path);
        for (;;) {
          // A new one each time: streams keep several chunks.
          const buffer = Buffer.allocUnsafe(CHUNK);
          const { bytesRead } = await read(file, buffer, 0, CHUNK, null);
          if (bytesRead === 0) return;
          yield buffer.subarray(0, bytesRead);
        }
      } finally {
        await close(file);
      }
    },
    list: async (path) => (await absent(readdir(path), [])).sort(byCodeUnit),
    stat: (path) =>
      absent(
        lstat(path).then((found) => ({
          kind: found.isFile() ? 'file' : found.isDirectory() ? 'folder' : found.isSymbolicLink() ? 'link' : 'other',
          mode: found.mode & 0o7777,
          size: found.size,
          inode: found.ino,
        })),
        undefined,
      ),
    readlink: (path) => absent(readlink(path), undefined),
    realpath: (path) => absent(realpath(path), undefined),
    async mkdir(path) {
      try {
        await mkdir(path, { mode: 0o755 });
        // Given again, since the umask took bits away.
        await chmodFolder(path, 0o755);
      } catch (error) {
        if (codeOf(error) !== 'EEXIST') throw error;
      }
    },
    chmodFolder,
    async write(path, data, { mode, append = false, sync = false }) {
      const { O_APPEND, O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = fs.constants;
      const file = await open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | (append ? O_APPEND : O_TRUNC), mode);
      try {
        if (data instanceof Uint8Array) await writeAll(file, data);
        else for await (const chunk of data) await writeAll(file, chunk);
        // Given again, since the umask took bits away.
        await fchmod(file, mode);
        if (sync) await fsync(file);
      } finally {
        await close(file);
      }
    },
    async sync(path) {
      const file = await open(path, 'r');
      try {
        await fsync(file);
      } finally {
        await close(file);
      }
    },
    rename,
    symlink: async (target, path) => await symlink(target, path),
    unlink: async (path) => await absent(unlink(path), undefined),
    rmdir: async (path) => await absent(rmdir(path), undefined),
    async space(path) {
      const { bsize, blocks, bfree, bavail } = await statfs(path);
      return { used: (blocks - bfree) * bsize, available: bavail * bsize };
    },
    open: openFolder,
    watch(folder, onChange) {
      const watcher = fs.watch(folder, { persistent: false }, (_event, name) => onChange(name ?? undefined));
      // A folder that vanishes ends its watcher with an error; the caller finds out by its next check.
      watcher.on('error', () => onChange(undefined));
      return () => watcher.close();
    },
  };
}

async function chmodFolder(path: string, mode: number): Promise<void> {
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;
  let file: number;
  try {
    file = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    // Only who is not root, and so has nothing to lose by a link, may not open a folder of his own.
    if (codeOf(error) === 'EACCES') return await chmod(path, mode);
    throw error;
  }
  try {
    await fchmod(file, mode);
  } finally {
    await close(file);
  }
}

const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

async function absent<T, U>(operation: Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await operation;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return otherwise;
    throw error;
  }
}
