/** A process of a test that can be killed without warning, and that ends when the test ends, however that ends. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';

// The process lives as long as the other end of descriptor 3 is open: also a test that is killed leaves nothing behind.
const GUARD =
  '"$@" 3<&- 4>&- & child=$!; echo "$child" >&4; exec 4>&-; { cat >/dev/null; kill -9 "$child"; } <&3 2>/dev/null & wait "$child"';

export interface Killable {
  readonly ended: boolean;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  output(): string;
}

export async function startKillable(command: string, args: readonly string[], logFile: string): Promise<Killable> {
  const log = openSync(logFile, 'a', 0o600);
  const shell = spawn('/bin/sh', ['-c', GUARD, 'sh', command, ...args], { stdio: ['ignore', log, log, 'pipe', 'pipe'] });
  closeSync(log);
  let ended = false;
  const gone = once(shell, 'exit');
  shell.once('exit', () => {
    ended = true;
    shell.stdio[3]?.destroy();
  });
  const [line] = (await once(shell.stdio[4] as Readable, 'data')) as [Buffer];
  const pid = Number(line.toString().trim());
  return {
    get ended() {
      return ended;
    },
    output: () => readFileSync(logFile, 'utf8').trim().split('\n').slice(-15).join('\n'),
    async kill() {
      if (!ended) process.kill(pid, 'SIGKILL');
      await gone;
    },
  };
}

/** Waits until it is true; throws with the output of the process when that ends before, or is late. */
export async function untilReady(process: Killable, what: string, seconds: number, isReady: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    if (await isReady().catch(() => false)) return;
    if (process.ended) throw new Error(`${what} is not ready: it ended\n${process.output()}`);
    if (performance.now() > deadline) throw new Error(`${what} is not ready within ${seconds} s\n${process.output()}`);
    await delay(20);
  }
}
