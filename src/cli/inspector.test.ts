import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, expect, it } from 'vitest';
import { waitFor } from '../kube/testing/wait-for.ts';
import { bundleFor } from './bundles.ts';

const ENTRY = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));

const children: ChildProcessByStdio<null, Readable, Readable>[] = [];
afterEach(() => children.splice(0).forEach((child) => child.kill('SIGKILL')));

function start(...args: string[]): { child: ChildProcessByStdio<null, Readable, Readable>; output: () => string } {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  children.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  return { child, output: () => output };
}

const folder = mkdtempSync(join(tmpdir(), 'kubenode-inspector-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Of an agent whose API server is not there. */
function agentArguments(): string[] {
  const bootstrap = join(folder, 'bootstrap.json');
  const root = join(folder, 'root');
  mkdirSync(join(root, 'run/kubenode'), { recursive: true });
  writeFileSync(join(root, 'run/kubenode/boot-id'), 'boot-1\n');
  const machine = { namespace: 'web', name: 'a', uid: 'uid-a' };
  writeFileSync(
    bootstrap,
    JSON.stringify({ server: 'https://127.0.0.1:1', certificateAuthority: 'none', token: 'none', machine, providerID: 'local://a' }),
  );
  return ['--bootstrap', bootstrap, '--root', root, '--host', 'local'];
}

/** Of controllers whose API server is not there. */
function controllerArguments(): string[] {
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'a',
      clusters: [{ name: 'a', cluster: { server: 'https://127.0.0.1:1' } }],
      users: [{ name: 'a', user: { token: 'none' } }],
      contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    }),
  );
  return ['controller', '--hub', '--isolation', 'process', '--cache', join(folder, 'cache'), '--kubeconfig', kubeconfig];
}

/** Whichever program: one that runs until it is ended. The controllers and the agent wait for a server that is not there. */
const PROGRAMS: [string, () => Promise<string[]>][] = [
  ['bin/kubenode.js', () => Promise.resolve([ENTRY, 'serve', '--listen', '127.0.0.1:0'])],
  ['the bundle of controllers', async () => [await bundleFor('controllers'), ...controllerArguments()]],
  ['the bundle of the agent', async () => [await bundleFor('agent'), ...agentArguments()]],
];

/**
 * Keeps the program running, and reports when it has taken the signal from Node: from then on it reports each one, too. A process that is slow opens its
 * inspector late, so that none was opened yet proves nothing by itself.
 */
const WATCH = `data:text/javascript,${encodeURIComponent(`
  const timer = setInterval(() => {
    if (process.listenerCount('SIGUSR1') === 0) return;
    clearInterval(timer);
    process.on('SIGUSR1', () => process.stderr.write('the signal came\\n'));
    process.stderr.write('the signal is taken\\n');
  }, 10);
  setInterval(() => {}, 1000);
`)}`;

it.each(PROGRAMS)('security 1: no signal opens the inspector of %s', async (_which, program) => {
  const ours = start('--inspect-port=0', '--import', WATCH, ...(await program()));
  const plain = start('--inspect-port=0', '-e', "console.log('serving'); setInterval(() => {}, 1000)");
  await waitFor(() => plain.output().includes('serving'), { deadlineMs: 30_000 });
  plain.child.kill('SIGUSR1');
  await waitFor(() => plain.output().includes('Debugger listening'), { deadlineMs: 30_000 });
  await waitFor(() => ours.output().includes('the signal is taken'), { deadlineMs: 20_000 });
  ours.child.kill('SIGUSR1');
  await waitFor(() => ours.output().includes('the signal came'), { deadlineMs: 20_000 });
  expect(ours.output()).not.toContain('Debugger');
  expect(ours.child.exitCode).toBeNull();
  expect(ours.child.signalCode).toBeNull();
});
