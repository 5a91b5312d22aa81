/** Whether the number of a set is a commit's, by the server's record of who set it (docs/protocols.md#c8e). Pure. */
import type { MachineSet } from '../../api/machine-set.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../../api/names.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Stored } from '../../api/wire.ts';
import { names } from '../../kube/ownership.ts';

/** The server bounds the name of a manager to this length. Another server may not. */
const LONGEST = 128;
const MOST = 3;
const REPLICAS = ['spec', 'replicas'];
const SCALED_BY = ['metadata', 'annotations', ANNOTATIONS.scaledBy];
export const OTHERS = 'others';

/**
 * In words, why no machine may go for the number that the set has; undefined where they may. The server's record names sync only for a value that sync applied: any
 * other value takes the field from sync. Where the record names two managers, both applied the same value.
 */
export function notByCommit({ metadata, spec }: Stored<MachineSet>): string | undefined {
  const { labels = {}, annotations = {}, managedFields = [] } = metadata;
  const fleet = labels[LABELS.fleet];
  const own = managedFields.filter(({ manager }) => manager === MANAGERS.sync);
  // A replacement by hand may drop the label together with the number. The record of what sync applied stays.
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
