/** What is recorded of a step before anything is written into its cell. */
import { inventoryOf, sameObject } from '../apply-unit.ts';
import type { StoredUnit } from '../bundles.ts';
import type { RecordChange } from '../record-writes.ts';
import { records, REMOVAL } from '../records.ts';
import type { Step } from './world.ts';

export type RecordedChange = RecordChange['change'];
export type Apply = Extract<Step, { do: 'Apply' }>;

/** Undefined where nothing is. An `Apply` records what it begins, for which its unit is needed (`begun`). */
export function changeBefore(step: Exclude<Step, Apply>, fleet: string, now: string): RecordedChange | undefined {
  switch (step.do) {
    case 'RecordEvidence':
      return records.verified(step.digest, step.commit, now, step.appliedAt);
    case 'SoakAgain':
      return records.soaksAgain(step.digest, now);
    case 'Revoke':
      return records.revoked(step.digest, step.retry);
    case 'Uphold':
      return records.upheld(step.digest);
    case 'Reinstate':
      return records.reinstated(step.digest, step.retry);
    case 'RecordRetry':
      return records.retried(step.retry, step.over, step.lifts);
    case 'RecordHalt':
      return records.halted(step.digest, step.halt, now);
    case 'Settle':
      return records.settled(step.since);
    case 'Lift':
      return records.lifted(step.digest, step.since);
    case 'Remove':
      return records.begin(fleet, { to: REMOVAL, lane: step.lane, writtenAt: step.writtenAt }, step.over, [], sameObject);
    case 'Ceiling':
    case 'TryAgain':
    case 'KeepMachines':
      return undefined;
    default:
      return step satisfies never;
  }
}

export function begun(step: Apply, unit: StoredUnit, fleet: string, now: string): RecordedChange {
  const { digest: to, lane, commit, asked, revoked, found, writtenAt } = step;
  return records.begin(fleet, { to, lane, commit, asked, revoked, found, writtenAt, at: now }, step.over, inventoryOf(unit), sameObject);
}
