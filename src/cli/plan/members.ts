/** How many machines of a cluster a set selects, as Git and the hub know them: machines of MachineSets, and Machines that the fleet declares. Pure. */
import type { Cluster } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import type { Unit } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';
import { selects } from '../../controllers/shared/selection.ts';

export interface Members {
  count: number;
  /** Machines of the cluster that are in no MachineSet of the commit, so that their labels are not known here: the set may select them too. */
  unknown: number;
}

/** `units`: all that the commit has in the cluster. */
export function membersOf(set: KubeObject, units: readonly Unit[], cluster: Cluster | undefined): Members {
  const parsed = MachineComponentSets.parse(set);
  const objects = units.flatMap((unit) => unit.objects);
  const reported = new Map((cluster?.status?.machines?.sets ?? []).map((each) => [each.set, each]));
  let count = 0;
  let known = 0;
  for (const object of objects) {
    if (object.kind === Machines.kind) {
      known++;
      if (selects(parsed, Machines.parse(object))) count++;
    }
    if (object.kind !== MachineSets.kind) continue;
    const machineSet = MachineSets.parse(object);
    const { namespace = '', name } = machineSet.metadata;
    const cell = reported.get(`${namespace}/${name}`);
    const machines = machineSet.spec.replicas ?? cell?.wanted ?? 0;
    known += cell?.replicas ?? 0;
    if (selects(parsed, machineOf(machineSet))) count += machines;
  }
  return { count, unknown: Math.max(0, (cluster?.status?.machines?.total ?? 0) - known) };
}

/** Any machine of the set, as far as selectors see it. */
function machineOf({ metadata: { namespace = '', name }, spec }: MachineSet): Parameters<typeof selects>[1] {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace, name, labels: spec.template?.metadata?.labels ?? {} },
    spec: {},
  };
}
