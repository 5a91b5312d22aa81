import { expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import { JOB_PHASES, type RemedyOperationJob, type RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import { eventOf } from './events.ts';

const at = '2026-01-01T00:00:00Z';
const job = (status?: RemedyOperationJobStatus): RemedyOperationJob => ({
  apiVersion: API_VERSION,
  kind: 'RemedyOperationJob',
  metadata: { name: 'hung-1', namespace: 'web' },
  spec: {
    rule: 'hung',
    machine: { name: 'a', uid: 'm' },
    node: 'a',
    rung: 0,
    attempt: 1,
    action: 'Reboot',
    timeoutSeconds: 600,
    healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 60 },
    priority: 0,
    matchedSince: at,
    why: 'it was seen',
  },
  ...(status === undefined ? {} : { status }),
});
const recorded = (before: RemedyOperationJobStatus | undefined, after: RemedyOperationJobStatus): string | undefined => {
  const event = eventOf(job(before), after);
  return event && `${event.type} ${event.reason}: ${event.message}`;
};
const by = 'Reboot of web/hung-1 (rule hung)';

test.each<[RemedyOperationJobStatus, string]>([
  [{ phase: 'Pending' }, `Normal RemedyRequested: ${by} asks for permission: it was seen`],
  [{ phase: 'Granted', operationID: 'r1' }, `Normal RemedyGranted: ${by} was granted as operation r1`],
  [{ phase: 'Running', operationID: 'r1' }, `Normal RemedyStarted: ${by} was ordered as operation r1`],
  [{ phase: 'Verifying' }, `Normal RemedyActed: ${by} is done; whether it helped is verified`],
  [{ phase: 'Succeeded', explanation: 'healed' }, `Normal RemedySucceeded: ${by}: healed`],
  [{ phase: 'Failed', outcome: 'PermanentFailure', explanation: 'no' }, `Warning RemedyFailed: ${by}: PermanentFailure: no`],
  [{ phase: 'Cancelled', explanation: 'recovered' }, `Normal RemedyCancelled: ${by}: recovered`],
  [{ phase: 'NeedsHuman', explanation: 'nothing helped' }, 'Warning NeedsHuman: rule hung: nothing helped'],
  [{ phase: 'Shadow', explanation: 'would Reboot' }, 'Normal WouldRepair: rule hung in Shadow would Reboot'],
])('a person who describes the Node reads once that a job is $phase', (after, expected) => {
  expect(recorded(undefined, after)).toBe(expected);
  expect(recorded(after, { ...after, answer: 'other' })).toBeUndefined();
  const other = JOB_PHASES.find((phase) => phase !== after.phase) ?? 'Pending';
  expect(recorded({ phase: other }, after)).toBe(expected);
});

test('that a human is not needed any more is reported once', () => {
  const asked: RemedyOperationJobStatus = { phase: 'NeedsHuman', explanation: 'it does not match' };
  const ended = { ...asked, finishedAt: at };
  expect(recorded(asked, ended)).toBe('Normal HumanNoLongerNeeded: rule hung: it does not match');
  expect(recorded(asked, asked)).toBeUndefined();
  expect(recorded(ended, ended)).toBeUndefined();
  expect(recorded({ phase: 'Failed' }, { phase: 'Failed', finishedAt: at })).toBeUndefined();
});
