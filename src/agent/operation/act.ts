import { bestWallMs } from '../cell/memory.ts';
import type { AgentContext } from '../context.ts';
import type { Finish } from '../engine/steps.ts';
import { short } from '../errors.ts';
import { requestSweep } from '../generation/memory.ts';
import { LEAVING } from '../leave/act.ts';
import { journalOf } from '../records/memory.ts';
import type { OperationRecord } from '../records/state.ts';
import { endRepairing } from '../repair/memory.ts';
import { nameOf } from '../repair/task.ts';

/** An operation has its outcome: the journal records it, and an Event reports the outcome of a Repair. */
export async function finish(ctx: AgentContext, step: Finish): Promise<void> {
  const { memory, ports } = ctx;
  const journal = journalOf(memory);
  const { id, epoch, kind, outcome, message, cleared, leaves } = step;
  const known = journal.state.operations.find((each) => each.id === id);
  const finishedAt = bestWallMs(memory, ports.clock);
  const operation: OperationRecord = {
    ...(known ?? { id, epoch, kind, startedAt: finishedAt, components: [], class: 'None' as const }),
    outcome,
    ...(message === '' ? {} : { message: short(message) }),
    bootID: ports.host.bootID,
    finishedAt,
  };
  await journal.append({ t: 'finish', operation, ...(cleared ? { cleared } : {}), ...(leaves ? { leaves } : {}) });
  if (leaves) ctx.happened(LEAVING);
  requestSweep(memory);
  if (kind !== 'Repair') return;
  endRepairing(ctx);
  const what = known?.task === undefined ? id : `${nameOf(known.task)} (operation ${id})`;
  const type = outcome === 'Succeeded' ? 'Normal' : 'Warning';
  ctx.happened({ type, reason: 'RepairEnded', message: short(`${what}: ${outcome}${message === '' ? '' : `: ${message}`}`, 800) });
}
