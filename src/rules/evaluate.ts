/**
 * Evaluation by json-rules-engine, and what of its answer may be believed.
 *
 * Guarantees
 * - Each run has an Engine of its own: on one Engine two runs stop each other, and rules get lost without an error.
 * - A rule is True only if the engine finds it so and if it stays so for any values of the unknown facts (Kleene's logic over the
 *   engine's answers). What is not known never makes a negation true.
 */
import { Engine, type RuleProperties, type TopLevelCondition } from 'json-rules-engine';
import type { CompiledRule } from './index.ts';
import { traitsOf } from './operators.ts';
import type { Reading } from './read.ts';
import { readKey, type Leaf } from './leaf.ts';
import type { When } from './when.ts';
import { ruleError } from './errors.ts';

export type Truth = 'True' | 'False' | 'Unknown';

/** The conditions of a rule with the result of each. */
export type Judged =
  | { kind: 'all' | 'any' | 'not'; at: string; truth: Truth; of: readonly Judged[] }
  | { kind: 'leaf'; at: string; truth: Truth; leaf: Leaf; reading: Reading };

export interface Evaluation {
  rule: CompiledRule;
  truth: Truth;
  judged: Judged;
}

/** Facts of one root (`condition`, `machine` …), for the engine: the rest of a name comes as the path. */
class Branch {
  readonly #read: (path: string) => unknown;
  constructor(read: (path: string) => unknown) {
    this.#read = read;
  }
  at(path: string): unknown {
    return this.#read(path);
  }
}

/** Dotted paths are read, never evaluated: JSONPath could be made to run code. */
function resolvePath(value: object, path: string): unknown {
  return value instanceof Branch ? value.at(path) : undefined;
}

type EngineAnswer = Readonly<Record<string, unknown>>;

/**
 * Evaluates the rules together in one run. `read` must give the same reading each time it is asked for the same (`readKey`), and not throw.
 * Throws EngineDisagrees when the engine left a rule out, which no checked rule makes it do.
 */
export async function evaluate(rules: readonly CompiledRule[], read: (leaf: Leaf) => Reading): Promise<Evaluation[]> {
  if (rules.length === 0) return [];
  const engine = new Engine([], { pathResolver: resolvePath });
  const leaves = new Map<string, Leaf>();
  const roots = new Set<string>();
  for (const rule of rules) {
    engine.addRule(propertiesOf(rule));
    for (const leaf of rule.leaves) {
      leaves.set(leaf.key, leaf);
      roots.add(rootOf(leaf).root);
    }
  }
  for (const root of roots) {
    const branch = (params: object) =>
      new Branch((path) => {
        const leaf = leaves.get(readKey(`${root}.${path}`, params));
        return leaf === undefined ? undefined : read(leaf).value;
      });
    // Uncached: the engine would hash what it caches, and readings are remembered here.
    engine.addFact(root, branch, { cache: false });
  }
  const { results, failureResults } = await engine.run();
  const answers = new Map([...results, ...failureResults].map((result) => [result.name, result]));
  return rules.map((rule) => {
    const answer = answers.get(rule.name);
    if (answer === undefined) throw ruleError('EngineDisagrees', `json-rules-engine left out rule ${rule.name}`);
    const judged = judge(rule.when, answer.conditions as unknown as EngineAnswer, read);
    return { rule, truth: judged.truth === 'True' && answer.result !== true ? 'Unknown' : judged.truth, judged };
  });
}

function rootOf({ ref }: Leaf): { root: string; path: string } {
  const dot = ref.name.indexOf('.');
  return { root: ref.name.slice(0, dot), path: ref.name.slice(dot + 1) };
}

function conditionsOf(when: When): object {
  switch (when.kind) {
    case 'leaf': {
      const { root, path } = rootOf(when);
      const params = Object.keys(when.params).length === 0 ? {} : { params: when.params };
      return { fact: root, path, operator: when.operator, value: when.value, ...params };
    }
    case 'not':
      return { not: conditionsOf(when.of[0]) };
    case 'all':
    case 'any':
      return { [when.kind]: when.of.map(conditionsOf) };
    default:
      return when satisfies never;
  }
}

function propertiesOf(rule: CompiledRule): RuleProperties {
  return { name: rule.name, conditions: conditionsOf(rule.when) as TopLevelCondition, event: { type: 'match' } };
}

function truthOf(when: Leaf, result: unknown, reading: Reading): Truth {
  if (reading.known) return result === true ? 'True' : 'False';
  // A rule may ask only one thing about a value that is not known: whether it is Unknown.
  return result === true && reading.value !== undefined && !traitsOf(when.operator).negative ? 'True' : 'Unknown';
}

function judge(when: When, answer: EngineAnswer, read: (leaf: Leaf) => Reading): Judged {
  if (when.kind === 'leaf') {
    const reading = read(when);
    return { kind: 'leaf', at: when.at, truth: truthOf(when, answer['result'], reading), leaf: when, reading };
  }
  const inner = answer[when.kind];
  const answers = (Array.isArray(inner) ? inner : [inner]) as EngineAnswer[];
  const of = when.of.map((each, index) => judge(each, answers[index] ?? {}, read));
  return { kind: when.kind, at: when.at, truth: combine(when.kind, of), of };
}

function combine(kind: 'all' | 'any' | 'not', of: readonly Judged[]): Truth {
  const truths = of.map((each) => each.truth);
  if (kind === 'not') return truths[0] === 'Unknown' ? 'Unknown' : truths[0] === 'True' ? 'False' : 'True';
  const decisive = kind === 'all' ? 'False' : 'True';
  if (truths.includes(decisive)) return decisive;
  return truths.includes('Unknown') ? 'Unknown' : kind === 'all' ? 'True' : 'False';
}

/** What the truth would be if the leaves that `blind` names were not known. */
export function truthWithout(judged: Judged, blind: (leaf: Leaf) => boolean): Truth {
  if (judged.kind === 'leaf') return blind(judged.leaf) ? 'Unknown' : judged.truth;
  return combine(
    judged.kind,
    judged.of.map((each) => ({ ...each, truth: truthWithout(each, blind) })),
  );
}

/** Reads every fact once for all rules of a run. */
export function memoized(read: (leaf: Leaf) => Reading): (leaf: Leaf) => Reading {
  const readings = new Map<string, Reading>();
  return (leaf) => {
    const before = readings.get(leaf.key);
    if (before !== undefined) return before;
    const reading = read(leaf);
    readings.set(leaf.key, reading);
    return reading;
  };
}
