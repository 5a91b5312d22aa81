import type { AgentContext } from '../context.ts';
import type { Manifest } from '../generation/manifest.ts';
import { componentOf } from './state.ts';
import { journalOf } from './memory.ts';
import { removeReceipt, writeReceipt } from './receipts.ts';
import type { Receipt } from './receipts.ts';

/** A generation is installed: all its other files are there. */
export async function recordInstalled({ memory, durable, layout }: AgentContext, receipt: Receipt, manifest: Manifest): Promise<void> {
  await writeReceipt(durable, layout, receipt);
  memory.records.installed.set(receipt.name, { receipt, manifest });
}

export async function recordRemoved({ memory, durable, layout }: AgentContext, name: string): Promise<void> {
  await removeReceipt(durable, layout, name);
  memory.records.installed.delete(name);
}

/** The same content under a higher revision: only the receipt moves. */
export async function recordRevision({ memory, durable, layout }: AgentContext, name: string): Promise<void> {
  const installed = memory.records.installed.get(name);
  const revision = componentOf(journalOf(memory).state, name)?.revision;
  if (installed === undefined || revision === undefined) return;
  const receipt = { ...installed.receipt, revision };
  await writeReceipt(durable, layout, receipt);
  memory.records.installed.set(name, { ...installed, receipt });
}

/** The damaged generation of an installed component is whole again. */
export function recordRebuilt({ memory: { records } }: AgentContext, name: string, manifest: Manifest): void {
  const installed = records.installed.get(name);
  if (installed !== undefined) records.installed.set(name, { ...installed, manifest });
}
