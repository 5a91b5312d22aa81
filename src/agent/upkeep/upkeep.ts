import { dirname, join } from 'node:path';
import { messageOf } from '../../api/errors.ts';
import { journalOf } from '../context.ts';
import type { Context, Memory, Reader } from '../context.ts';
import { componentLayout, onNode } from '../disk/layout.ts';
import type { Manifest } from '../generation/manifest.ts';
import type { Health } from '../engine/observed.ts';
import { giveUpMs } from '../engine/open.ts';
import { restartingOf } from '../repair/task.ts';
import { startProbes } from './probes.ts';
import type { Probing } from './probes.ts';
import { META, readTree } from '../generation/tree.ts';

/** Soon after something was heard of a folder, but not each time where much is written there. */
const LOOK_AFTER_MS = 100;
const LOOK_EVERY_MS = 1000;
/** Looks take at most one part of so many of the time. */
const LOOK_SHARE = 20;
/** Of one component: the system has watches for 8,192 folders at least. */
const WATCHED_FOLDERS = 128;
const TOUCHED_PATHS = 1000;

/** Brings what runs beside the steps in line with what is installed: probes, watches, and generations that were built again. */
export async function syncUpkeep(ctx: Context): Promise<void> {
  const { memory } = ctx;
  for (const [name, rebuilt] of memory.rebuilt) {
    const installed = memory.installed.get(name);
    if (installed?.manifest !== undefined || installed === undefined) memory.rebuilt.delete(name);
    else if (rebuilt.status === 'ready') memory.installed.set(name, { ...installed, manifest: rebuilt.manifest });
  }
  syncProbes(ctx);
  await syncWatches(ctx);
}

export function stopUpkeep({ memory }: Context): void {
  for (const { probing } of memory.probing.values()) probing.stop();
  for (const { close } of memory.watches.values()) close();
  memory.switching.probing?.stop();
  memory.repairing.probing?.stop();
}

/** While the node is held no deadline runs: what is probed is probed again afterwards. */
export function suspend(ctx: Context): void {
  const { memory } = ctx;
  memory.switching.probing?.stop();
  memory.switching.probing = undefined;
  memory.repairing.probing?.stop();
  Object.assign(memory.repairing, { probing: undefined, deadlineMs: undefined });
  memory.progress = { ...memory.progress, giveUpMs: giveUpMs(ctx) };
}

/** What may be looked after: everything that is installed and not just being changed. */
function settled({ memory }: Context): Map<string, Manifest> {
  const changing = new Set([memory.journal?.state.transaction?.name, restartingOf(memory.journal?.state)]);
  const out = new Map<string, Manifest>();
  if (memory.journal === undefined || journalOf(memory).state.cleared) return out;
  for (const [name, { manifest }] of memory.installed) if (manifest !== undefined && !changing.has(name)) out.set(name, manifest);
  return out;
}

function syncProbes(ctx: Context): void {
  const { memory, ports, layout } = ctx;
  const wanted = settled(ctx);
  for (const [name, { digest, probing }] of memory.probing) {
    if (wanted.get(name)?.digest === digest) continue;
    probing.stop();
    memory.probing.delete(name);
  }
  for (const [name, manifest] of wanted) {
    if (memory.probing.has(name)) continue;
    const onChange = (): void => {
      const entry = memory.probing.get(name);
      if (entry?.probing === probing) noteHealth(ctx, name, probing);
    };
    const probing: Probing = startProbes(manifest, 'steady', new Map(), { ...ports, root: layout.root }, onChange);
    memory.probing.set(name, { digest: manifest.digest, probing });
    // A component without probes and units is healthy as soon as it is looked at.
    onChange();
  }
}

function noteHealth(ctx: Context, name: string, probing: Probing): void {
  const { memory, ports } = ctx;
  const view = probing.view();
  const known = memory.health.get(name);
  const { bootID } = ports.host;
  let next: Health | undefined;
  if (view.broken && known?.state !== 'Unhealthy') {
    next = { state: 'Unhealthy', bootID: known?.bootID, since: undefined, message: view.message };
    ctx.happened({ type: 'Warning', reason: 'Unhealthy', message: `${name}: ${view.message ?? ''}` });
  } else if (view.held && known?.state !== 'Healthy') {
    next = { state: 'Healthy', bootID, since: healthySince(ctx, name), message: undefined };
    if (known?.state === 'Unhealthy') ctx.happened({ type: 'Normal', reason: 'HealthyAgain', message: name });
  }
  if (next === undefined) return;
  memory.health.set(name, next);
  ctx.wake();
}

