/** How the operation of a Machine ended, by what the cell ordered and what was reported. Pure. */
import type { Machine, Operation, OperationStatus, Outcome } from '../machine.ts';
import { CONTROLLER_OPERATIONS, type ControllerOperation } from '../node-remedier/values.ts';

/** A report that is final. One that names no outcome counts as PermanentFailure (docs/protocols.md#c7). */
export interface OperationEnd {
  outcome: Outcome;
  report: OperationStatus;
}

export type OperationState =
  | { state: 'None' }
  /** `report`: undefined while the agent reports nothing of it. */
  | { state: 'UnderWay'; order: Operation; report: OperationStatus | undefined }
  /** The cell took the order back, so a report ends nothing any more. */
  | { state: 'Cancelled'; order: Operation }
  | ({ state: 'Ended'; order: Operation } & OperationEnd);

/** Carried out by the machine controller, which reports it in `status.repair`; all else is carried out and reported by the agent. */
export const isControllerOperation = (action: string | undefined): action is ControllerOperation =>
  CONTROLLER_OPERATIONS.some((each) => each === action);

/** What is reported of an operation. Where another order has replaced it on the Machine it is not known who carried it out. */
function reportOf({ spec, status }: Machine, id: string): OperationStatus | undefined {
  const { operation: order } = spec;
  const { operation, repair } = status ?? {};
  const reports = order?.id === id ? [isControllerOperation(order.action) ? repair : operation] : [repair, operation];
  return reports.find((each) => each?.id === id);
}

/**
 * How the operation of this ID ended, also where its order was taken back or another one has replaced it: what was done on the machine stays
 * done. undefined: no end is reported.
 */
export function reportedEnd(machine: Machine, id: string): OperationEnd | undefined {
  const report = reportOf(machine, id);
  return report?.state === 'Done' ? { outcome: report.outcome ?? 'PermanentFailure', report } : undefined;
}

export function operationState(machine: Machine): OperationState {
  const { operation: order } = machine.spec;
  if (order === undefined) return { state: 'None' };
  if (order.kind === 'Cancelled') return { state: 'Cancelled', order };
  const end = reportedEnd(machine, order.id);
  return end === undefined ? { state: 'UnderWay', order, report: reportOf(machine, order.id) } : { state: 'Ended', order, ...end };
}

/** The end of the order in the Machine's spec, after which its reservation may go; undefined while it is under way, and for an order that was taken back. */
export function endOf(machine: Machine): OperationEnd | undefined {
  const found = operationState(machine);
  return found.state === 'Ended' ? found : undefined;
}

/** Whether the Machine has this operation as an order whose end was not reported. */
export function isUnderWay(machine: Machine, id: string): boolean {
  const found = operationState(machine);
  return found.state === 'UnderWay' && found.order.id === id;
}
