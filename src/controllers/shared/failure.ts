/** How an entry of a Machine failed, and how long that counts. Pure. */
import { reportedEnd } from '../../api/machine/operation-end.ts';
import type { ComponentEntry, ComponentStatus, Machine } from '../../api/machine.ts';
import { LAST_REVISION } from '../../api/machine/values.ts';

/** The limit of `status.failures`. A set whose record is full is halted, with any maxFailed: what comes after could not be counted. */
export const MAX_FAILURES = 100;

export interface Failure {
  reason: string;
  message: string;
}

/** Above everything that was ever asked of the agent or refused by it (docs/protocols.md#a3); `reported` of a removed component counts too. */
export function nextRevision(entry: ComponentEntry | undefined, reported: ComponentStatus | undefined): number {
  return 1 + Math.max(entry?.revision ?? 0, reported?.revision ?? 0, reported?.refused?.revision ?? 0);
}

/**
 * No number is left above what this agent names, which no honest one does: it could refuse every entry, so it is given nothing more
 * (docs/protocols.md#a3). The Machine has to be replaced.
 */
export function exhausted(entry: ComponentEntry | undefined, reported: ComponentStatus | undefined): Failure | undefined {
  const next = nextRevision(entry, reported);
  if (next <= LAST_REVISION) return undefined;
  return { reason: 'RevisionsExhausted', message: `the agent names revision ${next - 1}, and none is left above it: replace the machine` };
}

/**
 * How this very entry failed, while nothing on it records that yet (docs/protocols.md#a5). The agent reports it of the component. Where it could not, the
 * outcome of the operation that was to carry the entry out shows it: that is not tried again either, and must not be waited for.
 */
export function unrecordedFailure(machine: Machine, entry: ComponentEntry, reported: ComponentStatus | undefined): Failure | undefined {
  if (entry.failed !== undefined) return undefined;
  const spent = exhausted(entry, reported);
  if (spent !== undefined) return spent;
  if (reported?.failed?.revision === entry.revision) return { reason: reported.failed.reason, message: reported.failed.message };
  const order = machine.spec.operation;
  if (order?.components?.some((each) => each.name === entry.name && each.revision === entry.revision) !== true) return undefined;
  const end = reportedEnd(machine, order.id);
  if (end?.outcome !== 'PermanentFailure') return undefined;
  const isCarriedOut =
    reported !== undefined && reported.running === entry.revision && (reported.state === 'Healthy' || reported.state === 'Removed');
  return isCarriedOut ? undefined : { reason: 'OperationFailed', message: end.report.message ?? 'the agent reported no cause' };
}

/** Whether a failure still keeps the machine from being tried again: until the content or rolloutID changes (docs/protocols.md#a5); `since`: the setRevision with which the content began. */
export function isInEffect(
  failed: Pick<NonNullable<ComponentEntry['failed']>, 'setRevision' | 'rolloutID'> | undefined,
  { number, since }: { number: number; since: number },
  rolloutID: string | undefined,
): boolean {
  return failed !== undefined && failed.setRevision >= since && failed.setRevision <= number && failed.rolloutID === rolloutID;
}
