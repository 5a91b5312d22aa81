import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { sha256Hex } from '../../api/digest.ts';
import { messageOf } from '../../api/errors.ts';
import { xdgFolder } from '../../kube/home.ts';
import { cliError } from '../errors.ts';

/** Architectures as Kubernetes names them. */
export type Architecture = 'amd64' | 'arm64';

/** `deploy/agent/runtime.json`: which Node the package contains, by the digests of its files. */
export interface RuntimeLock {
  version: string;
  packages: Record<Architecture, { name: string; node: string; license: string }>;
}

export interface Runtime {
  node: Buffer;
  license: Buffer;
}

const run = promisify(execFile);
const NPM_MS = 300_000;

/**
 * The Node that agents run on: from this installation where it has the same one, else from the npm registry, kept below the user's cache folder.
 * Wherever it comes from, its files have the digests of the lock. Errors: `RuntimeUnavailable`.
 */
export async function runtimeOf(lock: RuntimeLock, arch: Architecture): Promise<Runtime> {
  const { name } = lock.packages[arch];
  for (const folder of [installed(name), cacheOf(lock, arch)]) {
    const found = await read(folder, lock, arch);
    if (found !== undefined) return found;
  }
  const folder = await fetched(lock, arch);
  const found = await read(folder, lock, arch);
  if (found !== undefined) return found;
  throw cliError('RuntimeUnavailable', `${name}@${lock.version} of the npm registry does not have the digests of runtime.json`, {
    next: 'do not use it; compare the package with its publisher',
  });
}

const installed = (name: string): string => fileURLToPath(new URL(`../../../node_modules/node/node_modules/${name}`, import.meta.url));

/** Of this user, for what can be made or fetched again. */
export const cacheFolder = (): string => join(xdgFolder(process.env, 'XDG_CACHE_HOME', '.cache'), 'kubenode');

const cacheOf = (lock: RuntimeLock, arch: Architecture): string => join(cacheFolder(), `${lock.packages[arch].name}-${lock.version}`);

async function read(folder: string, lock: RuntimeLock, arch: Architecture): Promise<Runtime | undefined> {
  const pinned = lock.packages[arch];
  if (!existsSync(join(folder, 'bin/node'))) return undefined;
  const [node, license] = await Promise.all([readFile(join(folder, 'bin/node')), readFile(join(folder, 'LICENSE'))]);
  return sha256Hex(node) === pinned.node && sha256Hex(license) === pinned.license ? { node, license } : undefined;
}

async function fetched(lock: RuntimeLock, arch: Architecture): Promise<string> {
  const { name } = lock.packages[arch];
  const cache = cacheOf(lock, arch);
  await mkdir(dirname(cache), { recursive: true });
  const folder = await mkdtemp(`${cache}.`);
  try {
    await run('npm', ['pack', '--silent', '--pack-destination', folder, `${name}@${lock.version}`], { cwd: folder, timeout: NPM_MS });
    await run('tar', ['-xzf', `${name}-${lock.version}.tgz`, 'package/bin/node', 'package/LICENSE'], { cwd: folder });
    await rm(cache, { recursive: true, force: true });
    await rename(join(folder, 'package'), cache);
    return cache;
  } catch (error) {
    throw cliError('RuntimeUnavailable', `${name}@${lock.version} was not had from the npm registry: ${messageOf(error)}`, {
      cause: error,
      next: `is the registry reachable? npm pack ${name}@${lock.version}`,
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
