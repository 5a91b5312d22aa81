/**
 * Kubernetes' own field manager behind standard input, from `packages/embedded/src/apply/testing/oracle`, built once where Go is installed:
 *
 *   node tools/field-manager/program.ts        builds or finds it and prints its path
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildOnce, cachedAs, executable, goCommand, type Module, type OnProgress } from '../gobuild.ts';

const SOURCES = fileURLToPath(new URL('../../packages/embedded/src/apply/testing/oracle', import.meta.url));
const MODULES: readonly Module[] = [{ folder: SOURCES, packages: ['.'], ldflags: '-s -w' }];

/** Its path. Throws where there is no Go, and the output of the build when it fails. */
export async function findFieldManager(onProgress: OnProgress): Promise<string> {
  const folder = await cachedAs('fieldmanager-v0.34.4', MODULES);
  const path = join(folder, 'fieldmanager');
  if (await executable(path)) return path;
  const go = await goCommand();
  if (typeof go === 'string') throw new Error(`the field manager cannot be built: ${go}`);
  await buildOnce(go, MODULES, folder, () => executable(path), onProgress);
  return path;
}

if (import.meta.main) process.stdout.write(`${await findFieldManager((line) => process.stderr.write(`${line}\n`))}\n`);
