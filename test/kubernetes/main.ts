/**
 * Runs the suites that want a real API server against one, beside the embedded server:
 *
 *   npm run test:kubernetes                        everything
 *   npm run test:kubernetes -- --record            and keeps what the real server answered
 *   npm run test:kubernetes -- test/conformance    arguments are vitest's
 */
import { spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findPrograms } from '../../tools/kubernetes/programs.ts';
import { startControlPlane } from './controlplane.ts';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const say = (line: string): void => void process.stderr.write(`${line}\n`);

async function vitest(args: readonly string[], env: Record<string, string>, signal: AbortSignal): Promise<number> {
  const child = spawn(
    process.execPath,
    [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--project', 'conformance', '--project', 'kubernetes', ...args],
    { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } },
  );
  const stop = (): void => void child.kill('SIGTERM');
  signal.addEventListener('abort', stop, { once: true });
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (exit) => resolve(exit ?? 1));
  });
  signal.removeEventListener('abort', stop);
  return code;
}

async function main(): Promise<number> {
  const args = process.argv.slice(2);
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(name, () => interrupted.abort(new Error(name)));
  const programs = await findPrograms(say);
  say(`kube-apiserver and etcd ${programs.source === 'built' ? 'built in' : 'from'} ${programs.folder}`);
  if (programs.controllerManager === undefined) say('there is no kube-controller-manager: what it does is not tested');
  const plane = await startControlPlane(programs);
  try {
    if (interrupted.signal.aborted) return 130;
    return await vitest(
      args.filter((arg) => arg !== '--record'),
      {
        KUBENODE_TEST_KUBECONFIG: plane.kubeconfig,
        ...(plane.controllers ? { KUBENODE_TEST_CONTROLLERS: 'yes' } : {}),
        ...(programs.kubectl === undefined ? {} : { KUBENODE_TEST_KUBECTL: programs.kubectl }),
        ...(args.includes('--record') ? { KUBENODE_TEST_RECORD: 'yes' } : {}),
      },
      interrupted.signal,
    );
  } finally {
    await plane.stop();
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
