/** What files of a fleet import, read off their text: for words that help, and for no decision about what is run. */
import { posix } from 'node:path';

interface Import {
  specifier: string;
  /** `import type`, which is gone when the file runs. */
  isType: boolean;
}

export const isCode = (path: string): boolean => /\.m?[jt]s$/.test(path);

/** No part of a text is read twice for one match after another: its author could make that take hours. */
const IMPORT = /(?:^|;|\*\/)[^\S\n]*(?:import|export)\b(?:(?!\*\/|\n[^\S\n]*(?:import|export)\b)[^'"`;])*(?:'([^'\n]+)'|"([^"\n]+)")/gm;
const COMMENTS = /\/\*(?:[\s\S]*?\*\/|[\s\S]*)|\/\/[^\n]*/g;
const TYPE = /^(?:;|\*\/)?\s*(?:import|export)\s+type\b(?!\s+from\b|\s*,)/;

/**
 * Relative imports. Rather one too many than one too few: the text is read with its comments, which may be none but parts of strings, and without, since they
 * may stand in an import.
 */
function importsOf(text: string): Import[] {
  return [text, text.replaceAll(COMMENTS, ' ')]
    .flatMap((each) => [...each.matchAll(IMPORT)])
    .map(([whole, single, double]) => ({ specifier: single ?? double ?? '', isType: TYPE.test(whole) }))
    .filter(({ specifier }) => /^\.\.?\//.test(specifier));
}

/** The files that a file imports, whether they are there or not; no way leads above the root. */
export function importedFiles(files: ReadonlyMap<string, string>, path: string): { file: string; isType: boolean }[] {
  if (!isCode(path)) return [];
  return importsOf(files.get(path) ?? '').map(({ specifier, isType }) => ({
    file: posix.join('/', posix.dirname(path), specifier).slice(1),
    isType,
  }));
}

/** The shortest way along imports from a file back to itself, `[a, b, a]`; undefined where there is none. */
export function importCircle(files: ReadonlyMap<string, string>, file: string): string[] | undefined {
  const cameFrom = new Map<string, string | undefined>([[file, undefined]]);
  // A map gives what is added to it meanwhile, too.
  for (const [path] of cameFrom)
    for (const { file: target, isType } of importedFiles(files, path)) {
      if (isType) continue;
      if (target === file) {
        const way = [file];
        for (let at: string | undefined = path; at !== undefined; at = cameFrom.get(at)) way.unshift(at);
        return way;
      }
      if (!cameFrom.has(target)) cameFrom.set(target, path);
    }
  return undefined;
}
