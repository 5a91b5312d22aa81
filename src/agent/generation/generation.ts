import { createHash } from 'node:crypto';
import { basename, dirname, join } from 'node:path';
import { discardIn } from '../disk/discard.ts';
import type { Durable } from '../disk/durable.ts';
import { agentError } from '../errors.ts';
import { componentLayout } from '../disk/layout.ts';
import type { DiskLayout } from '../disk/layout.ts';
import type { Manifest } from './manifest.ts';
import { bytesOf } from '../ports/folders.ts';
import type { OpenFolder } from '../ports/folders.ts';
import type { ArtifactStore } from './store.ts';
import { readTarGz } from './tar.ts';
import { FOLDER_MODE, MANIFEST, META, META_MODE, TREE, damagedEntries, damagedPaths, readSealed, seal } from './tree.ts';
import type { TreeEntry } from './tree.ts';

/*
 * A generation's folder: its artifacts under their names, and `.kubenode/` with the manifest and the list of what was unpacked. It is
 * built under another name and gets its own when it is whole, so that a folder with a digest for a name is a whole one.
 */

/** undefined: not here, or not whole. */
export async function loadManifest({ files }: Durable, layout: DiskLayout, name: string, digest: string): Promise<Manifest | undefined> {
  return (await readSealed(files, componentLayout(layout, name).generation(digest), digest))?.manifest;
}

/** Builds the generation unless it is here and whole; its artifacts must be in the store. Errors: `ArchiveInvalid`, `TooLarge`, `DigestMismatch`. */
export async function buildGeneration(durable: Durable, layout: DiskLayout, store: ArtifactStore, manifest: Manifest): Promise<void> {
  const { files } = durable;
  const paths = componentLayout(layout, manifest.name);
  const folder = paths.generation(manifest.digest);
  if ((await damagedPaths(files, folder, manifest.digest)).length === 0) return;
  await durable.folder(paths.folder);
  const draft = paths.draft(manifest.digest);
  await durable.discard(draft);
  await files.mkdir(draft);
  await files.mkdir(join(draft, META));
  const tree = await unpackAll(durable, store, manifest, draft);
  const sealed = seal(manifest, tree);
  await files.write(join(draft, TREE), Buffer.from(sealed.tree), { mode: META_MODE, sync: true });
  // May contain what a template took from values: only the agent may read it.
  await files.write(join(draft, MANIFEST), Buffer.from(sealed.manifest), { mode: META_MODE, sync: true });
  await files.sync(join(draft, META));
  await files.sync(draft);
  const found = await files.stat(folder);
  if (found?.kind === 'folder') await repairFrom(durable, draft, folder, tree);
  else {
    if (found !== undefined) await files.unlink(folder);
    await files.rename(draft, folder);
  }
  await files.sync(paths.folder);
}

/** A damaged generation may be the one that runs: it is put right piece by piece, each file by a rename. */
async function repairFrom(durable: Durable, draft: string, folder: string, tree: TreeEntry[]): Promise<void> {
  const { files } = durable;
  const damaged = new Set(await damagedEntries(files, folder, tree));
  // Not synced: what is lost of a repair is found and repaired again.
  for (const entry of tree) if (damaged.has(entry.path)) await repairEntry(durable, draft, folder, entry);
  await repairEntry(durable, draft, folder, { kind: 'folder', path: META, mode: FOLDER_MODE });
  for (const path of [TREE, MANIFEST]) await repairEntry(durable, draft, folder, { kind: 'file', path });
  await durable.discard(draft);
}

type Piece = { kind: 'folder'; path: string; mode: number } | { kind: 'file'; path: string };

/**
 * The folder above is repaired before. What is there instead of the piece goes. The component may have given the folder to another user: it is
 * kept open, and no link is followed on the way to it, even if one is put there meanwhile.
 */
async function repairEntry(durable: Durable, draft: string, folder: string, piece: Piece): Promise<void> {
  const { files } = durable;
  const above = await openBelow(durable, folder, dirname(piece.path));
  try {
    const name = basename(piece.path);
    const target = join(above.stablePath ?? join(folder, dirname(piece.path)), name);
    const found = await files.stat(target);
    if (piece.kind === 'file') {
      if (found?.kind === 'folder') await discardIn(above, bytesOf(name));
      return await files.rename(join(draft, piece.path), target);
    }
    if (found?.kind !== 'folder') {
      await files.unlink(target);
      await files.mkdir(target);
    }
    if ((await files.stat(target))?.mode !== piece.mode) await files.chmodFolder(target, piece.mode);
  } finally {
    await above.close();
  }
}

async function openBelow({ files }: Durable, folder: string, path: string): Promise<OpenFolder> {
  let at = await files.open(folder);
  let plain = folder;
  for (const name of path.split('/')) {
    if (at === undefined || name === '.') continue;
    const inner: OpenFolder | undefined = await at.open(bytesOf(name));
    plain = join(plain, name);
    await at.close();
    at = inner;
    if (inner?.stablePath !== undefined || inner?.guarded !== false) continue;
    await inner.close();
    throw agentError('FileFailed', `${plain} is not repaired: others may write to it, and this system cannot keep a folder open by itself`);
  }
  if (at === undefined) throw agentError('FileFailed', `${plain} is no folder: it was replaced meanwhile`);
  return at;
}

async function unpackAll(durable: Durable, store: ArtifactStore, manifest: Manifest, draft: string): Promise<TreeEntry[]> {
  const { files } = durable;
  const tree: TreeEntry[] = [];
  const folders = new Set<string>();
  const seen = new Set<string>();

  async function makeFolder(path: string): Promise<void> {
    if (path === '.' || folders.has(path)) return;
    await makeFolder(dirname(path));
    if (seen.has(path)) throw agentError('ArchiveInvalid', `it contains "${path}" as a file and as a folder`);
    await files.mkdir(join(draft, path));
    folders.add(path);
    tree.push({ kind: 'folder', path, mode: FOLDER_MODE });
  }
  async function makeFile(path: string, mode: number, content: AsyncIterable<Uint8Array>): Promise<void> {
    await makeFolder(dirname(path));
    if (folders.has(path) || seen.has(path)) throw agentError('ArchiveInvalid', `it contains "${path}" twice`);
    seen.add(path);
    const hash = createHash('sha256');
    async function* hashed(): AsyncGenerator<Uint8Array, void> {
      for await (const chunk of content) {
        hash.update(chunk);
        yield chunk;
      }
    }
    await files.write(join(draft, path), hashed(), { mode, sync: true });
    tree.push({ kind: 'file', path, mode, sha256: hash.digest('hex') });
  }

  for (const artifact of manifest.artifacts) {
    await store.use(artifact.sha256, async (bytes) => {
      if (artifact.unpack === 'None') return await makeFile(artifact.name, artifact.mode, bytes);
      await makeFolder(artifact.name);
      for await (const entry of readTarGz(bytes)) {
        const path = join(artifact.name, entry.path);
        if (entry.kind === 'folder') await makeFolder(path);
        else await makeFile(path, entry.executable ? 0o755 : 0o644, entry.content);
      }
    });
  }
  for (const path of folders) await files.sync(join(draft, path));
  return tree;
}
