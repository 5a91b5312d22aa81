import type { Machine } from '../api/machine.ts';
import { fullRung, RUNG_DEFAULTS } from '../api/node-remedier/values.ts';
import type { RemedyOperationJob, RemedyOperationJobSpec } from '../api/remedy-operation-job.ts';
import { explain, explanationLines, whyFired } from './explain.ts';
import type { LadderStep } from './ladder.ts';
import type { RuleOutcome } from './pass.ts';

/** UID of the MachineSet that owns a machine. */
export function ownerUID(machine: Pick<Machine, 'metadata'>): string | undefined {
  return machine.metadata.ownerReferences?.find(({ kind, controller }) => kind === 'MachineSet' && controller === true)?.uid;
}

/** The job that a rule which is due makes for a step of its ladder. */
export function jobSpecOf(
  outcome: RuleOutcome,
  step: LadderStep & { step: 'Act' | 'AskHuman' },
  machine: Machine,
  nowMs: number,
  replacements: number,
): RemedyOperationJobSpec {
  const { rule } = outcome.rule;
  const { spec } = rule;
  const rung = spec.ladder[step.rung];
  const owner = ownerUID(machine);
  const { timeoutSeconds } = rung === undefined ? RUNG_DEFAULTS : fullRung(rung);
  return {
    rule: rule.metadata.name,
    ...(rule.metadata.uid === undefined ? {} : { ruleUID: rule.metadata.uid }),
    ...(spec.unitDigest === undefined ? {} : { unitDigest: spec.unitDigest }),
    machine: { name: machine.metadata.name, uid: machine.metadata.uid ?? '' },
    ...(owner === undefined ? {} : { machineSet: owner }),
    ...(replacements === 0 ? {} : { replacements }),
    node: machine.status?.nodeRef?.name ?? '',
    mode: spec.mode ?? 'Shadow',
    rung: step.rung,
    attempt: step.step === 'Act' ? step.attempt : 1,
    action: step.step === 'Act' ? step.action : 'Human',
    ...(rung?.args === undefined ? {} : { args: rung.args }),
    timeoutSeconds,
    healedWhen: spec.healedWhen,
    priority: spec.priority ?? 0,
    matchedSince: new Date(outcome.sinceMs ?? nowMs).toISOString(),
    why: whyFired(outcome),
  };
}

const MAX_LINES = 32;

/** What a human who is asked should know: what is seen, what was tried and how it ended. `RemedyOperationJob.status.diagnosis`. */
export function diagnosisOf(
  outcome: RuleOutcome,
  step: LadderStep & { step: 'AskHuman' },
  jobs: readonly RemedyOperationJob[],
  machineUID: string,
): string[] {
  const note: unknown = outcome.rule.rule.spec.ladder[step.rung]?.args?.['note'];
  const tried = jobs
    .filter((job) => job.spec.rule === outcome.rule.name && job.spec.machine.uid === machineUID && job.status?.orderedAt !== undefined)
    .map(
      ({ metadata, spec, status }) =>
        `tried ${spec.action} at ${status?.orderedAt} (${metadata.name}): ${status?.outcome}: ${status?.explanation}`,
    );
  return [step.why, ...(typeof note === 'string' ? [note] : []), ...tried.slice(-10), ...explanationLines(explain(outcome))]
    .slice(0, MAX_LINES)
    .map((line) => (line.length > 1024 ? `${line.slice(0, 1023)}…` : line));
}
