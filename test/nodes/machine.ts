/** One machine: a Debian with its own systemd, sshd, disk, address and boot ID, booted by systemd-nspawn. */
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { startProgram, type Program } from '../kubernetes/program.ts';
import { command, ended, type CommandOptions, type Ended } from './command.ts';
import { pidsBelow, prefixOf, type Owner } from './owner.ts';

/** How systemd-nspawn with `--keep-unit` reports that the machine asked for a reboot. */
const REBOOT = 'code 133';
const BOOTS_WITHIN_MS = 60_000;
const GONE_WITHIN_MS = 20_000;

/** Joins the machine's own cgroup in each hierarchy, so that two machines' systemd do not share one tree, and becomes systemd-nspawn. */
const JOIN = 'for each in /sys/fs/cgroup/*/; do echo $$ > "$each$0/cgroup.procs"; done; exec "$@"';

/**
 * Folders that must not lie on an overlay: containerd makes overlays of its own in one.
 */
const PLAIN = ['var/lib/containerd', 'var/lib/kubelet', 'var/lib/kubenode'];

/** Settings of the kernel that a kubelet wants, with the values that it wants. */
const KERNEL = {
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/keys/root_maxbytes': 25_000_000,
};

/** The kernel belongs to the machine that the nodes run on, and stays as it is: each node sees its own files at these paths. */
const KERNEL_UNIT = `[Unit]
Description=kernel settings, as on a machine of its own
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
${Object.entries(KERNEL)
  .map(([name, value]) => {
    const file = `/run/node-kernel/${name.replaceAll('/', '.')}`;
    return `ExecStart=/bin/sh -c 'mkdir -p /run/node-kernel && echo ${value} > ${file} && mount --bind ${file} /proc/sys/${name}'`;
  })
  .join('\n')}
`;

export interface MachineOptions {
  /** For root, in the form of `authorized_keys`. */
  authorizedKeys?: string;
  /** Folders of this machine that the node sees, read-only, at the same path. */
  seen?: readonly string[];
}

export interface TestMachine {
  /** Its hostname. */
  readonly name: string;
  readonly address: string;
  /** Its root folder, as this machine sees it. */
  readonly disk: string;
  /** Public line of sshd's Ed25519 key: type and base64. */
  readonly hostKey: string;
  /** A program on the node, as root, with no environment but PATH and HOME. */
  run(argv: readonly string[], options?: CommandOptions): Promise<Ended>;
  /** The same; what it wrote. Throws when it fails. */
  ok(argv: readonly string[], options?: CommandOptions): Promise<string>;
  bootID(): Promise<string>;
  /** Of the machine's first process, for as long as it is not rebooted. */
  leader(): number;
  /** Resolves when it has booted with another boot ID than this one. */
  rebooted(bootID: string): Promise<void>;
  /** Ends it at once, as a loss of power. */
  cutPower(): Promise<void>;
  /** After `cutPower`. */
  powerOn(): Promise<void>;
  /** Ends it permanently, with its processes and mounts. The folder stays, so that it can be read. */
  stop(): Promise<void>;
}

/** Makes the disk and boots it. `number`: from 1; last byte of the address less 10. */
export async function bootMachine(owner: Owner, base: string, number: number, options: MachineOptions = {}): Promise<TestMachine> {
  const name = `${prefixOf(owner.id)}-${number}`;
  const folder = join(owner.folder, name);
  const disk = join(folder, 'root');
  const address = `10.${owner.network[0]}.${owner.network[1]}.${10 + number}`;
  for (const each of ['upper', 'work', 'root']) mkdirSync(join(folder, each), { recursive: true });
  const layers = `lowerdir=${base},upperdir=${join(folder, 'upper')},workdir=${join(folder, 'work')}`;
  await command(['mount', '-t', 'overlay', 'overlay', '-o', layers, disk]);
  const binds = PLAIN.map((path) => {
    mkdirSync(join(folder, 'plain', path), { recursive: true });
    mkdirSync(join(disk, path), { recursive: true });
    return `--bind=${join(folder, 'plain', path)}:/${path}`;
  });
  const hostKey = await configure(owner, disk, name, address, options);

  let program: Program | undefined;
  let leading = 0;
  let stopped = false;

  function begin(): Program {
    makeGroups(name);
    const nspawn = [
      'systemd-nspawn',
      `--directory=${disk}`,
      `--machine=${name}`,
      // This machine needs no systemd of its own.
      '--register=no',
      '--keep-unit',
      `--network-bridge=${prefixOf(owner.id)}`,
      '--capability=all',
      '--system-call-filter=@keyring bpf',
      '--bind=/dev/kmsg',
      '--resolv-conf=off',
      '--timezone=off',
      ...binds,
      ...(options.seen ?? []).map((path) => `--bind-ro=${path}`),
      '--boot',
    ];
    const args = ['SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=0', 'sh', '-c', JOIN, name, ...nspawn];
    const running = startProgram(name, '/usr/bin/env', args, join(folder, 'console.log'));
    leading = 0;
    program = running;
    void watch(running);
    return running;
  }

  /** A machine that asked for a reboot is booted again. */
  async function watch(running: Program): Promise<void> {
    while (running.ended === undefined) await delay(50);
    if (!stopped && program === running && running.ended.includes(REBOOT)) begin();
  }

  async function booted(): Promise<void> {
    const deadline = performance.now() + BOOTS_WITHIN_MS;
    for (;;) {
      if (program?.ended !== undefined && !program.ended.includes(REBOOT))
        throw new Error(`${name} did not boot: ${program.ended}\n${program.output()}`);
      leading = await leaderOf(program);
      if (leading !== 0) {
        const state = await inside(leading, ['systemctl', 'is-system-running']).catch(() => undefined);
        // A unit that failed is left to those who check units.
        if (state !== undefined && ['running', 'degraded'].includes(state.stdout.trim())) return;
      }
      if (performance.now() > deadline) throw new Error(`${name} did not boot within ${BOOTS_WITHIN_MS / 1000} s\n${program?.output()}`);
      await delay(50);
    }
  }

  const machine: TestMachine = {
    name,
    address,
    disk,
    hostKey,
    leader: () => leading,
    run: (argv, given) => inside(leading, argv, given),
    async ok(argv, given) {
      const { code, stdout, stderr } = await inside(leading, argv, given);
      if (code === 0) return stdout;
      throw new Error(`${name}: ${argv.join(' ')} ended with ${code}: ${(stderr + stdout).trim().slice(-4000)}`);
    },
    bootID: async () => (await machine.ok(['cat', '/proc/sys/kernel/random/boot_id'])).trim(),
    async rebooted(before) {
      const deadline = performance.now() + 2 * BOOTS_WITHIN_MS;
      for (;;) {
        leading = await leaderOf(program);
        const id = leading === 0 ? '' : await machine.bootID().catch(() => '');
        if (id !== '' && id !== before) return await booted();
        if (performance.now() > deadline) throw new Error(`${name} was not rebooted\n${program?.output()}`);
        await delay(100);
      }
    },
    async cutPower() {
      stopped = true;
      killGroup(name);
      await program?.stop();
      await gone(name);
    },
    async powerOn() {
      stopped = false;
      begin();
      await booted();
    },
    async stop() {
      await machine.cutPower();
      await ended(['umount', disk]);
    },
  };
  begin();
  await booted();
  return machine;
}

