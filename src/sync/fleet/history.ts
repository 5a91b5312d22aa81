/** Whether a fetched head may follow upon the accepted commit. Pure. */
import type { Fleet } from '../../api/fleet.ts';
import { syncError } from '../errors.ts';
import type { Fetched } from '../git/index.ts';
import { short } from './status.ts';

/** Refuses a head that does not descend from the accepted commit, unless a person accepts that very head. */
export function requireHistory(fleet: Fleet, { head, relation }: Pick<Fetched, 'head' | 'relation'>): void {
  if (fleet.spec.acceptRewrittenHead === head) return;
  const accept = `kubectl patch fleet ${fleet.metadata.name} --type merge -p '{"spec":{"acceptRewrittenHead":"${head}"}}'`;
  if (relation === 'rewritten')
    throw syncError(
      'HistoryRewritten',
      `the branch was rewritten: ${short(head)} does not descend from ${short(fleet.status?.commit)}; nothing was changed`,
      { next: accept },
    );
  if (relation === 'tooLong')
    throw syncError(
      'HistoryTooLong',
      `the history between ${short(fleet.status?.commit)} and ${short(head)} is longer than can be checked; nothing was changed`,
      { next: `check it and accept it: ${accept}` },
    );
}
