import type { Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { matchesLabels } from '../../api/selector.ts';

/** Whether a set selects this machine: its pools (absent: all) and its labels (absent: all; empty: none). */
export function selects(set: MachineComponentSet, machine: Machine): boolean {
  const { pools, selector } = set.spec;
  if (pools !== undefined && !pools.includes(machine.metadata.namespace ?? '')) return false;
  return selector === undefined || matchesLabels(selector, machine.metadata.labels);
}

export function isDeleting(object: { metadata: { deletionTimestamp?: string } }): boolean {
  return object.metadata.deletionTimestamp !== undefined;
}
