/**
 * Which entries may be written at any moment (docs/protocols.md#b9). A write of an entry is conditioned on its Machine alone. A write that was decided before a commit,
 * a halt or a change of leader may arrive long after it, where nothing on its Machine has changed that would stop it. So the set announces each entry before it is
 * sent. An entry that is not wanted any more is settled: a write to its Machine makes the entry come too late. Pure.
 */
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { machinePatch, type Path, type ReadFrom } from '../../defender/guarded-patch.ts';
import type { JsonPatchOperation } from '../../kube/client.ts';

export type Announced = NonNullable<NonNullable<MachineComponentSet['status']>['writing']>[number];

const fenceOf = ({ metadata }: Stored<Machine>): string | undefined => metadata.annotations?.[ANNOTATIONS.entryFence];

/** The announcement of an entry: what its write is conditioned on, and the resourceVersion for versions of KubeNode that know only that. */
export function announced(machine: Stored<Machine>): Announced {
  const { metadata } = machine;
  const { resourceVersion, generation } = metadata;
  const fence = fenceOf(machine);
  return {
    machine: keyOf(metadata),
    resourceVersion,
    ...(generation !== undefined && { generation }),
    ...(fence !== undefined && { fence }),
  };
}

/** Machines whose entry was announced and may still be written. They were read after that: another generation is a later one, and a missing Machine is gone. */
export function openOf({ status }: MachineComponentSet, machines: readonly Stored<Machine>[]): Stored<Machine>[] {
  const writing = new Map((status?.writing ?? []).map((each) => [each.machine, each]));
  return machines.filter((machine) => {
    const { metadata } = machine;
    const open = writing.get(keyOf(metadata));
    if (open === undefined) return false;
    // One that an earlier version of KubeNode announced is conditioned on the version.
    if (open.generation === undefined) return open.resourceVersion === metadata.resourceVersion;
    return open.generation === metadata.generation && open.fence === fenceOf(machine);
  });
}

const FENCE: Path = ['metadata', 'annotations', ANNOTATIONS.entryFence];

/**
 * What an entry is decided on, besides UID, spec and deletion (docs/protocols.md#c4a): the fence; what selects the machine; whether it is new; what was
 * verified there. No agent writes any of it.
 */
const ENTRY_DEPENDS: readonly Path[] = [
  FENCE,
  ['metadata', 'labels'],
  ['status', 'firstReadyAt'],
  ['status', 'phase'],
  ['status', 'verified'],
];

/** The list is sent whole, with the other entries as they were read (docs/protocols.md#a2). */
export function entriesPatch(machine: Stored<Machine>, entries: readonly ComponentEntry[], from: ReadFrom): JsonPatchOperation[] {
  const components = entries.reduce(withEntry, machine.spec.components ?? []);
  return machinePatch(machine, { ...machine, spec: { ...machine.spec, components } }, { ...from, on: ENTRY_DEPENDS });
}

function withEntry(entries: ComponentEntry[], entry: ComponentEntry): ComponentEntry[] {
  const index = entries.findIndex((each) => each.name === entry.name);
  return index < 0 ? [...entries, entry] : entries.with(index, entry);
}

/** Changes nothing but the fence: no two reads of a Machine that differ have one version. */
export function settlePatch(machine: Stored<Machine>): JsonPatchOperation[] {
  const { metadata } = machine;
  const annotations = { ...metadata.annotations, [ANNOTATIONS.entryFence]: metadata.resourceVersion };
  return machinePatch(machine, { ...machine, metadata: { ...metadata, annotations } }, { known: false, on: [FENCE] });
}
