import { expect, it } from 'vitest';
import { API_VERSION } from './kind.ts';
import { isFinished, JOB_PHASES, RemedyOperationJobs, type JobPhase } from './remedyoperationjob.ts';

const job = (spec = {}) => ({
  apiVersion: API_VERSION,
  kind: 'RemedyOperationJob',
  metadata: { name: 'hung-1', namespace: 'web' },
  spec: {
    rule: 'hung',
    machine: { name: 'a', uid: 'u' },
    node: 'a',
    rung: 0,
    attempt: 1,
    action: 'Reboot',
    timeoutSeconds: 600,
    healedWhen: { condition: 'KernelDeadlock', is: 'False', forSeconds: 300 },
    priority: 0,
    matchedSince: '2026-01-01T00:00:00.000Z',
    why: 'because',
    ...spec,
  },
});

it('is immutable once made, so that an edit of its rule does not reach it', () => {
  expect(RemedyOperationJobs.validate(job())).toEqual([]);
  expect(RemedyOperationJobs.compare(job(), job())).toEqual([]);
  expect(RemedyOperationJobs.compare(job({ args: { a: 1, b: 2 } }), job({ args: { b: 2, a: 1 } }))).toEqual([]);
  expect(RemedyOperationJobs.compare(job({ action: 'Replace' }), job())).toEqual([{ path: 'spec', message: 'is immutable' }]);
});

it('reads as the story of a repair in a table', () => {
  const columns = JSON.stringify(RemedyOperationJobs.crd());
  for (const name of ['Rule', 'Node', 'Verdict', 'Step', 'Outcome', 'Age']) expect(columns).toContain(`"name":"${name}"`);
});

it('has not ended while a human is asked', () => {
  const ended = (phase: JobPhase, finishedAt?: string) =>
    isFinished({ status: { phase, ...(finishedAt === undefined ? {} : { finishedAt }) } });
  expect(JOB_PHASES.filter((phase) => ended(phase))).toEqual(['Succeeded', 'Failed', 'Cancelled', 'Shadow']);
  expect(ended('NeedsHuman', '2026-01-01T00:00:00Z')).toBe(true);
  expect(isFinished({})).toBe(false);
});
