import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { atLeast, CHILD_ENVIRONMENT, nodeArguments, nodeBinary, walls, type Wall } from './wall.ts';

const limits = { dataBytes: 1 << 30, cpuSeconds: 20 };
const all = await walls();
const walled = all.filter((wall) => wall.isolation === 'namespaces');
const dying = all.filter((wall) => wall.tool !== 'none');

/** What a script says behind a wall, without Node's own permissions: only the wall holds it. */
async function behind(wall: Wall, script: string): Promise<string> {
  const node = nodeBinary();
  const [command = '', ...args] = wall.wrap([node, '-e', script], [node], limits);
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: CHILD_ENVIRONMENT, cwd: '/', detached: true });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await new Promise((resolve) => child.on('close', resolve));
  return output.trim();
}

it('the last wall always works and is the weakest', () => {
  expect(all.at(-1)?.tool).toBe('none');
  expect(all.map((wall) => atLeast(wall.isolation, 'process'))).not.toContain(false);
  expect(atLeast('process', 'namespaces')).toBe(false);
  expect(atLeast('pod', 'namespaces')).toBe(true);
});

it('Node may read one file and nothing else', () => {
  expect(nodeArguments('/child.mjs', 512).filter((argument) => argument.startsWith('--allow'))).toEqual(['--allow-fs-read=/child.mjs']);
});

describe.skipIf(walled.length === 0)('behind namespaces', () => {
  it.each(walled.map((wall) => [wall.tool, wall] as const))('%s: no network, no other process, no way to signal us', async (_, wall) => {
    const server = createServer((socket) => socket.end('reached'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = address !== null && typeof address === 'object' ? address.port : 0;
    const script = `
      const tried = (act) => { try { act(); return 'done'; } catch (error) { return error.code; } };
      const kill = tried(() => process.kill(${process.pid}, 'SIGKILL'));
      const socket = require('node:net').connect(${port}, '127.0.0.1');
      socket.on('connect', () => say('connected')).on('error', (error) => say(error.code));
      const say = (network) => { console.log(JSON.stringify({ kill, network, pid: process.pid < 10 })); tried(() => process.kill(0, 'SIGKILL')); };`;
    try {
      const { kill, network, pid } = JSON.parse((await behind(wall, script)).split('\n')[0] ?? '') as Record<string, unknown>;
      expect(kill).toBe('ESRCH');
      expect(['ENETUNREACH', 'ECONNREFUSED']).toContain(network);
      expect(pid).toBe(true);
    } finally {
      server.close();
    }
  });
});

it.skipIf(dying.length === 0).each(dying.map((wall) => [wall.tool, wall] as const))(
  '%s: the child dies with a parent that is killed',
  async (_, wall) => {
    const node = nodeBinary();
    const [command = '', ...args] = wall.wrap([node, '-e', 'setInterval(() => {}, 1000); console.log("up")'], [node], limits);
    // The pipe is held open by whatever lives of the child, and by nothing else once the parent in between is gone.
    const parent = spawn(
      node,
      [
        '-e',
        `require('node:child_process').spawn(${JSON.stringify(command)}, ${JSON.stringify(args)}, { stdio: 'inherit', detached: true, env: ${JSON.stringify(CHILD_ENVIRONMENT)} }); setInterval(() => {}, 1000);`,
      ],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    await new Promise((resolve) => parent.stdout.once('data', resolve));
    const closed = new Promise((resolve) => parent.stdout.once('close', () => resolve('closed')));
    parent.kill('SIGKILL');
    expect(await closed).toBe('closed');
  },
);
