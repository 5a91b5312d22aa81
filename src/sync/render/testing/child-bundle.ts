/** The child as one file, for tests: bundled once for each state of its sources, kept under `.build`. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sha256Hex } from '../../../api/digest.ts';
import { bundleRender } from '../../../../tools/bundle.ts';

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
const FOLDER = join(ROOT, '.build', 'render-tests');

let bundled: Promise<string> | undefined;

export function childBundle(): Promise<string> {
  bundled ??= bundle();
  return bundled;
}

async function bundle(): Promise<string> {
  const path = join(FOLDER, `${sourcesDigest()}.mjs`);
  if (existsSync(path)) return path;
  mkdirSync(FOLDER, { recursive: true });
  for (const name of readdirSync(FOLDER)) {
    const old = join(FOLDER, name);
    if (Date.now() - statSync(old).mtimeMs > 3_600_000) rmSync(old, { force: true });
  }
  const beside = `${path}.${process.pid}`;
  await bundleRender(beside);
  renameSync(beside, path);
  return path;
}

function sourcesDigest(): string {
  const files = ['src/api', 'src/constructs', 'src/sync/render', 'packages/api-machinery/src'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(ROOT, folder, name)),
  );
  const sources = files.filter((file) => /(?<!\.test)\.ts$/.test(file)).toSorted();
  return sha256Hex(
    [...sources, join(ROOT, 'tools/bundle.ts'), join(ROOT, 'package-lock.json')].map((file) => readFileSync(file, 'utf8')).join('\0'),
  ).slice(0, 16);
}
