/** Whether the number of a set is a commit's, by the server's record of who set it (docs/protocols.md#c8e). Pure. */
import type { MachineSet } from '../../api/machine-set.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../../api/names.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Stored } from '../../api/wire.ts';
import { names } from '../../kube/ownership.ts';

/** As the server bounds a manager's name; it may be another server's. */
const LONGEST = 128;
const MOST = 3;
const REPLICAS = ['spec', 'replicas'];
const SCALED_BY = ['metadata', 'annotations', ANNOTATIONS.scaledBy];
export const OTHERS = 'others';

/**
 * In words, why no machine may go for the number that the set has; undefined where they may. What sync has on record is what it applied: another value, by
 * whichever way it comes, takes the field from sync. Where two have it on record they agree.
 */
export function notByCommit({ metadata, spec }: Stored<MachineSet>): string | undefined {
  const { labels = {}, annotations = {}, managedFields = [] } = metadata;
  const fleet = labels[LABELS.fleet];
  const own = managedFields.filter(({ manager }) => manager === MANAGERS.sync);
  // A replacement by hand may drop the label together with the number: what sync has on record stays.
  if (fleet === undefined && (own.length === 0 || annotations[ANNOTATIONS.scaledBy] === OTHERS)) return undefined;
  if (own.some((entry) => names(entry, REPLICAS) || names(entry, SCALED_BY))) return undefined;
  const managers = managedFields.filter((entry) => names(entry, REPLICAS)).map(({ manager }) => plainText(manager, LONGEST));
  const who = managers.length === 0 ? 'no manager on record' : [...new Set(managers)].slice(0, MOST).join(', ');
  const next =
    fleet === undefined
      ? `where no Fleet is to manage it, annotate it ${ANNOTATIONS.scaledBy}=${OTHERS}`
      : `commit the number that is meant in Fleet ${plainText(fleet, LONGEST)}`;
  return `spec.replicas is ${spec.replicas}, set by ${who} and by no commit; ${next}`;
}
