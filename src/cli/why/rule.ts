/** Whether a rule runs, what it did, and where it is at work. */
import type { NodeRemedier } from '../../api/node-remedier.ts';
import { isFinished, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { ago } from './words.ts';

export function ruleLines(rule: Stored<NodeRemedier>, jobs: readonly Stored<RemedyOperationJob>[], nowMs: number): string[] {
  const { metadata, spec, status } = rule;
  const accepted = status?.conditions?.find(({ type }) => type === 'Accepted');
  const current = status?.observedGeneration === metadata.generation;
  const lines = [
    `rule/${metadata.name}  ${spec.mode ?? 'Shadow'}, ${current ? `Accepted ${accepted?.status ?? 'Unknown'}` : 'not reconciled yet'}`,
  ];
  for (const { path, message, hint } of status?.validationErrors ?? []) lines.push(`  ${path}: ${message}`, `    hint: ${hint}`);
  if (accepted?.status === 'False' && (status?.validationErrors ?? []).length === 0)
    lines.push(`  ${accepted.reason}: ${accepted.message}`);
  const { counters } = status ?? {};
  if (counters !== undefined)
    lines.push(
      `  since ${ago(counters.since, nowMs)}: would have made ${counters.wouldBeJobs} ${counters.wouldBeJobs === 1 ? 'job' : 'jobs'} in Shadow; made ${counters.jobs}: ${counters.succeeded} succeeded, ${counters.failed} failed, ${counters.needsHuman} need a human`,
    );
  if ((spec.mode ?? 'Shadow') === 'Shadow') lines.push('  it only reports what it would do');
  const open = jobs.filter((job) => !isFinished(job));
  lines.push('', open.length === 0 ? 'no job of it is open' : 'OPEN JOBS');
  for (const { metadata, spec, status } of open)
    lines.push(
      `  ${metadata.namespace}/${metadata.name}  ${status?.phase ?? 'Pending'}  ${spec.action} on ${spec.machine.name}; ${status?.explanation ?? status?.answer ?? ''}`,
    );
  return lines;
}
