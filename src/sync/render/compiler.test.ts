import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { waitFor } from '../../kube/testing/wait-for.ts';
import { compile, compilerPath, packageFolders } from './compiler.ts';

const folder = mkdtempSync(join(tmpdir(), 'kubenode-compiler-'));
afterAll(() => rmSync(folder, { recursive: true }));
const never = new AbortController().signal;

/** Instead of the compiler. */
function program(name: string, code: string): string {
  const path = join(folder, `${name}.mjs`);
  writeFileSync(path, code);
  return path;
}
const ending = (code: number, text = ''): string => `console.log(${JSON.stringify(text)}); process.exitCode = ${code};`;

test('the compiler that is installed is found, the nearest first', () => {
  expect(compilerPath()).toBe(join(packageFolders('typescript').find((path) => existsSync(path)) ?? '', 'bin', 'tsc'));
});

test.each([0, 1, 2])('what it prints is the answer where it ends with %i', async (code) => {
  const printing = program(`ends-${code}`, `console.error('a'); ${ending(code, 'b')}`);
  expect((await compile(printing, 'tsconfig.json', folder, never)).split('\n').toSorted()).toEqual(['', 'a', 'b']);
});

test('it is an error of its own where it ends otherwise, or does not start', async () => {
  const failing = (path: string, cwd = folder): Promise<string> => compile(path, 'tsconfig.json', cwd, never);
  await expect(failing(program('three', ending(3, 'first\nlast')))).rejects.toMatchObject({
    code: 'TypeCheckFailed',
    message: 'the TypeScript compiler failed: last',
  });
  await expect(failing(program('killed', "process.kill(process.pid, 'SIGKILL');"))).rejects.toMatchObject({ code: 'TypeCheckFailed' });
  await expect(failing(program('unused', ''), join(folder, 'missing'))).rejects.toMatchObject({
    code: 'TypeCheckFailed',
    message: expect.stringContaining('ENOENT') as string,
  });
});

test('it is not started once it is not wanted, and ends when it is not wanted any more', async () => {
  const marking = (name: string, rest = ''): [string, string] => {
    const mark = join(folder, `${name}.started`);
    return [program(name, `import { writeFileSync } from 'node:fs'; writeFileSync(${JSON.stringify(mark)}, ''); ${rest}`), mark];
  };
  const [unwanted, unwantedMark] = marking('unwanted');
  await expect(compile(unwanted, 'tsconfig.json', folder, AbortSignal.abort(new Error('not wanted')))).rejects.toThrow('not wanted');
  expect(existsSync(unwantedMark)).toBe(false);
  const [wanted, wantedMark] = marking('wanted', 'setInterval(() => {}, 1000);');
  const controller = new AbortController();
  const compiled = compile(wanted, 'tsconfig.json', folder, controller.signal);
  const rejected = expect(compiled).rejects.toThrow('not any more');
  await waitFor(() => existsSync(wantedMark), { deadlineMs: 20_000 });
  controller.abort(new Error('not any more'));
  await rejected;
});
