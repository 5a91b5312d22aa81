import type { Log } from '../../api/ports.ts';

export interface LogLine {
  level: 'debug' | 'info' | 'warn' | 'error';
  fields: Record<string, unknown>;
  message: string;
}

/** Keeps what is logged. */
export declare function recordingLog(): Log & { lines: LogLine[] };
