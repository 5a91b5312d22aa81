/** Programs that run to their end, without a shell. */
import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

export interface CommandOptions {
  /** Default: five minutes. */
  timeoutMs?: number;
  /** For its standard input; none by default. */
  input?: string;
}

/** How a program ended; one that is late is killed and has ended with -1. Errors: it cannot be started. */
export async function ended(argv: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  const timer = setTimeout(() => child.kill('SIGKILL'), options.timeoutMs ?? 300_000);
  const code = new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? -1));
  });
  child.stdin.on('error', () => undefined);
  child.stdin.end(options.input ?? '');
  try {
    const [exit, stdout, stderr] = await Promise.all([code, text(child.stdout), text(child.stderr)]);
    return { code: exit, stdout, stderr };
  } finally {
    clearTimeout(timer);
  }
}

/** What it wrote to its standard output. Throws with its output when it fails. */
export async function command(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await ended(argv, options);
  if (code === 0) return stdout;
  throw new Error(`${argv.join(' ')} ended with ${code}: ${(stderr + stdout).trim().split('\n').slice(-20).join('\n')}`);
}
