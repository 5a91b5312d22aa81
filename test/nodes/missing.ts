/** What the machine that runs the tests lacks for nodes of its own. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PACKAGES = fileURLToPath(new URL('../../tools/nodes/debian-packages.txt', import.meta.url));

/** Programs of those packages, and of every Debian. */
const PROGRAMS = ['debootstrap', 'systemd-nspawn', 'ip', 'iptables', 'nsenter', 'mount', 'ssh-keygen', 'containerd', 'runc', 'buildah'];

export const debianPackages = (): string[] =>
  readFileSync(PACKAGES, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));

function onPath(program: string): boolean {
  const folders = (process.env['PATH'] ?? '').split(delimiter).concat('/usr/sbin', '/sbin');
  return folders.some((folder) => existsSync(join(folder, program)));
}

/** undefined: nodes can be booted here. Else why not, and what to do about it. */
export function missing(): string | undefined {
  if (process.platform !== 'linux') return `nodes are booted with systemd-nspawn, on Linux; this is ${process.platform}`;
  if (process.getuid?.() !== 0) return 'nodes are booted by root; next: sudo npm run test:nodes';
  const absent = PROGRAMS.filter((program) => !onPath(program));
  if (absent.length > 0) {
    return `${absent.join(', ')} ${absent.length === 1 ? 'is' : 'are'} missing; next: apt-get install --no-install-recommends ${debianPackages().join(' ')}`;
  }
  if (!existsSync('/sys/fs/cgroup/systemd') || !existsSync('/sys/fs/cgroup/memory')) {
    return 'the nodes have cgroup v1 (kubelets up to 1.34 run on it); this machine mounts no v1 hierarchies in /sys/fs/cgroup';
  }
  try {
    execFileSync('modprobe', ['-q', 'overlay'], { stdio: 'ignore' });
  } catch {
    // Built in, or no module at all.
  }
  if (!/\boverlay$/m.test(readFileSync('/proc/filesystems', 'utf8'))) return 'the kernel has no overlay file system';
  return undefined;
}
