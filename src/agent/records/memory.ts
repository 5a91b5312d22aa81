import type { AgentMemory } from '../context.ts';
import type { Manifest } from '../generation/manifest.ts';
import type { Journal } from './journal.ts';
import type { Receipt } from './receipts.ts';

export interface Installed {
  receipt: Receipt;
  /** Absent: its generation's folder is damaged. */
  manifest: Manifest | undefined;
}

/** Why the agent does nothing: damage that only a human can judge, or a disk that fails. */
export interface Trouble {
  reason: 'JournalDamaged' | 'ReceiptDamaged' | 'DiskFailing';
  message: string;
}

/** What was read of the records on this disk. */
export interface RecordsMemory {
  /** Absent: it must be opened, or opened again. */
  journal: Journal | undefined;
  /** What is on this disk is another machine's. */
  foreign: boolean;
  trouble: Trouble | undefined;
  installed: Map<string, Installed>;
}

export function newRecordsMemory(): RecordsMemory {
  return { journal: undefined, foreign: false, trouble: undefined, installed: new Map() };
}

/** Steps are only taken on an open journal. */
export function journalOf({ records }: AgentMemory): Journal {
  if (records.journal === undefined) throw new Error('the journal is not open');
  return records.journal;
}

/** The journal is opened again before the next step. */
export function closeJournal({ records }: AgentMemory, trouble?: Trouble): void {
  records.journal = undefined;
  if (trouble !== undefined) records.trouble = trouble;
}
