import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { command, ended } from './command.ts';
import type { TestMachine } from './machine.ts';
import { openNodes, type NodesRig } from './rig.ts';

let rig: NodesRig;
let one: TestMachine;
let two: TestMachine;

beforeAll(async () => {
  rig = await openNodes((line) => process.stderr.write(`${line}\n`));
  [one, two] = await Promise.all([rig.boot(), rig.boot()]);
}, 900_000);
afterAll(() => rig.close());

test('each machine has its own systemd, name, address, machine ID, boot ID and host key', async () => {
  const of = async (machine: TestMachine) => ({
    name: (await machine.ok(['hostname'])).trim(),
    id: (await machine.ok(['cat', '/etc/machine-id'])).trim(),
    boot: await machine.bootID(),
    key: machine.hostKey,
    address: machine.address,
    first: (await machine.ok(['cat', '/proc/1/comm'])).trim(),
  });
  const [a, b] = await Promise.all([of(one), of(two)]);
  expect(a.name).toBe(one.name);
  expect([a.first, b.first]).toEqual(['systemd', 'systemd']);
  for (const key of ['name', 'id', 'boot', 'key', 'address'] as const) expect(a[key]).not.toBe(b[key]);
  expect(a.boot).not.toBe(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
});

test('they reach each other and this machine; sshd answers with the key that is pinned', async () => {
  const key = await command(['ssh-keyscan', '-T', '5', '-t', 'ed25519', two.address]);
  expect(key).toContain(two.hostKey);
  await one.ok(['bash', '-c', `exec 3<>/dev/tcp/${two.address}/22 && head -c 4 <&3 | grep -q SSH-`]);
});

test('what one does to a service happens on that one only, and its cgroup controllers are its own and writable', async () => {
  const before = (await two.ok(['systemctl', 'show', '--value', '--property=MainPID', 'ssh.service'])).trim();
  await one.ok(['systemctl', 'stop', 'ssh.service']);
  expect((await two.ok(['systemctl', 'is-active', 'ssh.service'])).trim()).toBe('active');
  expect((await two.ok(['systemctl', 'show', '--value', '--property=MainPID', 'ssh.service'])).trim()).toBe(before);
  await one.ok(['systemctl', 'start', 'ssh.service']);
  for (const controller of ['memory', 'cpu', 'cpuset', 'pids']) {
    await one.ok(['mkdir', `/sys/fs/cgroup/${controller}/probe`]);
    expect((await two.run(['test', '-e', `/sys/fs/cgroup/${controller}/probe`])).code).toBe(1);
    await one.ok(['rmdir', `/sys/fs/cgroup/${controller}/probe`]);
  }
});

test('a reboot keeps the disk and changes the boot ID', async () => {
  const before = await one.bootID();
  await one.ok(['sh', '-c', 'echo kept > /root/kept; sync']);
  await one.run(['systemctl', 'reboot']);
  await one.rebooted(before);
  expect((await one.ok(['cat', '/root/kept'])).trim()).toBe('kept');
});

test('power that is cut ends it at once; it boots again', async () => {
  const before = await two.bootID();
  await two.cutPower();
  expect((await ended(['ssh-keyscan', '-T', '1', '-t', 'ed25519', two.address])).stdout).toBe('');
  await two.powerOn();
  expect(await two.bootID()).not.toBe(before);
});

test('what a run that was killed has left is removed by the next one, and nothing of a run that lives', async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('killed-run.ts', import.meta.url))], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
  const { id, folder } = JSON.parse(
    await waitFor(() => printed.endsWith('\n') && printed, { deadlineMs: 300_000, what: 'its machine' }),
  ) as {
    id: string;
    folder: string;
  };
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
  const left = (): string[] => [
    ...(existsSync(folder) ? [folder] : []),
    ...readdirSync('/sys/class/net').filter((name) => name.includes(`kn${id}`)),
    ...readdirSync('/sys/fs/cgroup').flatMap((name) =>
      readdirSync(join('/sys/fs/cgroup', name)).filter((group) => group.startsWith(`kn${id}`)),
    ),
    ...readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => line.includes(folder)),
  ];
  expect(left().length).toBeGreaterThan(3);
  const next = await openNodes(() => undefined);
  await next.close();
  expect(left()).toEqual([]);
  expect((await one.ok(['hostname'])).trim()).toBe(one.name);
  expect(await command(['ip', 'link', 'show', `kn${rig.id}`])).toContain('UP');
});
