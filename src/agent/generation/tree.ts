import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { sha256Hex } from '../../api/digest.ts';
import type { Manifest } from './manifest.ts';
import type { Files } from '../ports/files.ts';
import { ARCHIVE_LIMITS } from './tar.ts';

/*
 * What belongs into a generation's folder, and what of it is missing or differs. `.kubenode/manifest.json` contains its own sha256 and the sha256 of
 * `.kubenode/tree.json`, which lists every file and folder that was unpacked: the agent trusts neither only because it is there.
 */

export type TreeEntry =
  /** Paths are relative to the generation's folder. A folder stands before what is in it. */
  { kind: 'folder'; path: string; mode: number } | { kind: 'file'; path: string; mode: number; sha256: string };

export const META = '.kubenode';
export const MANIFEST = join(META, 'manifest.json');
export const TREE = join(META, 'tree.json');
export const META_MODE = 0o600;
export const FOLDER_MODE = 0o755;

export interface Sealed {
  manifest: Manifest;
  treeSha256: string;
}

/** Both files of a generation as they are written. */
export function seal(manifest: Manifest, tree: readonly TreeEntry[]): { manifest: string; tree: string } {
  const treeText = JSON.stringify(tree);
  const text = JSON.stringify({ manifest, treeSha256: sha256Hex(treeText) } satisfies Sealed);
  return { manifest: `${sha256Hex(text)}\n${text}\n`, tree: treeText };
}

/** undefined: not here, damaged, or of another generation. */
export async function readSealed(files: Files, folder: string, digest: string): Promise<Sealed | undefined> {
  const bytes = await files.read(join(folder, MANIFEST));
  const [sum, text = ''] = bytes?.toString().split('\n') ?? [];
  if (sum !== sha256Hex(text)) return undefined;
  const sealed = JSON.parse(text) as Sealed;
  return sealed.manifest.digest === digest ? sealed : undefined;
}

/** undefined: not here, or damaged. */
export async function readTree(files: Files, folder: string, digest: string): Promise<TreeEntry[] | undefined> {
  const sealed = await readSealed(files, folder, digest);
  const bytes = sealed === undefined ? undefined : await files.read(join(folder, TREE));
  return bytes === undefined || sha256Hex(bytes.toString()) !== sealed?.treeSha256
    ? undefined
    : (JSON.parse(bytes.toString()) as TreeEntry[]);
}

/** Whether one of these paths is this one, or a folder above it. The empty path is the generation's folder. */
export function isTouched(touched: ReadonlySet<string>, path: string): boolean {
  if (touched.has('') || touched.has(path)) return true;
  for (let above = dirname(path); above !== '.'; above = dirname(above)) if (touched.has(above)) return true;
  return false;
}

/**
 * What of a generation is missing or differs; what else is in its folder is not the agent's. No link is followed. `touched`: only files of
 * these paths are hashed; types and modes of folders are compared in any case.
 */
export async function damagedPaths(files: Files, folder: string, digest: string, touched?: ReadonlySet<string>): Promise<string[]> {
  if ((await files.stat(folder))?.kind !== 'folder') return [''];
  const damaged: string[] = [];
  const has = async (path: string, kind: 'file' | 'folder', mode: number): Promise<boolean> => {
    const found = await files.stat(join(folder, path));
    return found?.kind === kind && found.mode === mode;
  };
  if (!(await has(META, 'folder', FOLDER_MODE))) damaged.push(META);
  if (!(await has(MANIFEST, 'file', META_MODE)) || (await readSealed(files, folder, digest)) === undefined) damaged.push(MANIFEST);
  const tree = await readTree(files, folder, digest).catch(() => undefined);
  if (tree === undefined || !(await has(TREE, 'file', META_MODE))) damaged.push(TREE);
  return [...damaged, ...(await damagedEntries(files, folder, tree ?? [], touched))];
}

/** The same of its entries alone. */
export async function damagedEntries(
  files: Files,
  folder: string,
  tree: readonly TreeEntry[],
  touched?: ReadonlySet<string>,
): Promise<string[]> {
  const damaged: string[] = [];
  const lost = new Set<string>();
  for (const entry of tree) {
    const path = join(folder, entry.path);
    // The agent checks nothing below what is no folder of ours: it may be a link that leads anywhere.
    if (lost.has(dirname(entry.path))) {
      damaged.push(entry.path);
      if (entry.kind === 'folder') lost.add(entry.path);
    } else if (entry.kind === 'folder') {
      // A file that cannot be read counts as missing.
      const found = await files.stat(path).catch(() => undefined);
      if (found?.kind !== 'folder') lost.add(entry.path);
      if (found?.kind !== 'folder' || found.mode !== entry.mode) damaged.push(entry.path);
    } else if (touched === undefined || isTouched(touched, entry.path)) {
      if (!(await isWhole(files, path, entry).catch(() => false))) damaged.push(entry.path);
    }
  }
  return damaged;
}

async function isWhole(files: Files, path: string, { mode, sha256 }: TreeEntry & { kind: 'file' }): Promise<boolean> {
  const found = await files.stat(path);
  // Nothing so large comes out of an archive, nor is it fetched: it would only be hashed for hours.
  if (found?.kind !== 'file' || found.mode !== mode || found.size > ARCHIVE_LIMITS.bytes) return false;
  const hash = createHash('sha256');
  for await (const chunk of files.chunks(path)) hash.update(chunk);
  return hash.digest('hex') === sha256;
}
