/** The disk that every node begins with: a plain Debian with systemd and sshd. Made once, and kept outside the checkout. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cacheFolder, lock, type OnProgress } from '../../tools/gobuild.ts';
import { command } from './command.ts';

const RELEASE = 'bookworm';
/** What a machine has before it is used for Kubernetes. */
const PACKAGES = [
  'ca-certificates',
  'dbus',
  'iproute2',
  'iptables',
  'kmod',
  'mount',
  'openssh-server',
  'procps',
  'sudo',
  'systemd',
  'systemd-sysv',
];
/** They are not needed here, and they take the processor at odd moments. */
const MASKED = [
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  'console-getty.service',
  'dpkg-db-backup.timer',
  'e2scrub_all.timer',
  'fstrim.timer',
];

/**
 * systemd-nspawn mounts the node's own cgroup controllers read-only. A machine has them for writing.
 */
const CGROUPS_UNIT = `[Unit]
Description=cgroup controllers for writing, as on a machine
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'for each in /sys/fs/cgroup/*/; do mount -o remount,bind,rw "$each"; done; echo 1 > /sys/fs/cgroup/cpuset/cgroup.clone_children'

[Install]
WantedBy=sysinit.target
`;

/** Counts changes of what is done here beyond the lists above. */
const FORM = 1;

/** Where the base is, made unless it is there. */
export async function debianBase(onProgress: OnProgress): Promise<string> {
  const recipe = JSON.stringify([FORM, RELEASE, PACKAGES, MASKED, CGROUPS_UNIT, process.arch]);
  const folder = join(cacheFolder(), `debian-${RELEASE}-${createHash('sha256').update(recipe).digest('hex').slice(0, 12)}`);
  const there = async (): Promise<boolean> => (await stat(join(folder, 'etc')).catch(() => undefined)) !== undefined;
  if (await there()) return folder;
  await mkdir(dirname(folder), { recursive: true });
  const unlock = await lock(`${folder}.lock`, onProgress);
  // Whole or not at all: the folder gets its name last.
  const making = `${folder}.${randomUUID()}.tmp`;
  try {
    if (await there()) return folder;
    onProgress(`installing Debian ${RELEASE} for nodes (a minute, once; kept in ${folder})`);
    await command(['debootstrap', '--variant=minbase', `--include=${PACKAGES.join(',')}`, RELEASE, making], { timeoutMs: 900_000 });
    await prepare(making);
    await rename(making, folder);
    return folder;
  } finally {
    await rm(making, { recursive: true, force: true });
    await unlock();
  }
}

async function prepare(root: string): Promise<void> {
  const units = join(root, 'etc/systemd/system');
  for (const name of MASKED) {
    await rm(join(units, name), { force: true });
    await symlink('/dev/null', join(units, name));
  }
  await writeFile(join(units, 'node-cgroups.service'), CGROUPS_UNIT);
  await mkdir(join(units, 'sysinit.target.wants'), { recursive: true });
  await symlink('../node-cgroups.service', join(units, 'sysinit.target.wants/node-cgroups.service'));
  await symlink('/lib/systemd/system/systemd-networkd.service', join(units, 'multi-user.target.wants/systemd-networkd.service'));
  // Each node has its own.
  await rm(join(root, 'etc/machine-id'), { force: true });
  await rm(join(root, 'var/lib/dbus/machine-id'), { force: true });
  for (const type of ['rsa', 'ecdsa', 'ed25519']) {
    for (const end of ['', '.pub']) await rm(join(root, `etc/ssh/ssh_host_${type}_key${end}`), { force: true });
  }
  await rm(join(root, 'var/cache/apt/archives'), { recursive: true, force: true });
  await rm(join(root, 'etc/resolv.conf'), { force: true });
  const sshd = join(root, 'etc/ssh/sshd_config');
  await writeFile(sshd, `${await readFile(sshd, 'utf8')}\nPermitRootLogin prohibit-password\nUseDNS no\n`);
}
