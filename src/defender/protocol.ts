/**
 * The ledger's transitions (docs/protocols.md#c8, #c9, #d1 to #d6), pure: a state in, the next state out, or a CodedError.
 *
 * Errors
 * - `Deposed`: the ledger carries another epoch, or is gone: whoever holds this one leads no more and must stop.
 * - `RowExists`, `RowAbsent`, `LedgerFull`: the request does not fit the state; read again and decide again.
 * - `NoEvidence`: what was shown does not prove that the row's effect is known.
 *
 * Guarantees: nothing here takes a time as a reason to free a row. What has expired may not begin any more, and goes on counting.
 */
import type { LedgerRow } from '../api/disruption-ledger.ts';
import { CodedError } from '../api/errors.ts';
import type { OperationStatus } from '../api/machine.ts';
import { countStarts, countUnknown, giveBack, type Rated } from './rates.ts';
import { rowOfID, rowOfMachine, type LedgerState } from './state.ts';

/** As many rows as the ledger's schema takes. */
export const MAX_ROWS = 500;

/**
 * The state of a new term. Also of the same process: what a paused leader of the term before still sends must find another epoch. `least`: all
 * below it may have been used.
 */
export function takeLeadership(state: LedgerState, least = 0): LedgerState {
  return { ...state, epoch: Math.max(state.epoch + 1, least) };
}

/**
 * The state of a ledger that took the place of a lost one: with the rows that are `left` (docs/protocols.md#d1). `used`: the highest epoch that is borne somewhere; where there
 * is any, disruptions may have begun of which the lost one alone knew, and rates have no room before those are too old to count.
 */
export function rebuilt(state: LedgerState, left: readonly LedgerRow[], used: number, since: string): LedgerState {
  const rows = [...state.rows, ...left.filter((row) => rowOfMachine(state, row.machineUID) === undefined)];
  if (rows.length > MAX_ROWS)
    throw new CodedError('LedgerFull', `the ledger holds at most ${MAX_ROWS} rows, and ${rows.length} may be under way`);
  if (used === 0 && left.length === 0) return { ...state, rows };
  return { ...state, rows, hours: countUnknown(state.hours ?? [], Date.parse(since)) };
}

/** A term lasts as long as its ledger (docs/protocols.md#d1): the next one makes another, whose epochs are above every one that was used. */
export const ledgerGone = (): CodedError =>
  new CodedError('Deposed', 'the DisruptionLedger cell is gone: this term is over, and the next one makes it');

/** Throws `Deposed` unless the ledger carries the writer's own epoch. */
export function requireEpoch(state: LedgerState, epoch: number): void {
  if (state.epoch !== epoch)
    throw new CodedError('Deposed', `the ledger carries epoch ${state.epoch}, this leader's is ${epoch}: another term has begun`);
}

/**
 * Several reservations in one state; that every limit has room is judged before (`judge`), on the same read of the ledger. What a rate speaks of
 * is counted in this very state.
 */
export function reserve(
  state: LedgerState,
  epoch: number,
  rows: readonly LedgerRow[],
  { nowMs, rated }: { nowMs: number; rated: Rated } = { nowMs: 0, rated: () => false },
): LedgerState {
  requireEpoch(state, epoch);
  const next = [...state.rows];
  const counted = countStarts(state.hours ?? [], rows, nowMs, rated);
  for (const row of counted.rows) {
    const other = next.find((each) => each.machineUID === row.machineUID || each.id === row.id);
    if (other !== undefined) throw new CodedError('RowExists', `machine ${row.machine} already has row ${other.id} in the ledger`);
    next.push(row);
  }
  if (next.length > MAX_ROWS) throw new CodedError('LedgerFull', `the ledger holds at most ${MAX_ROWS} rows`);
  return { ...state, rows: next, ...(counted.hours.length === 0 ? {} : { hours: counted.hours }) };
}

