import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { EXITS, INSTALL, TRANSFER } from './scripts.ts';

const UNSHARE = '/usr/bin/unshare';

interface Ended {
  code: number;
  printed: string;
}

/** Runs a program where /opt and /run are its own and empty, so that nothing of this machine is touched. */
function apart(prepare: string, program: string[]): Promise<Ended> {
  const within = `mount -t tmpfs -o mode=755 none /opt && mount -t tmpfs none /run && mkdir -p /run/systemd/system && { ${prepare}; } && exec "$@"`;
  return new Promise((done) => {
    const child = execFile(UNSHARE, ['-m', '--', 'sh', '-c', `umask 022; ${within}`, 'sh', ...program], (error, stdout, stderr) =>
      done({ code: typeof error?.code === 'number' ? error.code : error === null ? 0 : -1, printed: `${stdout}${stderr}` }),
    );
    child.stdin?.end();
  });
}

const isApart = process.getuid?.() === 0 && (await apart('true', ['true'])).code === 0;
const UNSAFE: [string, string, string][] = [
  ['/opt is written to by all', 'chmod 1777 /opt', '/opt'],
  ['/opt/kubenode is written to by a group', 'mkdir /opt/kubenode; chmod 775 /opt/kubenode', '/opt/kubenode'],
  ['/opt/kubenode belongs to another user', 'mkdir /opt/kubenode; chown 1000 /opt/kubenode', '/opt/kubenode'],
  [
    'the folder of the agent belongs to another user',
    'mkdir -p /opt/kubenode/agent; chown 1000 /opt/kubenode/agent',
    '/opt/kubenode/agent',
  ],
  [
    'a link leads below a folder that all write to',
    'mkdir -p /opt/open/kubenode; chmod 777 /opt/open; ln -s open/kubenode /opt/kubenode',
    '/opt/open',
  ],
];

describe.skipIf(!isApart)('folders of the agent that others may write to', () => {
  it.each(UNSAFE)('%s: nothing is brought there or installed', async (_, prepare, folder) => {
    for (const program of [TRANSFER, INSTALL]) {
      const { code, printed } = await apart(prepare, ['sh', '-c', program, 'sh', 'abc']);
      expect(printed.trim()).toBe(folder);
      expect(code).toBe(EXITS.unsafe);
    }
  });

  it.each(UNSAFE)('%s: the package does not install itself', async (_, prepare, folder) => {
    const { code, printed } = await apart(prepare, ['deploy/agent/install']);
    expect(printed).toContain(`install: ${folder} `);
    expect(code).toBe(1);
  });

  it.each([
    ['nothing is there', 'true'],
    ['all is there', 'mkdir -p /opt/kubenode/agent'],
    ['/opt is a link of root', 'mkdir -p /opt/real; ln -s real /opt/kubenode'],
  ])('%s: an archive is taken', async (_, prepare) => {
    const folder = await mkdtemp(join(tmpdir(), 'kubenode-guard-'));
    try {
      const file = join(folder, 'made');
      await writeFile(
        file,
        `cd "$1" && echo x >x && tar -cf a x && digest=$(sha256sum a | cut -d" " -f1) && gzip -c a | sh -c "$2" sh "$digest" && cat /opt/kubenode/agent/.import/$digest/x`,
      );
      expect(await apart(prepare, ['sh', file, folder, TRANSFER])).toEqual({ code: 0, printed: 'x\n' });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
