/** The files of a fleet as they stand in a folder, judged by the rules by which the hub reads the tree of a commit (src/sync/git/tree.ts). */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join, posix, resolve } from 'node:path';
import * as git from 'isomorphic-git';
import { bytes, gitError } from '../sync/git/errors.ts';
import { findLayout, type Layout } from '../sync/git/layout.ts';
import type { Objects } from '../sync/git/objects.ts';
import { defaultReadLimits as LIMITS, readFiles } from '../sync/git/tree.ts';
import { cliError } from './errors.ts';
import { ignoredBy, type IsIgnored } from './git-ignore.ts';
import { readTreeFile } from './tree-files.ts';

export interface FolderFiles {
  /** Text by path. */
  files: Map<string, string>;
  /** Paths of files that Git takes for those of the index, and whose text is another than there: attributes or settings of Git changed it. */
  converted: string[];
}

export interface FleetFolder {
  /** Root of the repository. */
  root: string;
  /** Module that declares the fleet, under the root. */
  entry: string;
  /** Folders that rendering sees, as `spec.include` of the Fleet. */
  include: readonly string[];
}

/** The folder that a person named; else the repository of Git around `from`, or `from` where there is none. Errors: Usage. */
export function namedFolder(folder: string | undefined, from = process.cwd()): string {
  if (folder === undefined) return repositoryAround(from);
  const root = resolve(folder);
  if (!fs.existsSync(root) || !fs.statSync(root).isDirectory()) throw cliError('Usage', `there is no folder ${root}`);
  return root;
}

function repositoryAround(folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    if (fs.existsSync(join(at, '.git'))) return at;
    if (dirname(at) === at) return folder;
  }
}

/** Text by path in the repository, with the entry. Errors: FleetNotFound where the entry is not there; the verdicts of the hub on a tree. */
export async function readFleet({ root, entry, include }: FleetFolder, signal: AbortSignal): Promise<Map<string, string>> {
  const folders = include.map((part) => posix.normalize(part).replace(/\/$/, ''));
  const { files } = await readFolder(root, folders, signal);
  if (!files.has(posix.normalize(entry)))
    throw cliError('FleetNotFound', `there is no fleet in ${root}: it has no file "${entry}"`, {
      next: 'name the folder of the fleet repository, or its entry: --entry fleet/main.ts',
    });
  return files;
}

/** Errors: the verdicts of the hub on a tree. */
export async function readFolder(root: string, include: readonly string[], signal: AbortSignal): Promise<FolderFiles> {
  const layout = await findLayout(fs, root).catch(() => undefined);
  const staged = layout === undefined ? new Map<string, Staged>() : await stagedIn(root, layout);
  const { objects, tree } = treeOf(root, leftOutBy(staged, layout === undefined ? () => false : ignoredIn(root, layout)));
  const files = await readFiles(objects, tree, include, LIMITS, signal);
  return { files, converted: [...files].filter(([path, text]) => isConverted(root, path, text, staged.get(path))).map(([path]) => path) };
}

interface Staged {
  oid: string;
  size: number;
  mtimeSeconds: number;
}

/** What the index has, by path. */
async function stagedIn(root: string, layout: Layout): Promise<ReadonlyMap<string, Staged>> {
  const staged = new Map<string, Staged>();
  if (!fs.existsSync(join(layout.gitDir, 'index'))) return staged;
  await git.walk({
    fs,
    dir: root,
    gitdir: layout.gitDir,
    trees: [git.STAGE()],
    map: async (path, [entry]) => {
      if (entry === null || entry === undefined || (await entry.type()) !== 'blob') return undefined;
      const stat = await entry.stat();
      staged.set(path, { oid: await entry.oid(), size: stat?.size ?? -1, mtimeSeconds: stat?.mtimeSeconds ?? -1 });
      return undefined;
    },
  });
  return staged;
}

/** What an editor or npm puts beside a fleet, and what Git ignores: no commit of these files has it, unless the index does. */
function leftOutBy(staged: ReadonlyMap<string, Staged>, isIgnored: IsIgnored): IsIgnored {
  const known = new Set<string>();
  for (const path of staged.keys())
    for (let at = path; at !== '' && !known.has(at); at = at.slice(0, Math.max(0, at.lastIndexOf('/')))) known.add(at);
  return (path, isFolder) => !known.has(path) && (/(^|\/)(node_modules|\.[^/]+)$/.test(path) || isIgnored(path, isFolder));
}

function ignoredIn(root: string, { commonDir }: Layout): IsIgnored {
  // As Git, which reads no patterns through a link.
  const patterns = (folder: string, path: string): string | undefined =>
    fs.lstatSync(join(folder, path), { throwIfNoEntry: false })?.isFile() === true ? readTreeFile(folder, path) : undefined;
  const file = 'info/exclude';
  return ignoredBy((path) => patterns(root, path), { file: join(commonDir, file), text: patterns(commonDir, file) ?? '' });
}

/** The folder as objects of Git, each read when it is asked for. No link is followed. */
function treeOf(root: string, isLeftOut: IsIgnored): { objects: Objects; tree: string } {
  const paths = new Map<string, string>();
  const idOf = (path: string): string => {
    const id = createHash('sha1').update(path).digest('hex');
    paths.set(id, path);
    return id;
  };
  async function read(oid: string, type: string): Promise<Buffer> {
    const path = paths.get(oid);
    if (path === undefined) throw gitError('GitObjectMissing', `there is no ${type} ${oid}`);
    return await Promise.resolve(type === 'blob' ? readBlob(root, path) : readTree(path));
  }
  function readTree(path: string): Buffer {
    const entries: Buffer[] = [];
    for (const entry of fs.readdirSync(join(root, path), { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const at = path === '' ? entry.name : `${path}/${entry.name}`;
      if (isLeftOut(at, entry.isDirectory())) continue;
      entries.push(Buffer.from(`${modeOf(root, at, entry)} ${entry.name}\0`), Buffer.from(idOf(at), 'hex'));
    }
    return Buffer.concat(entries);
  }
  const commit = async (oid: string) => await Promise.reject(gitError('GitObjectMissing', `there is no commit ${oid}`));
  return { objects: { read, commit }, tree: idOf('') };
}

function modeOf(root: string, path: string, entry: fs.Dirent): string {
  if (entry.isSymbolicLink()) return '120000';
  if (entry.isDirectory()) return fs.existsSync(join(root, path, '.git')) ? '160000' : '40000';
  if (entry.isFile()) return '100644';
  return entry.isFIFO() ? 'pipe' : entry.isSocket() ? 'socket' : 'device';
}

function readBlob(root: string, path: string): Buffer {
  const fd = fs.openSync(join(root, path), fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    const { size } = fs.fstatSync(fd);
    if (size > LIMITS.fileBytes) throw gitError('TreeTooLarge', `${path}: has ${bytes(size)}; a file may have ${bytes(LIMITS.fileBytes)}`);
    return fs.readFileSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

function isConverted(root: string, path: string, text: string, staged: Staged | undefined): boolean {
  if (staged === undefined) return false;
  const { size, mtimeMs } = fs.lstatSync(join(root, path));
  if (staged.size !== size || staged.mtimeSeconds !== Math.floor(mtimeMs / 1000)) return false;
  const content = Buffer.from(text);
  const id = createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');
  return id !== staged.oid;
}
