import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { SystemOptions } from './system.ts';
import { until } from './wait.ts';
import { cliError } from '../errors.ts';

/** The process of `kubenode start` that the tour runs. */
export class StartProcess {
  readonly #child: ChildProcess;
  readonly #gone: Promise<void>;
  readonly #options: SystemOptions;
  readonly #log;
  #ended = false;
  /** Of its output, the end. */
  #last = '';

  constructor(repository: string, state: string, options: SystemOptions) {
    this.#options = options;
    const { controlPlanes, signal } = options;
    signal?.throwIfAborted();
    const entry = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
    const servers = controlPlanes === undefined ? ['--port', '0'] : ['--control-planes', controlPlanes];
    const flags = ['--state', state, '--repository', repository, ...servers, '--artifacts-port', '0'];
    const args = [...process.execArgv, '--disable-sigusr1', entry, 'start', ...flags];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    this.#log = createWriteStream(`${state}.log`);
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        this.#log.write(chunk);
        this.#last = (this.#last + chunk.toString('utf8')).slice(-2000);
      });
    }
    this.#gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    void this.#gone.then(() => (this.#ended = true));
    signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  readonly #onAbort = (): void => void this.#child.kill('SIGTERM');

  /** As `until`, with the patience of the options, and only while the process runs: nothing comes true any more when it has ended. */
  readonly until: typeof until = (what, ms, read) =>
    until(what, ms * (this.#options.patience ?? 1), async () => {
      this.#options.signal?.throwIfAborted();
      if (this.#ended) throw cliError('StartFailed', `kubenode start ended:\n${this.#last}`);
      return await read();
    });

  async stop(): Promise<void> {
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    if (!this.#ended) this.#child.kill('SIGTERM');
    await this.#gone;
    this.#log.end();
  }
}
