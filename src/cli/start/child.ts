import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import type { Clock, Log } from '../../api/ports.ts';

export interface ChildOptions {
  name: string;
  command: string;
  args: string[];
  logFile: string;
  env?: NodeJS.ProcessEnv;
  clock: Clock;
  log: Log;
  /** Called at each start. */
  onStart?: (pid: number) => void;
  /** Called at each exit that was not asked for. */
  onExit?: (why: string) => void;
}

export interface Child {
  readonly name: string;
  readonly pid: number | undefined;
  /** SIGTERM, and SIGKILL when it has not ended in time. Resolves when it is gone. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * Keeps one process running: started again with a growing delay when it ends. It has a channel to this process, whose end
 * ends it: no child outlives a killed parent.
 */
export function keepRunning(options: ChildOptions): Child {
  let child: ChildProcess | undefined;
  let stopping = false;
  let failures = 0;
  let cancelTimer: () => void = () => undefined;
  let gone = Promise.withResolvers<void>();

  function start(): void {
    const out = openSync(options.logFile, 'a', 0o600);
    const startedAt = options.clock.monotonic();
    gone = Promise.withResolvers<void>();
    const me = spawn(options.command, options.args, {
      stdio: ['ignore', out, out, 'ipc'],
      env: { ...process.env, ...options.env, KUBENODE_PARENT: 'ipc' },
    });
    closeSync(out);
    child = me;
    if (me.pid !== undefined) options.onStart?.(me.pid);
    const ended = (why: string): void => {
      if (child !== me) return;
      child = undefined;
      gone.resolve();
      if (stopping) return;
      failures = options.clock.monotonic() - startedAt > 30_000 ? 1 : failures + 1;
      const delay = Math.min(200 * 2 ** (failures - 1), 15_000);
      options.log.warn({ child: options.name, delay }, `${options.name} ended (${why}); starting it again`);
      options.onExit?.(why);
      cancelTimer = options.clock.setTimer(delay, start);
    };
    me.on('exit', (code, signal) => ended(signal ?? `exit code ${code}`));
    me.on('error', (error) => ended(error.message));
  }

  start();
  return {
    name: options.name,
    get pid() {
      return child?.pid;
    },
    async stop(graceMs = 5000) {
      stopping = true;
      cancelTimer();
      const me = child;
      if (me === undefined) return;
      me.kill('SIGTERM');
      const cancel = options.clock.setTimer(graceMs, () => me.kill('SIGKILL'));
      await gone.promise;
      cancel();
    },
  };
}

/** The last lines of a log, for an error message. */
export function tail(file: string, lines = 5): string {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-lines).join('\n');
  } catch {
    return '';
  }
}

/** In a child: ends the process when its parent is gone. */
export function exitWithParent(onGone: () => void = () => process.exit(0)): void {
  if (process.env['KUBENODE_PARENT'] !== 'ipc' || !process.connected) return;
  process.on('disconnect', onGone);
  process.channel?.unref();
}
