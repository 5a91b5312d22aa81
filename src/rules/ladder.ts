/**
 * What a rule does next on a machine, given everything it has done there. Pure; the jobs are the only memory.
 *
 * Guarantees
 * - Attempts count when they had an order, however they ended; one that was cancelled or refused before does not.
 * - It never goes down: a repair that did not last climbs as one that did not help. Only `forgetAfterSeconds` without a job begin again.
 * - It ends at a human, and asks once.
 */
import { canonical } from '../api/digest.ts';
import type { NodeRemedierSpec, Rung } from '../api/node-remedier.ts';
import { ACTION_TRAITS, DEFAULT_FORGET_AFTER_SECONDS, fullRung, strengthOf, type Action } from '../api/node-remedier/values.ts';
import type { Machine } from '../api/machine.ts';
import { isFinished, type RemedyOperationJob } from '../api/remedy-operation-job.ts';

export type LadderStep =
  /** Make a job; in Shadow one that ends at once. `attempt` counts from 1. */
  | { step: 'Act'; rung: number; attempt: number; action: Action; why: string }
  /** Make a job that asks a human. */
  | { step: 'AskHuman'; rung: number; why: string }
  /** A job of this rule is under way here, or a human has been asked. */
  | { step: 'Busy'; job: string; why: string }
  | { step: 'Wait'; untilMs: number; why: string }
  /** Nothing more to do while this match lasts. */
  | { step: 'Done'; why: string };

export interface LadderInput {
  rule: { name: string; spec: Pick<NodeRemedierSpec, 'ladder' | 'forgetAfterSeconds' | 'mode'> };
  machineUID: string;
  /** Any jobs; jobs of other rules, and of machines that had the name before, are left out. */
  jobs: readonly RemedyOperationJob[];
  /** `RuleOutcome.sinceMs`. */
  matchedSinceMs: number;
  /** `replacementsBefore`. */
  replacements: number;
  nowMs: number;
}

const rungKey = ({ action, args }: Pick<Rung, 'action'> & { args?: Record<string, unknown> | undefined }): string =>
  `${action} ${canonical(args ?? {})}`;
/** A server notes in whole seconds when it was created; that was never before what it is about was seen. */
const createdMs = ({ metadata, spec }: RemedyOperationJob): number =>
  Math.max(Date.parse(metadata.creationTimestamp ?? spec.matchedSince), Date.parse(spec.matchedSince));
const finishedMs = (job: RemedyOperationJob): number =>
  job.status?.finishedAt === undefined ? createdMs(job) : Date.parse(job.status.finishedAt);
const isAttempt = (job: RemedyOperationJob): boolean => job.status?.orderedAt !== undefined && job.status.phase !== 'Shadow';
const asked = (job: RemedyOperationJob): boolean => job.status?.phase === 'NeedsHuman';

export function nextRung(input: LadderInput): LadderStep {
  const { rule, nowMs } = input;
  const own = input.jobs
    .filter((job) => job.spec.rule === rule.name && job.spec.machine.uid === input.machineUID)
    .sort((a, b) => createdMs(a) - createdMs(b) || (a.metadata.name < b.metadata.name ? -1 : 1));
  const live = own.findLast((job) => !isFinished(job));
  if (live !== undefined)
    return {
      step: 'Busy',
      job: live.metadata.name,
      why: asked(live) ? 'a human has been asked' : `it is ${live.status?.phase ?? 'Pending'}`,
    };
  if (rule.spec.mode !== 'Enforce') {
    const reported = own.findLast((job) => job.status?.phase === 'Shadow');
    if (reported !== undefined) {
      if (createdMs(reported) >= input.matchedSinceMs)
        return { step: 'Done', why: `job ${reported.metadata.name} reports what it would do` };
      // A match that flaps would have found a real job still under way.
      const untilMs = createdMs(reported) + reported.spec.timeoutSeconds * 1000;
      if (nowMs < untilMs) return { step: 'Wait', untilMs, why: `a real ${reported.metadata.name} could still be under way` };
    }
  }
  const climb = climbOf(own, (rule.spec.forgetAfterSeconds ?? DEFAULT_FORGET_AFTER_SECONDS) * 1000, nowMs);
  const last = climb.at(-1);
  if (last !== undefined) {
    const rung = rule.spec.ladder.find((each) => rungKey(each) === rungKey(last.spec));
    const untilMs = finishedMs(last) + (rung?.cooldownSeconds ?? 0) * 1000;
    if (nowMs < untilMs) return { step: 'Wait', untilMs, why: `cool-down after ${last.spec.action} of ${last.metadata.name}` };
  }
  return climbOn(rule.spec.ladder, climb, input.replacements);
}

