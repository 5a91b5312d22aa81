/** What is published works without the sources: built JavaScript with types, and the files that run on their own. */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { workspacesOf } from '../../tools/workspaces.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
let dir: string;

/** Folders that `npm install kubenode` makes, by the lock file: all but what only development needs, and the private packages, which `dist` has in it. */
function installed(): string[] {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; devOptional?: boolean; link?: boolean }>;
  };
  return Object.entries(packages).flatMap(([path, { dev, devOptional, link }]) =>
    !path.startsWith('node_modules/') || dev === true || devOptional === true || link === true ? [] : [path],
  );
}

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'kubenode-package-'));
  const { files } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { files: string[] };
  for (const file of [...files.filter((each) => each !== 'dist'), 'package.json'])
    cpSync(join(ROOT, file), join(dir, file), { recursive: true });
  execFileSync(process.execPath, [join(ROOT, 'tools/build.ts'), join(dir, 'dist')]);
  for (const path of installed().filter((each) => each.lastIndexOf('node_modules/') === 0 && existsSync(join(ROOT, each)))) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    symlinkSync(join(ROOT, path), join(dir, path));
  }
}, 120_000);

afterAll(() => rmSync(dir, { recursive: true, force: true }));

const run = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: dir, encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } });

it('H3: contains JavaScript with types, no sources and no tests', () => {
  expect(existsSync(join(dir, 'src'))).toBe(false);
  expect(existsSync(join(dir, 'dist/constructs/index.d.ts'))).toBe(true);
  const built = execFileSync(
    'find',
    [join(dir, 'dist'), '-name', '*.test.*', '-o', '-path', '*testing*', '-o', '-name', '*.ts', '-not', '-name', '*.d.ts'],
    { encoding: 'utf8' },
  );
  expect(built).toBe('');
  for (const file of [
    'agent-package/install',
    'bundles/agent.mjs',
    'bundles/agenttool.mjs',
    'bundles/controllers.mjs',
    'bundles/render.mjs',
    'artifacts/local-kubelet-1.0.0.tgz',
  ])
    expect(existsSync(join(dir, 'dist', file)), file).toBe(true);
});

it('declares what its private packages need, in their versions', () => {
  const declared = (folder: string) =>
    (JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as { dependencies?: Record<string, string> }).dependencies ?? {};
  const needed = workspacesOf(ROOT).flatMap(({ folder }) => Object.entries(declared(folder)));
  expect(needed.length).toBeGreaterThan(0);
  expect(declared('.')).toMatchObject(Object.fromEntries(needed.filter(([name]) => !name.startsWith('@kubenode/'))));
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

it('security 9: who installs it gets neither backport nor an old axios, optional packages included', () => {
  const names = installed().map((path) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length));
  expect(names).toContain('cdk8s');
  expect(names.filter((name) => ['backport', 'axios', 'cdk8s-plus-27'].includes(name))).toEqual([]);
  const { dependencies, optionalDependencies, peerDependenciesMeta } = JSON.parse(
    readFileSync(join(ROOT, 'package.json'), 'utf8'),
  ) as Record<string, Record<string, object>>;
  expect({ ...dependencies, ...optionalDependencies }).not.toHaveProperty('cdk8s-plus-27');
  // npm installs a peer of its own accord unless it is optional.
  expect(peerDependenciesMeta?.['cdk8s-plus-27']).toEqual({ optional: true });
});

it('does without cdk8s-plus what it needs of it: its files that run on their own have it in them', () => {
  expect(existsSync(join(dir, 'node_modules/cdk8s-plus-27'))).toBe(false);
  expect(run('bin/kubenode.js', 'install', '--cell', '--image', 'kubenode:1', '--server', 'https://api:6443')).toContain(
    'kind: Deployment',
  );
  const fleet = join(dir, 'plus');
  mkdirSync(join(fleet, 'fleet'), { recursive: true });
  writeFileSync(
    join(fleet, 'fleet/main.ts'),
    `import { fleet } from 'kubenode/constructs';
import { ConfigMap } from 'cdk8s-plus-27';
fleet.cluster('prod', { labels: { stage: 'prod' } });
fleet.allClusters((cluster) => { new ConfigMap(cluster.pool('web'), 'x', { metadata: { name: 'x' }, data: { a: 'b' } }); });
`,
  );
  const checked = JSON.parse(run('bin/kubenode.js', 'rules', 'check', '-o', 'json', fleet)) as object;
  expect(checked).toEqual({ ok: true, isolation: expect.stringMatching(/^(namespaces|process)$/) as string, rules: [], findings: [] });
});

it('serves the API from its own files', async () => {
  const child = spawn(process.execPath, ['bin/kubenode.js', 'serve', '--listen', '127.0.0.1:0'], {
    cwd: dir,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  try {
    const text = await new Promise<string>((resolve, reject) => {
      let printed = '';
      child.stderr.on('data', (chunk) => {
        printed += String(chunk);
        if (printed.includes('\n')) resolve(printed);
      });
      child.once('exit', (code) => reject(new Error(`ended with ${code}: ${printed}`)));
    });
    expect(text).toMatch(/serving default at https:\/\/127\.0\.0\.1:\d+/);
  } finally {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await gone;
  }
}, 30_000);
