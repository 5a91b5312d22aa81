/** Runs on a booted machine. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { systemHost } from '../../../src/agent/ports/system-host.ts';
import { nodeSystemctl } from '../../../src/agent/ports/systemctl.ts';

test('the host is this machine in this boot', async () => {
  const host = await systemHost(nodeSystemctl);
  expect(host).toMatchObject({ os: 'linux', bootID: readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() });
});

test('a reboot is asked of systemd by its words alone; one that is under way is the one that was asked for', async () => {
  const asked: (readonly string[])[] = [];
  const answer = { code: 0, stdout: '', stderr: '' };
  const host = await systemHost((args) => {
    asked.push(args);
    return Promise.resolve(answer);
  });
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
