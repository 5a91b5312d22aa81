import { DISRUPTIONS } from '../../api/disruption.ts';
import type { Disruption } from '../../api/disruption.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { pendingOf } from './pending.ts';
import type { PendingChange } from './pending.ts';
import { componentOf } from '../records/state.ts';
import type { Transaction } from '../records/state.ts';
import type { AgainAt, TransactionStage, AgentStep } from '../engine/steps.ts';

/** Tries of a stage on the way back, or of taking away: what else is there to do. */
const BACKOFF_MS = [1_000, 2_000, 5_000, 10_000, 30_000];
const DELETE_TRIES = 3;
/** Reason of the report about what the deletion of a machine could not take away. */
export const REMOVE_FAILED = 'RemoveFailed';

/** The next step of the open transaction; undefined: it waits, until a time given to `due`. */
export function transactionStep(o: ObservedNode, tx: Transaction, due: AgainAt): AgentStep | undefined {
  const newer = newerRevision(o, tx);
  if (newer !== undefined) return newer;
  const stage = stagesOf(o, tx).find((each) => !o.progress.done.has(each));
  if (stage === undefined) return closing(o, tx);
  if (o.progress.error !== undefined) return afterError(o, tx, o.progress.error, due, stage);
  // The agent waits for a reboot that it asked for, and asks again after some time.
  if (stage === 'reboot' && o.nowMs < o.progress.notBeforeMs) {
    due(o.progress.notBeforeMs);
    return undefined;
  }
  if (stage !== 'probe' || o.progress.probing === undefined) return { do: 'stage', stage };

  const { view, deadlineMs } = o.progress.probing;
  if (view.passed) return { do: 'stage', stage };
  if (!view.hopeless && o.nowMs < deadlineMs) {
    due(deadlineMs);
    return undefined;
  }
  const message = view.message ?? 'the probes did not pass in time';
  if (tx.back !== undefined)
    return failed(o, tx, { ...tx.back, message: `${tx.back.message}; what ran before fails too: ${message}` }, false);
  if (tx.why === 'Drift') return failed(o, tx, { reason: 'ProbesFailed', message: `after the repair of drift: ${message}` }, false);
  return { do: 'turnBack', reason: 'ProbesFailed', message };
}

/**
 * What is gone through, in order. Each stage may be repeated, so that after a restart of the process all are gone through again; only a
 * reboot is remembered, and what was done before it is not done again after.
 */
export function stagesOf(o: Pick<ObservedNode, 'manifests' | 'bootID'>, tx: Transaction): TransactionStage[] {
  const from = tx.from === undefined ? undefined : o.manifests.get(tx.from);
  const to = tx.to === undefined ? undefined : o.manifests.get(tx.to);
  if (tx.back !== undefined) {
    if (from === undefined) return ['stopUnits', 'removeFiles', 'removeLink'];
    const before: TransactionStage[] = tx.rebootBack === undefined ? ['writeFiles', 'switchLink'] : [];
    // Only what was rebooted into must be rebooted out of.
    const reboot = tx.rebootThere !== undefined && tx.rebootThere !== o.bootID && (tx.rebootBack ?? o.bootID) === o.bootID;
    return [...before, ...(reboot ? (['reboot'] as const) : []), 'startUnits', 'probe'];
  }
  if (to === undefined) {
    const hook: TransactionStage[] = from?.hooks.preRemove === undefined ? [] : ['preRemove'];
    return [...hook, 'stopUnits', 'removeFiles', 'removeLink', 'removeReceipt'];
  }
  if (tx.why === 'Drift') return ['writeFiles', 'switchLink', 'startUnits', 'probe'];
  const before: TransactionStage[] =
    tx.rebootThere === undefined
      ? [...(to.hooks.preInstall === undefined ? [] : (['preInstall'] as const)), 'writeFiles', 'switchLink']
      : [];
  const reboot = tx.class === 'Reboot' && (tx.rebootThere ?? o.bootID) === o.bootID;
  const after: TransactionStage[] = to.hooks.postInstall === undefined ? ['startUnits'] : ['startUnits', 'postInstall'];
  return [...before, ...(reboot ? (['reboot'] as const) : []), ...after, 'probe', 'writeReceipt'];
}

