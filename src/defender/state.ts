import type { DisruptionLedger, LedgerRow } from '../api/disruptionledger.ts';
import type { Stored } from '../api/wire.ts';

/** What the ledger says, as the rules see it: a value, never changed in place. */
export interface LedgerState {
  /** Of the leader that may write; 0 before the first. */
  readonly epoch: number;
  readonly rows: readonly LedgerRow[];
}

export function stateOf(ledger: Pick<DisruptionLedger, 'status'>): LedgerState {
  return { epoch: ledger.status?.epoch ?? 0, rows: ledger.status?.rows ?? [] };
}

/** The ledger object carrying this state; its resourceVersion stays that of the read, which conditions the write. */
export function withState(ledger: Stored<DisruptionLedger>, state: LedgerState): Stored<DisruptionLedger> {
  return { ...ledger, status: { ...ledger.status, epoch: state.epoch, rows: [...state.rows] } };
}

export function rowOfMachine(state: LedgerState, machineUID: string): LedgerRow | undefined {
  return state.rows.find((row) => row.machineUID === machineUID);
}

export function rowOfID(state: LedgerState, id: string): LedgerRow | undefined {
  return state.rows.find((row) => row.id === id);
}
