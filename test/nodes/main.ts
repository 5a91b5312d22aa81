/**
 * Runs the tests on machines that boot, each a Debian with its own systemd, sshd and address, beside a real control plane:
 *
 *   npm run test:nodes                                   everything; where machines cannot be booted it reports why, and ends with 0
 *   npm run test:nodes -- test/nodes/machines.test.ts    arguments are vitest's
 *   npm run test:nodes -- --must                         where machines cannot be booted, that is a failure
 *   npm run test:nodes -- --packages                     prints the Debian packages that this needs, and ends
 */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findPrograms } from '../../tools/kubernetes/programs.ts';
import { nodePrograms } from '../../tools/nodes/programs.ts';
import { debianBase } from './base.ts';
import { debianPackages, missing } from './missing.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const print = (line: string): void => void process.stderr.write(`${line}\n`);

async function main(): Promise<number> {
  const args = process.argv.slice(2);
  if (args.includes('--packages')) {
    process.stdout.write(`${debianPackages().join(' ')}\n`);
    return 0;
  }
  const lacking = missing();
  if (lacking !== undefined) {
    print(`skipped, nothing was tested on real nodes: ${lacking}`);
    return args.includes('--must') ? 1 : 0;
  }
  // Once, before any test counts its time.
  await debianBase(print);
  await findPrograms(print);
  await nodePrograms(print);
  const begun = performance.now();
  const vitest = ['run', '--project', 'nodes', ...args.filter((arg) => arg !== '--must')];
  const child = spawn(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), ...vitest], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, KUBENODE_TEST_NODES: 'yes' },
  });
  // It ends its machines itself; what it cannot end any more, the next run removes.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => child.kill('SIGTERM'));
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (exit) => resolve(exit ?? 1));
  });
  print(`tests on real nodes took ${((performance.now() - begun) / 1000).toFixed(0)} s`);
  return code;
}

try {
  process.exitCode = await main();
} catch (error) {
  print(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
