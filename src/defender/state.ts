import type { DisruptionLedger, LedgerRow, StartsBucket } from '../api/disruption-ledger.ts';
import type { Stored } from '../api/wire.ts';

/** What the ledger says, as the rules see it: a value, never changed in place. */
export interface LedgerState {
  /** Of the leader that may write; 0 before the first. */
  readonly epoch: number;
  readonly rows: readonly LedgerRow[];
  /** What rates count; absent while none was ever set. */
  readonly hours?: readonly StartsBucket[];
}

export function stateOf(ledger: Pick<DisruptionLedger, 'status'>): LedgerState {
  const { epoch, rows, hours } = ledger.status ?? {};
  return { epoch: epoch ?? 0, rows: rows ?? [], ...(hours === undefined ? {} : { hours }) };
}

/** The ledger object carrying this state; its resourceVersion stays that of the read, which conditions the write. */
export function withState(ledger: Stored<DisruptionLedger>, state: LedgerState): Stored<DisruptionLedger> {
  const { epoch, rows, hours } = state;
  return { ...ledger, status: { ...ledger.status, epoch, rows: [...rows], ...(hours === undefined ? {} : { hours: [...hours] }) } };
}

export function rowOfMachine(state: LedgerState, machineUID: string): LedgerRow | undefined {
  return state.rows.find((row) => row.machineUID === machineUID);
}

export function rowOfID(state: LedgerState, id: string): LedgerRow | undefined {
  return state.rows.find((row) => row.id === id);
}
