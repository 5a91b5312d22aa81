/** The files of a fleet as they stand in a folder, judged by the rules by which the hub reads the tree of a commit (src/sync/git/tree.ts). */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join, posix, resolve } from 'node:path';
import { isCoded } from '../api/errors.ts';
import { bytes, gitError } from '../sync/git/errors.ts';
import { locate, type Layout } from '../sync/git/layout.ts';
import { objectId, type Objects } from '../sync/git/objects.ts';
import { defaultReadLimits as LIMITS, readFiles } from '../sync/git/tree.ts';
import { cliError } from './errors.ts';
import { ignoredBy, type IsIgnored } from './git-ignore.ts';
import { parseIndex, type IndexEntry } from './git-index.ts';
import { readTreeFile } from './tree-files.ts';

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
  const files = await readFolder(root, folders, signal);
  if (!files.has(posix.normalize(entry)))
    throw cliError('FleetNotFound', `there is no fleet in ${root}: it has no file "${entry}"`, {
      next: 'name the folder of the fleet repository, or its entry: --entry fleet/main.ts',
    });
  return files;
}

/** Errors: TextConverted, IndexUnreadable, PatternsTooCostly; the verdicts of the hub on a tree. */
export async function readFolder(root: string, include: readonly string[], signal: AbortSignal): Promise<Map<string, string>> {
  const layout = await locate(fs, root).catch((error: unknown) => {
    if (isCoded(error) && error.code === 'GitNotARepository') return undefined;
    throw error;
  });
  const staged = layout === undefined ? new Map<string, IndexEntry>() : stagedIn(layout);
  const isLeftOut = leftOutBy(staged, layout === undefined ? () => false : ignoredIn(root, layout));
  const { objects, tree } = treeOf(root, isLeftOut, (path) => staged.get(path)?.mode === '160000');
  const files = await readFiles(objects, tree, include, LIMITS, signal);
  refuseConverted([...files].filter(([path, text]) => isConverted(root, path, text, staged.get(path))).map(([path]) => path));
  return files;
}

const MOST_NAMES = 3;

/** What is judged here would not be what the hub reads of the commit. */
function refuseConverted(paths: readonly string[]): void {
  if (paths.length === 0) return;
  const more = paths.length > MOST_NAMES ? ` and ${paths.length - MOST_NAMES} more` : '';
  throw cliError(
    'TextConverted',
    `${paths.slice(0, MOST_NAMES).join(', ')}${more}: Git wrote another text here than the commit has, which the hub reads (.gitattributes such as ident, eol or filter, or settings such as core.autocrlf)`,
    {
      next: 'take out what converts them (git check-attr --all FILE shows the attributes), delete these files, and git checkout -- FILE; or plan the commit itself: kubenode plan HEAD',
    },
  );
}

/** What the index has, by path. */
function stagedIn({ gitDir }: Layout): Map<string, IndexEntry> {
  const file = join(gitDir, 'index');
  return fs.existsSync(file) ? parseIndex(fs.readFileSync(file), file) : new Map<string, IndexEntry>();
}

/** What an editor or npm puts beside a fleet, and what Git ignores: no commit of these files has it, unless the index does. */
function leftOutBy(staged: ReadonlyMap<string, IndexEntry>, isIgnored: IsIgnored): IsIgnored {
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
function treeOf(root: string, isLeftOut: IsIgnored, isSubmodule: (path: string) => boolean): { objects: Objects; tree: string } {
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
    const found = fs.readdirSync(join(root, path), { withFileTypes: true, encoding: 'buffer' });
    for (const entry of found.toSorted((a, b) => Buffer.compare(a.name, b.name))) {
      // Of a name that is not UTF-8 only the bytes are true: it is refused before anything is read.
      const at = path === '' ? entry.name.toString() : `${path}/${entry.name.toString()}`;
      if (isLeftOut(at, entry.isDirectory())) continue;
      const mode = entry.isDirectory() && isSubmodule(at) ? '160000' : modeOf(root, at, entry);
      entries.push(Buffer.concat([Buffer.from(`${mode} `), entry.name, Buffer.from([0]), Buffer.from(idOf(at), 'hex')]));
    }
    return Buffer.concat(entries);
  }
  const commit = async (oid: string) => await Promise.reject(gitError('GitObjectMissing', `there is no commit ${oid}`));
  return { objects: { read, commit }, tree: idOf('') };
}

function modeOf(root: string, path: string, entry: fs.Dirent<Buffer>): string {
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

/** Whether Git takes the file for the one of the index, and its text is another than there. */
function isConverted(root: string, path: string, text: string, staged: IndexEntry | undefined): boolean {
  if (staged === undefined) return false;
  const { size, mtimeNs } = fs.lstatSync(join(root, path), { bigint: true });
  return staged.size === Number(size) && isSameTime(staged.mtimeNs, mtimeNs) && objectId('blob', Buffer.from(text)) !== staged.oid;
}

/** Some programs write the index with less than nanoseconds. */
function isSameTime(staged: bigint, now: bigint): boolean {
  const difference = staged % SECOND === 0n ? staged - (now - (now % SECOND)) : staged - now;
  return -MILLISECOND < difference && difference < MILLISECOND;
}

const SECOND = 1_000_000_000n;
const MILLISECOND = 1_000_000n;
