/** Which tests a mutant meets first: few seconds find most mutants, so that only the others cost the whole run. */
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

/** Of the whole time of the tests, what those may use that count as quick. */
const QUICK = 0.2;

/**
 * The test files in up to three stages: first the quick ones of those that import the changed file directly, then the quick ones that import it through
 * others, then all others. A test that does not import it can still start it as a process, so none is left out.
 */
export function stagesOf(
  durations: ReadonlyMap<string, number>,
  file: string,
  sources: ReadonlyMap<string, string>,
): readonly (readonly string[])[] {
  const total = [...durations.values()].reduce((sum, each) => sum + each, 0);
  const importers = importersOf(file, sources);
  const quick: string[] = [];
  let used = 0;
  for (const [test, duration] of [...durations].toSorted(([, a], [, b]) => a - b)) {
    if (!importers.has(test)) continue;
    used += duration;
    if (quick.length > 0 && used > QUICK * total) break;
    quick.push(test);
  }
  const isDirect = (test: string): boolean => imported(test, sources.get(test) ?? '').includes(file);
  const direct = quick.filter(isDirect);
  const through = quick.filter((test) => !isDirect(test));
  const rest = [...durations.keys()].filter((test) => !quick.includes(test));
  return [direct, through, rest].filter((stage) => stage.length > 0);
}
