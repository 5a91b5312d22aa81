/** The story of one repair, from what its rule saw to how it ended. */
import { ACTION_TRAITS } from '../../api/node-remedier/values.ts';
import { isFinished, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { age } from '../output.ts';
import { ago, verdictLines } from './words.ts';

export function jobLines(job: Stored<RemedyOperationJob>, nowMs: number): string[] {
  const { metadata, spec, status } = job;
  const phase = status?.phase ?? 'Pending';
  const args = Object.entries(spec.args ?? {}).map(([key, value]) => ` ${key}=${String(value)}`);
  const lines = [
    `job/${metadata.namespace}/${metadata.name}  ${phase}${status?.outcome === undefined ? '' : ` (${status.outcome})`}`,
    `rule      ${spec.rule}, rung ${spec.rung}, attempt ${spec.attempt}${spec.mode === 'Shadow' ? ', in Shadow' : ''}`,
    `action    ${spec.action}${args.join('')} on machine ${spec.machine.name}${spec.node === '' ? '' : `, node ${spec.node}`}`,
    `saw       ${spec.why}`,
    `proof     ${proofText(spec)}`,
    '',
    'STORY',
    ...story(job).map(({ at, what }) => `  ${ago(at, nowMs)}  ${what}`),
  ];
  lines.push('', isFinished(job) ? 'WHY IT ENDED SO' : 'WHAT IT WAITS FOR');
  if (status?.explanation !== undefined) lines.push(`  ${status.explanation}`);
  if (status?.cancelling !== undefined && !isFinished(job)) lines.push(`  it is being cancelled: ${status.cancelling.why}`);
  if (status?.verdict !== undefined) lines.push(...verdictLines('Defender', status.verdict).map((line) => `  ${line}`));
  else if (status?.answer !== undefined) lines.push(`  Defender: ${status.answer}`);
  if (status?.explanation === undefined && status?.verdict === undefined && status?.answer === undefined)
    lines.push(`  ${phase === 'Pending' ? 'it has no answer yet: is a controller of this cell running?' : 'it has reported nothing'}`);
  if (phase === 'NeedsHuman' && !isFinished(job)) lines.push('  it ends by itself when its rule no longer matches');
  if ((status?.diagnosis ?? []).length > 0) lines.push('', 'DIAGNOSIS', ...(status?.diagnosis ?? []).map((line) => `  ${line}`));
  return lines;
}

const PROOFS = {
  Done: 'that it is done; it repairs nothing by itself',
  Gone: 'that its provider reports the machine gone',
  Nothing: 'none: a human is asked',
} as const;

/** What happened, in the order it did. */
function story({ metadata, spec, status }: Stored<RemedyOperationJob>): { at: string; what: string }[] {
  const events: { at: string | undefined; what: string }[] = [
    { at: spec.matchedSince, what: 'it matches' },
    { at: metadata.creationTimestamp, what: 'the job is made' },
    { at: status?.orderedAt, what: `ordered as ${status?.operationID ?? 'an operation'}` },
    ...(status?.steps ?? []).map(({ name, startedAt, finishedAt, outcome, message }) => {
      const took = finishedAt === undefined ? 'begins' : age(Date.parse(finishedAt) - Date.parse(startedAt));
      const end = [outcome, message].filter((part) => part !== undefined && part !== '').join(': ');
      return { at: startedAt, what: `${name} ${took}${end === '' ? '' : `, ${end}`}` };
    }),
    { at: status?.actedAt, what: 'the action had ended' },
    { at: status?.proof?.since, what: 'the proof began to be true' },
    { at: status?.finishedAt, what: status?.phase ?? '' },
  ];
  return events
    .flatMap(({ at, what }) => (at === undefined ? [] : [{ at, what }]))
    .sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

function proofText({
  action,
  timeoutSeconds,
  healedWhen: { condition, of, is, onNewBoot, forSeconds },
}: RemedyOperationJob['spec']): string {
  const { proof } = ACTION_TRAITS[action];
  if (proof !== 'Healed') return PROOFS[proof];
  return `${of === 'Machine' ? "the Machine's " : ''}${condition} ${is} for ${forSeconds} s${onNewBoot === true || action === 'Reboot' ? ', in a new boot' : ''}, to begin within ${timeoutSeconds} s of the order`;
}
