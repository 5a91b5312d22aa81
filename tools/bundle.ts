/**
 * Makes the files that run on their own: the agent, what people ask a node by, the child that renders fleets, the controllers, and the manifests of `kubenode install`. Quick enough to run at each start;
 * skipped when no source file is newer than what is there.
 *
 *   node tools/bundle.ts [--force]
 */
import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
export const BUNDLES = join(ROOT, '.build', 'bundles');

const ENTRIES = {
  agent: 'src/agent/main.ts',
  agenttool: 'src/agent/tool.ts',
  render: 'src/sync/render/child.ts',
  controllers: 'src/cli/controllers.ts',
  deploy: 'deploy/main.ts',
};
export type Bundle = keyof typeof ENTRIES;

/** Large, and loaded only for kubeconfigs that ask a program for credentials, and where metrics are served: they stay where they are installed. */
const EXTERNAL = ['@kubernetes/client-node', '@peculiar/x509'];

/** Some packages of the bundles were written as CommonJS and name their own folder, which a bundle has not. */
export const BANNER = "const __dirname = '/';";

export const bundlePath = (name: Bundle): string => join(BUNDLES, `${name}.mjs`);

function newest(folder: string): number {
  let time = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true })) {
    if (entry.isFile()) time = Math.max(time, statSync(join(entry.parentPath, entry.name)).mtimeMs);
  }
  return time;
}

/** True when the bundle is newer than every source and than the installed packages. */
function fresh(name: Bundle, sources: number): boolean {
  const path = bundlePath(name);
  return existsSync(path) && statSync(path).mtimeMs > sources;
}

export async function bundleAll({ force = false, only }: { force?: boolean; only?: Bundle[] } = {}): Promise<void> {
  const lock = join(ROOT, 'package-lock.json');
  const sources = Math.max(
    newest(join(ROOT, 'src')),
    newest(join(ROOT, 'packages')),
    newest(join(ROOT, 'deploy')),
    statSync(lock).mtimeMs,
    statSync(fileURLToPath(import.meta.url)).mtimeMs,
  );
  mkdirSync(BUNDLES, { recursive: true });
  for (const [name, entry] of Object.entries(ENTRIES) as [Bundle, string][]) {
    if (only !== undefined && !only.includes(name)) continue;
    if (!force && fresh(name, sources)) continue;
    await bundle(entry, bundlePath(name), name === 'render' ? `${BANNER}const KUBENODE_REALM = ${JSON.stringify(await realm())};` : BANNER);
  }
}

/** The child that renders fleets, as one file. */
export async function bundleRender(file: string): Promise<void> {
  await bundle(ENTRIES.render, file, `${BANNER}const KUBENODE_REALM = ${JSON.stringify(await realm())};`);
}

const RESOLVE = { conditionNames: ['@kubenode/source', 'node', 'import'] };
const MINIFY = { compress: true, mangle: false, codegen: true } as const;

async function bundle(entry: string, file: string, banner: string): Promise<void> {
  const build = await rolldown({ input: join(ROOT, entry), platform: 'node', resolve: RESOLVE, external: EXTERNAL, logLevel: 'warn' });
  const beside = `${file}.${process.pid}`;
  await build.write({ file: beside, format: 'esm', banner, codeSplitting: false, minify: MINIFY });
  await build.close();
  renameSync(beside, file);
}

/** Node's modules that packages of the fleet's realm name, and what stands for them there. */
const BUILTINS: Record<string, string> = {
  buffer: 'buffer',
  child_process: 'child-process',
  crypto: 'crypto',
  fs: 'fs',
  os: 'os',
  path: 'path',
  process: 'process',
};

/** What runs in the fleet's realm, as an expression: nothing of Node is in it. */
async function realm(): Promise<string> {
  const folder = join(ROOT, 'src/sync/render/child');
  const alias = Object.entries(BUILTINS).flatMap(([name, file]) => {
    const path = join(folder, 'builtins', `${file}.ts`);
    return [[name, path] as const, [`node:${name}`, path] as const];
  });
  const build = await rolldown({
    input: join(folder, 'realm.ts'),
    platform: 'neutral',
    resolve: { ...RESOLVE, mainFields: ['main'], alias: Object.fromEntries(alias) },
    logLevel: 'warn',
  });
  const { output } = await build.generate({ format: 'iife', name: 'realm', banner: BANNER, codeSplitting: false, minify: MINIFY });
  await build.close();
  return `(() => { 'use strict'; ${output[0].code}\nreturn realm; })()`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundleAll({ force: process.argv.includes('--force') });
