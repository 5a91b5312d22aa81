import type { DisruptionLedger, LedgerReservation, StartsBucket } from '../api/disruption-ledger.ts';
import type { Stored } from '../api/wire.ts';

/** The content of the ledger, as the rules see it: a value, never mutated. */
export interface LedgerState {
  /** Epoch of the leader that may write; 0 before the first. */
  readonly epoch: number;
  readonly reservations: readonly LedgerReservation[];
  /** What rates count; absent while none was ever set. */
  readonly hours?: readonly StartsBucket[];
}

export function stateOf(ledger: Pick<DisruptionLedger, 'status'>): LedgerState {
  const { epoch, reservations, hours } = ledger.status ?? {};
  return { epoch: epoch ?? 0, reservations: reservations ?? [], ...(hours === undefined ? {} : { hours }) };
}

/** The ledger object carrying this state; its resourceVersion stays the one of the read, which conditions the write. */
export function withState(ledger: Stored<DisruptionLedger>, state: LedgerState): Stored<DisruptionLedger> {
  const { epoch, reservations, hours } = state;
  return {
    ...ledger,
    status: { ...ledger.status, epoch, reservations: [...reservations], ...(hours === undefined ? {} : { hours: [...hours] }) },
  };
}

export function reservationOfMachine(state: LedgerState, machineUID: string): LedgerReservation | undefined {
  return state.reservations.find((reservation) => reservation.machineUID === machineUID);
}

export function reservationOfID(state: LedgerState, id: string): LedgerReservation | undefined {
  return state.reservations.find((reservation) => reservation.id === id);
}
