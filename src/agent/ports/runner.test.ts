import { fileURLToPath } from 'node:url';
import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { startOf } from './processes.ts';
import { nodeRunner } from './runner.ts';

const run = nodeRunner();
const command = (script: string, timeoutMs = 5000) => ({
  argv: ['/bin/sh', '-c', script],
  environment: { PATH: '/bin:/usr/bin', X: '1' },
  cwd: tmpdir(),
  timeoutMs,
});
const never = new AbortController().signal;

test.each([
  ['exit 0', { ok: true, how: 'exit code 0', output: '' }],
  ['echo out; echo err >&2; exit 3', { ok: false, how: 'exit code 3', output: 'out\nerr' }],
  ['echo $X$HOME', { ok: true, how: 'exit code 0', output: '1' }],
  ['kill -9 $$', { ok: false, how: 'signal SIGKILL', output: '' }],
])('%s', async (script, expected) => {
  expect(await run(command(script), never)).toEqual(expected);
});

test('what takes too long is ended, with what it started', async () => {
  const result = await run(command('sleep 60 & echo $!; wait', 200), never);
  expect(result).toMatchObject({ ok: false, how: 'no end within 0.2 s' });
  await waitFor(async () => (await startOf(Number(result.output))) === undefined);
});

test('only the end of what it writes is kept, and marked as cut', async () => {
  const { output } = await run(command('i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done'), never);
  expect(output.length).toBeLessThanOrEqual(2049);
  expect(output).toMatch(/^….*line 1999$/s);
  expect((await run(command('echo whole'), never)).output).toBe('whole');
});

test('a program that is not there is a failure, not an error', async () => {
  expect(await run({ ...command(''), argv: ['/no/such'] }, never)).toMatchObject({ ok: false, how: expect.stringContaining('ENOENT') });
});

test('an abort ends it', async () => {
  const ended = new AbortController();
  const running = run(command('sleep 60'), ended.signal);
  ended.abort(new Error('enough'));
  await expect(running).rejects.toThrow('enough');
});

test('a program that cannot be started, since no file can be opened any more, is a result, and the agent goes on', async () => {
  const runner = fileURLToPath(new URL('runner.ts', import.meta.url));
  const agent = `import { openSync } from 'node:fs';
    import { nodeRunner } from ${JSON.stringify(runner)};
    const open = [];
    try { for (;;) open.push(openSync('/dev/null')); } catch (error) { console.log(error.code); }
    const command = { argv: ['true'], environment: {}, cwd: '/', timeoutMs: 60_000 };
    const { ok, how } = await nodeRunner()(command, new AbortController().signal);
    console.log(ok, how);
    setTimeout(() => console.log('goes on'));`;
  const argv = ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, '--input-type=module', '-e', agent];
  const result = await nodeRunner()(
    { argv: ['/bin/sh', ...argv], environment: {}, cwd: '/', timeoutMs: 60_000 },
    new AbortController().signal,
  );
  expect(result).toMatchObject({ ok: true, output: 'EMFILE\nfalse spawn true EMFILE\ngoes on' });
});
