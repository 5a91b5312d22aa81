/** The status of a rule: whether it runs, why not, and how many jobs it made. Pure. */
import type { NodeRemedier } from '../../api/node-remedier.ts';
import { isFinished, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { findCondition, setConditions, type ConditionInput } from '../../kube/conditions.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';
import { validationErrorText, type ValidationError } from '../../rules/validation-error.ts';

export type RuleStatus = NonNullable<NodeRemedier['status']>;

const MAX_ERRORS = 20;
const MAX_MESSAGE = 1024;
const MAX_NAMED = 5;

export interface RuleView {
  nowMs: number;
  rule: Stored<NodeRemedier>;
  errors: readonly ValidationError[];
  /** Of this rule's name, also of one that had the name before. */
  jobs: readonly Stored<RemedyOperationJob>[];
}

/**
 * Everything in it is counted again from the jobs that are kept (30 days), so that a crash neither loses nor doubles one; only `since` is
 * remembered.
 */
export function ruleStatus(view: RuleView): RuleStatus {
  const { rule, errors, nowMs } = view;
  const { generation } = rule.metadata;
  const accepted = errors.length === 0;
  const counters = accepted ? countersOf(view) : undefined;
  const lastJob = lastJobOf(view);
  const text = errors.map(validationErrorText).join('; ');
  const observed = generation === undefined ? {} : { observedGeneration: generation };
  const acceptance: ConditionInput = {
    type: 'Accepted',
    status: accepted ? 'True' : 'False',
    reason: accepted ? 'Accepted' : 'Refused',
    message: text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE - 1)}…` : text,
    ...observed,
  };
  const question = needsHuman(view);
  const conditions = setConditions(
    rule.status?.conditions,
    question === undefined ? [acceptance] : [acceptance, { ...question, ...observed }],
    nowMs,
  );
  return {
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    ...(rule.spec.unitDigest === undefined ? {} : { acceptedDigest: rule.spec.unitDigest }),
    ...(accepted ? {} : { validationErrors: errors.slice(0, MAX_ERRORS).map(({ path, message, hint }) => ({ path, message, hint })) }),
    ...(counters === undefined ? {} : { counters }),
    ...(lastJob === undefined ? {} : { lastJob }),
    conditions,
  };
}

const createdMs = (job: Stored<RemedyOperationJob>): number => Date.parse(job.metadata.creationTimestamp);

function countersOf({ rule, jobs, nowMs }: RuleView): RuleStatus['counters'] {
  const { status, metadata } = rule;
  const since = status?.observedGeneration === metadata.generation ? status?.counters?.since : undefined;
  const from = since ?? new Date(nowMs).toISOString();
  // Servers record in whole seconds when an object was created.
  const fromMs = Math.floor(Date.parse(from) / 1000) * 1000;
  const own = jobs.filter((job) => job.spec.ruleUID === metadata.uid && createdMs(job) >= fromMs);
  const count = (is: (job: RemedyOperationJob) => boolean): number => own.filter(is).length;
  return {
    since: from,
    wouldBeJobs: count((job) => job.spec.mode === 'Shadow'),
    jobs: count((job) => job.spec.mode !== 'Shadow'),
    succeeded: count((job) => job.status?.phase === 'Succeeded'),
    failed: count((job) => job.status?.phase === 'Failed'),
    needsHuman: count((job) => job.status?.phase === 'NeedsHuman'),
  };
}

/** Also for a rule of this name that was deleted since: the node still waits. Undefined as long as no job ever asked for one. */
function needsHuman({ rule, jobs }: RuleView): ConditionInput | undefined {
  const type = 'NeedsHuman';
  const open = jobs.filter((job) => job.status?.phase === 'NeedsHuman' && !isFinished(job));
  if (open.length === 0)
    return findCondition(rule.status?.conditions, type) === undefined ? undefined : { type, status: 'False', reason: 'NoJob', message: '' };
  const names = open.map(({ metadata, spec }) => `${spec.node} (job ${metadata.name})`).toSorted();
  const rest = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
  return { type, status: 'True', reason: 'LadderOver', message: `a person is asked for ${names.slice(0, MAX_NAMED).join(', ')}${rest}` };
}

function lastJobOf({ rule, jobs }: RuleView): RuleStatus['lastJob'] {
  const own = jobs.filter((job) => job.spec.ruleUID === rule.metadata.uid);
  if (own.length === 0) return rule.status?.lastJob;
  const { metadata, spec } = own.reduce((a, b) => (createdMs(b) > createdMs(a) ? b : a));
  return { name: metadata.name, node: spec.node, at: metadata.creationTimestamp };
}

/** What changed in a rule that its author wants to know. */
export function eventOfRule(before: RuleStatus | undefined, after: RuleStatus): RecordedEvent | undefined {
  const now = findCondition(after.conditions, 'Accepted');
  const old = findCondition(before?.conditions, 'Accepted');
  if (now === undefined || (old?.status === now.status && old.message === now.message)) return undefined;
  return now.status === 'True'
    ? { type: 'Normal', reason: 'RuleAccepted', message: 'the rule runs' }
    : { type: 'Warning', reason: 'RuleRefused', message: now.message };
}
