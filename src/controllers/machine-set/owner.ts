import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import type { Stored } from '../../api/wire.ts';

export const ownedBy = (machine: Machine, set: Stored<MachineSet>): boolean =>
  (machine.metadata.ownerReferences ?? []).some((owner) => owner.controller === true && owner.uid === set.metadata.uid);
