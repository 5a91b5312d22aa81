import { messageOf } from '../../api/errors.ts';
import { halfJitterMs } from '../../kube/backoff.ts';
import { journalOf, newProgress, newSwitching } from '../context.ts';
import type { Context } from '../context.ts';
import { askForReboot, clean, endRepairing, operate, restartUnits } from '../repair/act.ts';
import { actStage } from '../transaction/act.ts';
import { check, repair, startUnit, stopStray, trySweep } from '../upkeep/act.ts';
import { backoffMs } from '../transaction/decide.ts';

import { failureOf, short } from '../errors.ts';
import type { Manifest } from '../generation/manifest.ts';
import { giveUpMs, loadTransaction, startOver } from './open.ts';
import { startPreparation } from '../generation/prepare.ts';
import { writeReceipt } from '../journal/receipts.ts';
import { nameOf } from '../repair/task.ts';
import { componentOf } from '../journal/state.ts';
import type { Failure, OperationRecord, Transaction } from '../journal/state.ts';
import type { Finish, Step } from './steps.ts';

const REREAD = { baseMs: 2_000, maxMs: 30_000 };

/** Carries out one step. Errors: `DiskFailing` when the journal must be opened again; anything else is tried again later. */
export async function act(ctx: Context, step: Step): Promise<void> {
  const { memory } = ctx;
  const journal = journalOf(memory);
  switch (step.do) {
    case 'wait':
      return;
    case 'startOver':
      await startOver(ctx);
      return ctx.happened({
        type: 'Warning',
        reason: 'StartedOver',
        message: 'the disk was another machine’s: what it had installed was taken away',
      });
    case 'note':
      memory.sweep = true;
      return await journal.append({
        t: 'machine',
        held: step.held,
        verified: step.verified,
        ...(step.epoch === undefined ? {} : { epoch: step.epoch }),
      });
    case 'accept':
      memory.sweep = true;
      return await journal.append({ t: 'accept', accepted: step.accepted });
    case 'forget':
      memory.preparing.get(step.name)?.abort(new Error('it is not wanted any more'));
      memory.prepared.delete(step.name);
      memory.sweep = true;
      return await journal.append({ t: 'forget', name: step.name });
    case 'advance':
      return await advance(ctx, step.name);
    case 'removed':
      return await journal.append({ t: 'removed', name: step.name });
    case 'refuse':
      await journal.append({ t: 'fail', name: step.name, failed: step.failed, ends: false });
      return happenedTo(ctx, 'Warning', 'Failed', step.name, step.failed);
    case 'prepare':
      return prepare(ctx, step.name, step.rebuild);
    case 'check':
      return await check(ctx, step.name, step.full);
    case 'repair':
      return await repair(ctx, step.name);
    case 'startUnit':
      return await startUnit(ctx, step.name, step.unit);
    case 'stopUnit':
      return await stopStray(ctx, step.unit);
    case 'reread':
      return await reread(ctx);
    case 'begin':
      return await begin(ctx, step.transaction, step.operation);
    case 'operate':
      return await operate(ctx, step.operation);
    case 'restartUnits':
      return await restartUnits(ctx, step.operation, step.component);
    case 'clean':
      return await clean(ctx, step.operation, step.belowPercent);
    case 'reboot':
      return await askForReboot(ctx, step.operation);
    case 'withdraw':
      await ctx.ports.host.keepUp(step.operation.id);
      return await finish(ctx, step.finish);
    case 'stage':
      return await stage(ctx, step.stage);
    case 'turnBack':
      await journal.append({ t: 'back', reason: step.reason, message: step.message });
      endSwitching(ctx);
      memory.progress = newProgress(giveUpMs(ctx));
      return;
    case 'commit':
      return await commit(ctx);
    case 'fail':
      return await fail(ctx, step.failed);
    case 'finish':
      return await finish(ctx, step);
    case 'sweep':
      return await trySweep(ctx);
  }
}

async function advance(ctx: Context, name: string): Promise<void> {
  const installed = ctx.memory.installed.get(name);
  const revision = componentOf(journalOf(ctx.memory).state, name)?.revision;
  if (installed === undefined || revision === undefined) return;
  const receipt = { ...installed.receipt, revision };
  await writeReceipt(ctx.durable, ctx.layout, receipt);
  ctx.memory.installed.set(name, { ...installed, receipt });
}

function prepare(ctx: Context, name: string, rebuild: boolean): void {
  const source = rebuild ? ctx.memory.installed.get(name)?.receipt : componentOf(journalOf(ctx.memory).state, name);
  if (source !== undefined) startPreparation(ctx, name, source, rebuild);
}

async function reread(ctx: Context): Promise<void> {
  const { memory, ports } = ctx;
  try {
    const { wanted, serverMs } = await ports.cell.machine(ctx.signal);
    if (wanted.uid !== ctx.node.uid) throw new Error(`the Machine has UID ${wanted.uid}: it is another one`);
    if (serverMs === undefined) throw new Error('the answer of the API server has no date');
    memory.server = { ms: serverMs, atMs: ports.clock.monotonic() };
    // The watch may have told of something newer meanwhile: all the better.
    if (memory.isNews(wanted.resourceVersion)) memory.wanted = wanted;
    memory.reread = memory.wanted?.operation?.id;
  } catch (error) {
    memory.rereadNotBeforeMs = ports.clock.monotonic() + halfJitterMs(REREAD, 3, ports.random);
    ports.log.warn({ error: messageOf(error) }, 'the Machine could not be read again: the operation is not begun');
  }
}

