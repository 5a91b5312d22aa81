import type { ComponentEntry } from '../../api/machine.ts';
import type { Content } from './content.ts';

/** Fields in one order, without those that are absent: equal entries are equal JSON. */
export function entryOf(
  content: Content,
  rest: Pick<ComponentEntry, 'name' | 'setUID' | 'setRevision' | 'joinedRevision' | 'revision' | 'attempt'> & {
    left?: ComponentEntry['left'];
    lane?: ComponentEntry['lane'];
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
    ...(rest.left === undefined ? {} : { left: rest.left }),
    ...(rest.lane === undefined ? {} : { lane: rest.lane }),
    ...(rest.failed === undefined ? {} : { failed: rest.failed }),
  };
}
