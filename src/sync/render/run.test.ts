import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { DEFAULT_LIMITS, runChild } from './run.ts';
import { walls, type Wall } from './wall.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'kubenode-run-')));
afterAll(() => rmSync(folder, { recursive: true }));

function script(name: string, code: string): string {
  const path = join(folder, `${name}.mjs`);
  writeFileSync(path, code);
  return path;
}

/** What the kernel reports of a process; nothing of one that has ended meanwhile. */
function kernel(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

function children(pid: number): number[] {
  const found = kernel(pid, `task/${pid}/children`)
    .split(' ')
    .filter((each) => each.trim() !== '');
  return found.flatMap((each) => [Number(each), ...children(Number(each))]);
}

/** Whether SIGUSR1, Linux's number 10, is in this mask of a process. */
function hasUsr1(pid: number, mask: 'SigBlk' | 'SigIgn'): boolean {
  const bits = new RegExp(`^${mask}:\\s*(\\S+)`, 'm').exec(kernel(pid, 'status'))?.[1] ?? '0';
  return (BigInt(`0x${bits}`) & (1n << 9n)) !== 0n;
}

/** What a child does about SIGUSR1 once it is up, and what it logged after one was sent. */
async function signalled(wall: Wall, title: string): Promise<{ isRefused: boolean; log: string }> {
  // Its name reports that it is up: before, Node takes no signal, whatever its arguments.
  const waiting = script(title, `process.title = '${title}'; setInterval(() => {}, 1000);`);
  const running = runChild(wall, waiting, '{}', DEFAULT_LIMITS, AbortSignal.timeout(25_000));
  let up = 0;
  await waitFor(() => (up = children(process.pid).find((pid) => kernel(pid, 'cmdline').startsWith(title)) ?? 0) > 0, {
    deadlineMs: 20_000,
  });
  const isRefused = hasUsr1(up, 'SigBlk') || hasUsr1(up, 'SigIgn');
  process.kill(up, 'SIGUSR1');
  process.kill(up, 'SIGKILL');
  return { isRefused, log: (await running).log };
}

describe.skipIf(process.platform !== 'linux')('security 1, I5: no signal opens the inspector of a child', () => {
  it.for(['bwrap', 'unshare', 'limits', 'none'])('behind %s', async (tool, { skip }) => {
    const wall = (await walls()).find((each) => each.tool === tool) ?? skip(`${tool} is not to be had here`);
    expect(await signalled(wall, `up-${tool}`)).toEqual({ isRefused: true, log: '' });
  });

  it('also without the permissions of Node, which would refuse it by themselves', async () => {
    const isPermission = (argument: string): boolean => argument === '--permission' || argument.startsWith('--allow-');
    const wall: Wall = { tool: 'none', isolation: 'process', wrap: (command) => command.filter((each) => !isPermission(each)) };
    expect(await signalled(wall, 'up-permitted')).toEqual({ isRefused: true, log: '' });
  });
});

const plain: Wall = { tool: 'none', isolation: 'process', wrap: (command) => [...command] };

describe('a child that does not start is an error of the rendering', () => {
  it('where the program is not there', async () => {
    const missing: Wall = { tool: 'none', isolation: 'process', wrap: () => [join(folder, 'missing')] };
    expect(await runChild(missing, script('unused', ''), '{}', DEFAULT_LIMITS, new AbortController().signal)).toEqual({
      output: undefined,
      failure: { code: 'RenderCrashed', message: `the child did not start: spawn ${join(folder, 'missing')} ENOENT` },
      log: '',
    });
  });

  it('where no file can be opened any more, and the hub goes on', async () => {
    const module = (name: string): string => JSON.stringify(fileURLToPath(new URL(name, import.meta.url)));
    const hub = script(
      'hub',
      `import { openSync } from 'node:fs';
      import { DEFAULT_LIMITS, runChild } from ${module('run.ts')};
      const none = { tool: 'none', isolation: 'process', wrap: (command) => [...command] };
      const open = [];
      try { for (;;) open.push(openSync('/dev/null')); } catch (error) { console.log(error.code); }
      const { output, failure } = await runChild(none, process.argv[1], '{}', DEFAULT_LIMITS, new AbortController().signal);
      console.log(JSON.stringify({ output, failure }));
      console.log('goes on');`,
    );
    const child = spawn('sh', ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, hub], { stdio: ['ignore', 'pipe', 'pipe'] });
    let printed = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    const code = await new Promise((resolve) => child.once('close', resolve));
    const [limit, result = '{}', end] = printed.trim().split('\n');
    expect({ code, limit, end }, errors).toEqual({ code: 0, limit: 'EMFILE', end: 'goes on' });
    expect(JSON.parse(result)).toMatchObject({
      failure: { code: 'RenderCrashed', message: expect.stringMatching(/^the child did not start: .*EMFILE/) as string },
    });
  });
});

describe('a child that ends without a result is reported', () => {
  const ends = async (name: string, code: string) =>
    (await runChild(plain, script(name, code), '{}', DEFAULT_LIMITS, AbortSignal.timeout(25_000))).failure;

  it('by its last words, else by its exit code or its signal', async () => {
    expect(await ends('words', "console.log('first\\nlast\\n'); process.exit(3);")).toEqual({
      code: 'RenderCrashed',
      message: 'the child ended (exit code 3) without a result: last',
    });
    expect(await ends('code', 'process.exit(3);')).toMatchObject({ message: 'the child ended (exit code 3) without a result' });
    expect(await ends('empty', '')).toMatchObject({ message: 'the child ended (exit code 0) without a result' });
    expect(await ends('signal', "process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1000);")).toMatchObject({
      message: 'the child ended (SIGTERM) without a result',
    });
  });

  it('as what it ran out of, where that is known', async () => {
    expect(await ends('awaits', 'await new Promise(() => {});')).toMatchObject({ code: 'RenderNeverSettles' });
    expect(await ends('time', "process.kill(process.pid, 'SIGXCPU'); setInterval(() => {}, 1000);")).toMatchObject({
      code: 'RenderTimeout',
    });
    expect(await ends('killed', "process.kill(process.pid, 'SIGKILL'); setInterval(() => {}, 1000);")).toMatchObject({
      code: 'RenderTimeout',
    });
    for (const code of [128 + 9, 128 + 24])
      expect(await ends(`ends-${code}`, `process.exit(${code});`)).toMatchObject({ code: 'RenderTimeout' });
    for (const words of ['JavaScript heap out of memory', 'Allocation failed'])
      expect(await ends('memory', `console.error(${JSON.stringify(words)}); process.exit(134);`)).toMatchObject({ code: 'RenderMemory' });
  });
});
