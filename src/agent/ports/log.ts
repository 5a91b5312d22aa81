import { plainOutput } from '../../api/plain-text.ts';
import type { Log } from '../../api/ports.ts';

/** One JSON line a message. Errors as their message: stacks of the agent do not help who reads a node's log. */
export function lineLog(write: (line: string) => void, debug: boolean): Log {
  const line =
    (level: string) =>
    (fields: object, message: string): void => {
      write(`${plainOutput(JSON.stringify({ time: new Date().toISOString(), level, message, ...fields }, plain), { format: true })}\n`);
    };
  return { debug: debug ? line('debug') : () => undefined, info: line('info'), warn: line('warn'), error: line('error') };
}

function plain(_key: string, value: unknown): unknown {
  return value instanceof Error ? value.message : value;
}
