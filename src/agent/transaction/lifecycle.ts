import type { AgentContext } from '../context.ts';
import type { TransactionStage } from '../engine/steps.ts';
import { failureOf, short } from '../errors.ts';
import { dropPrepared, readyManifest, requestSweep } from '../generation/memory.ts';
import { journalOf } from '../records/memory.ts';
import type { ComponentFailure, OperationRecord, Transaction } from '../records/state.ts';
import { forgetDrift, forgetHealth, recordHealthy, recordUnhealthy, stopSteadyProbes } from '../upkeep/memory.ts';
import { actStage } from './act.ts';
import { backoffMs } from './decide.ts';
import { endSwitching, giveUpMs, loadTransaction, newProgress } from './memory.ts';

/* What happens to a transaction: it is begun, goes through its stages, turns back, and is committed or fails. */

export async function begin(ctx: AgentContext, transaction: Transaction, operation: OperationRecord | undefined): Promise<void> {
  const { memory } = ctx;
  const journal = journalOf(memory);
  const before = journal.state.transaction;
  await journal.append({ t: 'begin', transaction, ...(operation === undefined ? {} : { operation }) });
  // A newer revision of the same content goes on where the older one is.
  const same = before !== undefined && before.to === transaction.to;
  if (!same) endSwitching(memory);
  const { manifests } = memory.transaction;
  if (before === undefined) manifests.clear();
  for (const manifest of [memory.records.installed.get(transaction.name)?.manifest, readyManifest(memory, transaction.name)]) {
    if (manifest !== undefined) manifests.set(manifest.digest, manifest);
  }
  await loadTransaction(ctx);
  stopSteadyProbes(memory, transaction.name);
}

/** A stage that fails is recorded; what follows from it is the next decision's. */
export async function takeStage(ctx: AgentContext, name: TransactionStage): Promise<void> {
  const { memory, ports } = ctx;
  const { transaction } = memory;
  if (name === 'probe' && transaction.switching.probing?.view().passed === true) {
    transaction.progress = { ...transaction.progress, done: new Set([...transaction.progress.done, name]) };
    return;
  }
  try {
    await actStage(ctx, name);
  } catch (error) {
    if (ctx.signal.aborted) throw error;
    const failure = failureOf(error);
    if (failure.reason === 'DiskFailing') throw error;
    const failures = transaction.progress.failures + 1;
    const notBeforeMs = ports.clock.monotonic() + backoffMs(failures);
    transaction.progress = { ...transaction.progress, failures, error: failure, notBeforeMs };
    ports.log.warn({ stage: name, ...failure }, 'a stage failed');
  }
}

export async function turnBack(ctx: AgentContext, { reason, message }: { reason: string; message: string }): Promise<void> {
  const { memory } = ctx;
  await journalOf(memory).append({ t: 'back', reason, message });
  endSwitching(memory);
  memory.transaction.progress = newProgress(giveUpMs(ctx));
}

export async function commit(ctx: AgentContext): Promise<void> {
  const { memory } = ctx;
  const journal = journalOf(memory);
  const tx = journal.state.transaction;
  await journal.append({ t: 'commit' });
  endSwitching(memory);
  requestSweep(memory);
  if (tx === undefined) return;
  forgetDrift(memory, tx.name);
  if (tx.to === undefined) {
    forgetHealth(memory, tx.name);
    dropPrepared(memory, tx.name);
    return ctx.happened({ type: 'Normal', reason: 'Removed', message: tx.name });
  }
  recordHealthy(ctx, tx.name);
  const what = tx.why === 'Drift' ? 'DriftRepaired' : tx.from === undefined ? 'Installed' : 'Switched';
  const version = memory.records.installed.get(tx.name)?.receipt.version ?? '';
  ctx.happened({ type: 'Normal', reason: what, message: `${tx.name} ${version}` });
}

export async function fail(ctx: AgentContext, failed: ComponentFailure): Promise<void> {
  const { memory } = ctx;
  const journal = journalOf(memory);
  const tx = journal.state.transaction;
  if (tx === undefined) return;
  await journal.append({ t: 'fail', name: tx.name, failed, ends: true });
  endSwitching(memory);
  requestSweep(memory);
  forgetDrift(memory, tx.name);
  if (failed.restored) recordHealthy(ctx, tx.name);
  else recordUnhealthy(ctx, tx.name, failed.message);
  reportFailure(ctx, failed.restored ? 'Restored' : 'Failed', tx.name, failed);
}

/** What is wanted of a component can never be carried out: no transaction is begun for it. */
export async function refuse(ctx: AgentContext, name: string, failed: ComponentFailure): Promise<void> {
  await journalOf(ctx.memory).append({ t: 'fail', name, failed, ends: false });
  reportFailure(ctx, 'Failed', name, failed);
}

function reportFailure(ctx: AgentContext, reason: 'Restored' | 'Failed', name: string, failed: ComponentFailure): void {
  const end = failed.restored ? 'what ran before runs again' : 'nothing could be restored';
  const message = short(`${name} revision ${failed.revision}: ${failed.reason}: ${failed.message}; ${end}`, 800);
  ctx.happened({ type: 'Warning', reason, message });
}
