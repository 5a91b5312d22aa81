import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const entry = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kubenode-pipe-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the program without a reader at the other end of these streams; what it wrote to the others. */
async function run(
  args: readonly string[],
  closed: readonly ('stdout' | 'stderr')[],
): Promise<{ code: number | null; signal: string | null; printed: string }> {
  const env = { ...process.env, KUBECONFIG: join(folder, 'none') };
  const child = spawn(process.execPath, [entry, ...args], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const name of ['stdout', 'stderr'] as const) {
    if (closed.includes(name)) child[name].destroy();
    else child[name].setEncoding('utf8').on('data', (text: string) => (printed += text));
  }
  return await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, printed }));
  });
}

const endedByPipe = { code: 141, signal: null, printed: '' };

describe('when the reader of the output has ended', () => {
  it.each([
    ['install', ['install', '--cell', '--server', 'https://api:6443']],
    ['check', ['check', '--pre', '-o', 'json']],
    ['help', ['rollout', 'show', '--help']],
  ])('%s ends as a closed pipe ends kubectl, and prints nothing', async (_, args) => {
    expect(await run(args, ['stdout'])).toEqual(endedByPipe);
  });

  it.each([
    ['an error is reported to no one', ['status'], ['stderr']],
    ['a wrong call is reported to no one', ['controller'], ['stdout', 'stderr']],
    ['what would run until it is stopped is stopped', ['serve', '--listen', '127.0.0.1:0'], ['stdout', 'stderr']],
  ] as const)('of messages: %s', async (_, args, closed) => {
    expect(await run(args, closed)).toEqual(endedByPipe);
  });

  it('a controller ends as when it is asked to', async () => {
    const server = 'https://127.0.0.1:1';
    const config = {
      clusters: [{ name: 'c', cluster: { server } }],
      users: [{ name: 'u', user: { token: 't' } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    };
    writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(config));
    const args = ['controller', '--hub', '--cache', join(folder, 'cache'), '--kubeconfig', join(folder, 'kubeconfig')];
    expect(await run(args, ['stdout'])).toEqual(endedByPipe);
  });
});
