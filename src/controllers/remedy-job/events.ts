import type { RemedyOperationJob, RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import type { RecordedEvent } from '../../kube/recorder.ts';

/** What a person who describes the Node should read of a job that moved on; undefined where nothing is new. */
export function eventOf(
  { metadata, spec, status: before }: RemedyOperationJob,
  after: RemedyOperationJobStatus,
): RecordedEvent | undefined {
  const by = `${spec.action} of ${metadata.namespace}/${metadata.name} (rule ${spec.rule})`;
  const event = (type: RecordedEvent['type'], reason: string, message: string): RecordedEvent => ({ type, reason, message });
  const why = after.explanation ?? '';
  if (before?.phase === after.phase)
    return after.phase === 'NeedsHuman' && before?.finishedAt === undefined && after.finishedAt !== undefined
      ? event('Normal', 'HumanNoLongerNeeded', `rule ${spec.rule}: ${why}`)
      : undefined;
  switch (after.phase) {
    case 'Pending':
      return event('Normal', 'RemedyRequested', `${by} asks for permission: ${spec.why}`);
    case 'Granted':
      return event('Normal', 'RemedyGranted', `${by} was granted as operation ${after.operationID}`);
    case 'Running':
      return event('Normal', 'RemedyStarted', `${by} was ordered as operation ${after.operationID}`);
    case 'Verifying':
      return event('Normal', 'RemedyActed', `${by} is done; whether it helped is verified`);
    case 'Succeeded':
      return event('Normal', 'RemedySucceeded', `${by}: ${why}`);
    case 'Failed':
      return event('Warning', 'RemedyFailed', `${by}: ${after.outcome}: ${why}`);
    case 'Cancelled':
      return event('Normal', 'RemedyCancelled', `${by}: ${why}`);
    case 'NeedsHuman':
      return event('Warning', 'NeedsHuman', `rule ${spec.rule}: ${why}`);
    case 'Shadow':
      return event('Normal', 'WouldRepair', `rule ${spec.rule} in Shadow ${why}`);
    case undefined:
      return undefined;
    default:
      return after.phase satisfies never;
  }
}
