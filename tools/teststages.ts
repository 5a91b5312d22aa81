/** Which tests a mutant meets first: few seconds tell of most mutants, so that only the others cost the whole run. */
import { dirname, join } from 'node:path/posix';

/** What a source imports from this tree, as paths from the root. */
function imported(file: string, source: string): string[] {
  const found = source.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.[^']+)'/g);
  return Array.from(found, ([, target]) => join(dirname(file), target ?? ''));
}

/** The files that import this one, directly or through others, and the file itself. */
export function importersOf(file: string, sources: ReadonlyMap<string, string>): ReadonlySet<string> {
  const importers = new Map<string, string[]>();
  for (const [from, source] of sources) for (const to of imported(from, source)) importers.set(to, [...(importers.get(to) ?? []), from]);
  const found = new Set([file]);
  // A set goes on through what is added while it is walked.
  for (const each of found) for (const importer of importers.get(each) ?? []) found.add(importer);
  return found;
}

/** Of the whole time of the tests, what the first stage may use. */
const FIRST_STAGE = 0.2;

/**
 * The test files in up to two stages: first those that import the changed file and are quick, then all others. A test that does not import it can
 * still start it as a process, so none is left out.
 */
export function stagesOf(durations: ReadonlyMap<string, number>, importers: ReadonlySet<string>): readonly (readonly string[])[] {
  const total = [...durations.values()].reduce((sum, each) => sum + each, 0);
  const first: string[] = [];
  let used = 0;
  for (const [file, duration] of [...durations].toSorted(([, a], [, b]) => a - b)) {
    if (!importers.has(file)) continue;
    used += duration;
    if (first.length > 0 && used > FIRST_STAGE * total) break;
    first.push(file);
  }
  const rest = [...durations.keys()].filter((file) => !first.includes(file));
  return [first, rest].filter((stage) => stage.length > 0);
}
