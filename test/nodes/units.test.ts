/** The agent's ports on a booted machine: the tests of `inside` run there. */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { TestMachine } from './machine.ts';
import { openNodes, type NodesRig } from './rig.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
let rig: NodesRig;
let machine: TestMachine;

beforeAll(async () => {
  rig = await openNodes((line) => process.stderr.write(`${line}\n`));
  machine = await rig.boot({ seen: [root] });
}, 900_000);
afterAll(() => rig.close());

test('the ports of the agent, on a machine with systemd', async () => {
  const vitest = [process.execPath, join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--project', 'inside', '--configLoader', 'runner'];
  const { code, stdout, stderr } = await machine.run(
    ['env', '-C', root, 'KUBENODE_TEST_INSIDE=yes', 'NO_COLOR=1', ...vitest, '--reporter=verbose', '--no-file-parallelism'],
    { timeoutMs: 600_000 },
  );
  process.stderr.write(stdout + stderr);
  expect(code).toBe(0);
  expect(stdout).toMatch(/Tests +\d+ passed/);
}, 660_000);
