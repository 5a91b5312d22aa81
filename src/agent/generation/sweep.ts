import { join } from 'node:path';
import { journalOf } from '../records/memory.ts';
import type { AgentContext } from '../context.ts';
import { loadManifest } from './generation.ts';
import { componentLayout } from '../disk/layout.ts';
import { specPath } from './prepare.ts';

const DIGEST = /^[a-f0-9]{24}$/;

/**
 * Removes what is no longer needed: all generations except the one that runs, the one before it, the two last verified and the one that is wanted;
 * artifacts and MachineComponents that none of these was made from. The caller makes sure that no transaction is open and nothing is being prepared.
 * Returns what it removed from the store.
 */
export async function sweep(ctx: AgentContext): Promise<{ files: number; bytes: number }> {
  const { memory, durable, layout } = ctx;
  const { state } = journalOf(memory);
  const artifacts = new Set<string>();
  const specs = new Set<string>();
  for (const name of await durable.files.list(layout.components)) {
    const paths = componentLayout(layout, name);
    const installed = memory.records.installed.get(name);
    const wanted = Object.hasOwn(state.components, name) ? state.components[name] : undefined;
    const verified = Object.hasOwn(state.verified, name) ? (state.verified[name] ?? []) : [];
    const prepared = memory.generation.prepared.get(name);
    let kept = installed === undefined ? 0 : 1;
    for (const entry of await durable.files.list(paths.folder)) {
      const folder = join(paths.folder, entry);
      if (entry.startsWith('.new-')) await durable.discard(folder);
      if (!DIGEST.test(entry)) continue;
      const manifest = await loadManifest(durable, layout, name, entry);
      const keep =
        entry === installed?.receipt.generation ||
        entry === installed?.receipt.previous?.generation ||
        (prepared?.status === 'ready' && prepared.manifest.digest === entry && wanted?.failed === undefined) ||
        (installed !== undefined && manifest !== undefined && verified.slice(0, 2).includes(manifest.content));
      if (!keep) {
        await durable.discard(folder);
        continue;
      }
      kept++;
      for (const artifact of manifest?.artifacts ?? []) artifacts.add(artifact.sha256);
      if (manifest !== undefined) specs.add(specPath(ctx, name, manifest.version));
    }
    if (kept === 0 && wanted === undefined) await durable.discard(paths.folder);
  }
  for (const { name, version, failed } of Object.values(state.components)) {
    // While it is being fetched, what is there of it is kept.
    if (failed === undefined) specs.add(specPath(ctx, name, version));
  }
  const fetching = Object.values(state.components).some(({ name, revision }) => {
    const prepared = memory.generation.prepared.get(name);
    return prepared?.revision === revision && prepared.status === 'retry';
  });
  const gone = fetching ? { files: 0, bytes: 0 } : await ctx.store.keep(artifacts);
  for (const file of await durable.files.list(layout.specs)) {
    if (!specs.has(join(layout.specs, file))) await durable.files.unlink(join(layout.specs, file));
  }
  return gone;
}
