/** Files of a fleet that never run, because nothing imports them: a rule among them repairs nothing, and no other check reports it. */
import { posix } from 'node:path';
import type { Finding } from '../../sync/render/finding.ts';
import { importedFiles, isCode } from '../../sync/render/imports.ts';

/** Not of the fleet: tests and what runs them, declarations, recorded histories. */
const BESIDE = /\.(test|spec|bench|d|config|history|histories)\.m?[jt]s$/;

/** One finding for each. Only files below the entry's folder and `rules/` are meant to be of the fleet. */
export function unusedFiles(files: ReadonlyMap<string, string>, entry: string): Finding[] {
  const main = posix.normalize(entry);
  const folders = [posix.dirname(main), 'rules'].filter((folder) => folder !== '.').map((folder) => `${folder}/`);
  const used = reached(files, [main, ...[...files.keys()].filter((path) => BESIDE.test(path))]);
  return [...files.keys()]
    .filter((path) => isCode(path) && !used.has(path) && folders.some((folder) => path.startsWith(folder)))
    .sort()
    .map((file) => ({
      code: 'FileUnused',
      file,
      message: 'nothing imports it: it is not run, and nothing of it is applied',
      next: `${importOf(main, file)} in ${main}, or in a file that is imported there; or delete it`,
    }));
}

function importOf(from: string, to: string): string {
  const path = posix.relative(posix.dirname(from), to);
  return `import '${path.startsWith('.') ? path : `./${path}`}';`;
}

function reached(files: ReadonlyMap<string, string>, from: readonly string[]): Set<string> {
  const found = new Set(from);
  // A set gives what is added to it meanwhile, too.
  for (const path of found) for (const { file } of importedFiles(files, path)) found.add(file);
  return found;
}
