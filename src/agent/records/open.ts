import { agentErrorCodes } from '../errors.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import type { AgentContext } from '../context.ts';
import { componentLayout } from '../disk/layout.ts';
import { removeOrLeave } from '../disk/node-files.ts';
import { loadManifest } from '../generation/generation.ts';
import { requestSweep } from '../generation/memory.ts';
import { pinKeys } from '../generation/signature.ts';
import { endRepairing } from '../repair/memory.ts';
import { loadTransaction, resetTransaction } from '../transaction/memory.ts';
import { forgetDrift } from '../upkeep/memory.ts';
import { beginJournal, openJournal } from './journal.ts';
import type { Journal } from './journal.ts';
import { loadReceipts } from './receipts.ts';

/**
 * Reads the records of this disk, at start and after a write of the journal that failed. What cannot be trusted becomes `trouble`, and then
 * the agent changes nothing.
 */
export async function openDisk(ctx: AgentContext): Promise<void> {
  const { memory, durable, layout, node } = ctx;
  const { records } = memory;
  records.journal = undefined;
  try {
    if (records.trouble?.reason === 'DiskFailing') await durable.files.unlink(layout.reserve);
    await durable.folder(layout.state);
    await pinKeys(durable, layout, ctx.pinned);
    const journal = await openJournal(durable, layout.journal);
    const receipts = await loadReceipts(durable, layout);
    const empty = journal === undefined;
    records.foreign = receipts.some((each) => each.machineUID !== node.uid) || (!empty && journal.state.machineUID !== node.uid);
    records.journal = journal ?? (records.foreign ? undefined : await beginJournal(durable, layout.journal, node.uid));
    // The agent writes nothing over what another machine left until that is removed.
    records.journal ??= foreignJournal(node.uid);
    records.installed.clear();
    forgetDrift(memory);
    resetTransaction(ctx);
    endRepairing(ctx);
    requestSweep(memory);
    if (!records.foreign) {
      for (const receipt of receipts) {
        records.installed.set(receipt.name, { receipt, manifest: await loadManifest(durable, layout, receipt.name, receipt.generation) });
      }
    }
    await loadTransaction(ctx);
    records.trouble = undefined;
  } catch (error) {
    if (isCoded(error, agentErrorCodes, 'JournalDamaged', 'ReceiptDamaged')) {
      records.trouble = {
        reason: error.code === 'JournalDamaged' ? 'JournalDamaged' : 'ReceiptDamaged',
        message: error.next === undefined ? error.message : `${error.message}; next: ${error.next}`,
      };
      return;
    }
    records.trouble = { reason: 'DiskFailing', message: messageOf(error) };
  }
}

function foreignJournal(machineUID: string): Journal {
  const state = { machineUID, components: {}, operations: [], epoch: 0, held: false, verified: {}, cleared: false };
  return { state, append: () => Promise.reject(new Error('this journal is not begun yet')) };
}

/**
 * Takes away what another machine left on this disk: its units, the files it wrote, its generations. Artifacts stay, since their digests vouch
 * for them. The journal of this machine is begun last, and receipts name their machine, so that this is done again when it was cut short.
 */
export async function startOver(ctx: AgentContext): Promise<void> {
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
