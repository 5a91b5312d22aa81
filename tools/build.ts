/**
 * Builds what is published: JavaScript with types in `dist/`, the bundles, what the agent's package holds besides, and the packed stand-ins.
 *
 *   node tools/build.ts [FOLDER]   default: dist
 */
import { execFileSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BUNDLES, bundleAll } from './bundle.ts';
import { ARTIFACTS, packAll } from './pack.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DIST = resolve(process.argv[2] ?? join(ROOT, 'dist'));

rmSync(DIST, { recursive: true, force: true });
execFileSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', join(ROOT, 'tsconfig.build.json'), '--outDir', DIST], {
  stdio: 'inherit',
});
await bundleAll();
cpSync(BUNDLES, join(DIST, 'bundles'), { recursive: true });
cpSync(join(ROOT, 'deploy/agent'), join(DIST, 'agent-package'), { recursive: true });
packAll();
cpSync(ARTIFACTS, join(DIST, 'artifacts'), { recursive: true });
