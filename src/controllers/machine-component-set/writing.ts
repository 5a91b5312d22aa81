/**
 * Which entries may be written at any moment (docs/protocols.md#b9). A write of an entry is conditioned on its Machine alone, and one that was decided before a
 * commit, a halt or a change of leader may arrive long after it: its Machine has not changed. So the set names each before it is sent, and what is
 * not wanted any more is settled: its Machine is written to, so that the entry comes too late. Pure.
 */
import type { Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';

export type Announced = NonNullable<NonNullable<MachineComponentSet['status']>['writing']>[number];

export const announced = ({ metadata }: Stored<Machine>): Announced => ({
  machine: keyOf(metadata),
  resourceVersion: metadata.resourceVersion,
});

/** Machines whose entry was announced and may still be written. Another version is a later one, and no Machine is one that is gone: they were read after it was announced. */
export function openOf({ status }: MachineComponentSet, machines: readonly Stored<Machine>[]): Stored<Machine>[] {
  const versions = new Map((status?.writing ?? []).map(({ machine, resourceVersion }) => [machine, resourceVersion]));
  return machines.filter(({ metadata }) => versions.get(keyOf(metadata)) === metadata.resourceVersion);
}

/** Changes nothing but the version. */
export function settlePatch({ metadata: { resourceVersion } }: Stored<Machine>): object {
  return { metadata: { resourceVersion, annotations: { [ANNOTATIONS.entryFence]: resourceVersion } } };
}
