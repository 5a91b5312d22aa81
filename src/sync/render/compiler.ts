/** The TypeScript compiler, where it is installed. */
import { syncError } from '../errors.ts';
import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { killGroup } from './run.ts';

const TIMEOUT_MS = 120_000;

/** Where a package may be installed, the nearest first. */
export function packageFolders(name: string): string[] {
  return (createRequire(import.meta.url).resolve.paths(name) ?? []).map((base) => join(base, name));
}

/** Path of the compiler's script; undefined when it is not installed. */
export function compilerPath(): string | undefined {
  return packageFolders('typescript')
    .map((folder) => join(folder, 'bin', 'tsc'))
    .find((path) => existsSync(path));
}

/** Runs it and returns what it printed, errors of types included. Errors: CodedError `TypeCheckFailed` when it could not do its work. */
export async function compile(compiler: string, project: string, cwd: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  // The compiler is a script that starts a binary: both must end.
  const child: ChildProcess = spawn(process.execPath, ['--disable-sigusr1', compiler, '-p', project, '--pretty', 'false'], {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const stop = () => killGroup(child.pid);
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  limit.addEventListener('abort', stop, { once: true });
  const chunks: Buffer[] = [];
  // Neither is there where no file can be opened any more.
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => chunks.push(chunk));
  const { code, error } = await new Promise<{ code: number | null; error: Error | undefined }>((resolve) => {
    let error: Error | undefined;
    child.on('error', (thrown) => (error = thrown));
    child.on('close', (code) => resolve({ code, error }));
  });
  limit.removeEventListener('abort', stop);
  signal.throwIfAborted();
  const output = Buffer.concat(chunks).toString('utf8');
  // 1 and 2 are what it answers when it found errors of types.
  if (error === undefined && (code === 0 || code === 1 || code === 2)) return output;
  const why = error?.message ?? output.trim().split('\n').at(-1) ?? `exit code ${code}`;
  throw syncError('TypeCheckFailed', `the TypeScript compiler failed: ${why}`, { cause: error });
}
