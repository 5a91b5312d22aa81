/**
 * One pass over one machine: the rules that a change concerns are evaluated, their clocks go on, and what has matched long enough is due. Pure: the
 * time is the snapshot's, the memory is `observations` in and out.
 *
 * Caveats: `nowMs` must come from a clock that does not jump while a process runs (wall time at its start plus monotonic time since).
 */
import type { PeerScope } from '../api/facts.ts';
import { sha256Hex } from '../api/digest.ts';
import type { Observation } from '../api/machine.ts';
import { matchedMs, refreshMs, type MatchClock } from './clock.ts';
import { evaluate, memoized, truthWithout, type Evaluation } from './evaluate.ts';
import { appliesTo, isAge, type CompiledRule, type RuleIndex } from './index.ts';
import { BAD_CLEARS_AFTER_MS, Marks } from './marks.ts';
import { notice, readFact } from './read.ts';
import type { Snapshot } from './snapshot.ts';
import type { Leaf } from './leaf.ts';
import { leavesOf } from './when.ts';

export interface PassInput {
  index: RuleIndex;
  /** Rules to evaluate (`rulesReading`); those that are not about the machine are skipped. */
  names: readonly string[];
  snapshot: Snapshot;
  observations: readonly Observation[];
}

export interface RuleOutcome extends Evaluation {
  /** Since when it matches, without gaps; undefined while it does not. */
  sinceMs: number | undefined;
  matchedMs: number;
  /** It matches and has for `holdsForSeconds`: a job may be made. */
  due: boolean;
  /** Why it is not due though it matches. */
  waits: 'Reservation' | 'Time' | undefined;
  /** Scopes whose counts could change the truth: the next pass comes when they move. */
  peers: readonly PeerScope[];
  /** When the next pass comes, though nothing has changed, ms. */
  nextAtMs: number | undefined;
}

export interface RulePassResult {
  outcomes: RuleOutcome[];
  observations: Observation[];
  /** Whether they differ from what was given, and are to be written. */
  changed: boolean;
  nextAtMs: number | undefined;
}

export async function runPass(input: PassInput): Promise<RulePassResult> {
  const { index, snapshot } = input;
  const { paused, releasedAtMs } = snapshot.pause;
  const nowMs = snapshot.atMs;
  const marks = new Marks(index, input.observations, nowMs, releasedAtMs);
  const named = input.names.map((name) => index.rules.get(name)).filter((rule) => rule !== undefined);
  const rules = named.filter((rule) => appliesTo(rule.rule, snapshot.machine));
  for (const rule of rules) notice(rule.leaves, snapshot, marks);
  const read = memoized((leaf) => readFact(leaf, snapshot, marks));
  const evaluations = await evaluate(rules, read);
  for (const rule of named) if (!rules.includes(rule)) marks.sampleRule(rule, { matches: false, stamp: '', transitionsMs: [] });
  const outcomes = evaluations.map((evaluation) => {
    const { rule, truth } = evaluation;
    const matches = truth === 'True';
    const clock =
      paused || !(matches || marks.knows(rule)) ? undefined : marks.sampleRule(rule, { matches, ...transitionsOf(rule, snapshot) });
    return outcomeOf(
      evaluation,
      clock,
      paused,
      nowMs,
      rule.leaves.map((leaf) => read(leaf).untilMs),
    );
  });
  const observations = paused ? [] : marks.observations();
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
  clock: MatchClock | undefined,
  paused: boolean,
  nowMs: number,
  until: readonly (number | undefined)[],
): RuleOutcome {
  const { rule, truth, judged } = evaluation;
  const matches = truth === 'True';
  const due = matches && clock?.open === true && nowMs - clock.firstSeenMs >= rule.holdsForMs;
  const later = earliest(until);
  const grows = later !== undefined && rule.leaves.some((leaf) => isAge(leaf.ref));
  // What runs, or waits for an age, has regular passes: only watched time counts.
  const runs = matches && !due && clock !== undefined;
  const nextAtMs = paused
    ? undefined
    : earliest([
        later,
        grows ? nowMs + refreshMs(BAD_CLEARS_AFTER_MS) : undefined,
        runs ? nowMs + refreshMs(rule.clearsAfterMs) : undefined,
        runs ? clock.firstSeenMs + rule.holdsForMs : undefined,
      ]);
  return {
    ...evaluation,
    sinceMs: clock?.open === true ? clock.firstSeenMs : undefined,
    matchedMs: matchedMs(clock, nowMs),
    due,
    waits: !matches || due ? undefined : paused ? 'Reservation' : 'Time',
    peers: truthWithout(judged, readsPeers) === 'Unknown' ? peersIn(rule) : [],
    nextAtMs,
  };
}

const readsPeers = (leaf: Leaf): boolean => leaf.ref.reads.startsWith('peers.');

function peersIn(rule: CompiledRule): PeerScope[] {
  return [...new Set([...leavesOf(rule.when)].filter(readsPeers).map((leaf) => leaf.ref.reads.slice('peers.'.length) as PeerScope))];
}

/** The transitions of every condition that a rule reads: one stamp of all (empty for a rule that reads none), and their times. */
function transitionsOf(rule: CompiledRule, snapshot: Snapshot): { stamp: string; transitionsMs: number[] } {
  const transitions = [...rule.reads].flatMap((read) => {
    if (read.startsWith('condition.')) return [snapshot.node?.conditions.get(read.slice('condition.'.length))?.transition ?? ''];
    if (!read.startsWith('machine.condition.')) return [];
    return [snapshot.machineConditions.get(read.slice('machine.condition.'.length))?.transition ?? ''];
  });
  return {
    stamp: transitions.length === 0 ? '' : sha256Hex(transitions.join(' ')).slice(0, 8),
    transitionsMs: transitions.map((each) => Date.parse(each)),
  };
}
