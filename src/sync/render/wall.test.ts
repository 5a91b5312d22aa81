import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, readlinkSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { atLeast, CHILD_ENVIRONMENT, nodeArguments, nodeBinary, strongest, walls, type Wall } from './wall.ts';

const limits = { dataBytes: 2 ** 30, cpuSeconds: 20 };
/** Room for a second thread. */
const roomy = { ...limits, dataBytes: 2 ** 33 };
const all = await walls();

/** A wall that is not to be had here is a test that is skipped, and not one that is missing: `tools/skips.ts` sees it. */
function wallOf(tool: string, skip: (note: string) => never): Wall {
  return all.find((wall) => wall.tool === tool) ?? skip(`${tool} is not to be had here`);
}

/** What a script reports behind a wall, without Node's own permissions: only the wall holds it. */
async function behind(wall: Wall, script: string): Promise<string> {
  const node = nodeBinary();
  const [command = '', ...args] = wall.wrap([node, '-e', script], [node], roomy);
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
  expect([strongest('process', 'namespaces'), strongest('namespaces', 'process'), strongest('process', 'process')]).toEqual([
    'namespaces',
    'namespaces',
    'process',
  ]);
});

it('I2: a system that lets any user make namespaces has a wall of them', ({ skip }) => {
  const namespaces = ['--user', '--map-root-user', '--mount', '--net', '--pid', '--ipc', '--uts', '--fork'];
  const { status } = spawnSync('unshare', [...namespaces, 'mount', '-t', 'tmpfs', 'none', '/mnt'], { timeout: 20_000 });
  if (status !== 0) skip('namespaces are not to be had here');
  expect(all.map(({ tool }) => tool)).toContain('unshare');
});

it('Node may read one file and nothing else', () => {
  expect(nodeArguments('/child.mjs', 512).filter((argument) => argument.startsWith('--allow'))).toEqual(['--allow-fs-read=/child.mjs']);
});

/** Listens where a process of this machine could reach it. */
async function listening(where: string | { port: number; host: string }): Promise<{ server: Server; met: () => boolean }> {
  let met = false;
  const server = createServer((socket) => {
    met = true;
    socket.end('reached');
  });
  await new Promise<void>((resolve) => (typeof where === 'string' ? server.listen(where, resolve) : server.listen(where, resolve)));
  return { server, met: () => met };
}

