import { expect, it } from 'vitest';
import { isFinished, JOB_PHASES, RemedyOperationJobs, type JobPhase } from './remedy-operation-job.ts';

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
