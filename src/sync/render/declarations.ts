/** Types of `kubenode/constructs` for checking a fleet. */
import { syncError } from '../errors.ts';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sha256Hex } from '../../api/digest.ts';
import { compile } from './compiler.ts';

/**
 * Path of the declarations. The package ships them. In a checkout they are made once for each state of the sources and kept under
 * `.build`: the kinds' types are computed from their schemas, which takes seconds from source and nothing from declarations.
 */
export async function constructsTypes(compiler: string, signal: AbortSignal, root = packageRoot()): Promise<string> {
  const shipped = join(root, 'dist', 'constructs', 'index.d.ts');
  if (!existsSync(join(root, 'src', 'constructs', 'index.ts'))) return shipped;
  const kept = join(root, '.build', 'types', sourcesDigest(root));
  const types = join(kept, MADE);
  if (existsSync(types)) return types;
  await mkdir(dirname(kept), { recursive: true });
  const beside = await mkdtemp(`${kept}.`);
  try {
    await removeOld(dirname(kept), (await stat(beside)).mtimeMs);
    const project = join(beside, 'tsconfig.json');
    const compilerOptions = { noEmit: false, declaration: true, emitDeclarationOnly: true, outDir: beside, rootDir: root };
    await writeFile(
      project,
      JSON.stringify({
        extends: join(root, 'tsconfig.json'),
        compilerOptions,
        files: [join(root, 'src', 'constructs', 'index.ts')],
        include: [],
      }),
    );
    const output = await compile(compiler, project, root, signal);
    if (!existsSync(join(beside, MADE))) throw syncError('TypeCheckFailed', `no declarations were made: ${output.slice(0, 500)}`);
    // Another process may have been quicker: what it made is the same.
    await rename(beside, kept).catch((error: unknown) => {
      if (!existsSync(types)) throw error;
    });
    return types;
  } finally {
    await rm(beside, { recursive: true, force: true });
  }
}

/** Of states of the sources that are no more; not what another process may be reading right now. By the clock of the file system alone. */
async function removeOld(folder: string, nowMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const { mtimeMs } = await stat(join(folder, name));
    if (nowMs - mtimeMs > KEEP_MS) await rm(join(folder, name), { recursive: true, force: true });
  }
}

const KEEP_MS = 24 * 3_600_000;
/** The sources come from more than one folder of the root, so theirs are among the paths. */
const MADE = join('src', 'constructs', 'index.d.ts');

function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}

function sourcesDigest(root: string): string {
  const texts = ['src/api', 'src/constructs', 'packages/api-machinery/src'].flatMap((part) => {
    const folder = join(root, part);
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('.ts') && !name.endsWith('.test.ts'),
    );
    return names.toSorted().map((name) => `${part}/${name}\n${readFileSync(join(folder, name), 'utf8')}`);
  });
  return sha256Hex(texts.join('\0')).slice(0, 16);
}
