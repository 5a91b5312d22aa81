/** Runs the child once: text in, text out, or the reason why not. */
import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import type { Readable } from 'node:stream';
import type { RenderErrorCode } from './errors.ts';
import { CHILD_ENVIRONMENT, nodeArguments, nodeBinary, type Wall } from './wall.ts';
import { RESULT_FD } from './wire.ts';

export interface RenderLimits {
  /** Bytes of all files together. */
  inputBytes: number;
  /** Bytes of the result. */
  outputBytes: number;
  /** Bytes that fleet code may log. */
  logBytes: number;
  wallMilliseconds: number;
  cpuSeconds: number;
  /** Of JavaScript objects. */
  heapMiB: number;
  /** Of everything, buffers included; only where prlimit is to be had. Node needs 600 MiB to start. */
  dataBytes: number;
}

export const DEFAULT_LIMITS: RenderLimits = {
  inputBytes: 64 * 2 ** 20,
  outputBytes: 64 * 2 ** 20,
  logBytes: 64 * 2 ** 10,
  wallMilliseconds: 30_000,
  cpuSeconds: 30,
  heapMiB: 512,
  dataBytes: 2 ** 30,
};

interface RunFailure {
  code: RenderErrorCode;
  message: string;
  next?: string;
}

/** `output`: what the child wrote as its result. `log`: what fleet code logged, fit to print. */
export type Run = { log: string } & ({ output: string; failure: undefined } | { output: undefined; failure: RunFailure });

/** Rejects only with the signal's reason. The child and everything in its process group are gone when it settles. */
export async function runChild(wall: Wall, childPath: string, input: string, limits: RenderLimits, signal: AbortSignal): Promise<Run> {
  signal.throwIfAborted();
  const node = nodeBinary();
  // Permissions are checked against the real path.
  const file = realpathSync(childPath);
  const [command = node, ...args] = wall.wrap([node, ...nodeArguments(file, limits.heapMiB)], [node, file], limits);
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    env: CHILD_ENVIRONMENT,
    cwd: '/',
    // Its own process group: a signal to the group must not reach us, and ours must reach all of it.
    detached: true,
  });

  let failure: RunFailure | undefined;
  // Before anything else: an error that nothing listens to ends the hub. `close` follows it.
  child.on('error', (error) => (failure ??= { code: 'RenderCrashed', message: `the child did not start: ${error.message}` }));
  const ended = new Promise<{ code: number | null; by: string | null }>((resolve) => {
    child.on('close', (code, by) => resolve({ code, by }));
  });
  const stop = (reason: RunFailure) => {
    failure ??= reason;
    killGroup(child.pid);
  };
  const onAbort = () => killGroup(child.pid);
  signal.addEventListener('abort', onAbort, { once: true });
  const timer = setTimeout(
    () =>
      stop({
        code: 'RenderTimeout',
        message: `rendering took longer than ${limits.wallMilliseconds / 1000} s`,
        next: 'search for a loop that does not end',
      }),
    limits.wallMilliseconds,
  );
  try {
    const logged = new Bucket(limits.logBytes, () =>
      stop({ code: 'RenderTooLarge', message: `fleet code logged more than ${limits.logBytes} bytes` }),
    );
    const result = new Bucket(limits.outputBytes, () =>
      stop({ code: 'RenderTooLarge', message: `more than ${limits.outputBytes} bytes were rendered` }),
    );
    // Where it did not start there may be no pipes.
    if (child.pid !== undefined) {
      logged.drain(child.stdout);
      logged.drain(child.stderr);
      result.drain(child.stdio[RESULT_FD] as Readable);
      // A child that ends early closes the pipe; its exit status has the reason.
      child.stdin.on('error', () => {});
      child.stdin.end(input);
    }
    const { code, by } = await ended;
    signal.throwIfAborted();
    const log = printable(logged.text());
    const output = result.text();
    if (failure === undefined && (code !== 0 || output === '')) failure = whyEnded(code, by, log, limits);
    const shown = log.replace(UNSHARE_COMPLAINT, '');
    return failure === undefined ? { output, failure, log: shown } : { output: undefined, failure, log: shown };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    killGroup(child.pid);
  }
}

/** Ends everything that was started with a process group of its own. */
export function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group is gone.
  }
}

function whyEnded(code: number | null, by: string | null, log: string, limits: RenderLimits): RunFailure {
  if (code === 13)
    return {
      code: 'RenderNeverSettles',
      message: 'a module awaits something that never comes',
      next: 'fleet code needs no await: nothing outside the commit can be reached',
    };
  if (/out of memory|Allocation failed/i.test(log))
    return {
      code: 'RenderMemory',
      message: `rendering took more memory than it may: ${limits.heapMiB} MiB of objects, ${Math.round(limits.dataBytes / 2 ** 20)} MiB in all`,
    };
  // unshare does not pass on which signal ended its child, and complains instead.
  const signalled = by === 'SIGXCPU' || by === 'SIGKILL' || code === 128 + 9 || code === 128 + 24 || UNSHARE_COMPLAINT.test(log);
  if (signalled)
    return {
      code: 'RenderTimeout',
      message: `rendering was stopped: it used more than ${limits.cpuSeconds} s of processor time, or the system is short of memory`,
    };
  const last = log.trim().split('\n').at(-1) ?? '';
  return {
    code: 'RenderCrashed',
    message: `the child ended (${by ?? `exit code ${code}`}) without a result${last === '' ? '' : `: ${last}`}`,
  };
}

const UNSHARE_COMPLAINT = /^unshare: sigprocmask .*\n?/m;

class Bucket {
  readonly #chunks: Buffer[] = [];
  readonly #limit: number;
  readonly #onFull: () => void;
  #size = 0;

  constructor(limit: number, onFull: () => void) {
    this.#limit = limit;
    this.#onFull = onFull;
  }

  drain(stream: Readable): void {
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => {
      const room = this.#limit - this.#size;
      this.#size += chunk.length;
      if (room > 0) this.#chunks.push(chunk.subarray(0, room));
      if (this.#size > this.#limit) this.#onFull();
    });
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}

/** Without control and direction characters, which a terminal would obey. Lines stay. */
function printable(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]|[\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '');
}
