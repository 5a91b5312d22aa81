/** Builds Go programs once, into a cache folder that is named by everything that decides what is built. */
import { execFile, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);
const GO_MINOR = 24;

export type OnProgress = (line: string) => void;

export interface Go {
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
}

export interface Module {
  readonly folder: string;
  /** `.`: what is in the folder itself. */
  readonly packages: readonly string[];
  readonly ldflags: string;
  /** What `go build` names the program, where that is not its own name. */
  readonly rename?: readonly [string, string];
}

export async function executable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

export function cacheFolder(): string {
  const base = process.env['XDG_CACHE_HOME'];
  return join(base === undefined || base === '' ? join(homedir(), '.cache') : base, 'kubenode');
}

/** Where what these modules build is kept. */
export async function cachedAs(name: string, modules: readonly Module[]): Promise<string> {
  const hash = createHash('sha256').update(`${process.platform}/${process.arch}`);
  for (const { folder, packages, ldflags } of modules) {
    const sources = packages.includes('.') ? (await readdir(folder)).filter((file) => file.endsWith('.go')).toSorted() : [];
    for (const file of ['go.mod', 'go.sum', ...sources]) hash.update(await readFile(join(folder, file)));
    hash.update(JSON.stringify([packages, ldflags]));
  }
  return join(cacheFolder(), `${name}-${hash.digest('hex').slice(0, 12)}`);
}

/** The command `go` when it can build this: itself new enough, or able to fetch one that is; else why not. */
export async function goCommand(): Promise<Go | string> {
  let why = 'go is not on PATH, nor in /usr/local/go/bin';
  for (const command of ['go', '/usr/local/go/bin/go']) {
    const found = await run(command, ['env', 'GOVERSION']).catch(() => undefined);
    const version = found?.stdout.trim() ?? '';
    const minor = Number(/^go1\.(\d+)/.exec(version)?.[1] ?? 0);
    const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-mod=readonly' };
    if (minor >= GO_MINOR) return { command, env };
    // From 1.21 on the command fetches the toolchain that go.mod asks for.
    if (minor >= 21) return { command, env: { ...env, GOTOOLCHAIN: 'auto' } };
    if (version !== '') why = `${command} is ${version}; 1.21 or later is needed`;
  }
  return why;
}

/** Runs a program with its output on standard error, at low priority: a build takes every processor for minutes. */
async function runNice(command: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn('nice', [command, ...args], { cwd, env, stdio: ['ignore', 2, 2] });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', resolve);
  });
  if (code !== 0) throw new Error(`${command} ${args.join(' ')} failed in ${cwd} with ${code === null ? 'a signal' : `code ${code}`}`);
}

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Takes the lock file; waits while another living process has it. Returns how to give it back. */
export async function lock(path: string, onProgress: OnProgress): Promise<() => Promise<void>> {
  for (let waited = 0; ; waited++) {
    try {
      const file = await open(path, 'wx');
      await file.writeFile(String(process.pid));
      await file.close();
      return () => rm(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const holder = Number(await readFile(path, 'utf8').catch(() => '0'));
    // An empty file is one that is being written; a process that died leaves its number behind.
    if (holder > 0 && !alive(holder)) await rm(path, { force: true });
    else {
      if (waited === 0) onProgress(`another process is building the programs (${path}); waiting for it`);
      await delay(500);
    }
  }
}

/** Builds into the folder, unless `isThere` reports that it has been done; other processes that build the same are waited for. */
export async function buildOnce(
  go: Go,
  modules: readonly Module[],
  folder: string,
  isThere: () => Promise<boolean>,
  onProgress: OnProgress,
): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const unlock = await lock(`${folder}.lock`, onProgress);
  // Whole or not at all: the folder gets its name last.
  const making = `${folder}.${randomUUID()}.tmp`;
  try {
    if (await isThere()) return;
    await mkdir(making);
    for (const { folder: cwd, packages, ldflags, rename: named } of modules) {
      onProgress(`building ${packages.join(', ')} (minutes, once; kept in ${folder})`);
      await runNice(go.command, ['build', '-buildvcs=false', '-ldflags', ldflags, '-o', `${making}/`, ...packages], cwd, go.env);
      if (named !== undefined) {
        const path = await lastPathSegment(making, named);
        await rename(path, join(making, named[1]));
      }
    }
    await rename(making, folder);
  } finally {
    await rm(making, { recursive: true, force: true });
    await unlock();
  }
}

/** `go build` names the program of a package `x/server/v3` either `v3` or `server`, by its version. */
async function lastPathSegment(folder: string, [name]: readonly [string, string]): Promise<string> {
  for (const candidate of [name, 'v3']) if (await executable(join(folder, candidate))) return join(folder, candidate);
  throw new Error(`go build left no ${name} in ${folder}`);
}
