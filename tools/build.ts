/**
 * Builds what is published: JavaScript with types in `dist/`, the bundles, what the agent's package contains besides, and the packed stand-ins.
 * The private packages of this repository become folders of `dist/`, and imports of them become relative.
 *
 *   node tools/build.ts [FOLDER]   default: dist
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BUNDLES, bundleAll } from './bundle.ts';
import { ARTIFACTS, packAll } from './pack.ts';
import { sourceOf, workspacesOf } from './workspaces.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DIST = resolve(process.argv[2] ?? join(ROOT, 'dist'));
const WORKSPACES = workspacesOf(ROOT);

/** The folder of `dist/` that has what was made of a file of the sources. */
function built(source: string): string {
  const owner = WORKSPACES.find(({ folder }) => source.startsWith(`${folder}/`));
  if (owner !== undefined) return join(basename(owner.folder), relative(`${owner.folder}/src`, source));
  if (!source.startsWith('src/')) throw new Error(`${source} is not in src`);
  return relative('src', source);
}

/** Imports of the private packages, as paths within `dist/`. */
function withRelativeImports(file: string, text: string): string {
  return text.replaceAll(/(\bfrom |\bimport |\bimport\()(['"])([^'"\n]+)\2/g, (whole, before: string, quote: string, specifier: string) => {
    const source = sourceOf(specifier, WORKSPACES);
    if (source === undefined) return whole;
    const path = relative(dirname(file), built(source)).replace(/\.ts$/, '.js');
    return `${before}${quote}${path.startsWith('.') ? path : `./${path}`}${quote}`;
  });
}

function compile(): void {
  mkdirSync(join(ROOT, '.build'), { recursive: true });
  const folder = mkdtempSync(join(ROOT, '.build', 'compiled-'));
  try {
    const options = ['-p', join(ROOT, 'tsconfig.build.json'), '--outDir', folder];
    execFileSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), ...options], { stdio: 'inherit' });
    for (const source of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!/\.(js|d\.ts)$/.test(source)) continue;
      const file = built(source);
      mkdirSync(dirname(join(DIST, file)), { recursive: true });
      writeFileSync(join(DIST, file), withRelativeImports(file, readFileSync(join(folder, source), 'utf8')));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

rmSync(DIST, { recursive: true, force: true });
compile();
await bundleAll();
cpSync(BUNDLES, join(DIST, 'bundles'), { recursive: true });
cpSync(join(ROOT, 'deploy/agent'), join(DIST, 'agent-package'), { recursive: true });
packAll();
cpSync(ARTIFACTS, join(DIST, 'artifacts'), { recursive: true });