describe('behind namespaces', () => {
  const dir = mkdtempSync(join(tmpdir(), 'kubenode-wall-'));
  afterAll(() => rmSync(dir, { recursive: true }));

  it.for(['bwrap', 'unshare'])('security 1, security 2: %s holds what docs/security.md reports of it', async (tool, { skip }) => {
    const wall = wallOf(tool, skip);
    chmodSync(dir, 0o777);
    const secret = join(dir, `secret-${tool}`);
    writeFileSync(secret, 'secret', { mode: 0o666 });
    const path = join(dir, `${tool}.sock`);
    const abstract = `\0kubenode-${process.pid}-${tool}`;
    const reachable = await Promise.all([path, abstract, { port: 0, host: '127.0.0.1' }].map(listening));
    chmodSync(path, 0o777);
    const address = reachable[2]?.server.address();
    const port = address !== null && typeof address === 'object' ? address.port : 0;
    const script = `
      const fs = require('node:fs'); const net = require('node:net'); const child = require('node:child_process');
      const found = {};
      const tried = (name, act) => { try { found[name] = act() ?? 'done'; } catch (error) { found[name] = error.code ?? error.name; } };
      const connecting = (name, where) => new Promise((resolve) => {
        const socket = net.connect(where);
        socket.on('connect', () => { found[name] = 'connected'; resolve(); }).on('error', (error) => { found[name] = error.code; resolve(); });
      });
      for (const [name, path] of Object.entries({ secret: ${JSON.stringify(secret)}, passwd: '/etc/passwd', shadow: '/etc/shadow', environ: '/proc/1/environ', self: '/proc/self/environ', fds: '/proc/self/fd/0', host: '/proc/${process.pid}/environ', outside: '/../../etc/passwd' }))
        tried('read ' + name, () => String(fs.readFileSync(path)));
      for (const path of ['/', '/tmp', ${JSON.stringify(dir)}, require('node:path').dirname(process.execPath)]) tried('write ' + (path === '/' ? path : path === '/tmp' ? path : 'x' + Object.keys(found).length), () => fs.writeFileSync(path + '/new', 'x'));
      tried('overwrite', () => fs.openSync(process.execPath, 'r+'));
      tried('chmod', () => fs.chmodSync(process.execPath, 0o777));
      tried('link', () => fs.symlinkSync('/etc', '/link'));
      tried('device', () => fs.openSync('/dev/kmsg', 'r'));
      tried('kill us', () => process.kill(${process.pid}, 0));
      tried('inspect us', () => process.kill(${process.pid}, 'SIGUSR1'));
      tried('shell', () => { const { error, status } = child.spawnSync('/bin/sh', ['-c', 'true']); if (error) throw error; return status; });
      tried('dlopen', () => process.dlopen({ exports: {} }, '/usr/lib/x.node'));
      tried('uid', () => process.getuid()); tried('pid', () => process.pid < 3);
      tried('root', () => fs.readdirSync('/').filter((name) => !['dev', 'proc'].includes(name)).length <= 12);
      tried('setuid', () => process.setuid(0));
      tried('env', () => Object.keys(process.env).filter((name) => !['TZ', 'LC_ALL', 'PATH', 'PWD', 'SHLVL', '_', 'OLDPWD'].includes(name)).join());
      for (let fd = 3, open = []; fd < 64; fd++) { try { const stat = fs.fstatSync(fd); if (stat.isDirectory() || stat.isFile()) open.push(fd); } catch {} found.fds = open.length; }
      tried('nodes', () => { for (let i = 0; i < 5000; i++) fs.mkdirSync('/d' + i); });
      Promise.all([
        connecting('unix', ${JSON.stringify(path)}), connecting('abstract', ${JSON.stringify(abstract)}), connecting('loopback', { port: ${port}, host: '127.0.0.1' }),
        connecting('containerd', '/run/containerd/containerd.sock'), connecting('docker', '/var/run/docker.sock'),
        fetch('http://127.0.0.1:${port}').then(() => { found.fetch = 'fetched'; }, (error) => { found.fetch = 'refused'; }),
        require('node:dns/promises').lookup('example.com').then(() => { found.dns = 'found'; }, () => { found.dns = 'refused'; }),
        new Promise((resolve) => { const worker = new (require('node:worker_threads').Worker)("try { require('node:fs').readFileSync('/etc/passwd'); require('node:worker_threads').parentPort.postMessage('read') } catch (error) { require('node:worker_threads').parentPort.postMessage(error.code) }", { eval: true }); worker.on('message', (message) => { found.worker = message; resolve(); }).on('error', (error) => { found.worker = error.code; resolve(); }); }),
      ]).then(() => { console.log('FOUND' + JSON.stringify(found)); process.exit(0); });`;
    try {
      const output = await behind(wall, script);
      const line = output.split('\n').find((each) => each.startsWith('FOUND')) ?? '';
      expect(line === '' ? output : 'reported').toBe('reported');
      const found = JSON.parse(line.slice('FOUND'.length)) as Record<string, unknown>;
      const held = (name: string, ...how: unknown[]): void =>
        expect([name, how.includes(found[name]) ? 'held' : found[name]]).toEqual([name, 'held']);
      for (const name of Object.keys(found).filter((each) => each.startsWith('read '))) held(name, 'ENOENT', 'EACCES');
      for (const name of Object.keys(found).filter((each) => each.startsWith('write '))) held(name, 'EROFS', 'ENOENT', 'EACCES');
      held('overwrite', 'EROFS', 'EACCES', 'ETXTBSY');
      held('chmod', 'EROFS', 'EPERM');
      held('link', 'EROFS', 'EACCES');
      held('nodes', 'EROFS', 'EACCES');
      held('device', 'ENOENT', 'EACCES');
      held('kill us', 'ESRCH');
      held('inspect us', 'ESRCH');
      held('shell', 'ENOENT');
      held('dlopen', 'ERR_DLOPEN_FAILED');
      held('setuid', 'EPERM', 'EINVAL');
      held('uid', 65534);
      held('pid', true);
      held('root', true);
      held('env', '');
      held('fds', 0);
      held('unix', 'ENOENT', 'EACCES');
      held('abstract', 'ECONNREFUSED');
      held('loopback', 'ENETUNREACH', 'ECONNREFUSED');
      held('containerd', 'ENOENT', 'EACCES');
      held('docker', 'ENOENT', 'EACCES');
      held('fetch', 'refused');
      held('dns', 'refused');
      held('worker', 'ENOENT', 'EACCES');
      expect(reachable.map(({ met }) => met())).toEqual([false, false, false]);
    } finally {
      for (const { server } of reachable) server.close();
    }
  });

  it.for(['bwrap', 'unshare'])('%s: has no rights, and none are to be had', async (tool, { skip }) => {
    const wall = wallOf(tool, skip);
    // The probe sees no /proc inside, so it is observed from here.
    const node = nodeBinary();
    const [command = '', ...args] = wall.wrap([node, '-e', "console.log('up'); setInterval(() => {}, 1000)"], [node], limits);
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], env: CHILD_ENVIRONMENT, cwd: '/', detached: true });
    try {
      await new Promise((resolve) => child.stdout.once('data', resolve));
      const inside = descendants(child.pid ?? 0).find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`${node}\0-e`));
      const status = readFileSync(`/proc/${inside}/status`, 'utf8');
      expect(/^CapEff:\s*(\S+)/m.exec(status)?.[1]).toBe('0000000000000000');
      expect(/^CapPrm:\s*(\S+)/m.exec(status)?.[1]).toBe('0000000000000000');
      expect(/^NoNewPrivs:\s*(\S+)/m.exec(status)?.[1]).toBe('1');
      for (const kind of ['user', 'mnt', 'pid', 'net', 'ipc', 'uts'])
        expect([kind, readlinkSync(`/proc/${inside}/ns/${kind}`)]).not.toEqual([kind, readlinkSync(`/proc/self/ns/${kind}`)]);
    } finally {
      process.kill(-(child.pid ?? 0), 'SIGKILL');
    }
  });
});

