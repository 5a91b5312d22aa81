import type { ComponentEntry, ComponentStatus } from '../../api/machine.ts';
import type { Content } from './content.ts';

/** Above everything that was ever asked of the agent or refused by it (PROTOCOLS A3); `reported` of a removed component counts too. */
export function nextRevision(entry: ComponentEntry | undefined, reported: ComponentStatus | undefined): number {
  return 1 + Math.max(entry?.revision ?? 0, reported?.revision ?? 0, reported?.refused?.revision ?? 0);
}

/** Fields in one order, without those that are absent: equal entries are equal JSON. */
export function entryOf(
  content: Content,
  rest: Pick<ComponentEntry, 'name' | 'setUID' | 'setRevision' | 'joinedRevision' | 'revision' | 'attempt'> & {
    failed?: ComponentEntry['failed'];
  },
): ComponentEntry {
  return {
    name: rest.name,
    action: content.action,
    version: content.version,
    ...(content.values === undefined ? {} : { values: content.values }),
    setUID: rest.setUID,
    setRevision: rest.setRevision,
    joinedRevision: rest.joinedRevision,
    revision: rest.revision,
    attempt: rest.attempt,
    ...(rest.failed === undefined ? {} : { failed: rest.failed }),
  };
}

/** The agent failed at this very entry, and nothing on the entry says so yet (PROTOCOLS A5). */
export function isUnrecordedFailure(entry: ComponentEntry, reported: ComponentStatus | undefined): boolean {
  return reported?.failed?.revision === entry.revision && entry.failed === undefined;
}

/** Whether a failure still keeps the machine from being tried again: until setRevision or rolloutID changes (PROTOCOLS A5). */
export function isInEffect(failed: ComponentEntry['failed'], setRevision: number, rolloutID: string | undefined): boolean {
  return failed !== undefined && failed.setRevision === setRevision && failed.rolloutID === rolloutID;
}
