import type { AgainAt, AgentStep } from '../engine/steps.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { isControllers } from '../repair/task.ts';
import { runningOperation } from '../records/state.ts';

/**
 * Its Machine is deleted, and what runs here is to be left as it is (docs/protocols.md#c14). Only from a Machine that the step before this one read, when nothing is
 * under way here and nothing that was ordered is left to be begun.
 */
export function announceStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  const { wanted, state } = o;
  if (wanted === undefined || !wanted.deleting || wanted.held || wanted.deletionPolicy !== 'Orphan') return undefined;
  if (state.transaction !== undefined || runningOperation(state) !== undefined) return undefined;
  const { operation } = wanted;
  if (operation?.kind === 'Delete') return undefined;
  const isOpen = operation !== undefined && !isControllers(operation) && !state.operations.some(({ id }) => id === operation.id);
  if (isOpen) return undefined;
  if (o.reread !== undefined) return { do: 'leave', part: 'Announce' };
  if (o.nowMs >= o.rereadNotBeforeMs) return { do: 'reread', operation: operation?.id ?? '' };
  due(o.rereadNotBeforeMs);
  return undefined;
}

/**
 * Once it is recorded that the agent leaves, it does nothing else. Its credentials are kept until the cell has its report, or knows this machine no more: that it
 * cannot be reached proves neither.
 */
export function leaveStep(o: ObservedNode): AgentStep | undefined {
  if (o.state.leaving === undefined) return undefined;
  if (o.nowMs < o.leaveNotBeforeMs) return { do: 'wait', untilMs: o.leaveNotBeforeMs, why: 'the agent leaves' };
  const isKnown = o.state.leaving === 'Acknowledged' || o.wanted?.reported.leaving === true || o.unknownToCell;
  return { do: 'leave', part: isKnown ? 'Go' : 'Confirm' };
}
