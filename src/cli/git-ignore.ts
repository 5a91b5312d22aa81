/**
 * Which files Git leaves out of a commit by patterns (gitignore). Who writes them may be a stranger, so none becomes a regular expression: a match takes at
 * most as many steps as pattern and path have characters, multiplied, and all together are bounded. Pure but for `read`.
 *
 * Otherwise than in Git a class of characters has no names (`[[:alpha:]]`) and no `/`: such a pattern matches nothing, and the file is seen.
 */
import { cliError } from './errors.ts';

/** Of comparisons of one character, in all: about a second. */
const MOST_STEPS = 50_000_000;
/** To read a character of a pattern, so that there is 1 MiB of them at most. */
const READ_STEPS = 50;

/** One character of these code points; or, negated, of none of them. */
interface OneOf {
  negated: boolean;
  ranges: (readonly [from: number, to: number])[];
}
/** `*` is for any text in a name. */
type Token = '*' | OneOf;
/** `**` is for any folders. */
type Step = '**' | Token[];

interface Pattern {
  /** File that has it. */
  file: string;
  negated: boolean;
  foldersOnly: boolean;
  steps: Step[];
}

export type IsIgnored = (path: string, isFolder: boolean) => boolean;

/** `read` gives the text of a file of patterns, and `below` is one for the whole tree that counts less than those in it. Errors: PatternsTooCostly. */
export function ignoredBy(read: (path: string) => string | undefined, below?: { file: string; text: string }): IsIgnored {
  let steps = 0;
  const patterns = new Map<string, Pattern[]>();
  const folders = new Map<string, boolean>([['', false]]);

  function spend(count: number, file: string): void {
    steps += count;
    if (steps > MOST_STEPS)
      throw cliError('PatternsTooCostly', `${file}: comparing its patterns with files that the index does not have takes too long`, {
        next: `git add what belongs to the fleet, or write fewer and shorter patterns into ${file}`,
      });
  }

  function patternsIn(folder: string): Pattern[] {
    const known = patterns.get(folder);
    if (known !== undefined) return known;
    const file = folder === '' ? '.gitignore' : `${folder}/.gitignore`;
    const sources = [...(folder === '' && below !== undefined ? [below] : []), { file, text: read(file) ?? '' }];
    const found = sources.flatMap((source) => {
      spend(source.text.length * READ_STEPS, source.file);
      return patternsOf(source.text, source.file);
    });
    patterns.set(folder, found);
    return found;
  }

  function matches(pattern: Pattern, names: readonly string[], isFolder: boolean): boolean {
    spend(1, pattern.file);
    if (pattern.foldersOnly && !isFolder) return false;
    const isOne = (token: Token, character: string): boolean => {
      if (token === '*') return true;
      spend(1 + token.ranges.length, pattern.file);
      const code = character.codePointAt(0) ?? 0;
      return token.negated !== token.ranges.some(([from, to]) => from <= code && code <= to);
    };
    return takesAll(pattern.steps, names, '**', (step, name) => step !== '**' && takesAll(step, Array.from(name), '*', isOne));
  }

  /** The last pattern that matches decides, and the deepest file is the last. */
  function isNamed(path: string, isFolder: boolean): boolean {
    const names = path.split('/');
    for (let depth = names.length - 1; depth >= 0; depth--) {
      const found = patternsIn(names.slice(0, depth).join('/')).findLast((each) => matches(each, names.slice(depth), isFolder));
      if (found !== undefined) return !found.negated;
    }
    return false;
  }

  /** Nothing is taken back in in a folder that is left out. */
  function isFolderIgnored(path: string): boolean {
    const known = folders.get(path);
    if (known !== undefined) return known;
    const ignored = isFolderIgnored(parentOf(path)) || isNamed(path, true);
    folders.set(path, ignored);
    return ignored;
  }

  return (path, isFolder) => (isFolder ? isFolderIgnored(path) : isFolderIgnored(parentOf(path)) || isNamed(path, false));
}

const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf('/')));

