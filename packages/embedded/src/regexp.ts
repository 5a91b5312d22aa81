/** Regular expressions of definitions and rules: as Go's RE2 reads them, and in time that grows with the text and not with its powers. */
import { RE2JS } from 're2js';
import { CostExceeded, spend } from './cel/cost.ts';

/** Compiled ones that are kept. Definitions bring few; expressions may make them of the content of objects. */
const KEPT = 512;
const compiled = new Map<string, RE2JS>();

/** What one instruction of a program costs that is made, as against one that is run: `a{1000}` is short. */
const MAKING = 50;

function compile(pattern: string): RE2JS {
  const made = RE2JS.compile(pattern);
  spend(made.programSize() * MAKING);
  return made;
}

/** Throws when it is no regular expression of RE2. */
export function regexp(pattern: string): RE2JS {
  const known = compiled.get(pattern);
  if (known !== undefined) return known;
  const made = compile(pattern);
  if (compiled.size >= KEPT) compiled.clear();
  compiled.set(pattern, made);
  return made;
}

export const compiles = (pattern: string): boolean => {
  try {
    return compile(pattern) instanceof RE2JS;
  } catch (error) {
    if (error instanceof CostExceeded) throw error;
    return false;
  }
};

/** Steps that cost as much as one of an expression: of a program of N instructions one letter takes at most N. */
const STEPS_A_UNIT = 25;

function matcher(pattern: string, text: string): ReturnType<RE2JS['matcher']> {
  const made = regexp(pattern);
  spend((text.length * made.programSize()) / STEPS_A_UNIT);
  return made.matcher(text);
}

/** Whether the pattern is anywhere in the text. Throws CostExceeded. */
export const matches = (pattern: string, text: string): boolean => matcher(pattern, text).find();

/** Every match of the pattern, at most `limit` of them. */
export function findAll(pattern: string, text: string, limit = Number.POSITIVE_INFINITY): string[] {
  const found = matcher(pattern, text);
  const out: string[] = [];
  while (out.length < limit && found.find()) out.push(found.group() ?? '');
  return out;
}
