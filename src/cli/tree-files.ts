/**
 * Reads files of a working tree as the hub reads a commit: plain files and folders only. A link in the tree would show any file that it points to,
 * such as the environment of the process that reads it, to the author of the tree.
 *
 * Guarantee: no part of a path below the root is followed through a symbolic link, and nothing but regular files is opened.
 * Nothing is read beyond the bounds that the hub has for a commit.
 * Errors: TreeSymlink, TreeMode, TreeName, TreeTooLarge, TreeTooDeep, TreeTooManyEntries, each with the path.
 */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  type Stats,
} from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { defaultReadLimits as LIMITS } from '../sync/git/tree.ts';
import type { CodedError } from '../api/errors.ts';
import { cliError } from './errors.ts';

/** What is at `path` below `root`; undefined where there is nothing. */
export function treeEntry(root: string, path: string): Stats | undefined {
  let stats: Stats | undefined;
  let at = '';
  for (const step of path.split('/')) {
    if (step === '..') throw cliError('TreeName', `${path}: leads out of the tree`);
    at = at === '' ? step : `${at}/${step}`;
    if (stats !== undefined && !stats.isDirectory()) return undefined;
    stats = lstatSync(join(root, at), { throwIfNoEntry: false });
    if (stats === undefined) return undefined;
    if (stats.isSymbolicLink()) throw linkRefused(at);
  }
  return stats;
}

/** Text of one file. */
export function readTreeFile(root: string, path: string): string {
  treeEntry(root, path);
  let fd: number;
  try {
    // Not blocking: a pipe in the tree would be waited for.
    fd = openSync(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ELOOP') throw linkRefused(path);
    throw error;
  }
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw modeRefused(path);
    refuseSize(path, stats.size, LIMITS.fileBytes);
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** Whether `path` is one of these folders, or in one. */
export const includesPath = (folders: readonly string[], path: string): boolean =>
  folders
    .map((folder) => posix.normalize(folder).replace(/\/$/, ''))
    .some((folder) => folder === '.' || path === folder || path.startsWith(`${folder}/`));

/** Writes one file, whole or not at all: beside it first, so that no link is written through. */
export function replaceTreeFile(root: string, path: string, text: string): void {
  const known = treeEntry(root, path);
  if (known !== undefined && !known.isFile()) throw modeRefused(path);
  const file = join(root, path);
  const beside = mkdtempSync(join(dirname(file), '.kubenode-'));
  try {
    writeFileSync(join(beside, 'file'), text, { flag: 'wx', mode: known === undefined ? 0o644 : known.mode & 0o777 });
    renameSync(join(beside, 'file'), file);
  } finally {
    rmSync(beside, { recursive: true, force: true });
  }
}

/** Paths of all files at and below `path`, sorted. */
export function listTree(root: string, path: string): string[] {
  let [entries, bytes] = [0, 0];
  return walk(path, 0);

  function walk(at: string, depth: number): string[] {
    const stats = treeEntry(root, at);
    if (stats === undefined) return [];
    entries += 1;
    if (entries > LIMITS.entries) throw cliError('TreeTooManyEntries', `${at}: there are more than ${LIMITS.entries} files and folders`);
    if (depth > LIMITS.depth) throw cliError('TreeTooDeep', `${at}: lies deeper than ${LIMITS.depth} folders`);
    if (stats.isFile()) {
      refuseSize(at, stats.size, LIMITS.fileBytes);
      bytes += stats.size;
      refuseSize(at, bytes, LIMITS.totalBytes);
      return [at];
    }
    if (!stats.isDirectory()) throw modeRefused(at);
    const names = readdirSync(join(root, at)).sort();
    return names.flatMap((name) => walk(posix.join(at, name), depth + 1));
  }
}

function refuseSize(path: string, bytes: number, limit: number): void {
  if (bytes > limit) throw cliError('TreeTooLarge', `${path}: with it more than ${limit} bytes would be read, as the hub would not`);
}

function linkRefused(path: string): CodedError {
  return cliError('TreeSymlink', `${path}: is a symbolic link; only files and folders are read, as the hub does`, {
    next: 'replace the link by the file itself, or import it from its own path',
  });
}

function modeRefused(path: string): CodedError {
  return cliError('TreeMode', `${path}: is neither a file nor a folder`);
}