/** The end of the plan. */
function closing(o: ObservedNode, tx: Transaction): AgentStep {
  if (tx.back === undefined) return { do: 'commit' };
  return failed(o, tx, tx.back, tx.from !== undefined);
}

function failed(o: ObservedNode, tx: Transaction, { reason, message }: { reason: string; message: string }, restored: boolean): AgentStep {
  if (tx.why === 'Delete')
    return { do: 'fail', failed: { revision: tx.revision, reason: REMOVE_FAILED, message: `${reason}: ${message}`, restored } };
  return { do: 'fail', failed: { revision: tx.revision, reason, message, restored } };
}

function afterError(
  o: ObservedNode,
  tx: Transaction,
  error: { reason: string; message: string },
  due: AgainAt,
  stage: TransactionStage,
): AgentStep | undefined {
  // Every file is there. When the write of the receipt fails, the agent does not know whether it is there, so it can only go on.
  const mustGoOn = stage === 'writeReceipt' || stage === 'removeReceipt';
  if (!mustGoOn && tx.back === undefined && tx.why === 'Change') return { do: 'turnBack', ...error };
  const tries = o.progress.failures;
  const hopeless =
    tx.why === 'Delete' ? tries >= DELETE_TRIES : tx.why === 'Drift' && tx.back === undefined ? true : o.nowMs >= o.progress.giveUpMs;
  if (hopeless && !mustGoOn) {
    const earlier = tx.back === undefined ? '' : `${tx.back.message}; going back fails too: `;
    return failed(o, tx, { reason: tx.back?.reason ?? error.reason, message: `${earlier}${stage}: ${error.message}` }, false);
  }
  if (o.nowMs >= o.progress.notBeforeMs) return { do: 'stage', stage };
  due(o.progress.notBeforeMs);
  return undefined;
}

export const backoffMs = (failures: number): number => BACKOFF_MS[Math.min(failures, BACKOFF_MS.length) - 1] ?? 0;

/**
 * docs/protocols.md#c6: at a boundary of the journal a higher revision that wants back what ran before is taken at once. Any other one is taken only where
 * no order was needed, if it disrupts no more; an order is for the revisions that it names. It still goes back to the content whose probes last passed.
 */
function newerRevision(o: ObservedNode, tx: Transaction): AgentStep | undefined {
  const component = componentOf(o.state, tx.name);
  if (component === undefined || tx.why !== 'Change' || tx.back !== undefined || component.revision <= tx.revision) return undefined;
  if (tx.rebootThere === o.bootID) return undefined;
  const touched = tx.to === undefined || tx.touched.includes(tx.to) ? tx.touched : [...tx.touched, tx.to];
  const next = (to: string | undefined): AgentStep => {
    const { to: _left, rebootThere: _reboot, ...rest } = tx;
    return {
      do: 'begin',
      transaction: { ...rest, touched, revision: component.revision, ...(to === undefined ? {} : { to }) },
      operation: undefined,
    };
  };
  // The Machine wants again what ran before: the agent goes back, though nothing failed.
  if (component.action === 'Install' && o.installed.get(tx.name)?.receipt.content === component.content) return next(tx.from);
  if (tx.operation !== undefined) return undefined;
  const pending: PendingChange = pendingOf({ ...o, state: withoutTransaction(o) }, tx.name);
  if (pending.kind !== 'ready' || pending.why !== 'Change' || strongerThan(pending.class, tx.class)) return undefined;
  return next(pending.to?.digest);
}

function withoutTransaction(o: ObservedNode): ObservedNode['state'] {
  const { transaction: _open, ...state } = o.state;
  return state;
}

export function strongerThan(a: Disruption, b: Disruption): boolean {
  return DISRUPTIONS.indexOf(a) > DISRUPTIONS.indexOf(b);
}
