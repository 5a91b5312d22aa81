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
  "a['message'] === 'it is gone'",
  "`${a.message}` === 'it is gone'",
  "a.message.toLowerCase() === 'it is gone'",
  "reason.slice(0, 5) === 'Drain'",
  "['it is gone', 'it waits'].includes(a.message)",
  "new Set(['it is gone']).has(message)",
  "(() => { switch (a.message) { case 'it is gone': return 1; default: return 0; } })()",
];
const allowed = [
  'a.message === b.message',
  "a.message === ''",
  'a.message === undefined',
  "a.reason === 'NotFound'",
  "a.message.replaceAll('x', 'y')",
  "a.message.split('\\n')[0]",
  "['Gone', 'Expired'].includes(reason)",
  "a.message.trim() === ''",
  'a.message.slice(0, 100)',
];

const expression = (text: string): string => `export const x = ${text};`;

let found: ReadonlyMap<string, number>;
beforeAll(() => {
  const before = 'declare const a: any, b: any, message: string, reason: string;';
  found = lintLines('no-sentence-decisions', before, [...refused, ...allowed].map(expression));
}, 60_000);

it.each(refused)('refuses a decision by a sentence: %s', (line) => expect(found.get(expression(line))).toBe(1));

it.each(allowed)('allows %s', (line) => expect(found.get(expression(line))).toBe(0));
