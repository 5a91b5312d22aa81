import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';

const program = fileURLToPath(new URL('../../bin/kubenode.js', import.meta.url));

const run = async (...args: string[]): Promise<{ code: number; out: string; err: string }> =>
  await new Promise((done) => {
    execFile(process.execPath, [program, ...args], (error, out, err) =>
      done({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
    );
  });

describe('a command that is not there', () => {
  test.each([[['init']], [['init', '--help']], [['-h', 'init']], [['freeze', 'now', '-h']], [['constructor']]])(
    '%j is refused, also where its help is asked for',
    async (args) => {
      const { code, out, err } = await run(...args);
      expect([code, out]).toEqual([2, '']);
      expect(err).toMatch(/^error: unknown command '(init|freeze|constructor)'\n/);
    },
  );

  test('is not one whose help is asked for, nor the help of all', async () => {
    expect(await run('status', '--help')).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/^Usage: kubenode status /) });
    expect(await run('help', 'status')).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/^Usage: kubenode status /) });
    expect(await run('--help')).toMatchObject({ code: 0, err: '', out: expect.stringMatching(/^Usage: kubenode \[options\] \[command\]/) });
  });
});