/** What proves that a row's effect is known. There is no other way out of the ledger (docs/protocols.md#d5). */
export type ReleaseEvidence =
  /** The agent's terminal report of this row's operation, recorded on what asked. */
  | { by: 'Report'; machineUID: string; report: OperationStatus; recorded: boolean }
  /** The Machine's operation is this row's and Cancelled (an operator's release, or a row that never got an order), and the Node is fenced. */
  | {
      by: 'Cancelled';
      machineUID: string;
      operationID: string;
      fenced: boolean;
      /** The leader wrote it where no order was. Then nothing began, and rates get back what the row counted. */
      unordered?: boolean;
    }
  /** No Machine has the row's UID any more: its finalizer went after the provider's proof of absence. */
  | { by: 'MachineGone'; presentUID: string | undefined };

function proves(evidence: ReleaseEvidence, row: LedgerRow): boolean {
  if (evidence.by === 'MachineGone') return evidence.presentUID !== row.machineUID;
  if (evidence.machineUID !== row.machineUID) return false;
  if (evidence.by === 'Cancelled') return evidence.operationID === row.id && evidence.fenced;
  return evidence.report.id === row.id && evidence.report.state === 'Done' && evidence.recorded;
}

export function release(state: LedgerState, epoch: number, id: string, evidence: ReleaseEvidence): LedgerState {
  requireEpoch(state, epoch);
  const row = rowOfID(state, id);
  if (row === undefined) throw new CodedError('RowAbsent', `the ledger has no row ${id}`);
  if (!proves(evidence, row))
    throw new CodedError('NoEvidence', `what is known of ${row.machine} does not prove that operation ${id} has ended`, {
      next: `kubenode why ${row.machine}`,
    });
  const rows = state.rows.filter((each) => each.id !== id);
  const unordered = evidence.by === 'Cancelled' && evidence.unordered === true;
  return { ...state, rows, ...(unordered && state.hours !== undefined ? { hours: giveBack(state.hours, row) } : {}) };
}

/** Why a row may be replaced by another one while its operation may still run. The machine stays reserved throughout. */
export type Succession =
  /**
   * The Machine is being deleted (docs/protocols.md#c8): a dead node's step is not waited for. `counted` absent: its end was part of what the row was granted for,
   * and is not counted again.
   */
  | { because: 'Deleting'; counted?: { nowMs: number; rated: Rated } }
  /** A provider repairs a node whose agent is silent and whose order can no longer begin (docs/protocols.md#c9). */
  | { because: 'ProviderRepair'; agentSilent: boolean; nowMs: number; rated: Rated };

/**
 * What takes over is one disruption more for the rates that speak of it, whether what it comes after had begun or not; save the deletion of a
 * machine whose repair is to replace it.
 */
export function takeOver(state: LedgerState, epoch: number, id: string, successor: LedgerRow, why: Succession): LedgerState {
  requireEpoch(state, epoch);
  const row = rowOfID(state, id);
  if (row === undefined) throw new CodedError('RowAbsent', `the ledger has no row ${id}`);
  const allowed =
    successor.machineUID === row.machineUID &&
    rowOfID(state, successor.id) === undefined &&
    (why.because === 'Deleting'
      ? successor.kind === 'Delete' && row.kind !== 'Delete'
      : successor.kind === 'Repair' && row.kind !== 'Delete' && why.agentSilent && why.nowMs > Date.parse(row.notAfter));
  if (!allowed)
    throw new CodedError('NoEvidence', `row ${id} (${row.kind}) of ${row.machine} must not be taken over by a ${successor.kind} row yet`);
  const replaced = (next: LedgerRow): LedgerRow[] => state.rows.map((each) => (each.id === id ? next : each));
  const counts = why.because === 'Deleting' ? why.counted : why;
  if (counts === undefined) return { ...state, rows: replaced(successor) };
  const counting = why.because === 'Deleting' ? successor : { ...successor, succeeds: row.succeeds ?? id };
  const counted = countStarts(state.hours ?? [], [counting], counts.nowMs, counts.rated);
  const [next = successor] = counted.rows;
  return { ...state, rows: replaced(next), ...(counted.hours.length === 0 ? {} : { hours: counted.hours }) };
}

/** Whether this very row is the machine's. */
export function holds(state: LedgerState, row: Pick<LedgerRow, 'id' | 'machineUID'>): boolean {
  return rowOfMachine(state, row.machineUID)?.id === row.id;
}
