import { pino, type DestinationStream, type Logger } from 'pino';
import { LONGEST_CONDITION_MESSAGE, plainTexts } from '../api/plain-text.ts';

/**
 * The log of a long-running program. Errors bear words of servers, cells and nodes: they are cut where they come in, and here again, so that
 * no author of a text that was forgotten there fills the log (docs/protocols.md#g7).
 */
export function createLog(level: string, destination: DestinationStream): Logger {
  const formatters = { log: (fields: Record<string, unknown>) => plainTexts(fields, LONGEST_CONDITION_MESSAGE) };
  return pino({ level, base: { pid: process.pid }, formatters }, destination);
}
