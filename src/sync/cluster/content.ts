/** What a cell reports about itself, as its Cluster has it. */
import { MOST_SETS, type Attention, type Cluster, type Orphans, type SetMachines } from '../../api/cluster.ts';
import { wantedReplicas, type MachineSet } from '../../api/machine-set.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { attentionOf } from '../attention.ts';
import type { CellContent } from '../cell/cell.ts';
import { WATCHED } from '../cell/kinds.ts';
import { syncError } from '../errors.ts';

export function contentOf(
  cell: CellContent,
  orphansIn: (objects: readonly KubeObject[]) => Orphans | undefined,
): { attention: Attention[]; machines: ReturnType<typeof countMachines>; orphans: Orphans | undefined } {
  const objects = WATCHED.flatMap(({ kind }) => cell.store(kind)?.list() ?? []);
  return { attention: attentionOf(objects), machines: countMachines(cell), orphans: orphansIn(objects) };
}

/** No set has as many, nor is named so. */
const MOST_MACHINES = 1_000_000;
const LONGEST_NAME = 253;

function countMachines(cell: CellContent): NonNullable<NonNullable<Cluster['status']>['machines']> {
  const found = (cell.store('MachineSet')?.list() ?? []).map((each) => each as Stored<MachineSet>);
  const sets = found.map((each): SetMachines => {
    const { metadata, status } = each;
    const { replicas = 0, deletingReplicas = 0 } = status ?? {};
    const wanted = metadata.deletionTimestamp === undefined ? wantedReplicas(each) : 0;
    const set = `${metadata.namespace ?? ''}/${metadata.name}`;
    const numbers = [replicas, deletingReplicas, wanted, status?.readyReplicas ?? 0];
    if (!numbers.every((each) => Number.isInteger(each) && each >= 0 && each <= MOST_MACHINES) || set.length > 2 * LONGEST_NAME)
      throw syncError('ContentInvalid', `MachineSet ${set.slice(0, LONGEST_NAME)} has a name or a number of machines that none can have`);
    return { set, replicas, wanted, ...(deletingReplicas === 0 ? {} : { deleting: deletingReplicas }) };
  });
  return {
    total: sets.reduce((sum, { replicas }) => sum + replicas, 0),
    ready: found.reduce((sum, { status }) => sum + (status?.readyReplicas ?? 0), 0),
    // A partial list would hide what goes.
    ...(sets.length > MOST_SETS ? {} : { sets: sets.sort((a, b) => (a.set < b.set ? -1 : 1)) }),
  };
}
