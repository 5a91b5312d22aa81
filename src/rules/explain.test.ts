import { expect, it } from 'vitest';
import { evaluate } from './evaluate.ts';
import { explain, explanationLines, whyFired } from './explain.ts';
import { compileRule } from './index.ts';
import type { RuleOutcome } from './pass.ts';
import type { Reading } from './read.ts';
import { bad, good, rule } from './testing.ts';

const known = (value: Reading['value'], note = ''): Reading => ({ value, known: true, note });
const stale: Reading = { value: 'Unknown', known: false, note: 'its heartbeat is 700 s old' };
const missing: Reading = { value: undefined, known: false, note: 'no such condition' };

async function outcome(when: object, readings: Record<string, Reading>, rest: Partial<RuleOutcome> = {}): Promise<RuleOutcome> {
  const compiled = compileRule(rule('hung', { when: when as Record<string, unknown>, holdsForSeconds: 30 }));
  const [evaluation] = await evaluate([compiled], ({ ref }) => readings[ref.name] ?? missing);
  if (evaluation === undefined) throw new Error('no outcome');
  return { ...evaluation, sinceMs: 0, matchedMs: 12_900, due: false, waits: undefined, peers: [], nextAtMs: undefined, ...rest };
}

const rises = { fact: 'condition.A.rises', operator: 'greaterThan', value: 2, params: { windowSeconds: 60 } };
const inWeb = { fact: 'machine.pool', operator: 'in', value: ['web', 'db'] };

it('reports for each condition what it asks, what was found and how sure that is, one under the other', async () => {
  const when = { all: [bad('A'), rises, { any: [inWeb, good('B')] }, { not: { fact: 'machine.name', operator: 'equal', value: 'a' } }] };
  const readings = {
    'condition.A.status': known('True', 'DockerHung'),
    'condition.A.rises': known(1),
    'machine.pool': known('web'),
    'condition.B.status': stale,
    'machine.name': known('a'),
  };
  expect(explanationLines(explain(await outcome(when, readings)))).toEqual([
    'hung does not match',
    '  no  all of',
    '  yes   condition.A.status is "True"; found "True" (DockerHung)',
    '  no    condition.A.rises (windowSeconds 60) is above 2; found 1',
    '  yes   any of',
    '  yes     machine.pool is one of "web", "db"; found "web"',
    '  ?       condition.B.status is "False"; found "Unknown": its heartbeat is 700 s old',
    '  no    not',
    '  yes     machine.name is "a"; found "a"',
    '  would match with: condition.A.rises (windowSeconds 60) is above 2; found 1',
    '  would match with: not: machine.name is "a"',
  ]);
});

it('reports what would have to be known, and each of several ways that is enough', async () => {
  const { summary, missing } = explain(await outcome({ all: [bad('A'), { any: [bad('B'), bad('C')] }] }, {}));
  expect(summary).toBe('does not match: something it needs is not known');
  const found = (type: string) => `condition.${type}.status is "True"; found unknown: no such condition`;
  expect(missing).toEqual([found('A'), `any of: ${found('B')} | ${found('C')}`]);
});

it('reports for a rule that matches how long it has matched, and what it waits for', async () => {
  const summaryOf = async (rest: Partial<RuleOutcome>) =>
    explain(await outcome({ all: [bad('A')] }, { 'condition.A.status': known('True') }, rest)).summary;
  expect(await summaryOf({ waits: 'Time' })).toBe('matches for 12 s of 30 s');
  expect(await summaryOf({ waits: 'Reservation' })).toBe('matches; its clock stops while an operation has reserved the machine');
  expect(await summaryOf({ due: true, matchedMs: 31_000 })).toBe('matches for 31 s of 30 s: due');
});

it('a job records only what was true', async () => {
  const when = { any: [bad('A'), bad('B'), { all: [good('C')] }] };
  const readings = { 'condition.A.status': known('True', 'R'), 'condition.B.status': stale, 'condition.C.status': known('False') };
  expect(whyFired(await outcome(when, readings, { matchedMs: 30_500 }))).toBe(
    'condition.A.status is "True"; found "True" (R) and condition.C.status is "False"; found "False", for 30 s (asked: 30 s)',
  );
});