async function begin(ctx: Context, transaction: Transaction, operation: OperationRecord | undefined): Promise<void> {
  const { memory } = ctx;
  const journal = journalOf(memory);
  const before = journal.state.transaction;
  await journal.append({ t: 'begin', transaction, ...(operation === undefined ? {} : { operation }) });
  // A newer revision of the same content goes on where the older one is.
  const same = before !== undefined && before.to === transaction.to;
  if (!same) {
    endSwitching(ctx);
    memory.progress = newProgress();
  }
  if (before === undefined) memory.manifests.clear();
  for (const manifest of [memory.installed.get(transaction.name)?.manifest, readyManifest(ctx, transaction.name)]) {
    if (manifest !== undefined) memory.manifests.set(manifest.digest, manifest);
  }
  await loadTransaction(ctx);
  memory.probing.get(transaction.name)?.probing.stop();
  memory.probing.delete(transaction.name);
}

function readyManifest({ memory }: Context, name: string): Manifest | undefined {
  const prepared = memory.prepared.get(name);
  return prepared?.status === 'ready' ? prepared.manifest : undefined;
}

async function stage(ctx: Context, name: Extract<Step, { do: 'stage' }>['stage']): Promise<void> {
  const { memory, ports } = ctx;
  if (name === 'probe' && memory.switching.probing?.view().held === true) {
    memory.progress = { ...memory.progress, done: new Set([...memory.progress.done, name]) };
    return;
  }
  try {
    await actStage(ctx, name);
  } catch (error) {
    if (ctx.signal.aborted) throw error;
    const failure = failureOf(error);
    if (failure.reason === 'DiskFailing') throw error;
    const failures = memory.progress.failures + 1;
    memory.progress = { ...memory.progress, failures, error: failure, notBeforeMs: ports.clock.monotonic() + backoffMs(failures) };
    ports.log.warn({ stage: name, ...failure }, 'a stage failed');
  }
}

async function commit(ctx: Context): Promise<void> {
  const { memory, ports } = ctx;
  const journal = journalOf(memory);
  const tx = journal.state.transaction;
  await journal.append({ t: 'commit' });
  endSwitching(ctx);
  memory.sweep = true;
  if (tx === undefined) return;
  memory.drift.delete(tx.name);
  if (tx.to === undefined) {
    memory.health.delete(tx.name);
    memory.prepared.delete(tx.name);
    return ctx.happened({ type: 'Normal', reason: 'Removed', message: tx.name });
  }
  memory.health.set(tx.name, { state: 'Healthy', bootID: ports.host.bootID, since: ports.clock.now(), message: undefined });
  const what = tx.why === 'Drift' ? 'DriftRepaired' : tx.from === undefined ? 'Installed' : 'Switched';
  ctx.happened({ type: 'Normal', reason: what, message: `${tx.name} ${memory.installed.get(tx.name)?.receipt.version ?? ''}` });
}

async function fail(ctx: Context, failed: Failure): Promise<void> {
  const { memory, ports } = ctx;
  const journal = journalOf(memory);
  const tx = journal.state.transaction;
  if (tx === undefined) return;
  await journal.append({ t: 'fail', name: tx.name, failed, ends: true });
  endSwitching(ctx);
  memory.sweep = true;
  memory.drift.delete(tx.name);
  const { bootID } = ports.host;
  if (failed.restored) memory.health.set(tx.name, { state: 'Healthy', bootID, since: ports.clock.now(), message: undefined });
  else memory.health.set(tx.name, { state: 'Unhealthy', bootID: undefined, since: undefined, message: failed.message });
  happenedTo(ctx, 'Warning', failed.restored ? 'Restored' : 'Failed', tx.name, failed);
}

async function finish(ctx: Context, step: Finish): Promise<void> {
  const { memory, ports } = ctx;
  const journal = journalOf(memory);
  const { id, epoch, kind, outcome, message, cleared } = step;
  const known = journal.state.operations.find((each) => each.id === id);
  const finishedAt = memory.server === undefined ? ports.clock.now() : memory.server.ms + ports.clock.monotonic() - memory.server.atMs;
  const operation: OperationRecord = {
    ...(known ?? { id, epoch, kind, startedAt: finishedAt, components: [], class: 'None' as const }),
    outcome,
    ...(message === '' ? {} : { message: short(message) }),
    bootID: ports.host.bootID,
    finishedAt,
  };
  await journal.append({ t: 'finish', operation, ...(cleared ? { cleared } : {}) });
  memory.sweep = true;
  if (kind !== 'Repair') return;
  endRepairing(ctx);
  const what = known?.task === undefined ? id : `${nameOf(known.task)} (operation ${id})`;
  const type = outcome === 'Succeeded' ? 'Normal' : 'Warning';
  ctx.happened({ type, reason: 'RepairEnded', message: short(`${what}: ${outcome}${message === '' ? '' : `: ${message}`}`, 800) });
}

/** Probing of the open transaction ends, and what was known of it. */
function endSwitching({ memory }: Context): void {
  memory.switching.probing?.stop();
  memory.switching = { ...newSwitching(), filesChanged: false };
  memory.progress = newProgress();
}

function happenedTo(ctx: Context, type: 'Normal' | 'Warning', reason: string, name: string, failed: Failure): void {
  const end = failed.restored ? 'what ran before runs again' : 'nothing could be restored';
  ctx.happened({ type, reason, message: short(`${name} revision ${failed.revision}: ${failed.reason}: ${failed.message}; ${end}`, 800) });
}
