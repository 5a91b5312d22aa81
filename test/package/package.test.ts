/** What is published works without the sources: built JavaScript with types, and the files that run on their own. */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
let dir: string;

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-package-'));
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] };
  for (const file of [...files.filter((each) => each !== 'dist'), 'package.json'])
    cpSync(join(ROOT, file), join(dir, file), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'tools/build.ts'), join(dir, 'dist')]);
  symlinkSync(join(ROOT, 'node_modules'), join(dir, 'node_modules'));
}, 120_000);

afterAll(() => rmSync(dir, { recursive: true, force: true }));

const run = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: dir, encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } });

it('H3: holds JavaScript with types, no sources and no tests', () => {
  expect(existsSync(join(dir, 'src'))).toBe(false);
  expect(existsSync(join(dir, 'dist/constructs/index.d.ts'))).toBe(true);
  const built = execFileSync(
    'find',
    [join(dir, 'dist'), '-name', '*.test.*', '-o', '-path', '*testing*', '-o', '-name', '*.ts', '-not', '-name', '*.d.ts'],
    { encoding: 'utf8' },
  );
  expect(built).toBe('');
  for (const file of ['bundles/agent.mjs', 'bundles/controllers.mjs', 'bundles/render.mjs', 'artifacts/local-kubelet-1.0.0.tgz'])
    expect(existsSync(join(dir, 'dist', file)), file).toBe(true);
});

it('gives a fleet its constructs and a shell its command', () => {
  expect(
    run(
      '--input-type=module',
      '-e',
      "const { fleet, MachineSet } = await import('kubenode/constructs'); console.log(typeof fleet, typeof MachineSet)",
    ),
  ).toBe('object function\n');
  expect(run('bin/kubenode.js', '--version')).toMatch(/^\d+\.\d+\.\d+\n$/);
  expect(run('bin/kubenode.js', 'serve', '--help')).toContain('Left out:');
});

it('serves the API from its own files', async () => {
  const child = spawn(process.execPath, ['bin/kubenode.js', 'serve', '--listen', '127.0.0.1:0'], {
    cwd: dir,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  try {
    const text = await new Promise<string>((resolve, reject) => {
      let said = '';
      child.stderr.on('data', (chunk) => {
        said += String(chunk);
        if (said.includes('\n')) resolve(said);
      });
      child.once('exit', (code) => reject(new Error(`ended with ${code}: ${said}`)));
    });
    expect(text).toMatch(/serving default at https:\/\/127\.0\.0\.1:\d+/);
  } finally {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  }
}, 30_000);
