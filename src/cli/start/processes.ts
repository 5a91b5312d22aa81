import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { keepRunning } from './child.ts';
import type { LocalSystem } from './system.ts';

/** Processes that a start keeps running until it stops. */
export class LocalProcesses {
  readonly #system: Pick<LocalSystem, 'state' | 'output' | 'clock' | 'log' | 'signal' | 'closing'>;
  /** For people who want to see one, or to kill one and watch. */
  readonly #pids: Record<string, number> = { start: process.pid };

  constructor(system: Pick<LocalSystem, 'state' | 'output' | 'clock' | 'log' | 'signal' | 'closing'>) {
    this.#system = system;
  }

  /** `label`: what it is for people; `onExit` is called at each end that was not asked for. */
  run(name: string, label: string, script: string, args: string[], onExit?: (why: string) => void): void {
    const { state, output, clock, log, signal, closing } = this.#system;
    const child = keepRunning({
      name,
      onStart: (pid) => {
        this.#pids[name] = pid;
        writeFileSync(join(state.dir, 'processes.json'), `${JSON.stringify(this.#pids)}\n`);
      },
      command: process.execPath,
      args: [...process.execArgv, '--disable-sigusr1', script, ...args],
      logFile: join(state.logs, `${name}.log`),
      clock,
      log,
      onExit: (why) => {
        onExit?.(why);
        if (!signal.aborted) output.report('warning', `${label} ended (${why}); it is started again`);
      },
    });
    closing.push(() => child.stop());
  }
}
