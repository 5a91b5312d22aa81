import { isCoded } from '../../api/errors.ts';
import { sha256Hex } from '../../api/digest.ts';
import type { Durable } from '../disk/durable.ts';
import { agentError, agentErrorCodes } from '../errors.ts';
import { fold } from './state.ts';
import type { JournalEntry, JournalState } from './state.ts';

/**
 * The journal: each intention and its outcome, one line each, every line with the checksum of its text. A line is
 * durable before anything it announces is done. A line that was cut by a loss of power is at the end and counts as never
 * written; any other line that fails its check is damage, and the agent does nothing on a damaged journal.
 */
export interface Journal {
  readonly state: JournalState;
  /** Errors: `DiskFailing`; then the journal must be opened again, since it is not known whether the line is there. */
  append(entry: JournalEntry): Promise<void>;
}

/** Lines after which the journal is written again as one. */
const LONG = 200;

export const encode = (entry: JournalEntry): string => {
  const text = JSON.stringify(entry);
  return `${sha256Hex(text).slice(0, 16)} ${text}\n`;
};

/** undefined: not a whole line of a journal. */
export function decode(line: string): JournalEntry | undefined {
  if (line[16] !== ' ') return undefined;
  const text = line.slice(17);
  if (sha256Hex(text).slice(0, 16) !== line.slice(0, 16)) return undefined;
  return JSON.parse(text) as JournalEntry;
}

/** Errors: `JournalDamaged`. */
export function replay(text: string): { state: JournalState | undefined; lines: number; torn: boolean } {
  const lines = text.split('\n');
  // What follows the last newline: nothing, or the beginning of a line.
  const rest = lines.pop() ?? '';
  const entries = lines.map(decode);
  const bad = entries.indexOf(undefined);
  const whole = bad < 0 ? entries.length : bad;
  if (bad >= 0 && (bad < entries.length - 1 || rest !== '')) {
    throw agentError('JournalDamaged', `line ${bad + 1} of the journal is damaged and others follow it`);
  }
  let state: JournalState | undefined;
  for (const entry of entries.slice(0, whole)) if (entry !== undefined) state = fold(state, entry);
  return { state, lines: whole, torn: bad >= 0 || rest !== '' };
}

/**
 * Opens the journal of this machine; where there is none, or the one of another machine, it returns `undefined`, and its owner begins one.
 * Errors: `JournalDamaged`, `DiskFailing`.
 */
export async function openJournal(durable: Durable, path: string): Promise<Journal | undefined> {
  const bytes = await durable.files.read(path);
  if (bytes === undefined || bytes.length === 0) return undefined;
  const { state, lines, torn } = replay(bytes.toString());
  if (state === undefined) return undefined;
  const journal = journalOf(durable, path, state, lines);
  // Written again at each start: a last line that was read may be in memory only, and one that was cut must not be continued.
  if (torn || lines > 1) await journal.rewrite();
  else await failing(() => durable.replace(path, bytes, 0o600));
  return journal;
}

/** Makes the journal of a machine, instead of what is there. Errors: `DiskFailing`. */
export async function beginJournal(durable: Durable, path: string, machineUID: string): Promise<Journal> {
  const entry: JournalEntry = { t: 'open', machineUID };
  await failing(() => durable.replace(path, encode(entry), 0o600));
  return journalOf(durable, path, fold(undefined, entry), 1);
}

function journalOf(durable: Durable, path: string, initial: JournalState, initialLines: number): Journal & { rewrite(): Promise<void> } {
  let state = initial;
  let lines = initialLines;
  let broken = false;

  async function write(operation: () => Promise<unknown>): Promise<void> {
    if (broken) throw agentError('DiskFailing', 'an earlier write of the journal failed: it must be opened again');
    broken = true;
    await failing(operation);
    broken = false;
  }

  async function rewrite(): Promise<void> {
    await write(() => durable.replace(path, encode({ t: 'state', state }), 0o600));
    lines = 1;
  }

  return {
    get state() {
      return state;
    },
    rewrite,
    async append(entry) {
      await write(() => durable.append(path, encode(entry)));
      state = fold(state, entry);
      if (++lines > LONG) await rewrite();
    },
  };
}

async function failing(operation: () => Promise<unknown>): Promise<void> {
  try {
    await operation();
  } catch (cause) {
    if (isCoded(cause, agentErrorCodes, 'DiskFailing')) throw cause;
    throw agentError('DiskFailing', `the journal cannot be written: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}
