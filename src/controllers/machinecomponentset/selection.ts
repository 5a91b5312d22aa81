import type { Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machinecomponentset.ts';
import { matchesLabels } from '../../api/selector.ts';
import { findCondition } from '../../kube/conditions.ts';

/** Whether a set is about this machine: its pools (absent: all) and its labels (absent: all; empty: none). */
export function selects(set: MachineComponentSet, machine: Machine): boolean {
  const { pools, selector } = set.spec;
  if (pools !== undefined && !pools.includes(machine.metadata.namespace ?? '')) return false;
  return selector === undefined || matchesLabels(selector, machine.metadata.labels);
}

/**
 * Whether a machine was never in use: no Node of its own was ever seen, and whoever looks for one has looked. Where that is not known it counts
 * as in use.
 */
export function isUnused({ status }: Machine): boolean {
  if (status?.nodeRef !== undefined) return false;
  return findCondition(status?.conditions, 'NodeReady')?.reason === 'NoNode';
}

export function isDeleting(object: { metadata: { deletionTimestamp?: string } }): boolean {
  return object.metadata.deletionTimestamp !== undefined;
}
