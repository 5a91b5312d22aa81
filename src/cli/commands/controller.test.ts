import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ENTRY = fileURLToPath(new URL('../../../bin/kubenode.js', import.meta.url));

test.each(['0', '2', '3601', '4.5', 'soon', ''])('--lease-seconds "%s" is refused in one sentence', (value) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...process.execArgv, ENTRY, 'controller', '--cell', '--lease-seconds', value],
    { encoding: 'utf8' },
  );
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toContain(`\`--lease-seconds\` must be whole seconds from 3 to 3600, got "${value}"`);
});
