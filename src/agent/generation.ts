import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import type { Durable } from './durable.ts';
import { agentError } from './errors.ts';
import { componentLayout } from './layout.ts';
import type { Layout } from './layout.ts';
import type { Manifest } from './manifest.ts';
import type { Files } from './ports/files.ts';
import type { Store } from './store.ts';
import { readTarGz } from './tar.ts';

/*
 * A generation's folder: its artifacts under their names, and `.kubenode/` with the manifest and the list of what was unpacked. It is
 * built under another name and gets its own when it is whole, so that a folder with a digest for a name is a whole one.
 */

interface TreeEntry {
  /** Relative to the generation's folder. */
  path: string;
  mode: number;
  sha256: string;
}

const META = '.kubenode';
const manifestPath = (folder: string): string => join(folder, META, 'manifest.json');
const treePath = (folder: string): string => join(folder, META, 'tree.json');

/** undefined: not here, or not whole. */
export async function loadManifest(durable: Durable, layout: Layout, name: string, digest: string): Promise<Manifest | undefined> {
  const bytes = await durable.files.read(manifestPath(componentLayout(layout, name).generation(digest)));
  if (bytes === undefined) return undefined;
  try {
    const manifest = JSON.parse(bytes.toString()) as Manifest;
    return manifest.digest === digest ? manifest : undefined;
  } catch {
    return undefined;
  }
}

/** Builds the generation unless it is here; its artifacts must be in the store. Errors: `ArchiveInvalid`, `TooLarge`. */
export async function buildGeneration(durable: Durable, layout: Layout, store: Store, manifest: Manifest): Promise<void> {
  const { files } = durable;
  const paths = componentLayout(layout, manifest.name);
  const folder = paths.generation(manifest.digest);
  const here = (await loadManifest(durable, layout, manifest.name, manifest.digest)) !== undefined;
  if (here && (await damagedPaths(durable, folder)).length === 0) return;
  await durable.folder(paths.folder);
  const draft = paths.draft(manifest.digest);
  await durable.discard(draft);
  await files.mkdir(draft);
  await files.mkdir(join(draft, META));
  const tree = await unpackAll(durable, store, manifest, draft);
  await files.write(treePath(draft), Buffer.from(JSON.stringify(tree)), { mode: 0o600, sync: true });
  // May hold what a template took from values: for the agent's eyes only.
  await files.write(manifestPath(draft), Buffer.from(JSON.stringify(manifest)), { mode: 0o600, sync: true });
  await files.sync(join(draft, META));
  await files.sync(draft);
  if ((await files.stat(folder)) === undefined) await files.rename(draft, folder);
  else await repairFrom(durable, draft, folder, tree);
  await files.sync(paths.folder);
}

/** A damaged generation may be the one that runs: it is put right file by file, each by a rename. */
async function repairFrom(durable: Durable, draft: string, folder: string, tree: TreeEntry[]): Promise<void> {
  const { files } = durable;
  const damaged = new Set(await damagedPaths(durable, folder, tree));
  const meta = [join(META, 'tree.json'), join(META, 'manifest.json')];
  for (const path of [...tree.map((entry) => entry.path).filter((each) => damaged.has(each)), ...meta]) {
    const target = join(folder, path);
    // Not synced: what is lost of a repair is found and repaired again.
    await makeFolders(files, dirname(target));
    await files.rename(join(draft, path), target);
  }
  await durable.discard(draft);
}

async function makeFolders(files: Files, path: string): Promise<void> {
  if ((await files.stat(path)) !== undefined) return;
  await makeFolders(files, dirname(path));
  await files.mkdir(path);
}

async function unpackAll(durable: Durable, store: Store, manifest: Manifest, draft: string): Promise<TreeEntry[]> {
  const { files } = durable;
  const tree: TreeEntry[] = [];
  const folders = new Set<string>();
  const seen = new Set<string>();

  async function makeFolder(path: string): Promise<void> {
    if (path === draft || folders.has(path)) return;
    await makeFolder(dirname(path));
    await files.mkdir(path);
    folders.add(path);
  }
  async function makeFile(path: string, mode: number, content: AsyncIterable<Uint8Array>): Promise<void> {
    const target = join(draft, path);
    await makeFolder(dirname(target));
    if (folders.has(target) || seen.has(path)) throw agentError('ArchiveInvalid', `it holds "${path}" twice`);
    seen.add(path);
    const hash = createHash('sha256');
    async function* hashed(): AsyncGenerator<Uint8Array, void> {
      for await (const chunk of content) {
        hash.update(chunk);
        yield chunk;
      }
    }
    await files.write(target, hashed(), { mode, sync: true });
    tree.push({ path, mode, sha256: hash.digest('hex') });
  }

  for (const artifact of manifest.artifacts) {
    if (artifact.unpack === 'None') {
      await makeFile(artifact.name, artifact.mode, store.open(artifact.sha256));
      continue;
    }
    await makeFolder(join(draft, artifact.name));
    for await (const entry of readTarGz(store.open(artifact.sha256))) {
      const path = join(artifact.name, entry.path);
      if (entry.kind === 'folder') await makeFolder(join(draft, path));
      else await makeFile(path, entry.executable ? 0o755 : 0o644, entry.content);
    }
  }
  for (const folder of folders) await files.sync(folder);
  return tree;
}

/** What of the generation's files is missing or differs. What else is there is not the agent's business. */
export async function damagedPaths({ files }: Durable, folder: string, known?: TreeEntry[]): Promise<string[]> {
  const bytes = known === undefined ? await files.read(treePath(folder)) : undefined;
  let tree = known;
  try {
    tree ??= JSON.parse(bytes?.toString() ?? '') as TreeEntry[];
  } catch {
    return [join(META, 'tree.json')];
  }
  const damaged: string[] = [];
  for (const entry of tree) {
    // What cannot be read is as good as gone.
    if (!(await isWhole(files, join(folder, entry.path), entry).catch(() => false))) damaged.push(entry.path);
  }
  return damaged;
}

async function isWhole(files: Files, path: string, { mode, sha256 }: TreeEntry): Promise<boolean> {
  const found = await files.stat(path);
  if (found?.kind !== 'file' || found.mode !== mode) return false;
  const hash = createHash('sha256');
  for await (const chunk of files.chunks(path)) hash.update(chunk);
  return hash.digest('hex') === sha256;
}
