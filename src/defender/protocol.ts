/**
 * The ledger's transitions (docs/protocols.md#c8, #c9, #d1 to #d6), pure: a state in, the next state out, or a CodedError.
 *
 * Errors
 * - `Deposed`: the ledger carries another epoch, or is gone: the leader with this one no longer leads and must stop.
 * - `ReservationExists`, `ReservationAbsent`, `LedgerFull`: the request does not fit the state; read again and decide again.
 * - `NoEvidence`: what was shown does not prove that the reservation's effect is known.
 *
 * Guarantees: nothing here takes a time as a reason to free a reservation. What has expired may not begin any more, and goes on counting.
 */
import { defenderError } from './errors.ts';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import type { CodedError } from '../api/errors.ts';
import type { OperationStatus } from '../api/machine.ts';
import { countStarts, countUnknown, giveBack, type Rated } from './rates.ts';
import { reservationOfID, reservationOfMachine, type LedgerState } from './state.ts';

/** As many reservations as the ledger's schema takes. */
export const MAX_ROWS = 500;

/**
 * The state of a new term. Also of the same process: what a paused leader of the term before still sends must find another epoch. `least`: all
 * below it may have been used.
 */
export function takeLeadership(state: LedgerState, least = 0): LedgerState {
  return { ...state, epoch: Math.max(state.epoch + 1, least) };
}

/**
 * The state of a ledger that replaces a lost one: with the reservations that are `left` (docs/protocols.md#d1). `used`: the highest epoch that any object has; where there
 * is any, disruptions may have begun that only the lost one recorded, and rates have no room before those are too old to count.
 */
export function rebuilt(state: LedgerState, left: readonly LedgerReservation[], used: number, since: string): LedgerState {
  const reservations = [
    ...state.reservations,
    ...left.filter((reservation) => reservationOfMachine(state, reservation.machineUID) === undefined),
  ];
  if (reservations.length > MAX_ROWS)
    throw defenderError('LedgerFull', `the ledger contains at most ${MAX_ROWS} reservations, and ${reservations.length} may be under way`);
  if (used === 0 && left.length === 0) return { ...state, reservations };
  return { ...state, reservations, hours: countUnknown(state.hours ?? [], Date.parse(since)) };
}

/** A term lasts as long as its ledger (docs/protocols.md#d1): the next one makes another, whose epochs are above every one that was used. */
export const ledgerGone = (): CodedError =>
  defenderError('Deposed', 'the DisruptionLedger cell is gone: this term is over, and the next one makes it');

/** Throws `Deposed` unless the ledger carries the writer's own epoch. */
export function requireEpoch(state: LedgerState, epoch: number): void {
  if (state.epoch !== epoch)
    throw defenderError('Deposed', `the ledger carries epoch ${state.epoch}, this leader's is ${epoch}: another term has begun`);
}

/**
 * Several reservations in one state; that every limit has room is judged before (`judge`), on the same read of the ledger. What a rate limits
 * is counted in this very state.
 */
export function reserve(
  state: LedgerState,
  epoch: number,
  reservations: readonly LedgerReservation[],
  { nowMs, rated }: { nowMs: number; rated: Rated } = { nowMs: 0, rated: () => false },
): LedgerState {
  requireEpoch(state, epoch);
  const next = [...state.reservations];
  const counted = countStarts(state.hours ?? [], reservations, nowMs, rated);
  for (const reservation of counted.reservations) {
    const other = next.find((each) => each.machineUID === reservation.machineUID || each.id === reservation.id);
    if (other !== undefined)
      throw defenderError('ReservationExists', `machine ${reservation.machine} already has reservation ${other.id} in the ledger`);
    next.push(reservation);
  }
  if (next.length > MAX_ROWS) throw defenderError('LedgerFull', `the ledger contains at most ${MAX_ROWS} reservations`);
  return { ...state, reservations: next, ...(counted.hours.length === 0 ? {} : { hours: counted.hours }) };
}

