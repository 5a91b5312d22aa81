import type { AgentMemory, AgentContext } from '../context.ts';
import { loadManifest } from '../generation/generation.ts';
import type { Manifest } from '../generation/manifest.ts';
import type { ProbeView, Probing } from '../upkeep/probes.ts';
import type { TransactionStage } from '../engine/steps.ts';

/** How far the open transaction is in this process; after a restart its stages are gone through again. */
export interface TransactionProgress {
  done: ReadonlySet<TransactionStage>;
  failures: number;
  notBeforeMs: number;
  error: { reason: string; message: string } | undefined;
  probing: { view: ProbeView; deadlineMs: number } | undefined;
  /** Going back is given up at this time. */
  giveUpMs: number;
}

/** What is known of the open transaction beside the journal. */
export interface TransactionMemory {
  /** By digest: those that the transaction names. */
  manifests: Map<string, Manifest>;
  progress: TransactionProgress;
  switching: { probing: Probing | undefined; deadlineMs: number; invocations: Map<string, string>; filesChanged: boolean };
}

export function newProgress(giveUpMs = Infinity): TransactionProgress {
  return { done: new Set(), failures: 0, notBeforeMs: 0, error: undefined, probing: undefined, giveUpMs };
}

function newSwitching(): TransactionMemory['switching'] {
  // Files may have been written by the process before this one: units that read them are reloaded once more.
  return { probing: undefined, deadlineMs: 0, invocations: new Map(), filesChanged: true };
}

export function newTransactionMemory(): TransactionMemory {
  return { manifests: new Map(), progress: newProgress(), switching: newSwitching() };
}

/** Going back has the time that what ran before takes to become healthy, and at least a minute. */
export function giveUpMs(ctx: AgentContext): number {
  const { records, transaction } = ctx.memory;
  const from = records.journal?.state.transaction?.from;
  const deadline = from === undefined ? 0 : (transaction.manifests.get(from)?.healthDeadlineSeconds ?? 0);
  return ctx.ports.clock.monotonic() + Math.max(60, deadline) * 1000;
}

/** The journal was opened: the state of the transaction in it is not known yet. */
export function resetTransaction(ctx: AgentContext): void {
  const { transaction } = ctx.memory;
  transaction.manifests.clear();
  transaction.switching.probing?.stop();
  transaction.switching = newSwitching();
  transaction.progress = newProgress(giveUpMs(ctx));
}

/** Manifests that the open transaction names. */
export async function loadTransaction({ memory, durable, layout }: AgentContext): Promise<void> {
  const { records, transaction } = memory;
  const tx = records.journal?.state.transaction;
  if (tx === undefined) return;
  for (const digest of [tx.from, tx.to, ...tx.touched]) {
    if (digest === undefined || transaction.manifests.has(digest)) continue;
    const manifest = await loadManifest(durable, layout, tx.name, digest);
    if (manifest !== undefined) transaction.manifests.set(digest, manifest);
  }
}

/** Probing of the open transaction ends, and what was known of it. */
export function endSwitching({ transaction }: AgentMemory): void {
  transaction.switching.probing?.stop();
  transaction.switching = { ...newSwitching(), filesChanged: false };
  transaction.progress = newProgress();
}

/** While the node is held no deadline runs: probes begin again afterwards. */
export function suspendTransaction(ctx: AgentContext): void {
  const { transaction } = ctx.memory;
  transaction.switching.probing?.stop();
  transaction.switching.probing = undefined;
  transaction.progress = { ...transaction.progress, giveUpMs: giveUpMs(ctx) };
}

export function stopSwitchProbes({ transaction }: AgentMemory): void {
  transaction.switching.probing?.stop();
}
