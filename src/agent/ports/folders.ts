import { codeOf } from '../errors.ts';
import { close, fs, fstat, lstat, open, opendir, readlink, realpath, rmdir, unlink } from './node-fs.ts';

/** An entry of a folder; a link stands for itself. */
export interface FoundEntry {
  kind: 'file' | 'folder' | 'link' | 'other';
  /** Device and inode: what has the same is the same. */
  identity: string;
  device: string;
  /** Wall time of the last write, ms. */
  writtenMs: number;
  /** What it takes of the disk. */
  bytes: number;
  /** Names that it has. */
  links: number;
  /** By root or by the agent's own user. */
  owned: boolean;
}

/** A path as bytes, one a character. */
export const bytesOf = (path: string): string => Buffer.from(path).toString('latin1');

/**
 * A folder that is kept open. Its methods act in exactly this folder, wherever its path leads meanwhile, and no link is ever
 * followed. Names are bytes, one a character (latin1): they may contain any byte except `/` and NUL.
 */
export interface OpenFolder {
  readonly identity: string;
  readonly device: string;
  /** Only root and the agent's own user own it and may change the names in it. */
  readonly guarded: boolean;
  /** A path that leads into exactly this folder while it is open, even if its name changes. undefined: this system has none. */
  readonly stablePath: string | undefined;
  /** Where it is now, links resolved; as bytes. */
  realpath(): Promise<string>;
  /** In no order. To be read to its end, or ended by `break`. */
  names(): AsyncIterable<string>;
  stat(name: string): Promise<FoundEntry | undefined>;
  /** A folder in it; undefined: there is none that may be read, or it is something else, a link above all. */
  open(name: string): Promise<OpenFolder | undefined>;
  /** undefined: no link is there. */
  readlink(name: string): Promise<string | undefined>;
  /** Not there: no error. */
  unlink(name: string): Promise<void>;
  /** An empty folder. Not there: no error. */
  rmdir(name: string): Promise<void>;
  close(): Promise<void>;
}

/** Absent, something else, or not to be read. */
const NOT_OPENED = ['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'EPERM'];

/** `path`: of a root, whose own links are followed. undefined: as `open`. */
export async function openFolder(path: string): Promise<OpenFolder | undefined> {
  const real = await realpath(path, 'latin1').catch(() => undefined);
  return real === undefined ? undefined : await opened(Buffer.from(real, 'latin1'), real);
}

/**
 * Linux reaches what is in an open folder through /proc, even if its name changed. Elsewhere Node has no way to do that, so the path is
 * compared just before each use.
 */
const BY_DESCRIPTOR = process.platform === 'linux';

async function opened(path: Buffer, plain: string): Promise<OpenFolder | undefined> {
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;
  let file: number;
  try {
    file = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    if (NOT_OPENED.includes(codeOf(error))) return undefined;
    throw error;
  }
  try {
    return folderOf(file, plain, await fstat(file, { bigint: true }));
  } catch (error) {
    await close(file);
    throw error;
  }
}

function folderOf(file: number, plain: string, stats: Stats): OpenFolder {
  const { dev: device, ino: inode } = stats;
  const stablePath = BY_DESCRIPTOR ? `/proc/self/fd/${file}` : plain;

  async function at(name?: string): Promise<Buffer> {
    if (!BY_DESCRIPTOR) {
      const path = Buffer.from(plain, 'latin1');
      const now = await lstat(path, { bigint: true });
      if (now.dev !== device || now.ino !== inode || (await realpath(path, 'latin1')) !== plain) throw moved(plain);
    }
    return Buffer.from(`${stablePath}/${name ?? ''}`, 'latin1');
  }

  return {
    identity: identityOf(device, inode),
    device: String(device),
    guarded: isOwned(stats) && (stats.mode & othersMayWrite(stats)) === 0n,
    stablePath: BY_DESCRIPTOR ? stablePath : undefined,
    realpath: () => (BY_DESCRIPTOR ? readlink(stablePath, 'latin1') : realpath(Buffer.from(plain, 'latin1'), 'latin1')),
    async *names() {
      const entries = await opendir(await at(), { encoding: 'latin1', bufferSize: 64 });
      try {
        for (let entry = await entries.read(); entry !== null; entry = await entries.read()) yield entry.name;
      } finally {
        await entries.close();
      }
    },
    async stat(name) {
      try {
        const found = await lstat(await at(name), { bigint: true });
        return {
          kind: found.isFile() ? 'file' : found.isDirectory() ? 'folder' : found.isSymbolicLink() ? 'link' : 'other',
          identity: identityOf(found.dev, found.ino),
          device: String(found.dev),
          writtenMs: Number(found.mtimeMs),
          bytes: Number(found.blocks * 512n),
          links: Number(found.nlink),
          owned: isOwned(found),
        };
      } catch (error) {
        if (NOT_OPENED.includes(codeOf(error))) return undefined;
        throw error;
      }
    },
    open: async (name) => await opened(await at(name), `${plain}/${name}`),
    async readlink(name) {
      try {
        return await readlink(await at(name));
      } catch (error) {
        if (['EINVAL', ...NOT_OPENED].includes(codeOf(error))) return undefined;
        throw error;
      }
    },
    unlink: async (name) => await unlink(await at(name)).catch(unlessAbsent),
    rmdir: async (name) => await rmdir(await at(name)).catch(unlessAbsent),
    close: () => close(file),
  };
}

function unlessAbsent(error: unknown): void {
  if (codeOf(error) !== 'ENOENT') throw error;
}

type Stats = Record<'dev' | 'ino' | 'mode' | 'uid' | 'gid', bigint>;

const isOwned = ({ uid }: Pick<Stats, 'uid'>): boolean => uid === 0n || uid === BigInt(process.geteuid?.() ?? 0);

/** Bits of the mode. A list of who else may write shows as the group's. Who is not root usually has a group of his own. */
const othersMayWrite = ({ gid }: Pick<Stats, 'gid'>): bigint =>
  process.geteuid?.() !== 0 && gid === BigInt(process.getegid?.() ?? -1) ? 0o002n : 0o022n;

const identityOf = (device: bigint, inode: bigint): string => `${device}:${inode}`;

function moved(path: string): Error {
  return Object.assign(new Error(`${path} is another folder now`), { code: 'ENOENT' });
}