/** What proves that a reservation's effect is known. There is no other way out of the ledger (docs/protocols.md#d5). */
export type ReleaseEvidence =
  /** The agent's terminal report of this reservation's operation, recorded on what asked. */
  | { by: 'Report'; machineUID: string; report: OperationStatus; recorded: boolean }
  /** The Machine's operation is this reservation's and Cancelled (an operator's release, or a reservation that never got an order), and the Node is fenced. */
  | {
      by: 'Cancelled';
      machineUID: string;
      operationID: string;
      fenced: boolean;
      /** The leader wrote it where no order was. Then nothing began, and rates get back what the reservation counted. */
      unordered?: boolean;
    }
  /** No Machine has the reservation's UID any more: its finalizer went after the provider's proof of absence. */
  | { by: 'MachineGone'; presentUID: string | undefined };

function proves(evidence: ReleaseEvidence, reservation: LedgerReservation): boolean {
  if (evidence.by === 'MachineGone') return evidence.presentUID !== reservation.machineUID;
  if (evidence.machineUID !== reservation.machineUID) return false;
  if (evidence.by === 'Cancelled') return evidence.operationID === reservation.id && evidence.fenced;
  return evidence.report.id === reservation.id && evidence.report.state === 'Done' && evidence.recorded;
}

export function release(state: LedgerState, epoch: number, id: string, evidence: ReleaseEvidence): LedgerState {
  requireEpoch(state, epoch);
  const reservation = reservationOfID(state, id);
  if (reservation === undefined) throw defenderError('ReservationAbsent', `the ledger has no reservation ${id}`);
  if (!proves(evidence, reservation))
    throw defenderError('NoEvidence', `what is known of ${reservation.machine} does not prove that operation ${id} has ended`, {
      next: `kubenode why ${reservation.machine}`,
    });
  const reservations = state.reservations.filter((each) => each.id !== id);
  const unordered = evidence.by === 'Cancelled' && evidence.unordered === true;
  return { ...state, reservations, ...(unordered && state.hours !== undefined ? { hours: giveBack(state.hours, reservation) } : {}) };
}

/** Why a reservation may be replaced by another one while its operation may still run. The machine stays reserved throughout. */
export type Succession =
  /**
   * The Machine is being deleted (docs/protocols.md#c8): a dead node's step is not waited for. `counted` absent: the grant of the
   * reservation included its end, which is not counted again.
   */
  | { because: 'Deleting'; counted?: { nowMs: number; rated: Rated } }
  /** A provider repairs a node whose agent does not respond and whose order can no longer begin (docs/protocols.md#c9). */
  | { because: 'ProviderRepair'; agentStale: boolean; nowMs: number; rated: Rated };

/**
 * An operation that takes over is one disruption more for the rates that limit it, whether the former one had begun or not; except the deletion of a
 * machine whose repair is to replace it.
 */
export function takeOver(state: LedgerState, epoch: number, id: string, successor: LedgerReservation, why: Succession): LedgerState {
  requireEpoch(state, epoch);
  const reservation = reservationOfID(state, id);
  if (reservation === undefined) throw defenderError('ReservationAbsent', `the ledger has no reservation ${id}`);
  const allowed =
    successor.machineUID === reservation.machineUID &&
    reservationOfID(state, successor.id) === undefined &&
    (why.because === 'Deleting'
      ? successor.kind === 'Delete' && reservation.kind !== 'Delete'
      : successor.kind === 'Repair' && reservation.kind !== 'Delete' && why.agentStale && why.nowMs > Date.parse(reservation.notAfter));
  if (!allowed)
    throw defenderError(
      'NoEvidence',
      `reservation ${id} (${reservation.kind}) of ${reservation.machine} must not be taken over by a ${successor.kind} reservation yet`,
    );
  const replaced = (next: LedgerReservation): LedgerReservation[] => state.reservations.map((each) => (each.id === id ? next : each));
  const counts = why.because === 'Deleting' ? why.counted : why;
  if (counts === undefined) return { ...state, reservations: replaced(successor) };
  const counting = why.because === 'Deleting' ? successor : { ...successor, succeeds: reservation.succeeds ?? id };
  const counted = countStarts(state.hours ?? [], [counting], counts.nowMs, counts.rated);
  const [next = successor] = counted.reservations;
  return { ...state, reservations: replaced(next), ...(counted.hours.length === 0 ? {} : { hours: counted.hours }) };
}

/** Whether this very reservation is the machine's. */
export function isReserved(state: LedgerState, reservation: Pick<LedgerReservation, 'id' | 'machineUID'>): boolean {
  return reservationOfMachine(state, reservation.machineUID)?.id === reservation.id;
}
