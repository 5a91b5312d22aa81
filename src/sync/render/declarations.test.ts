import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { compilerPath } from './compiler.ts';
import { constructsTypes } from './declarations.ts';

const compiler = compilerPath() ?? '';
const signal = AbortSignal.timeout(60_000);
const HOUR = 3600;
const compilerOptions = { target: 'es2024', module: 'nodenext', strict: true, noEmit: true, allowImportingTsExtensions: true, types: [] };
let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'kubenode-declarations-')));
  for (const part of ['src/api', 'src/constructs', 'packages/api-machinery/src']) mkdirSync(join(root, part), { recursive: true });
  write('package.json', '{ "type": "module" }');
  write('tsconfig.json', JSON.stringify({ compilerOptions, files: [] }));
  write('src/api/size.ts', 'export type Size = 1 | 2;\n');
  write('src/constructs/index.ts', "import type { Size } from '../api/size.ts';\nexport const size = (): Size => 1;\n");
});
afterEach(() => rmSync(root, { recursive: true }));

const write = (path: string, text: string): void => writeFileSync(join(root, path), text);
const made = (): string[] => readdirSync(join(root, '.build', 'types'));
const types = (): Promise<string> => constructsTypes(compiler, signal, root);

it('what the package ships is taken where there are no sources', async () => {
  rmSync(join(root, 'src'), { recursive: true });
  expect(await types()).toBe(join(root, 'dist', 'constructs', 'index.d.ts'));
  expect(existsSync(join(root, '.build'))).toBe(false);
});

it('in a checkout they are made once for each state of the sources, and tests are no sources', async () => {
  const first = await types();
  expect(readFileSync(first, 'utf8')).toContain('size: () => Size');
  expect(relative(root, first)).toMatch(/^\.build\/types\/[0-9a-f]{16}\/src\/constructs\/index\.d\.ts$/);
  expect(made()).toHaveLength(1);
  write('src/api/size.test.ts', 'export {};\n');
  write('src/api/notes.md', 'a note\n');
  expect(await constructsTypes('/no/compiler', signal, root)).toBe(first);
  write('src/api/size.ts', 'export type Size = 1 | 2 | 3;\n');
  const second = await types();
  expect(second).not.toBe(first);
  expect(readFileSync(join(second, '../../api/size.d.ts'), 'utf8')).toContain('3');
  write('packages/api-machinery/src/wire.ts', 'export type Json = string;\n');
  expect(await types()).not.toBe(second);
  expect(made()).toHaveLength(3);
});

it('those of states that are no more go after a day', async () => {
  for (const [name, hours] of [
    ['young', 23],
    ['old', 25],
  ] as const) {
    mkdirSync(join(root, '.build', 'types', name, 'constructs'), { recursive: true });
    const at = statSync(root).mtimeMs / 1000 - hours * HOUR;
    utimesSync(join(root, '.build', 'types', name), at, at);
  }
  await types();
  expect(made()).toContain('young');
  expect(made()).not.toContain('old');
});

it('two that make them at once have the same, and nothing else is left', async () => {
  const [first, second] = await Promise.all([types(), types()]);
  expect(first).toBe(second);
  expect(existsSync(first)).toBe(true);
  expect(made()).toHaveLength(1);
});

it('what lies there without them is an error, and not taken for them', async () => {
  rmSync(await types());
  await expect(types()).rejects.toMatchObject({ code: expect.stringMatching(/^(ENOTEMPTY|EEXIST)$/) as string });
  expect(made()).toHaveLength(1);
});

it('reports what the compiler reports where nothing is made, and leaves nothing', async () => {
  write('tsconfig.json', JSON.stringify({ compilerOptions: { ...compilerOptions, noEmitOnError: true }, files: [] }));
  write('src/constructs/index.ts', "export const size: number = 'one';\n");
  await expect(types()).rejects.toMatchObject({
    code: 'TypeCheckFailed',
    message: expect.stringMatching(/^no declarations were made: .*TS2322/) as unknown,
  });
  expect(made()).toEqual([]);
});