/** What was reported before this process began goes on, if it is about the same content in the same boot. */
function healthySince({ memory, ports }: Context, name: string): number {
  const now = ports.clock.now();
  if (memory.health.has(name)) return now;
  const reported = memory.wanted?.reported.components.find((each) => each.name === name);
  const { receipt } = memory.installed.get(name) ?? {};
  const since = Date.parse(reported?.healthySince ?? '');
  const same = reported?.bootID === ports.host.bootID && reported.content === receipt?.content;
  return same && since <= now ? since : now;
}

async function syncWatches(ctx: Context): Promise<void> {
  const { memory, layout, ports } = ctx;
  const folders = new Map<string, Map<string, Reader>>();
  const want = (folder: string, name: string, reader: Reader): void =>
    void folders.set(folder, (folders.get(folder) ?? new Map<string, Reader>()).set(name, reader));
  for (const [name, manifest] of settled(ctx)) {
    for (const file of manifest.files) if (file.onDrift !== 'Ignore') want(dirname(onNode(layout.root, file.path)), name, () => undefined);
    const paths = componentLayout(layout, name);
    want(layout.components, name, (changed) => (changed === undefined || changed === name ? '' : undefined));
    want(paths.folder, name, (changed) => (changed === undefined || changed === manifest.digest ? '' : undefined));
    for (const path of await foldersOf(ctx, manifest)) {
      want(join(paths.generation(manifest.digest), path), name, (changed) => (changed === undefined ? path : join(path, changed)));
    }
  }
  for (const [folder, watch] of memory.watches) {
    if (folders.has(folder)) continue;
    watch.close();
    memory.watches.delete(folder);
  }
  for (const [folder, readers] of folders) {
    const found = await ports.files.stat(folder);
    const inode = found?.kind === 'folder' ? found.inode : undefined;
    const watch = memory.watches.get(folder);
    if (watch !== undefined && watch.inode === inode) {
      watch.readers = readers;
      continue;
    }
    watch?.close();
    memory.watches.delete(folder);
    if (inode === undefined) continue;
    const entry = { inode, readers, close: (): void => undefined };
    try {
      entry.close = ports.files.watch(folder, (changed) => heard(ctx, entry.readers, changed));
      memory.watches.set(folder, entry);
    } catch (error) {
      // The regular look finds what is not heard of.
      ports.log.warn({ folder, error: messageOf(error) }, 'a folder could not be watched');
    }
  }
}

/** Folders of the generation that runs; the regular look finds what happens in more of them. */
async function foldersOf({ memory, durable, layout }: Context, { name, digest }: Manifest): Promise<readonly string[]> {
  const known = memory.folders.get(name);
  if (known?.digest === digest) return known.paths;
  const tree = (await readTree(durable.files, componentLayout(layout, name).generation(digest), digest).catch(() => undefined)) ?? [];
  const found = tree.flatMap((entry) => (entry.kind === 'folder' ? entry.path : []));
  const paths = ['', META, ...found].slice(0, WATCHED_FOLDERS);
  memory.folders.set(name, { digest, paths });
  return paths;
}

/** Something changed where these components have files: they are looked at soon. */
function heard(ctx: Context, readers: ReadonlyMap<string, Reader>, changed: string | undefined): void {
  const { memory } = ctx;
  for (const [name, reader] of readers) {
    const touched = memory.touched.get(name) ?? new Set<string>();
    memory.touched.set(name, touched);
    const path = reader(changed);
    if (path !== undefined) touched.add(touched.size < TOUCHED_PATHS ? path : '');
    lookSoon(memory, name, ctx.ports.clock.monotonic());
  }
  ctx.wake();
}

/** The longer a look takes, the rarer it is. */
export function lookSoon({ drift }: Memory, name: string, nowMs: number): void {
  const known = drift.get(name);
  if (known === undefined) return;
  const pauseMs = Math.max(LOOK_EVERY_MS, LOOK_SHARE * (known.tookMs ?? 0));
  known.nextMs = Math.min(known.nextMs, Math.max(nowMs + LOOK_AFTER_MS, known.lookedMs + pauseMs));
}
