import { isCoded, messageOf } from '../../api/errors.ts';
import { endRepairing } from '../repair/act.ts';
import { newProgress, newSwitching } from '../context.ts';
import type { Context } from '../context.ts';
import { loadManifest } from '../generation/generation.ts';
import { beginJournal, openJournal } from '../journal/journal.ts';
import { componentLayout } from '../disk/layout.ts';
import { removeOrLeave } from '../disk/removing.ts';
import { loadReceipts } from '../journal/receipts.ts';
import { pinKeys } from '../generation/signature.ts';

/**
 * Reads what this disk says, at start and after a write of the journal that failed. What cannot be trusted becomes `trouble`, and then
 * nothing is changed.
 */
export async function openDisk(ctx: Context): Promise<void> {
  const { memory, durable, layout, node } = ctx;
  memory.journal = undefined;
  try {
    if (memory.trouble?.reason === 'DiskFailing') await durable.files.unlink(layout.reserve);
    await durable.folder(layout.state);
    await pinKeys(durable, layout, ctx.pinned);
    const journal = await openJournal(durable, layout.journal);
    const receipts = await loadReceipts(durable, layout);
    const empty = journal === undefined;
    memory.foreign = receipts.some((each) => each.machineUID !== node.uid) || (!empty && journal.state.machineUID !== node.uid);
    memory.journal = journal ?? (memory.foreign ? undefined : await beginJournal(durable, layout.journal, node.uid));
    // Nothing is written over what another machine left until it is taken away.
    memory.journal ??= foreignJournal(node.uid);
    memory.installed.clear();
    memory.manifests.clear();
    memory.drift.clear();
    memory.switching.probing?.stop();
    memory.switching = newSwitching();
    endRepairing(ctx);
    memory.progress = newProgress(giveUpMs(ctx));
    memory.sweep = true;
    if (!memory.foreign) {
      for (const receipt of receipts) {
        memory.installed.set(receipt.name, { receipt, manifest: await loadManifest(durable, layout, receipt.name, receipt.generation) });
      }
    }
    await loadTransaction(ctx);
    memory.trouble = undefined;
  } catch (error) {
    if (isCoded(error, 'JournalDamaged', 'ReceiptDamaged')) {
      memory.trouble = {
        reason: error.code === 'JournalDamaged' ? 'JournalDamaged' : 'ReceiptDamaged',
        message: error.next === undefined ? error.message : `${error.message}; next: ${error.next}`,
      };
      return;
    }
    memory.trouble = { reason: 'DiskFailing', message: messageOf(error) };
  }
}

/** Going back has the time that what ran before takes to become healthy, and at least a minute. */
export function giveUpMs(ctx: Context): number {
  const from = ctx.memory.journal?.state.transaction?.from;
  const deadline = from === undefined ? 0 : (ctx.memory.manifests.get(from)?.healthDeadlineSeconds ?? 0);
  return ctx.ports.clock.monotonic() + Math.max(60, deadline) * 1000;
}

/** Manifests that the open transaction names. */
export async function loadTransaction({ memory, durable, layout }: Context): Promise<void> {
  const tx = memory.journal?.state.transaction;
  if (tx === undefined) return;
  for (const digest of [tx.from, tx.to, ...tx.touched]) {
    if (digest === undefined || memory.manifests.has(digest)) continue;
    const manifest = await loadManifest(durable, layout, tx.name, digest);
    if (manifest !== undefined) memory.manifests.set(digest, manifest);
  }
}

function foreignJournal(machineUID: string): NonNullable<Context['memory']['journal']> {
  const state = { machineUID, components: {}, operations: [], epoch: 0, held: false, verified: {}, cleared: false };
  return { state, append: () => Promise.reject(new Error('this journal is not begun yet')) };
}

/**
 * Takes away what another machine left on this disk: its units, the files it wrote, its generations. Artifacts stay, since their digests vouch
 * for them. The journal of this machine is begun last, and receipts name their machine, so that this is done again when it was cut short.
 */
export async function startOver(ctx: Context): Promise<void> {
  const { durable, layout, ports } = ctx;
  for (const unit of await ports.units.list()) await ports.units.stop(unit.name);
  for (const name of await durable.files.list(layout.components)) {
    const paths = componentLayout(layout, name);
    for (const digest of await durable.files.list(paths.folder)) {
      const manifest = await loadManifest(durable, layout, name, digest);
      for (const file of manifest?.files ?? []) await removeOrLeave(ctx, file.path);
      for (const path of Object.values(manifest?.nodeCredentials ?? {})) await removeOrLeave(ctx, String(path));
    }
    await durable.discard(paths.folder);
  }
  await beginJournal(durable, layout.journal, ctx.node.uid);
  await openDisk(ctx);
}