/** Whether the items take all values in order: a wildcard takes any number, each other item one. Only the last wildcard is ever tried again. */
function takesAll<Item, Value>(
  items: readonly Item[],
  values: readonly Value[],
  wildcard: Item,
  takes: (item: Item, value: Value) => boolean,
): boolean {
  let [item, value] = [0, 0];
  let retry: { item: number; value: number } | undefined;
  for (let each = values[value]; each !== undefined; each = values[value]) {
    const here = items[item];
    if (here === wildcard) {
      item += 1;
      retry = { item, value };
    } else if (here !== undefined && takes(here, each)) {
      item += 1;
      value += 1;
    } else if (retry !== undefined) {
      retry = { item: retry.item, value: retry.value + 1 };
      ({ item, value } = retry);
    } else return false;
  }
  return items.slice(item).every((each) => each === wildcard);
}

function patternsOf(text: string, file: string): Pattern[] {
  return text
    .replace(/^\ufeff/, '')
    .split('\n')
    .flatMap((line) => {
      let glob = trimmed(line);
      if (glob.startsWith('#')) return [];
      const negated = glob.startsWith('!');
      if (negated) glob = glob.slice(1);
      const foldersOnly = glob.endsWith('/');
      if (foldersOnly) glob = glob.slice(0, -1);
      if (glob === '') return [];
      const steps = stepsOf(glob);
      return steps === undefined ? [] : [{ file, negated, foldersOnly, steps }];
    });
}

/** Blanks at the end do not count, unless one is escaped. */
function trimmed(line: string): string {
  let end = line.endsWith('\r') ? line.length - 1 : line.length;
  while (end > 0 && line[end - 1] === ' ') end -= 1;
  const escapes = /\\*$/.exec(line.slice(Math.max(0, end - 2), end))?.[0].length ?? 0;
  return line.slice(0, escapes === 1 && line[end] === ' ' ? end + 1 : end);
}

/** Undefined where it matches nothing. */
function stepsOf(glob: string): Step[] | undefined {
  const anchored = glob.includes('/');
  const steps: Step[] = anchored ? [] : ['**'];
  for (const part of (glob.startsWith('/') ? glob.slice(1) : glob).split('/')) {
    const step = part === '**' && anchored ? '**' : tokensOf(part);
    if (step === undefined) return undefined;
    steps.push(step);
  }
  // What is in a folder, and not the folder.
  if (steps.at(-1) === '**') steps.push(['*']);
  return steps;
}

function tokensOf(part: string): Token[] | undefined {
  const characters = Array.from(part);
  const tokens: Token[] = [];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] ?? '';
    if (character === '*') tokens.push('*');
    else if (character === '?') tokens.push({ negated: true, ranges: [] });
    else if (character === '[') {
      const found = classAt(characters, at + 1);
      if (found === undefined) return undefined;
      tokens.push(found.oneOf);
      at = found.end;
    } else {
      if (character === '\\') at += 1;
      const literal = characters[at]?.codePointAt(0);
      if (literal === undefined) return undefined;
      tokens.push({ negated: false, ranges: [[literal, literal]] });
    }
  }
  return tokens;
}

/** A class from behind its bracket. Undefined where it has no end. */
function classAt(characters: readonly string[], start: number): { oneOf: OneOf; end: number } | undefined {
  const negated = characters[start] === '!' || characters[start] === '^';
  const first = negated ? start + 1 : start;
  const oneOf: OneOf = { negated, ranges: [] };
  let at = first;
  const next = (): number | undefined => {
    if (characters[at] === '\\') at += 1;
    const code = characters[at]?.codePointAt(0);
    at += 1;
    return code;
  };
  while (at === first || characters[at] !== ']') {
    if (characters[at] === '[' && characters[at + 1] === ':') return undefined;
    const from = next();
    if (from === undefined) return undefined;
    let to: number | undefined = from;
    if (characters[at] === '-' && characters[at + 1] !== ']' && characters[at + 1] !== undefined) {
      at += 1;
      to = next();
      if (to === undefined) return undefined;
    }
    oneOf.ranges.push([from, to]);
  }
  return { oneOf, end: at };
}