export interface Successor {
  rule: { name: string; spec: Pick<NodeRemedierSpec, 'forgetAfterSeconds'> };
  machine: Pick<Machine, 'metadata'>;
  /** Jobs of the MachineSet that owns the machine, also of machines that are gone. */
  jobsOfSet: readonly RemedyOperationJob[];
  /** `RuleOutcome.sinceMs`. */
  matchedSinceMs: number;
}

/**
 * How many replacements in a row this rule has ordered before this machine was made: a replacement that is unhealthy as well counts as an attempt that
 * did not help, so that a fault that comes with each new machine reaches a human. A set does not record which machine it made for which, so
 * each that was made within `forgetAfterSeconds` after a replacement counts as its successor; one that was healthy for that long is no longer one.
 */
export function replacementsBefore({ rule, machine, jobsOfSet, matchedSinceMs }: Successor): number {
  const madeMs = Date.parse(machine.metadata.creationTimestamp ?? '');
  const forgetMs = (rule.spec.forgetAfterSeconds ?? DEFAULT_FORGET_AFTER_SECONDS) * 1000;
  if (Number.isNaN(madeMs) || matchedSinceMs - madeMs > forgetMs) return 0;
  const before = jobsOfSet.filter((job) => {
    if (job.spec.rule !== rule.name || job.spec.action !== 'Replace' || !isAttempt(job)) return false;
    if (job.spec.machine.uid === machine.metadata.uid) return false;
    const orderedMs = Date.parse(job.status?.orderedAt ?? '');
    // A creation time is cut to the second.
    return orderedMs < madeMs + 1000 && madeMs - orderedMs <= forgetMs;
  });
  return Math.max(0, ...before.map(({ spec }) => 1 + (spec.replacements ?? 0)));
}

/** The jobs since the ladder last began: attempts, and questions to humans. */
function climbOf(own: readonly RemedyOperationJob[], forgetMs: number, nowMs: number): RemedyOperationJob[] {
  let climb: RemedyOperationJob[] = [];
  for (const job of own) {
    if (!isAttempt(job) && !asked(job)) continue;
    const before = climb.at(-1);
    if (before !== undefined && createdMs(job) - finishedMs(before) > forgetMs) climb = [];
    climb.push(job);
  }
  const last = climb.at(-1);
  return last !== undefined && nowMs - finishedMs(last) > forgetMs ? [] : climb;
}

function climbOn(ladder: readonly Rung[], climb: readonly RemedyOperationJob[], replacements: number): LadderStep {
  const human = ladder.length - 1;
  const earlier = replacements === 0 ? [] : [`Replace of ${replacements} ${replacements === 1 ? 'machine' : 'machines'} before this one`];
  const tried = [...earlier, ...climb.map((job) => `${job.spec.action}: ${job.status?.outcome ?? job.status?.phase ?? ''}`)].join(', ');
  if (climb.some(asked)) return { step: 'AskHuman', rung: human, why: 'it came back after a human had been asked' };
  const keys = climb.map((job) => rungKey(job.spec));
  // A rung is found by what it does, so that an edit of the ladder neither repeats nor skips what was tried.
  const reached = ladder.findLastIndex((rung) => keys.includes(rungKey(rung)));
  for (const [index, rung] of ladder.entries()) {
    if (index < reached) continue;
    const { action, attempts } = fullRung(rung);
    if (action === 'Human')
      return { step: 'AskHuman', rung: index, why: tried === '' ? 'there is nothing else on its ladder' : `nothing helped: ${tried}` };
    const own = climb.filter((job) => rungKey(job.spec) === rungKey(rung));
    // An action that succeeded but healed nothing is not repeated.
    const done = ACTION_TRAITS[action].proof === 'Done' && own.some((job) => job.status?.phase === 'Succeeded');
    const spent = own.length + (action === 'Replace' ? replacements : 0);
    if (done || spent >= attempts) continue;
    return { step: 'Act', rung: index, attempt: spent + 1, action, why: tried === '' ? 'first rung' : `after ${tried}` };
  }
  return { step: 'AskHuman', rung: human, why: `nothing helped: ${tried}` };
}

/** What competes for one machine: a rule that is due, or a job that is under way. */
export interface Contender {
  rule: string;
  priority: number;
  action: Action;
}

/** Higher priority first, then the stronger action, then by name. Asking a human takes no machine, and loses to everything of its priority. */
export function compareContenders(a: Contender, b: Contender): number {
  return b.priority - a.priority || strengthOf(b.action) - strengthOf(a.action) || (a.rule < b.rule ? -1 : a.rule > b.rule ? 1 : 0);
}

/** Whether `newer` replaces a job under way: only before its order (docs/protocols.md#f6). */
export function supersedes(newer: Contender, job: Contender & { ordered: boolean }): boolean {
  if (job.ordered || newer.rule === job.rule || newer.action === 'Human') return false;
  return newer.priority > job.priority || (newer.priority === job.priority && strengthOf(newer.action) > strengthOf(job.action));
}
