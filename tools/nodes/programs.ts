/**
 * The programs of real nodes, for tests: kubelets of two minor versions, and the scheduler of their control plane. Built once from the Go
 * module proxy, and kept outside the checkout.
 *
 *   node tools/nodes/programs.ts     builds them and prints their folders
 */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildOnce, cachedAs, executable, goCommand, type Module, type Say } from '../gobuild.ts';

const here = dirname(fileURLToPath(import.meta.url));

/** The first runs on nodes; the second is what nodes are upgraded from. */
export const KUBELETS = ['1.34.4', '1.33.13'] as const;
export type KubeletVersion = (typeof KUBELETS)[number];

const FOLDERS: Record<KubeletVersion, string> = { '1.34.4': '.', '1.33.13': 'v1.33' };

const POD: Module = { folder: join(here, 'pod'), packages: ['.'], ldflags: '-s -w' };

export interface NodePrograms {
  readonly scheduler: string;
  /** What containers of tests run; static. */
  readonly pod: string;
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

/** Builds what is not there. Throws an Error that says what is missing. */
export async function nodePrograms(say: Say): Promise<NodePrograms> {
  const kubelets: Partial<Record<KubeletVersion, string>> = {};
  for (const version of KUBELETS) {
    const folder = await folderOf(version);
    if (!(await complete(version, folder))) {
      const go = await goCommand();
      if (typeof go === 'string') throw new Error(`there is no kubelet ${version} to test with: ${go}`);
      await buildOnce(go, [moduleOf(version)], folder, () => complete(version, folder), say);
    }
    kubelets[version] = join(folder, 'kubelet');
  }
  const pod = await cachedAs('node-pod', [POD]);
  if (!(await executable(join(pod, 'pod')))) {
    const go = await goCommand();
    if (typeof go === 'string') throw new Error(`there is no program for pods to test with: ${go}`);
    await buildOnce(go, [POD], pod, () => executable(join(pod, 'pod')), say);
  }
  const all: Record<KubeletVersion, string> = { '1.34.4': kubelets['1.34.4'] ?? '', '1.33.13': kubelets['1.33.13'] ?? '' };
  return { kubelets: all, pod: join(pod, 'pod'), scheduler: join(dirname(all[KUBELETS[0]]), 'kube-scheduler') };
}

if (import.meta.main) {
  const { kubelets } = await nodePrograms((line) => process.stderr.write(`${line}\n`));
  for (const version of KUBELETS) process.stdout.write(`${dirname(kubelets[version])}\n`);
}
