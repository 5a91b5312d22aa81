import { beforeAll, expect, it } from 'vitest';
import { lintLines } from './testing/lint-lines.ts';

const refused = [
  "a.message === 'it is gone'",
  "'it is gone' !== message",
  'a.condition?.message === `revision ${b}`',
  "(a.message ?? '').startsWith('superseded')",
  "a?.message?.includes('timed out')",
  '/held for/.test(a.message)',
  "a.reason.split(',')",
  "reason.startsWith('DrainTimeout')",
  '/^Drain/.exec(reason)',
];
const allowed = [
  'a.message === b.message',
  "a.message === ''",
  'a.message === undefined',
  "a.reason === 'NotFound'",
  "a.message.replaceAll('x', 'y')",
  "a.message.split('\\n')[0]",
  "['Gone', 'Expired'].includes(reason)",
];

const expression = (text: string): string => `export const x = ${text};`;

let found: ReadonlyMap<string, number>;
beforeAll(() => {
  const before = 'declare const a: any, b: any, message: string, reason: string;';
  found = lintLines('no-sentence-decisions', before, [...refused, ...allowed].map(expression));
}, 60_000);

it.each(refused)('refuses a decision by a sentence: %s', (line) => expect(found.get(expression(line))).toBe(1));

it.each(allowed)('allows %s', (line) => expect(found.get(expression(line))).toBe(0));
