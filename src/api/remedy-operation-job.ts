import { Type, type Static } from 'typebox';
import { sha256Hex } from './digest.ts';
import { atomic, conditions, listMap, name, time, values } from './fields.ts';
import { defineKind } from './kind/definition.ts';
import { machineStatus } from './machine/schema.ts';
import { OUTCOMES } from './machine/values.ts';
import { healedWhen } from './node-remedier/schema.ts';
import { ACTIONS } from './node-remedier/values.ts';

/**
 * Pending asks Defender; Granted has a reservation and is prepared (cordon, drain); Running has its order; Verifying waits for the proof.
 * NeedsHuman stays open, without `finishedAt`, until its rule no longer matches. The rest are ends.
 */
export const JOB_PHASES = [
  'Pending',
  'Granted',
  'Running',
  'Verifying',
  'Succeeded',
  'Failed',
  'Cancelled',
  'NeedsHuman',
  'Shadow',
] as const;
export type JobPhase = (typeof JOB_PHASES)[number];

/** Steps of a job in the order they are taken; those that its action does not need are left out. */
export const JOB_STEPS = ['Ask', 'Cordon', 'Drain', 'Order', 'Act', 'Verify'] as const;
export type JobStep = (typeof JOB_STEPS)[number];

/** Everything that carrying it out needs, copied from the rule: an edit or a deletion of the rule leaves a job under way as it is. */
export const remedyOperationJobSpec = Type.Object({
  rule: name('NodeRemedier'),
  ruleUID: Type.Optional(Type.String()),
  unitDigest: Type.Optional(Type.String({ description: 'of the rule that fired' })),
  machine: Type.Object({ name: name(), uid: Type.String({ minLength: 1 }) }),
  machineSet: Type.Optional(Type.String({ description: 'UID of the MachineSet that owns the machine: it makes the one that replaces it' })),
  replacements: Type.Optional(
    Type.Integer({ minimum: 0, description: 'how many replacements in a row this rule had ordered before the machine was made' }),
  ),
  node: Type.String({ description: 'name of the Node, to read' }),
  mode: Type.Optional(
    Type.Enum(['Shadow', 'Enforce'], { description: 'of the rule then; in Shadow it ends at once and asks for nothing. Absent: Enforce' }),
  ),
  rung: Type.Integer({ minimum: 0, description: 'position in the ladder, from 0' }),
  attempt: Type.Integer({ minimum: 1, description: 'at this rung, from 1' }),
  action: Type.Enum([...ACTIONS]),
  args: Type.Optional(values('arguments of the action')),
  timeoutSeconds: Type.Integer({ minimum: 1 }),
  healedWhen,
  priority: Type.Integer({ minimum: 0 }),
  matchedSince: time('when the match was first seen, without its gaps'),
  why: Type.String({ maxLength: 2048, description: 'what the rule saw, fact by fact' }),
});
export type RemedyOperationJobSpec = Static<typeof remedyOperationJobSpec>;

export const jobStepStatus = Type.Object({
  name: Type.Enum([...JOB_STEPS]),
  startedAt: time(),
  finishedAt: Type.Optional(time()),
  outcome: Type.Optional(Type.Enum([...OUTCOMES])),
  message: Type.Optional(Type.String({ maxLength: 1024 })),
});
export type JobStepStatus = Static<typeof jobStepStatus>;

/** What the node was like when the order was given; recovery is judged against it. */
export const jobBefore = Type.Object({
  bootID: Type.String({ description: 'empty: not known' }),
  conditions: listMap(
    Type.Object({ type: Type.String(), status: Type.String(), transition: Type.String(), heartbeat: Type.String() }),
    ['type'],
    { maxItems: 64, description: "of the Node, with the detectors' own times: compared for equality, never with a clock" },
  ),
});
export type JobBefore = Static<typeof jobBefore>;

/** What of the proof has been seen so far. */
export const jobProof = Type.Object({
  heartbeat: Type.Optional(Type.String({ description: "the condition's heartbeat when the action had ended: only another one counts" })),
  since: Type.Optional(time('since when the proof has been true')),
  transition: Type.Optional(Type.String({ description: "the condition's transition at `since`" })),
  bootID: Type.Optional(Type.String({ description: 'boot in which it began' })),
  relapsed: Type.Optional(
    Type.String({ description: 'later boot in which the condition was found bad again; one that latches cannot recover in it' }),
  ),
  reset: Type.Optional(Type.String({ description: 'heartbeat that came with the last restart of the detector seen since the order' })),
});
export type JobProof = Static<typeof jobProof>;