/** Returns sshd's public key. */
async function configure(owner: Owner, disk: string, name: string, address: string, options: MachineOptions): Promise<string> {
  const put = (path: string, text: string, mode = 0o644): void => {
    mkdirSync(join(disk, path, '..'), { recursive: true });
    // Not through a link of the base.
    rmSync(join(disk, path), { force: true });
    writeFileSync(join(disk, path), text, { mode });
  };
  put('etc/hostname', `${name}\n`);
  put('etc/resolv.conf', '# There is no name server.\n');
  put('etc/hosts', `127.0.0.1 localhost\n${address} ${name}\n`);
  const network = `[Match]\nName=host0\n[Network]\nAddress=${address}/24\nGateway=${gatewayOf(owner)}\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n`;
  put('etc/systemd/network/10-host0.network', network);
  put('etc/systemd/system/node-kernel.service', KERNEL_UNIT);
  symlinkSync('../node-kernel.service', join(disk, 'etc/systemd/system/sysinit.target.wants/node-kernel.service'));
  if (options.authorizedKeys !== undefined) {
    mkdirSync(join(disk, 'root/.ssh'), { recursive: true, mode: 0o700 });
    put('root/.ssh/authorized_keys', options.authorizedKeys, 0o600);
  }
  const key = join(disk, 'etc/ssh/ssh_host_ed25519_key');
  await command(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', key]);
  return readFileSync(`${key}.pub`, 'utf8').split(' ').slice(0, 2).join(' ');
}

export const gatewayOf = ({ network }: Owner): string => `10.${network[0]}.${network[1]}.1`;

function makeGroups(name: string): void {
  for (const hierarchy of readdirSync('/sys/fs/cgroup')) {
    const above = join('/sys/fs/cgroup', hierarchy);
    const group = join(above, name);
    mkdirSync(group, { recursive: true });
    // Without them no process may join.
    for (const each of hierarchy === 'cpuset' ? ['cpuset.cpus', 'cpuset.mems'] : [])
      writeFileSync(join(group, each), readFileSync(join(above, each)));
  }
}

function killGroup(name: string): void {
  // With its first process all others of the machine end.
  for (const pid of pidsBelow(join('/sys/fs/cgroup/systemd', name))) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Ended meanwhile.
    }
  }
}

/** Waits until nothing of a machine that was killed is left that the next boot would meet. */
async function gone(name: string): Promise<void> {
  const link = `vb-${name}`;
  await waitFor(
    async () => {
      if (pidsBelow(join('/sys/fs/cgroup/systemd', name)).length > 0) return false;
      // The kernel removes it some time after the last process of its network has ended.
      if (existsSync(join('/sys/class/net', link))) await ended(['ip', 'link', 'delete', link]);
      return !existsSync(join('/sys/class/net', link));
    },
    { deadlineMs: GONE_WITHIN_MS, what: `the end of ${name}` },
  );
}

/** The only child of systemd-nspawn; 0: not yet. */
async function leaderOf(program: Program | undefined): Promise<number> {
  if (program === undefined || program.ended !== undefined) return 0;
  const pid = await program.pid.catch(() => 0);
  if (pid === 0) return 0;
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0] ?? 0);
  } catch {
    return 0;
  }
}

/**
 * Only the program itself enters the machine's processes, as a child of a shell outside of them. A machine that shuts down stops all its processes for a moment;
 * nsenter as the parent would stop itself with its child permanently, would never reap it, and the machine would never end.
 */
const AS_CHILD = '"$@"; exit $?';

function inside(leader: number, argv: readonly string[], options?: CommandOptions): Promise<Ended> {
  if (leader === 0) throw new Error('the machine does not run');
  const environment = ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root', 'LC_ALL=C'];
  const program = ['/usr/bin/env', '-i', '-C', '/', ...environment, ...argv];
  return ended(
    ['nsenter', '-t', String(leader), '-m', '-u', '-i', '-n', '-p', '-C', '--no-fork', '--', '/bin/sh', '-c', AS_CHILD, 'sh', ...program],
    options,
  );
}
