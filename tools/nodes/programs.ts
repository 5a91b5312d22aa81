/**
 * The programs of real nodes, for tests: kubelets of two minor versions, node-problem-detector, and the scheduler of their control plane. Built once from the Go
 * module proxy, and kept outside the checkout.
 *
 *   node tools/nodes/programs.ts     builds them and prints their folders
 */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildOnce, cachedAs, executable, goCommand, type Module, type OnProgress } from '../gobuild.ts';

const here = dirname(fileURLToPath(import.meta.url));

/** The first runs on nodes; the second is what nodes are upgraded from. */
export const KUBELETS = ['1.34.4', '1.33.13'] as const;
export type KubeletVersion = (typeof KUBELETS)[number];

const FOLDERS: Record<KubeletVersion, string> = { '1.34.4': '.', '1.33.13': 'v1.33' };

/** Turns lines of the kernel's log into conditions of its Node. */
export const DETECTOR = '1.36.0';
const NPD: Module = {
  folder: join(here, 'detector'),
  packages: ['k8s.io/node-problem-detector/cmd/nodeproblemdetector'],
  ldflags: `-s -w -X k8s.io/node-problem-detector/pkg/version.version=v${DETECTOR}`,
};

const POD: Module = { folder: join(here, 'pod'), packages: ['.'], ldflags: '-s -w' };

export interface NodePrograms {
  readonly scheduler: string;
  /** What containers of tests run; static. */
  readonly pod: string;
  readonly detector: string;
  readonly kubelets: Readonly<Record<KubeletVersion, string>>;
}

const stamp = (name: string, value: string): string => `-X k8s.io/component-base/version.${name}=${value}`;

function moduleOf(version: KubeletVersion): Module {
  const [major = '', minor = ''] = version.split('.');
  const commands = version === KUBELETS[0] ? ['kubelet', 'kube-scheduler'] : ['kubelet'];
  return {
    folder: join(here, FOLDERS[version]),
    packages: commands.map((name) => `k8s.io/kubernetes/cmd/${name}`),
    ldflags: ['-s -w', stamp('gitVersion', `v${version}`), stamp('gitMajor', major), stamp('gitMinor', minor)].join(' '),
  };
}

const folderOf = (version: KubeletVersion): Promise<string> => cachedAs(`node-${version}`, [moduleOf(version)]);

async function complete(version: KubeletVersion, folder: string): Promise<boolean> {
  const names = version === KUBELETS[0] ? ['kubelet', 'kube-scheduler'] : ['kubelet'];
  return (await Promise.all(names.map((name) => executable(join(folder, name))))).every(Boolean);
}

/** Builds what is not there. Throws an Error that names what is missing. */
export async function nodePrograms(onProgress: OnProgress): Promise<NodePrograms> {
  const kubelets: Partial<Record<KubeletVersion, string>> = {};
  for (const version of KUBELETS) {
    const folder = await folderOf(version);
    if (!(await complete(version, folder))) {
      const go = await goCommand();
      if (typeof go === 'string') throw new Error(`there is no kubelet ${version} to test with: ${go}`);
      await buildOnce(go, [moduleOf(version)], folder, () => complete(version, folder), onProgress);
    }
    kubelets[version] = join(folder, 'kubelet');
  }
  const pod = await programOf('node-pod', POD, 'pod', 'program for pods', onProgress);
  const detector = await programOf('node-detector', NPD, 'nodeproblemdetector', 'node-problem-detector', onProgress);
  const all: Record<KubeletVersion, string> = { '1.34.4': kubelets['1.34.4'] ?? '', '1.33.13': kubelets['1.33.13'] ?? '' };
  return { kubelets: all, pod, detector, scheduler: join(dirname(all[KUBELETS[0]]), 'kube-scheduler') };
}

async function programOf(name: string, module: Module, file: string, what: string, onProgress: OnProgress): Promise<string> {
  const folder = await cachedAs(name, [module]);
  const program = join(folder, file);
  if (!(await executable(program))) {
    const go = await goCommand();
    if (typeof go === 'string') throw new Error(`there is no ${what} to test with: ${go}`);
    await buildOnce(go, [module], folder, () => executable(program), onProgress);
  }
  return program;
}

if (import.meta.main) {
  const { kubelets } = await nodePrograms((line) => process.stderr.write(`${line}\n`));
  for (const version of KUBELETS) process.stdout.write(`${dirname(kubelets[version])}\n`);
}
