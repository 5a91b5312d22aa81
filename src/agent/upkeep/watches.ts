import { dirname, join } from 'node:path';
import { messageOf } from '../../api/errors.ts';
import type { AgentMemory, AgentContext } from '../context.ts';
import { componentLayout, onNode } from '../disk/layout.ts';
import type { Manifest } from '../generation/manifest.ts';
import { META, readTree } from '../generation/tree.ts';
import { settledComponents } from './health.ts';
import type { ChangeReader } from './memory.ts';

/** Soon after something changed in a folder, but not each time where much is written there. */
const CHECK_AFTER_MS = 100;
const CHECK_EVERY_MS = 1000;
/** Checks take at most one part of so many of the time. */
const CHECK_SHARE = 20;
/** Limit of one component: the system has watches for 8,192 folders at least. */
const WATCHED_FOLDERS = 128;
const TOUCHED_PATHS = 1000;

/** Watches the folders in which components that run have files. */
export async function syncWatches(ctx: AgentContext): Promise<void> {
  const { memory, layout, ports } = ctx;
  const folders = new Map<string, Map<string, ChangeReader>>();
  const want = (folder: string, name: string, reader: ChangeReader): void =>
    void folders.set(folder, (folders.get(folder) ?? new Map<string, ChangeReader>()).set(name, reader));
  for (const [name, manifest] of settledComponents(ctx)) {
    for (const file of manifest.files) if (file.onDrift !== 'Ignore') want(dirname(onNode(layout.root, file.path)), name, () => undefined);
    const paths = componentLayout(layout, name);
    want(layout.components, name, (changed) => (changed === undefined || changed === name ? '' : undefined));
    want(paths.folder, name, (changed) => (changed === undefined || changed === manifest.digest ? '' : undefined));
    for (const path of await foldersOf(ctx, manifest)) {
      want(join(paths.generation(manifest.digest), path), name, (changed) => (changed === undefined ? path : join(path, changed)));
    }
  }
  for (const [folder, watch] of memory.upkeep.watches) {
    if (folders.has(folder)) continue;
    watch.close();
    memory.upkeep.watches.delete(folder);
  }
  for (const [folder, readers] of folders) {
    const found = await ports.files.stat(folder);
    const inode = found?.kind === 'folder' ? found.inode : undefined;
    const watch = memory.upkeep.watches.get(folder);
    if (watch !== undefined && watch.inode === inode) {
      watch.readers = readers;
      continue;
    }
    watch?.close();
    memory.upkeep.watches.delete(folder);
    if (inode === undefined) continue;
    const entry = { inode, readers, close: (): void => undefined };
    try {
      entry.close = ports.files.watch(folder, (changed) => touch(ctx, entry.readers, changed));
      memory.upkeep.watches.set(folder, entry);
    } catch (error) {
      // The regular check finds what no watch reports.
      ports.log.warn({ folder, error: messageOf(error) }, 'a folder could not be watched');
    }
  }
}

/** Folders of the generation that runs; the regular check finds what happens in more of them. */
async function foldersOf({ memory, durable, layout }: AgentContext, { name, digest }: Manifest): Promise<readonly string[]> {
  const known = memory.upkeep.folders.get(name);
  if (known?.digest === digest) return known.paths;
  const tree = (await readTree(durable.files, componentLayout(layout, name).generation(digest), digest).catch(() => undefined)) ?? [];
  const found = tree.flatMap((entry) => (entry.kind === 'folder' ? entry.path : []));
  const paths = ['', META, ...found].slice(0, WATCHED_FOLDERS);
  memory.upkeep.folders.set(name, { digest, paths });
  return paths;
}

/** Something changed where these components have files: they are checked soon. */
function touch(ctx: AgentContext, readers: ReadonlyMap<string, ChangeReader>, changed: string | undefined): void {
  const { memory } = ctx;
  for (const [name, reader] of readers) {
    const touched = memory.upkeep.touched.get(name) ?? new Set<string>();
    memory.upkeep.touched.set(name, touched);
    const path = reader(changed);
    if (path !== undefined) touched.add(touched.size < TOUCHED_PATHS ? path : '');
    checkSoon(memory, name, ctx.ports.clock.monotonic());
  }
  ctx.wake();
}

/** The longer a check takes, the rarer it is. */
export function checkSoon({ upkeep: { drift } }: AgentMemory, name: string, nowMs: number): void {
  const known = drift.get(name);
  if (known === undefined) return;
  const pauseMs = Math.max(CHECK_EVERY_MS, CHECK_SHARE * (known.tookMs ?? 0));
  known.nextMs = Math.min(known.nextMs, Math.max(nowMs + CHECK_AFTER_MS, known.checkedMs + pauseMs));
}
