/**
 * One look at one machine: the rules that a change concerns are evaluated, their clocks go on, and what has held long enough is due. Pure: the
 * time is the snapshot's, the memory is `observations` in and out.
 *
 * Caveats: `nowMs` must come from a clock that does not jump while a process runs (wall time at its start plus monotonic time since).
 */
import type { PeerScope } from '../api/facts.ts';
import { sha256Hex } from '../api/digest.ts';
import type { Observation } from '../api/machine.ts';
import { heldMs, REFRESH_MS, type HoldClock } from './clock.ts';
import { evaluate, memoized, truthWithout, type Evaluation } from './evaluate.ts';
import { appliesTo, type CompiledRule, type RuleIndex } from './index.ts';
import { Marks } from './marks.ts';
import { notice, readFact } from './read.ts';
import type { Snapshot } from './snapshot.ts';
import { leavesOf, type Leaf } from './when.ts';

export interface PassInput {
  index: RuleIndex;
  /** Rules to evaluate (`rulesReading`); those that are not about the machine are skipped. */
  names: readonly string[];
  snapshot: Snapshot;
  observations: readonly Observation[];
  /**
   * A Change or Repair row holds the machine: clocks stand still and nothing is due. A row that a job left behind which has ended does not
   * count: only a provider can take it over, and that needs the next rung.
   */
  held: boolean;
  /** When the last such row, or such a job, ended: first-seen starts anew from then. */
  releasedAtMs: number | undefined;
}

export interface RuleOutcome extends Evaluation {
  /** Since when it matches, without gaps; undefined while it does not. */
  sinceMs: number | undefined;
  heldMs: number;
  /** It matches and has for `holdsForSeconds`: a job may be made. */
  due: boolean;
  /** Why it is not due though it matches. */
  waits: 'Row' | 'Time' | undefined;
  /** Scopes whose counts could change the truth: look again when they move. */
  peers: readonly PeerScope[];
  /** Look again then, though nothing has changed, ms. */
  nextAtMs: number | undefined;
}

export interface PassResult {
  outcomes: RuleOutcome[];
  observations: Observation[];
  /** Whether they differ from what was given, and are to be written. */
  changed: boolean;
  nextAtMs: number | undefined;
}

export async function lookAt(input: PassInput): Promise<PassResult> {
  const { index, snapshot, held } = input;
  const nowMs = snapshot.atMs;
  const marks = new Marks(index, held ? [] : input.observations, nowMs, input.releasedAtMs);
  const named = input.names.map((name) => index.rules.get(name)).filter((rule) => rule !== undefined);
  const rules = named.filter((rule) => appliesTo(rule.rule, snapshot.machine));
  for (const rule of rules) notice(rule.leaves, snapshot, marks);
  const read = memoized((leaf) => readFact(leaf, snapshot, marks));
  const evaluations = await evaluate(rules, read);
  for (const rule of named) if (!rules.includes(rule)) marks.lookAtRule(rule, false, '');
  const outcomes = evaluations.map((evaluation) => {
    const { rule, truth } = evaluation;
    const holds = truth === 'True';
    const clock = held ? undefined : marks.lookAtRule(rule, holds, holds ? stampOf(rule, snapshot) : '');
    return outcomeOf(
      evaluation,
      clock,
      held,
      nowMs,
      rule.leaves.map((leaf) => read(leaf).untilMs),
    );
  });
  const observations = held ? [] : marks.observations();
  return {
    outcomes,
    observations,
    changed: JSON.stringify(observations) !== JSON.stringify(input.observations.map(plain)),
    nextAtMs: earliest(outcomes.map((outcome) => outcome.nextAtMs)),
  };
}

const plain = ({ key, firstSeen, lastSeen }: Observation): Observation => ({ key, firstSeen, lastSeen });

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((each) => each !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

function outcomeOf(
  evaluation: Evaluation,
  clock: HoldClock | undefined,
  held: boolean,
  nowMs: number,
  until: readonly (number | undefined)[],
): RuleOutcome {
  const { rule, truth, judged } = evaluation;
  const matches = truth === 'True';
  const due = matches && clock?.open === true && nowMs - clock.firstSeenMs >= rule.holdsForMs;
  const later = earliest(until);
  // What runs, or waits for an age, is looked at regularly: only watched time counts.
  const runs = (matches && !due && clock !== undefined) || later !== undefined;
  const nextAtMs = held
    ? undefined
    : earliest([
        later,
        runs ? nowMs + REFRESH_MS : undefined,
        matches && !due && clock !== undefined ? clock.firstSeenMs + rule.holdsForMs : undefined,
      ]);
  return {
    ...evaluation,
    sinceMs: clock?.open === true ? clock.firstSeenMs : undefined,
    heldMs: heldMs(clock, nowMs),
    due,
    waits: !matches || due ? undefined : held ? 'Row' : 'Time',
    peers: peersIn(rule).length === 0 || truthWithout(judged, readsPeers) !== 'Unknown' ? [] : peersIn(rule),
    nextAtMs,
  };
}

const readsPeers = (leaf: Leaf): boolean => leaf.ref.reads.startsWith('peers.');

function peersIn(rule: CompiledRule): PeerScope[] {
  return [...new Set([...leavesOf(rule.when)].filter(readsPeers).map((leaf) => leaf.ref.reads.slice('peers.'.length) as PeerScope))];
}

/** Of the transitions of every condition that a rule reads; empty for a rule that reads none. */
function stampOf(rule: CompiledRule, snapshot: Snapshot): string {
  const transitions = [...rule.reads].flatMap((read) => {
    if (read.startsWith('condition.')) return [`${read}=${snapshot.node?.conditions.get(read.slice('condition.'.length))?.transition}`];
    if (!read.startsWith('machine.condition.')) return [];
    return [`${read}=${snapshot.machineConditions.get(read.slice('machine.condition.'.length))?.transition}`];
  });
  return transitions.length === 0 ? '' : sha256Hex(transitions.join(' ')).slice(0, 8);
}
