/** How many machines of a cluster a set selects, as Git and the hub know them: machines of MachineSets, and Machines that the fleet declares. Pure. */
import type { Cluster } from '../../api/cluster.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { KubeObject } from '../../api/wire.ts';
import { selects } from '../../controllers/shared/selection.ts';

type Selected = Parameters<typeof selects>[1];

/** Machines that selectors cannot distinguish: all of one MachineSet, or one declared Machine. */
export interface MachineGroup {
  /** Of its MachineSet: `namespace/name`. */
  key: string | undefined;
  /** As many as there are to be, or as there are: the larger, since both get what a set brings. */
  machines: number;
  /** As many as there are. */
  there: number;
  /** Undefined: it is new, or its former labels are not known here. */
  before: Selected | undefined;
  /** Undefined: the commit leaves it out, so that its machines go at their own pace. */
  after: Selected | undefined;
}

export interface Members {
  count: number;
  /** Machines of the cluster that are in no MachineSet of the commit, so that their labels are not known here: the set may select them too. */
  unknown: number;
}

/** `before`: what the cluster has of its units now, as far as it can be had here. `after`: all that the commit has there. */
export function groupsIn(
  before: readonly KubeObject[],
  after: readonly { objects: readonly KubeObject[] }[],
  cluster: Cluster | undefined,
): MachineGroup[] {
  const reported = new Map((cluster?.status?.machines?.sets ?? []).map((each) => [each.set, each]));
  const objects = after.flatMap((unit) => unit.objects);
  const machines = objects.flatMap((object): MachineGroup[] =>
    object.apiVersion === API_VERSION && object.kind === Machines.kind
      ? [{ key: undefined, machines: 1, there: 1, before: undefined, after: Machines.parse(object) }]
      : [],
  );
  const [former, declared] = [setsIn(before), setsIn(objects)];
  const sets = [...new Set([...former.keys(), ...declared.keys()])].map((key): MachineGroup => {
    const [was, is] = [former.get(key), declared.get(key)];
    const cell = reported.get(key);
    const there = cell?.replicas ?? was?.replicas ?? 0;
    const wanted = is?.replicas ?? cell?.wanted ?? 0;
    return { key, machines: Math.max(there, is === undefined ? 0 : wanted), there, before: was?.machine, after: is?.machine };
  });
  return [...machines, ...sets];
}

export function membersOf(set: KubeObject, groups: readonly MachineGroup[], cluster: Cluster | undefined): Members {
  const parsed = MachineComponentSets.parse(set);
  const its = groups.filter(({ before, after }) => [before, after].some((each) => each !== undefined && selects(parsed, each)));
  const known = groups.reduce((sum, { there }) => sum + there, 0);
  return {
    count: its.reduce((sum, { machines }) => sum + machines, 0),
    unknown: Math.max(0, (cluster?.status?.machines?.total ?? 0) - known),
  };
}

/** Of those machines, as many as the set selects by their new labels and did not by those of before. */
export function joiningOf(set: KubeObject, groups: readonly MachineGroup[]): number {
  const parsed = MachineComponentSets.parse(set);
  const its = groups.filter(
    ({ before, after }) => before !== undefined && after !== undefined && selects(parsed, after) && !selects(parsed, before),
  );
  return its.reduce((sum, { there }) => sum + there, 0);
}

function setsIn(objects: readonly KubeObject[]): Map<string, { replicas: number | undefined; machine: Selected }> {
  return new Map(
    objects.flatMap((object) => {
      if (object.apiVersion !== API_VERSION || object.kind !== MachineSets.kind) return [];
      const { metadata, spec } = MachineSets.parse(object);
      const { namespace = '', name } = metadata;
      // Any machine of the set, as far as selectors see it.
      const labels = spec.template?.metadata?.labels ?? {};
      const machine: Selected = { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace, name, labels }, spec: {} };
      return [[`${namespace}/${name}`, { replicas: spec.replicas, machine }] as const];
    }),
  );
}
