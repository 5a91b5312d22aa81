/**
 * The program of this folder, built once where Go is installed: what a Go controller sees of an API server.
 *
 *   node tools/client-go/program.ts        builds or finds it and prints its path
 */
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildOnce, cachedAs, executable, goCommand, type Module, type OnProgress } from '../gobuild.ts';

const MODULES: readonly Module[] = [{ folder: dirname(fileURLToPath(import.meta.url)), packages: ['.'], ldflags: '-s -w' }];

/** Its path, or why there is none here: no Go. Throws the output of the build when it fails. */
export async function findClientGo(onProgress: OnProgress): Promise<{ path: string } | { missing: string }> {
  const folder = await cachedAs('clientgo-v0.34.4', MODULES);
  const path = join(folder, 'clientgo');
  if (await executable(path)) return { path };
  const go = await goCommand();
  if (typeof go === 'string') return { missing: go };
  await buildOnce(go, MODULES, folder, () => executable(path), onProgress);
  return { path };
}

if (import.meta.main) {
  const found = await findClientGo((line) => process.stderr.write(`${line}\n`));
  if ('missing' in found) throw new Error(found.missing);
  process.stdout.write(`${found.path}\n`);
}