export const RemedyOperationJobs = defineKind({
  kind: 'RemedyOperationJob',
  plural: 'remedyoperationjobs',
  shortNames: ['roj'],
  namespaced: true,
  description: 'One repair of one node: why, the answer of Defender, each step with its times, and how it ended. Kept as the record.',
  spec: remedyOperationJobSpec,
  status: Type.Object({
    phase: Type.Optional(Type.Enum([...JOB_PHASES])),
    verdict: machineStatus.properties.verdict,
    answer: Type.Optional(Type.String({ description: 'the verdict in a few words: Granted, or the limit and how full it is' })),
    step: Type.Optional(Type.String({ description: 'the step under way, or the last one' })),
    steps: Type.Optional(listMap(jobStepStatus, ['name'], { maxItems: 16 })),
    operationID: Type.Optional(Type.String({ description: "the ledger reservation's id" })),
    cancelling: Type.Optional(
      Type.Object(
        { outcome: Type.Enum(['Superseded', 'Cancelled']), why: Type.String() },
        {
          description:
            'why a granted job shall not be ordered any more; the machine controller cancels its reservation, if it is not too late',
        },
      ),
    ),
    orderedAt: Type.Optional(time('when the order was written; from then on it counts as an attempt')),
    actedAt: Type.Optional(time('when the action had ended')),
    finishedAt: Type.Optional(time()),
    before: Type.Optional(jobBefore),
    proof: Type.Optional(jobProof),
    outcome: Type.Optional(Type.Enum([...OUTCOMES])),
    explanation: Type.Optional(Type.String({ maxLength: 2048, description: 'why it ended so, or what it waits for' })),
    diagnosis: Type.Optional(
      atomic(Type.String({ maxLength: 1024 }), { maxItems: 32, description: 'NeedsHuman: what was seen, tried and found, line by line' }),
    ),
    observedGeneration: Type.Optional(Type.Integer()),
    conditions: conditions(),
  }),
  rules: [{ rule: 'self.spec == oldSelf.spec', message: 'is immutable', fieldPath: '.spec' }],
  columns: [
    { name: 'Rule', type: 'string', jsonPath: '.spec.rule' },
    { name: 'Node', type: 'string', jsonPath: '.spec.node' },
    { name: 'Action', type: 'string', jsonPath: '.spec.action' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Verdict', type: 'string', jsonPath: '.status.answer' },
    { name: 'Step', type: 'string', jsonPath: '.status.step' },
    { name: 'Outcome', type: 'string', jsonPath: '.status.outcome' },
    { name: 'Explanation', type: 'string', jsonPath: '.status.explanation', priority: 1 },
  ],
});
export type RemedyOperationJob = ReturnType<typeof RemedyOperationJobs.parse>;
export type RemedyOperationJobStatus = NonNullable<RemedyOperationJob['status']>;

/** On every job. Names that are too long for the value of a label are cut: see `jobLabel`. */
export const JOB_LABELS = { rule: 'kubenode.io/rule', machine: 'kubenode.io/machine' } as const;

const MAX_LABEL = 63;

/** The name of a rule or machine as the value of a label. */
export function jobLabel(name: string): string {
  return name.length <= MAX_LABEL ? name : `${name.slice(0, MAX_LABEL - 9)}-${sha256Hex(name).slice(0, 8)}`;
}

/** Whether it has ended. A job that asks a human has not while its rule still matches. */
export function isFinished(job: Pick<RemedyOperationJob, 'status'>): boolean {
  const phase = job.status?.phase;
  switch (phase) {
    case 'Succeeded':
    case 'Failed':
    case 'Cancelled':
    case 'Shadow':
      return true;
    case 'NeedsHuman':
      return job.status?.finishedAt !== undefined;
    case undefined:
    case 'Pending':
    case 'Granted':
    case 'Running':
    case 'Verifying':
      return false;
    default:
      // A phase of a later version: its meaning is not known, so it counts as open.
      phase satisfies never;
      return false;
  }
}
