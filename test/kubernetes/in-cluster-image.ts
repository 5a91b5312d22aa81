/** The image of deploy/Dockerfile as a folder: where there is no builder, its content is put there by hand. */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

export interface Image {
  /** What the last stage copies to /app. */
  app: string;
  entrypoint: string[];
  /** Of who runs it. */
  user: string;
}

/** Makes /app in the folder: the built package as `npm pack` takes it, and as `npm ci --omit=dev` the packages of the lock file that are no tools. */
export async function makeImage(folder: string): Promise<Image> {
  const dockerfile = read('deploy/Dockerfile');
  const last = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '));
  const instruction = (name: string): string => new RegExp(`^${name} (.+)$`, 'm').exec(last)?.[1] ?? '';
  if (instruction('COPY') !== '--from=build /app /app')
    throw new Error(`deploy/Dockerfile copies ${instruction('COPY')}: change this here too`);
  const app = join(folder, 'app');
  const { files } = JSON.parse(read('package.json')) as { files: string[] };
  await run(process.execPath, [join(ROOT, 'tools/build.ts'), join(app, 'dist')]);
  for (const file of [...files.filter((each) => each !== 'dist'), 'package.json', 'package-lock.json'])
    cpSync(join(ROOT, file), join(app, file), { recursive: true });
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { dev?: boolean }> };
  // What lies in another is copied with it; what is for another platform is not there.
  const paths = Object.entries(packages).flatMap(([path, { dev }]) =>
    dev !== true && path.lastIndexOf('node_modules/') === 0 && existsSync(join(ROOT, path)) ? [path] : [],
  );
  const copy = (how: string) => run('cp', [how, '--parents', '-t', app, ...paths], { cwd: ROOT });
  await copy('-al').catch(() => copy('-a'));
  return { app, entrypoint: JSON.parse(instruction('ENTRYPOINT')) as string[], user: instruction('USER') };
}
