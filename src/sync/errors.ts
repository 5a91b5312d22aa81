import { CodedError } from '../api/errors.ts';

/** What can be wrong with a commit or with carrying it out; each is also the reason of a condition and an Event. */
export const SYNC_ERRORS = [
  'EmptyRender',
  'NoStage',
  'PruneBudget',
  'HistoryRewritten',
  'HistoryTooLong',
  'Unsigned',
  'InvalidFleet',
  'WeakIsolation',
  'NotDeterministic',
  'DigestMismatch',
  'ClusterUnreachable',
  'ImmutableChanged',
  'UnknownKind',
  'NotOurs',
] as const;
export type SyncErrorCode = (typeof SYNC_ERRORS)[number];

export function syncError(code: SyncErrorCode, message: string, options: { cause?: unknown; next?: string } = {}): CodedError {
  return new CodedError(code, message, options);
}
