import { createHash } from 'node:crypto';
import { inflateSync } from 'node:zlib';
import * as git from 'isomorphic-git';
import { messageOf } from '../../api/errors.ts';
import { parseCommit, short, type Commit } from './commit.ts';
import { gitError } from './errors.ts';
import type { GitFs } from './source.ts';

export type ObjectType = 'commit' | 'tree' | 'blob';

/** Objects of one repository, each compared with its id before anyone sees it. */
export interface Objects {
  /** Errors: GitObjectMissing, GitObjectCorrupt. */
  read(oid: string, type: ObjectType): Promise<Buffer>;
  commit(oid: string): Promise<Commit>;
}

/** A loose object larger than this is not inflated. Packs fetched by us were measured before they were stored. */
const LOOSE_LIMIT = 64 * 1024 * 1024;

/**
 * Reads objects of the repository whose common Git folder is `gitdir`.
 *
 * Costs: isomorphic-git reads each pack it needs whole into memory, hashes it once, and keeps it as long as this value lives. So make one
 * for an operation and let it go; that also makes it see a repository that was repacked meanwhile.
 */
export function openObjects(fs: GitFs, gitdir: string): Objects {
  const cache = {};

  async function stored(oid: string): Promise<{ type: string; content: Buffer }> {
    const found = await git.readObject({ fs, gitdir, cache, oid, format: 'deflated' });
    if (!(found.object instanceof Uint8Array)) throw new Error(`unexpected form of object ${oid}`);
    const object = Buffer.from(found.object.buffer, found.object.byteOffset, found.object.byteLength);
    if (found.format === 'content') return { type: found.type ?? '', content: object };
    const whole = found.format === 'deflated' ? inflateSync(object, { maxOutputLength: LOOSE_LIMIT }) : object;
    const nul = whole.indexOf(0);
    const [type, size] = whole.toString('latin1', 0, nul).split(' ');
    const content = whole.subarray(nul + 1);
    if (type === undefined || size !== String(content.length)) throw new Error('its header is not true');
    return { type, content };
  }

  async function read(oid: string, type: ObjectType): Promise<Buffer> {
    let found;
    try {
      found = await stored(oid);
    } catch (cause) {
      if (cause instanceof git.Errors.NotFoundError) {
        throw gitError('GitObjectMissing', `the repository lacks ${type} ${oid}`, { cause });
      }
      throw gitError('GitObjectCorrupt', `${type} ${oid} cannot be read: ${messageOf(cause)}`, { cause });
    }
    if (found.type !== type) throw gitError('GitObjectCorrupt', `object ${short(oid)} is a ${found.type}, not a ${type}`);
    if (objectId(type, found.content) !== oid) throw gitError('GitObjectCorrupt', `the content of ${type} ${oid} does not have that id`);
    return found.content;
  }

  return { read, commit: async (oid) => parseCommit(oid, await read(oid, 'commit')) };
}

export function objectId(type: ObjectType, content: Uint8Array): string {
  return createHash('sha1').update(`${type} ${content.byteLength}\0`).update(content).digest('hex');
}

/** Commits whose parents this repository does not have, by its `shallow` file. */
export async function readShallow(fs: GitFs, gitdir: string): Promise<Set<string>> {
  const text = await readText(fs, `${gitdir}/shallow`);
  return new Set((text ?? '').split('\n').filter((line) => line !== ''));
}

/** Undefined when there is no such file. */
export async function readText(fs: GitFs, path: string): Promise<string | undefined> {
  try {
    return await fs.promises.readFile(path, 'utf8');
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

/** Runs `fn`; what the file system refuses becomes GitDisk. */
export async function onDisk<T>(fn: () => Promise<T>): Promise<T> {
  try {
    return await fn();
  } catch (cause) {
    if (cause instanceof Error && 'syscall' in cause) throw gitError('GitDisk', cause.message, { cause });
    throw cause;
  }
}

export function isAbsent(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ENOTDIR');
}
