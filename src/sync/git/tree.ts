import { bytes, gitError, printable } from './errors.ts';
import type { Objects } from './objects.ts';
import type { ReadLimits } from './source.ts';

export const defaultReadLimits: ReadLimits = { entries: 20_000, depth: 20, fileBytes: 4 * 1024 * 1024, totalBytes: 64 * 1024 * 1024 };

interface Entry {
  mode: string;
  /** As in the object; `undefined` when it is not UTF-8. */
  name: string | undefined;
  rawName: Buffer;
  oid: string;
}

/**
 * The text of the files at and under `paths` of a tree, by path, sorted.
 *
 * Everything below a wanted path is judged, and one bad entry refuses the whole, so that no part of a commit is ever taken for all of it.
 * What lies beside the paths is not read, save that nothing may share a name with a step of them.
 *
 * Entries, depth and bytes are counted while walking: 41 objects can name 2^40 paths.
 * Errors: codes `Tree…`, each naming the path; GitObject… for what cannot be read; GitSpec for paths that are none.
 */
export async function readFiles(
  objects: Objects,
  rootTree: string,
  paths: readonly string[],
  limits: ReadLimits,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  let entries = 0;
  let total = 0;

  async function entriesOf(oid: string, path: string): Promise<Entry[]> {
    signal.throwIfAborted();
    return parseTree(await objects.read(oid, 'tree'), path);
  }

  async function take(entry: Entry, path: string, depth: number): Promise<void> {
    entries += 1;
    if (entries > limits.entries)
      throw gitError('TreeTooManyEntries', `${path}: the commit has more than ${limits.entries} files and folders in what is read`);
    if (depth > limits.depth) throw gitError('TreeTooDeep', `${path}: lies deeper than ${limits.depth} folders`);
    if (entry.mode === '40000') return await walk(entry.oid, path, depth + 1);
    refuseMode(entry.mode, path);
    const blob = await objects.read(entry.oid, 'blob');
    if (blob.length > limits.fileBytes) {
      throw gitError('TreeTooLarge', `${path}: has ${bytes(blob.length)}; a file may have ${bytes(limits.fileBytes)}`);
    }
    total += blob.length;
    if (total > limits.totalBytes) {
      throw gitError('TreeTooLarge', `${path}: with it the files that are read exceed ${bytes(limits.totalBytes)}`);
    }
    files.set(path, textOf(blob, path));
  }

  async function walk(oid: string, path: string, depth: number): Promise<void> {
    const seen = new Map<string, string>();
    for (const entry of await entriesOf(oid, path)) {
      signal.throwIfAborted();
      const name = allowedName(entry, path);
      const twin = seen.get(folded(name));
      if (twin !== undefined) {
        throw gitError(
          'TreeDuplicateName',
          `${path}/${printable(name)}: the folder also has ${JSON.stringify(twin)}; names must differ by more than case`,
        );
      }
      seen.set(folded(name), name);
      await take(entry, `${path}/${name}`, depth);
    }
  }

  /** Goes down to a wanted path through folders that are not themselves wanted. */
  async function descend(treeOid: string, steps: readonly string[], above: string): Promise<void> {
    const [step = '', ...rest] = steps;
    const path = above === '' ? step : `${above}/${step}`;
    const like = (await entriesOf(treeOid, above)).filter((entry) => folded(entry.name ?? '') === folded(step));
    const [entry] = like.filter((entry) => entry.name === step);
    if (entry === undefined) return;
    if (like.length > 1) {
      throw gitError('TreeDuplicateName', `${path}: the commit has this name more than once, in the same or another case`);
    }
    if (rest.length === 0) return await take(entry, path, steps.length - 1);
    if (entry.mode === '40000') return await descend(entry.oid, rest, path);
    refuseMode(entry.mode, path);
  }

  for (const path of topmost(paths)) await descend(rootTree, path.split('/'), '');
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Checks paths, and leaves out those that lie inside another. */
function topmost(paths: readonly string[]): string[] {
  for (const path of paths) {
    if (path.split('/').some((step) => step === '' || isReserved(step))) {
      throw gitError('GitSpec', `${JSON.stringify(path)} is no path inside a commit: give folders or files from its root, such as "fleet"`);
    }
  }
  const all = [...new Set(paths)];
  return all.filter((path) => !all.some((other) => path.startsWith(`${other}/`)));
}

/** `mode SP name NUL 20 bytes`, repeated. isomorphic-git's reader decodes names leniently, so two different ones could become equal. */
function parseTree(raw: Buffer, path: string): Entry[] {
  const entries: Entry[] = [];
  for (let at = 0; at < raw.length;) {
    const space = raw.indexOf(32, at);
    const nul = space < 0 ? -1 : raw.indexOf(0, space);
    if (nul < 0 || nul + 21 > raw.length)
      throw gitError('GitObjectCorrupt', `${path === '' ? 'the root' : path}: the tree object ends inside an entry`);
    const rawName = raw.subarray(space + 1, nul);
    entries.push({
      mode: raw.toString('latin1', at, space),
      name: decode(rawName),
      rawName,
      oid: raw.toString('hex', nul + 1, nul + 21),
    });
    at = nul + 21;
  }
  return entries;
}

function refuseMode(mode: string, path: string): void {
  if (mode === '120000') {
    throw gitError('TreeSymlink', `${path}: is a symbolic link; only files and folders are read from a commit`, {
      next: 'replace the link by the file itself, or import it from where it lies',
    });
  }
  if (mode === '160000') {
    throw gitError('TreeSubmodule', `${path}: is a submodule; only files and folders are read from a commit`, {
      next: 'move the files into this repository, for example by `git subtree add`',
    });
  }
  // 100664 was written by early versions of git.
  if (!['100644', '100755', '100664'].includes(mode))
    throw gitError('TreeMode', `${path}: has the mode ${printable(mode, 10)}, which is neither file nor folder`);
}

const RENAME = 'give it another name, in which every character is UTF-8 and can be seen';

function allowedName(entry: Entry, path: string): string {
  if (entry.name === undefined) {
    throw gitError('TreeName', `${path}/${printable(entry.rawName.toString('latin1'))}: the name is not UTF-8`, { next: RENAME });
  }
  if (isReserved(entry.name))
    throw gitError('TreeName', `${path}/${printable(entry.name)}: ${JSON.stringify(entry.name)} is not allowed as a name`, {
      next: RENAME,
    });
  return entry.name;
}

/**
 * Names that are no file of anyone: empty, `.`, `..`, with separators or control characters, and `.git` in the disguises that file systems
 * allow (case, trailing dots and blanks, NTFS streams and short names, characters that HFS+ ignores).
 */
function isReserved(name: string): boolean {
  if (name === '' || name === '.' || name === '..' || /[/\\\p{Cc}]/u.test(name)) return true;
  const bare = name.replace(/[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g, '');
  const plain = (bare.split(':', 1)[0] ?? '').toLowerCase().replace(/[. ]+$/, '');
  return plain === '' || plain === '.git' || /^\.?git~[1-9]$/.test(plain);
}

/** Equal for names that some file system takes for the same: case, and composed or decomposed accents. */
function folded(name: string): string {
  return name.normalize('NFC').toLowerCase();
}

function textOf(blob: Buffer, path: string): string {
  const text = decode(blob);
  if (text === undefined || text.includes('\0')) {
    throw gitError('TreeNotText', `${path}: is not UTF-8 text; what is read from a commit must be text`, {
      next: 'keep binary files in a folder that is not read',
    });
  }
  if (text.startsWith('version https://git-lfs')) {
    throw gitError('TreeLfsPointer', `${path}: is a pointer of Git LFS, not the file; LFS is not fetched`, {
      next: 'take the file out of LFS (git lfs untrack) and commit it as it is',
    });
  }
  return text;
}

/** Undefined when the bytes are not UTF-8. Keeps a byte order mark: the text is what was committed. */
function decode(raw: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw);
  } catch {
    return undefined;
  }
}
