/** What follows from one observation of one machine. Pure: the outcomes of its rules and its jobs in, what is to be made and reported out. */
import type { Machine } from '../../api/machine.ts';
import { MACHINE_CONDITIONS } from '../../api/names.ts';
import { isFinished, type RemedyOperationJob, type RemedyOperationJobSpec } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { findCondition, type ConditionInput } from '../../kube/conditions.ts';
import { jobSpecOf } from '../../rules/job.ts';
import { compareContenders, nextRung, replacementsBefore, supersedes, type Contender, type LadderStep } from '../../rules/ladder.ts';
import type { RuleOutcome } from '../../rules/pass.ts';
import { isOrdered } from './clock-pauses.ts';
import { nextJobName } from './names.ts';

export interface RemedyView {
  nowMs: number;
  machine: Stored<Machine>;
  /** All of this machine, by its UID. */
  jobs: readonly Stored<RemedyOperationJob>[];
  /** Of all machines of its MachineSet, also of those that are gone. */
  jobsOfSet: readonly RemedyOperationJob[];
  /** At least of every rule that matches, that `named` names, and that acted here. */
  outcomes: readonly RuleOutcome[];
}

export interface NewJob {
  name: string;
  spec: RemedyOperationJobSpec;
  why: string;
}

export interface Decision {
  create: NewJob[];
  /** The open job that a stronger one shall replace. */
  superseded: { job: Stored<RemedyOperationJob>; why: string } | undefined;
  /** undefined: there never was anything to report on this machine. `rules`: those that want it, by name, sorted. */
  repairNeeded: RepairNeeded | undefined;
  /** When a rule that has to wait for its ladder may go on, by its name, ms. */
  waits: ReadonlyMap<string, number>;
}

export interface RepairNeeded {
  readonly condition: ConditionInput;
  readonly rules: readonly string[];
}

type Making = Extract<LadderStep, { step: 'Act' | 'AskHuman' }>;

interface Candidate {
  outcome: RuleOutcome;
  step: Making;
  replacements: number;
  contender: Contender;
}

/** The rules that wanted this machine repaired when it was last decided. */
export const named = (machine: Machine): readonly string[] => machine.status?.repairRules ?? [];

/** Rules that had an order on this machine. */
export function acted(jobs: readonly RemedyOperationJob[]): string[] {
  return [...new Set(jobs.filter(isOrdered).map((job) => job.spec.rule))];
}

const isEnforced = ({ rule }: RuleOutcome): boolean => rule.rule.spec.mode === 'Enforce';

export function decide(view: RemedyView): Decision {
  const { machine, jobs, nowMs } = view;
  const waits = new Map<string, number>();
  const candidates: Candidate[] = [];
  for (const outcome of view.outcomes) {
    if (!outcome.due) continue;
    const { name, rule } = outcome.rule;
    const machineUID = machine.metadata.uid;
    const matchedSinceMs = outcome.sinceMs ?? nowMs;
    const asking = { name, spec: rule.spec };
    const replacements = replacementsBefore({ rule: asking, machine, jobsOfSet: view.jobsOfSet, matchedSinceMs });
    const step = nextRung({ rule: asking, machineUID, jobs, matchedSinceMs, nowMs, replacements });
    if (step.step === 'Wait') waits.set(name, step.untilMs);
    if (step.step !== 'Act' && step.step !== 'AskHuman') continue;
    const action = step.step === 'Act' ? step.action : ('Human' as const);
    candidates.push({ outcome, step, replacements, contender: { rule: name, priority: rule.spec.priority ?? 0, action } });
  }
  candidates.sort((a, b) => compareContenders(a.contender, b.contender));
  // A report in Shadow and a question to a person take no machine.
  const free = candidates.filter(({ outcome, step }) => !isEnforced(outcome) || step.step === 'AskHuman');
  const [best] = candidates.filter((each) => !free.includes(each));
  const open = openJobs(jobs);
  return {
    create: [...(best === undefined || open.length > 0 ? [] : [best]), ...free].map((each) => newJob(each, view)),
    superseded: supersededOf(best, open),
    repairNeeded: repairNeeded(view),
    waits,
  };
}

/** The jobs that want the machine, in their order. */
function openJobs(jobs: readonly Stored<RemedyOperationJob>[]): Stored<RemedyOperationJob>[] {
  return jobs
    .filter((job) => !isFinished(job) && job.spec.action !== 'Human' && job.spec.mode !== 'Shadow')
    .sort(
      (a, b) =>
        Number(isOrdered(b)) - Number(isOrdered(a)) ||
        compareContenders(contenderOf(a), contenderOf(b)) ||
        (a.metadata.name < b.metadata.name ? -1 : 1),
    );
}

const contenderOf = ({ spec }: RemedyOperationJob): Contender => ({ rule: spec.rule, priority: spec.priority, action: spec.action });

function supersededOf(best: Candidate | undefined, open: readonly Stored<RemedyOperationJob>[]): Decision['superseded'] {
  const [first, second] = open;
  // Two leaders acted for different rules: the lesser of the two jobs is superseded.
  if (first !== undefined && second !== undefined && !isOrdered(second))
    return { job: second, why: `superseded by ${first.spec.action} of ${first.metadata.name}, which comes first on this machine` };
  if (first === undefined || best === undefined || !supersedes(best.contender, { ...contenderOf(first), ordered: isOrdered(first) }))
    return undefined;
  const { rule, action, priority } = best.contender;
  return { job: first, why: `superseded by ${action} of NodeRemedier ${rule}, priority ${priority}` };
}

function newJob({ outcome, step, replacements }: Candidate, { machine, jobs, nowMs }: RemedyView): NewJob {
  const { name } = outcome.rule;
  const own = jobs.filter((job) => job.spec.rule === name).map((job) => job.metadata.name);
  return {
    name: nextJobName(name, machine.metadata.uid, own),
    spec: jobSpecOf(outcome, step, machine, nowMs, replacements),
    why: step.why,
  };
}

/**
 * True while an enforced rule is due, or acted here and still matches. A rule that was named stays so until it is known not to match: a
 * node that sends no reports is not healed.
 */
function repairNeeded({ machine, jobs, outcomes }: RemedyView): RepairNeeded | undefined {
  const before = new Set(named(machine));
  const had = new Set(acted(jobs));
  const needed = outcomes.filter(
    (outcome) =>
      isEnforced(outcome) &&
      (outcome.due ||
        (outcome.truth === 'True' && had.has(outcome.rule.name)) ||
        (outcome.truth !== 'False' && before.has(outcome.rule.name))),
  );
  const type = MACHINE_CONDITIONS.repairNeeded;
  if (needed.length > 0) {
    const rules = needed.map(({ rule }) => rule.name).sort();
    const message = `${rules.length === 1 ? 'rule' : 'rules'} ${rules.join(', ')} ${rules.length === 1 ? 'wants' : 'want'} this machine repaired`;
    return { condition: { type, status: 'True', reason: 'RulesMatch', message }, rules };
  }
  if (findCondition(machine.status?.conditions, type) === undefined) return undefined;
  const message = 'no enforced rule wants this machine repaired';
  return { condition: { type, status: 'False', reason: 'NoRuleMatches', message }, rules: [] };
}
