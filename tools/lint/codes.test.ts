import { beforeAll, expect, it } from 'vitest';
import { lintLines } from './testing/lint-lines.ts';

const refused = [
  "throw new CodedError('Usage', 'one name at most');",
  "export const failed = (): CodedError => new CodedError('Failed', 'it failed', { cause: 1 });",
  "throw new CodedError<'A'>('A', 'a');",
];
const allowed = [
  "throw cliError('Usage', 'one name at most');",
  "export class Refusal extends CodedError { constructor() { super('Refused', 'no'); } }",
  'export const isOurs = (error: unknown): boolean => error instanceof CodedError;',
  "throw new Error('nothing of ours');",
];

let found: ReadonlyMap<string, number>;
beforeAll(() => {
  found = lintLines('codes-of-tables', 'declare const CodedError: any, cliError: any;', [...refused, ...allowed]);
}, 60_000);

it.each(refused)('refuses a code outside a table: %s', (line) => expect(found.get(line)).toBe(1));

it.each(allowed)('allows %s', (line) => expect(found.get(line)).toBe(0));
