/** Runs on a booted machine. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { systemHost } from '../../../src/agent/ports/system-host.ts';
import { waitFor } from '../../../src/kube/testing/wait-for.ts';
import { nodeSystemctl, nodeSystemdRun } from '../../../src/agent/ports/systemctl.ts';

test('the host is this machine in this boot', async () => {
  const host = await systemHost(nodeSystemctl, nodeSystemdRun);
  expect(host).toMatchObject({ os: 'linux', bootID: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() });
});

test('a reboot is asked of systemd by its words alone; one that is under way is the one that was asked for', async () => {
  const asked: (readonly string[])[] = [];
  const answer = { code: 0, stdout: '', stderr: '' };
  const host = await systemHost((args) => {
    asked.push(args);
    return Promise.resolve(answer);
  }, nodeSystemdRun);
  await host.reboot('a b; c');
  expect(asked).toEqual([['reboot', '--no-block', '--no-wall', '--message=KubeNode operation a b; c']]);
  // This machine's systemctl knows these words, and reports one that it does not know.
  const dry = (args: readonly string[]) => spawnSync('systemctl', [...args, '--dry-run'], { encoding: 'utf8' });
  expect(dry(asked[0] ?? [])).toMatchObject({ status: 0 });
  expect(dry(['reboot', '--no-such']).stderr).toContain('unrecognized option');
  Object.assign(answer, { code: 1, stderr: 'Call to Reboot failed: There is already a shutdown in progress' });
  await host.reboot('op');
  Object.assign(answer, { stderr: 'Failed to connect to bus' });
  await expect(host.reboot('op')).rejects.toMatchObject({ code: 'RebootFailed' });
});

test('the agent is taken away by a unit of its own, which is not ended with the unit that asked', async () => {
  const folder = '/opt/kubenode/agent/current';
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    `${folder}/uninstall`,
    '#!/bin/sh\n{ echo "$@"; cat /proc/self/cgroup; } >/run/taken-away.new\nmv /run/taken-away.new /run/taken-away\n',
    { mode: 0o755 },
  );
  try {
    const host = await systemHost(nodeSystemctl, nodeSystemdRun);
    await host.takeAgentAway();
    await waitFor(() => existsSync('/run/taken-away'), { deadlineMs: 20_000, what: 'the script to run' });
    const text = readFileSync('/run/taken-away', 'utf8');
    expect(text).toMatch(/^--forget\n/);
    expect(text).toContain('kubenode-agent-uninstall.service');
    const failing = await systemHost(nodeSystemctl, () => Promise.resolve({ code: 1, stdout: '', stderr: 'no bus' }));
    await expect(failing.takeAgentAway()).rejects.toMatchObject({ code: 'UnitFailed' });
  } finally {
    rmSync('/opt/kubenode', { recursive: true });
  }
});
