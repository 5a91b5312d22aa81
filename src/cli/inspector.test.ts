import { spawn, type ChildProcessByStdio } from 'node:child_process';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, it } from 'vitest';
import { waitFor } from '../kube/testing/waitfor.ts';
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

it.each(['bin/kubenode.js', 'the bundle of controllers'])('security 1: no signal opens the inspector of %s', async (which) => {
  const program = which.startsWith('bin') ? ENTRY : await bundleFor('controllers');
  // Whichever program: one that runs until it is ended. The controllers wait for a server that is not there.
  const args = which.startsWith('bin') ? ['serve', '--listen', '127.0.0.1:0'] : ['controller', '--hub', '--kubeconfig', '/dev/null'];
  const ours = start('--import', 'data:text/javascript,setInterval(()=>{},1000)', program, ...args);
  const plain = start('--inspect-port=0', '-e', "console.log('serving'); setInterval(() => {}, 1000)");
  await waitFor(() => ours.output() !== '' && plain.output().includes('serving'), { deadlineMs: 30_000 });
  ours.child.kill('SIGUSR1');
  // Sent later, so when it has had its effect here it would have had it there.
  plain.child.kill('SIGUSR1');
  await waitFor(() => plain.output().includes('Debugger listening'), { deadlineMs: 30_000 });
  ours.child.kill('SIGUSR1');
  expect(ours.output()).not.toContain('Debugger');
  expect(ours.child.exitCode).toBeNull();
  expect(ours.child.signalCode).toBeNull();
});
