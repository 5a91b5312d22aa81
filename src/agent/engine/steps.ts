import type { Outcome } from '../../api/machine.ts';
import type { AcceptedEntry, ComponentFailure, OperationRecord, Transaction } from '../records/state.ts';

/** The stages of a transaction, each named by what it does. */
export type TransactionStage =
  | 'preInstall'
  | 'writeFiles'
  | 'switchLink'
  | 'reboot'
  | 'startUnits'
  | 'postInstall'
  | 'probe'
  | 'writeReceipt'
  | 'preRemove'
  | 'stopUnits'
  | 'removeFiles'
  | 'removeLink'
  | 'removeReceipt';

/** What the agent does next. One at a time. */
export type AgentStep =
  /** Nothing, until then or until something happens. */
  | { do: 'wait'; untilMs: number; why: string }
  /** Removes everything of the machine that this disk was in before. */
  | { do: 'startOver' }
  | { do: 'note'; held: boolean; verified: Record<string, string[]>; reset: boolean; epoch?: number }
  | { do: 'accept'; accepted: AcceptedEntry }
  | { do: 'forget'; name: string }
  | { do: 'advance'; name: string }
  | { do: 'removed'; name: string }
  | { do: 'refuse'; name: string; failed: ComponentFailure }
  | { do: 'prepare'; name: string; rebuild: boolean }
  | { do: 'check'; name: string; full: boolean }
  | { do: 'repair'; name: string }
  | { do: 'startUnit'; name: string; unit: string }
  | { do: 'stopUnit'; unit: string }
  | { do: 'reread'; operation: string }
  | { do: 'begin'; transaction: Transaction; operation: OperationRecord | undefined }
  /** A Repair is intended. */
  | { do: 'operate'; operation: OperationRecord }
  /** The agent carries out a Repair, or continues it. */
  | { do: 'restartUnits'; operation: OperationRecord; component: string }
  | { do: 'clean'; operation: OperationRecord; belowPercent: number }
  | { do: 'reboot'; operation: OperationRecord }
  /** A reboot that was asked for shall not come any more. */
  | { do: 'withdraw'; operation: OperationRecord; finish: Finish }
  | { do: 'stage'; stage: TransactionStage }
  | { do: 'turnBack'; reason: string; message: string }
  | { do: 'commit' }
  | { do: 'fail'; failed: ComponentFailure }
  | Finish
  | { do: 'sweep' }
  /** The agent records that it leaves, asks whether the cell knows, and takes itself away. */
  | { do: 'leave'; part: 'Announce' | 'Confirm' | 'Go' };

export interface Finish {
  do: 'finish';
  id: string;
  epoch: number;
  kind: string;
  outcome: Outcome;
  message: string;
  cleared: boolean;
  /** The agent goes too. */
  leaves: boolean;
}

/** Collects the times at which to decide again. */
export type AgainAt = (ms: number) => void;
