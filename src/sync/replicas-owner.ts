/** Whose the number of a set is that a commit leaves out (docs/protocols.md#c8e). Pure. */
import { API_VERSION } from '../api/kind.ts';
import { MachineSets, type MachineSet } from '../api/machine-set.ts';
import { ANNOTATIONS, LABELS, MANAGERS } from '../api/names.ts';
import type { KubeObject, Stored } from '../api/wire.ts';
import { names } from '../kube/ownership.ts';

/** How a commit, or a person, declares that others give the number. */
export const SCALED_BY_OTHERS = 'others';
const REPLICAS = ['spec', 'replicas'];
const SCALED_BY = ['metadata', 'annotations', ANNOTATIONS.scaledBy];

/** Whether a commit leaves the number of a set out. */
export const leavesReplicasOut = (object: KubeObject): boolean =>
  object.apiVersion === API_VERSION && object.kind === MachineSets.kind && (object as Partial<MachineSet>).spec?.replicas === undefined;

/**
 * Whether the set has a number that would begin to let machines go once a commit leaves `replicas` out: the 0 of a removal that the commit takes back, or what
 * a user set while a commit gave the number. Only sync's removals write `replicas` by an update.
 */
export function isLeftOver({ metadata, spec }: Stored<MachineSet>): boolean {
  if (spec.replicas === undefined) return false;
  const { labels = {}, annotations = {}, managedFields = [] } = metadata;
  const own = managedFields.filter(({ manager }) => manager === MANAGERS.sync);
  if (own.some((entry) => entry.operation === 'Update' && names(entry, REPLICAS))) return true;
  // Without a Fleet the machines follow the number already.
  if (labels[LABELS.fleet] === undefined && (own.length === 0 || annotations[ANNOTATIONS.scaledBy] === SCALED_BY_OTHERS)) return false;
  return !own.some((entry) => names(entry, REPLICAS) || names(entry, SCALED_BY));
}

/** Whether the number is the hub's, on the server's record. */
export function isNumberOfSync({ metadata: { managedFields = [] } }: Stored<MachineSet>): boolean {
  return managedFields.some((entry) => entry.manager === MANAGERS.sync && names(entry, REPLICAS));
}
