/** The steps of a job, with their times. Pure. */
import { needsDrain, needsOperation } from '../../api/disruption.ts';
import type { Outcome } from '../../api/machine.ts';
import { ACTION_TRAITS, type Action } from '../../api/node-remedier/values.ts';
import { JOB_STEPS, type JobStep, type JobStepStatus, type RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';

/** Those that an action takes, in order. The drain of MigratePods is the action itself. */
export function stepsOf(action: Action): JobStep[] {
  const { disruption, proof } = ACTION_TRAITS[action];
  return JOB_STEPS.filter((step) => {
    if (step === 'Cordon') return needsOperation(disruption);
    if (step === 'Drain') return needsDrain(disruption) && action !== 'MigratePods';
    return step !== 'Verify' || proof === 'Healed';
  });
}

const MAX_MESSAGE = 1024;

function put(status: RemedyOperationJobStatus, step: JobStepStatus): RemedyOperationJobStatus {
  const steps = status.steps ?? [];
  const index = steps.findIndex((each) => each.name === step.name);
  return { ...status, step: step.name, steps: index < 0 ? [...steps, step] : steps.with(index, step) };
}

/** Begins a step; the same value where it has begun. */
export function begin(status: RemedyOperationJobStatus, name: JobStep, at: string): RemedyOperationJobStatus {
  if (status.steps?.some((each) => each.name === name) === true) return status;
  return put(status, { name, startedAt: at });
}

/** Notes of a step that is under way why it takes its time; the same value where that is known. */
export function explain(status: RemedyOperationJobStatus, name: JobStep, message: string): RemedyOperationJobStatus {
  const step = status.steps?.find((each) => each.name === name);
  const cut = message.slice(0, MAX_MESSAGE);
  if (step === undefined || step.finishedAt !== undefined || sameButNumbers(step.message ?? '', cut)) return status;
  return put(status, { ...step, message: cut });
}

/** Ends a step, and begins it first where it was not seen to; the same value where it has ended. */
export function end(status: RemedyOperationJobStatus, name: JobStep, at: string, outcome: Outcome, message = ''): RemedyOperationJobStatus {
  const step = status.steps?.find((each) => each.name === name) ?? { name, startedAt: at };
  if (step.finishedAt !== undefined) return status;
  const { message: _before, ...rest } = step;
  return put(status, { ...rest, finishedAt: at, outcome, ...(message === '' ? {} : { message: message.slice(0, MAX_MESSAGE) }) });
}

/** Ends every step that is under way. */
export function endAll(status: RemedyOperationJobStatus, at: string, outcome: Outcome, message: string): RemedyOperationJobStatus {
  return (status.steps ?? []).reduce((all, { name }) => end(all, name, at, outcome, message), status);
}

/** Whether two texts differ in their numbers only: how old a heartbeat is, or how many pods are left, is not reported again. */
export function sameButNumbers(a: string, b: string): boolean {
  return a === b || a.replaceAll(/\d+/g, '0') === b.replaceAll(/\d+/g, '0');
}