function descendants(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return [pid, ...(children === '' ? [] : children.split(' ').flatMap((each) => descendants(Number(each))))];
}

describe.each(['bwrap', 'unshare', 'limits', 'none'])('behind %s, with what Node itself refuses', (tool) => {
  it('there are no files, processes, threads, modules of the system, inspectors or code from text', async ({ skip }) => {
    const wall = wallOf(tool, skip);
    const folder = mkdtempSync(join(tmpdir(), 'kubenode-node-'));
    const file = join(folder, 'child.mjs');
    writeFileSync(
      file,
      `import fs from 'node:fs'; import { spawnSync } from 'node:child_process'; import { Worker } from 'node:worker_threads'; import inspector from 'node:inspector'; import wasi from 'node:wasi';
      const found = {};
      const tried = (name, act) => { try { act(); found[name] = 'done'; } catch (error) { found[name] = error.code ?? error.name; } };
      tried('read', () => fs.readFileSync('/etc/passwd'));
      tried('environ', () => fs.readFileSync('/proc/self/environ'));
      tried('write', () => fs.writeFileSync('/tmp/kubenode-written', ''));
      tried('spawn', () => { const { error } = spawnSync('true'); if (error) throw error; });
      tried('worker', () => new Worker('1', { eval: true }));
      tried('dlopen', () => process.dlopen({ exports: {} }, '/x.node'));
      tried('binding', () => process.binding('spawn_sync'));
      tried('inspector', () => inspector.open(0));
      tried('wasi', () => new wasi.WASI({ version: 'preview1' }));
      tried('eval', () => eval('1'));
      tried('function', () => new Function('1'));
      console.log(JSON.stringify(found)); process.exit(0);`,
    );
    try {
      const node = nodeBinary();
      const [command = '', ...args] = wall.wrap([node, ...nodeArguments(realpathSync(file), 512)], [node, realpathSync(file)], limits);
      const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], env: CHILD_ENVIRONMENT, cwd: '/', detached: true });
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      await new Promise((resolve) => child.on('close', resolve));
      expect(JSON.parse(output)).toEqual({
        read: 'ERR_ACCESS_DENIED',
        environ: 'ERR_ACCESS_DENIED',
        write: 'ERR_ACCESS_DENIED',
        spawn: 'ERR_ACCESS_DENIED',
        worker: 'ERR_ACCESS_DENIED',
        dlopen: 'ERR_DLOPEN_DISABLED',
        binding: 'ERR_ACCESS_DENIED',
        inspector: 'ERR_ACCESS_DENIED',
        wasi: 'ERR_ACCESS_DENIED',
        eval: 'EvalError',
        function: 'EvalError',
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

it.for(['bwrap', 'unshare', 'limits'])('%s: the child dies with a parent that is killed', async (tool, { skip }) => {
  const wall = wallOf(tool, skip);
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
});
