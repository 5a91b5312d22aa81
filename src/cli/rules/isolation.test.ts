/** Which wall commands that render stand behind, by the real program. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { walls, type Isolation } from '../../sync/render/wall.ts';
import { writeInto } from '../testing/tree.ts';
import { HUNG_RULE } from './testing.ts';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));
const MAIN = `import { fleet } from 'kubenode/constructs';
import '../rules/hung.ts';
fleet.cluster('a').pool('web');
`;
let root: string;
let here: Isolation;
beforeAll(async () => {
  here = (await walls())[0]?.isolation ?? 'process';
  root = mkdtempSync(join(tmpdir(), 'kubenode-isolation-'));
  write('fleet/main.ts', MAIN);
  write('rules/hung.ts', HUNG_RULE);
  write('rules/histories/hung/calm.json', JSON.stringify({ name: 'calm', events: [{ at: 0, conditions: {} }], expect: [] }));
  spawnSync(process.execPath, [ENTRY, 'component', 'keygen', '--out', join(root, 'key')]);
});
afterAll(() => rmSync(root, { recursive: true }));

const write = (path: string, text: string): string => writeInto(root, path, text);

/** In namespaces that allow no more of them, as many containers; where there are none to begin with it is so anyway. */
const WEAK = 'for kind in user mnt pid net; do echo 0 > /proc/sys/user/max_${kind}_namespaces || exit 9; done; exec "$@"';
const weaken = (): string[] => (here === 'namespaces' ? ['unshare', '--user', '--map-root-user', 'sh', '-c', WEAK, 'sh'] : []);

function kubenode(before: string[], ...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const [command = '', ...rest] = [...before, process.execPath, ENTRY, ...args];
  const { status, stdout, stderr } = spawnSync(command, rest, {
    cwd: root,
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, NO_COLOR: '1' },
  });
  return { status, stdout, stderr };
}

const COMMANDS = ['rules check', 'rules test', 'component verify --keys key.pub', 'component sign --dry-run --key key'];

describe.each(COMMANDS)('kubenode %s', (command) => {
  const words = command.split(' ');

  it('reports with which isolation it rendered', () => {
    const { status, stderr } = kubenode([], ...words);
    expect(stderr).toContain(`rendered at isolation ${here}`);
    expect(status).toBe(0);
    const { stdout } = kubenode([], ...words, '-o', 'json');
    expect(JSON.parse(stdout)).toMatchObject({ isolation: here });
  });

  it('warns that fleet code ran as the caller where there are no namespaces', () => {
    const { status, stderr } = kubenode(weaken(), ...words);
    expect(stderr).toContain('rendered at isolation process: nothing but Node itself kept the code');
    expect(stderr).toContain('--isolation namespaces');
    expect(status).toBe(0);
  });

  it('runs no fleet code where namespaces are requested but not available', () => {
    write('fleet/main.ts', `${MAIN}console.log('ran'); throw new Error('it ran');\n`);
    try {
      const { status, stdout, stderr } = kubenode(weaken(), ...words, '--isolation', 'namespaces');
      expect(stderr).toContain('the fleet must be rendered behind "namespaces", and "process" is what this machine has');
      expect(stderr).toContain('next: ');
      expect(stdout + stderr).not.toContain('it ran');
      // It is not the fleet that is at fault.
      expect(stderr).not.toContain('the hub would refuse');
      expect(status).toBe(1);
    } finally {
      write('fleet/main.ts', MAIN);
    }
  });

  it('takes no other wall', () => {
    const { status, stderr } = kubenode([], ...words, '--isolation', 'none');
    expect(stderr).toContain('Allowed choices are process, namespaces');
    expect(status).toBe(2);
  });
});
