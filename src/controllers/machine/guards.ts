/** What every guarded write of an operation reads, and how it stops. In the comments M is the Machine, N its Node, L the ledger; r is the reservation. */
import { defenderError } from '../../defender/errors.ts';
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import type { Machine, OperationStatus, RepairStatus } from '../../api/machine.ts';
import type { RepairOperation } from '../../api/node-remedier/values.ts';
import type { ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { endOf } from '../../api/machine/operation-end.ts';
import type { GuardedWrite, Move, Seen } from '../../defender/guarded-write.ts';
import { isReserved, ledgerGone, requireEpoch } from '../../defender/protocol.ts';
import { stateOf, type LedgerState } from '../../defender/state.ts';
import { nameOf, type AskFacts } from './facts.ts';
import { claimOf, type Claim } from './observe/claim.ts';
import type { DrainedPod } from './view.ts';

/** What leaves the three objects. */
export type Effect =
  | { do: 'Evict'; pod: DrainedPod; graceSeconds?: number }
  | { do: 'DeleteInstance'; providerID: string }
  | { do: 'StopInstance'; providerID: string; operationID: string }
  | { do: 'RetirePower'; providerID: string; operationID: string }
  | { do: 'PowerCycle'; providerID: string; operationID: string }
  /** Not unless the provider answers right before that the instance is off or gone. */
  | { do: 'ForceDelete'; pods: readonly DrainedPod[]; providerID: string }
  | { do: 'DeleteMachine'; machine: Stored<Machine> };

export interface ActContext {
  /** Of the leader that acts. */
  epoch: number;
  machine: ObjectKey;
  /** Name of the Node the machine may have. */
  node: string;
  facts: AskFacts;
  newID: () => string;
}

export type Act = GuardedWrite<Effect>;
export type Guarded = Move<Effect>;
export const stop = (why: string): { stop: string } => ({ stop: why });
export const base = (name: string, context: ActContext) => ({ name, machine: context.machine, node: context.node });

/** docs/protocols.md#d3: a leader that reads the trace of a later one, or another machine under the name, stops. */
export function machineOf(reservation: LedgerReservation, seen: Seen, epoch: number): Stored<Machine> | undefined {
  const { machine } = seen;
  if (machine === undefined || machine.metadata.uid !== reservation.machineUID) return undefined;
  const other = machine.spec.operation?.epoch ?? 0;
  if (other > epoch) throw defenderError('Deposed', `${nameOf(machine)} bears an order of epoch ${other}, this leader's is ${epoch}`);
  return machine;
}

/** L live, of the writer's own epoch, with r. */
export function ledgerWith(reservation: LedgerReservation, seen: Seen, epoch: number): LedgerState | undefined {
  if (seen.ledger === undefined) throw ledgerGone();
  const state = stateOf(seen.ledger);
  requireEpoch(state, epoch);
  return isReserved(state, reservation) ? state : undefined;
}

export const claimIn = (machine: Machine, seen: Seen): Claim => claimOf(machine, machine.status?.providerID, seen.node);

export const isCancelled = (reservation: LedgerReservation, machine: Machine): boolean =>
  machine.spec.operation?.id === reservation.id && machine.spec.operation.kind === 'Cancelled';

/** The final report on r. */
export function reportOn(reservation: LedgerReservation, machine: Machine): OperationStatus | undefined {
  const report = endOf(machine)?.report;
  return report?.id === reservation.id ? report : undefined;
}

/** r's repair, while it is carried out here. `action`: only this one. */
export function repairUnderWay(reservation: LedgerReservation, machine: Machine, action?: RepairOperation): RepairStatus | undefined {
  const order = machine.spec.operation;
  const repair = machine.status?.repair;
  if (order?.id !== reservation.id || order.kind !== 'Repair' || (action !== undefined && order.action !== action)) return undefined;
  return repair?.id === reservation.id && repair.state === 'Running' ? repair : undefined;
}
