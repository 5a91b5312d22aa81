import type { RecordedEvent } from '../../kube/recorder.ts';
import { findCondition } from '../../kube/conditions.ts';
import type { SetStatus } from './report.ts';

/** What changed in a set that people want to know. Reported once, since each is a difference of two statuses. */
export function eventsOf(before: SetStatus | undefined, after: SetStatus): RecordedEvent[] {
  const events: RecordedEvent[] = [];
  const became = (type: string): string | undefined => {
    const now = findCondition(after.conditions, type);
    return now?.status === 'True' && findCondition(before?.conditions, type)?.status !== 'True' ? now.message : undefined;
  };
  const halted = became('Halted');
  if (halted !== undefined) events.push({ type: 'Warning', reason: 'RolloutHalted', message: halted });
  const conflict = became('Conflict');
  if (conflict !== undefined) events.push({ type: 'Warning', reason: 'SetsConflict', message: conflict });
  const { verified, revision } = after;
  if (verified !== undefined && (verified.at !== before?.verified?.at || verified.version !== before.verified.version)) {
    events.push({
      type: 'Normal',
      reason: 'ContentVerified',
      message: `revision ${revision?.number ?? 0}: ${verified.version} is verified`,
    });
  }
  if (before?.batch !== undefined && after.batch !== undefined && after.batch > before.batch && before.batch > 0) {
    events.push({ type: 'Normal', reason: 'BatchBegun', message: `batch ${after.batch} of ${after.batches ?? 0}` });
  }
  return events;
}
