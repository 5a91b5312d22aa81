/** Why a rule fired, or did not, fact by fact: as data, as lines for a terminal, and as one sentence for a job. */
import type { Judged, Truth } from './evaluate.ts';
import { operatorText } from './operators.ts';
import type { RuleOutcome } from './pass.ts';
import type { Reading } from './read.ts';
import type { Leaf } from './leaf.ts';

export interface ExplainedFact {
  /** Field path in the rule. */
  at: string;
  truth: Truth;
  depth: number;
  /** What is asked, or `all of`, `any of`, `not`. */
  text: string;
  /** What was found; empty for groups. */
  found: string;
}

export interface Explanation {
  rule: string;
  truth: Truth;
  due: boolean;
  /** Why it is not due though it matches. */
  waits: RuleOutcome['waits'];
  summary: string;
  facts: ExplainedFact[];
  /** What stands between the rule and a match. */
  missing: string[];
}

const shown = (value: unknown): string => (Array.isArray(value) ? value.map(shown).join(', ') : JSON.stringify(value));

export function leafText({ ref, operator, value, params }: Leaf): string {
  const given = Object.entries(params).map(([key, each]) => `${key} ${each}`);
  return `${ref.name}${given.length === 0 ? '' : ` (${given.join(', ')})`} ${operatorText(operator)} ${shown(value)}`;
}

function foundText({ value, known, note }: Reading): string {
  if (value === undefined) return `unknown: ${note}`;
  if (!known) return `${shown(value)}: ${note}`;
  return note === '' ? shown(value) : `${shown(value)} (${note})`;
}

const GROUPS = { all: 'all of', any: 'any of', not: 'not' } as const;

function* factsOf(judged: Judged, depth = 0): Generator<ExplainedFact> {
  const { at, truth } = judged;
  if (judged.kind === 'leaf') {
    yield { at, truth, depth, text: leafText(judged.leaf), found: foundText(judged.reading) };
    return;
  }
  yield { at, truth, depth, text: GROUPS[judged.kind], found: '' };
  for (const each of judged.of) yield* factsOf(each, depth + 1);
}

/** The leaves that keep the whole from being true. */
function* missingIn(judged: Judged): Generator<string> {
  if (judged.truth === 'True') return;
  if (judged.kind === 'leaf') yield `${leafText(judged.leaf)}; found ${foundText(judged.reading)}`;
  else if (judged.kind === 'not') yield `not: ${judged.of.flatMap((each) => [...factsOf(each)].map((fact) => fact.text)).join(', ')}`;
  else if (judged.kind === 'all') for (const each of judged.of) yield* missingIn(each);
  else yield `any of: ${judged.of.flatMap((each) => [...missingIn(each)]).join(' | ')}`;
}

const seconds = (ms: number): string => `${Math.floor(ms / 1000)} s`;

function summaryOf(outcome: RuleOutcome): string {
  const { rule, truth, due, waits } = outcome;
  const time = `${seconds(outcome.matchedMs)} of ${seconds(rule.holdsForMs)}`;
  if (truth === 'Unknown') return 'does not match: something it needs is not known';
  if (truth === 'False') return 'does not match';
  if (due) return `matches for ${time}: due`;
  return waits === 'Reservation' ? 'matches; its clock stops while an operation has reserved the machine' : `matches for ${time}`;
}

export function explain(outcome: RuleOutcome): Explanation {
  return {
    rule: outcome.rule.name,
    truth: outcome.truth,
    due: outcome.due,
    waits: outcome.waits,
    summary: summaryOf(outcome),
    facts: [...factsOf(outcome.judged)],
    missing: [...missingIn(outcome.judged)],
  };
}

const SIGNS: Record<Truth, string> = { True: 'yes', False: 'no ', Unknown: '?  ' };

/** Lines for a terminal; colour alone shows nothing. */
export function explanationLines({ rule, summary, facts, missing }: Explanation): string[] {
  return [
    `${rule} ${summary}`,
    ...facts.map(
      ({ truth, depth, text, found }) => `  ${SIGNS[truth]} ${'  '.repeat(depth)}${text}${found === '' ? '' : `; found ${found}`}`,
    ),
    ...missing.map((each) => `  would match with: ${each}`),
  ];
}

/** What the rule saw, in one sentence of at most `limit` characters: `RemedyOperationJob.spec.why`. */
export function whyFired(outcome: RuleOutcome, limit = 2048): string {
  const facts = [...factsOf(outcome.judged)].filter(({ found, truth }) => found !== '' && truth === 'True');
  const text = `${facts.map((fact) => `${fact.text}; found ${fact.found}`).join(' and ')}, for ${seconds(outcome.matchedMs)} (asked: ${seconds(outcome.rule.holdsForMs)})`;
  return text.length <= limit ? text : `${text.slice(0, limit - 1)}…`;
}
