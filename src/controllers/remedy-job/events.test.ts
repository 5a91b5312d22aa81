import { expect, test } from 'vitest';
import { JOB_PHASES, type RemedyOperationJob, type RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import { job as jobOf } from '../machine/testing/objects.ts';
import { eventOf } from './events.ts';

const at = '2026-01-01T00:00:00Z';
const job = (status: RemedyOperationJobStatus = {}): RemedyOperationJob => ({ ...jobOf({ name: 'hung-1' }), status });
const recorded = (before: RemedyOperationJobStatus | undefined, after: RemedyOperationJobStatus): string | undefined => {
  const event = eventOf(job(before), after);
  return event && `${event.type} ${event.reason}: ${event.message}`;
};
const by = 'Reboot of web/hung-1 (rule hung)';

test.each<[RemedyOperationJobStatus, string]>([
  [{ phase: 'Pending' }, `Normal RemedyRequested: ${by} asks for permission: KernelDeadlock is True`],
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
