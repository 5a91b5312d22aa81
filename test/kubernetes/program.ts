/** A program of a test that ends when the test ends, however that ends. */
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';

// The program lives as long as the other end of descriptor 3 is open: also a test that is killed leaves nothing behind.
const GUARD = '"$@" 3<&- 4>&- & child=$!; echo "$child" >&4; exec 4>&-; { cat >/dev/null; kill "$child"; } <&3 2>/dev/null & wait "$child"';

export interface Program {
  readonly name: string;
  /** Set when it has ended. */
  readonly ended: string | undefined;
  /** Of the program itself. */
  readonly pid: Promise<number>;
  /** The last lines it wrote. */
  output(): string;
  /** Ends it: politely, and after ten seconds by force. */
  stop(): Promise<void>;
  /** Ends it at once, as a machine that loses power does. */
  kill(): Promise<void>;
}

/** Starts a program with its output in a file. */
export function startProgram(name: string, path: string, args: readonly string[], logFile: string): Program {
  const log = openSync(logFile, 'a', 0o600);
  const child = spawn('/bin/sh', ['-c', GUARD, 'sh', path, ...args], { stdio: ['ignore', log, log, 'pipe', 'pipe'], detached: true });
  closeSync(log);
  let ended: string | undefined;
  const end = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      ended = error.message;
      resolve();
    });
    child.once('exit', (code, signal) => {
      ended = `it ended with ${code === null ? String(signal) : `code ${code}`}`;
      child.stdio[3]?.destroy();
      resolve();
    });
  });
  const pid = text(child.stdio[4] as Readable).then((printed) => {
    const number = Number(printed);
    // To 0 a signal would reach this process and all that it started.
    if (!Number.isInteger(number) || number < 2) throw new Error(`${name} was not started`);
    return number;
  });
  pid.catch(() => undefined);
  return {
    name,
    pid,
    get ended() {
      return ended;
    },
    output: () => readFileSync(logFile, 'utf8').trim().split('\n').slice(-15).join('\n'),
    async stop() {
      child.stdio[3]?.destroy();
      const waited = new AbortController();
      const late = delay(10_000, 'late', { signal: waited.signal }).catch(() => undefined);
      if ((await Promise.race([end, late])) === 'late' && child.pid !== undefined && ended === undefined) {
        process.kill(-child.pid, 'SIGKILL');
        await end;
      }
      waited.abort();
    },
    async kill() {
      if (ended === undefined) process.kill(await pid, 'SIGKILL');
      await end;
    },
  };
}
