/**
 * What commits in force want of MachineSets, and has not begun or ended in a cluster: it was judged with so many machines, and its cell may have made more since
 * (docs/protocols.md#e9). Pure.
 */
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { Rollout, RolloutUnit } from '../../api/rollout.ts';
import { ownersOf } from '../plan.ts';
import { REMOVAL } from '../records.ts';
import { isGone } from '../soak.ts';
import type { CellMachines, ReplicasByDigest } from '../going.ts';

export interface Pending {
  /** It begins where no more machines are there; undefined: however many are, by a Rollout of an earlier version. */
  atMost: number | undefined;
  /** More are there: it is judged again, as a change from what is there. `isCounted`: the number of that content is known. */
  late: { digest: string | undefined; isCounted: boolean } | undefined;
}

type Placement = RolloutUnit['clusters'][number];

export interface PendingInput {
  fleet: string;
  rollouts: readonly Rollout[];
  recorded: ReadonlyMap<string, readonly UnitStatus[]>;
  machines: ReadonlyMap<string, CellMachines>;
  replicas: ReplicasByDigest;
}

/** By cluster and unit. */
export type PendingByCluster = ReadonlyMap<string, ReadonlyMap<string, Pending>>;

export function pendingIn(input: PendingInput): PendingByCluster {
  const found = new Map<string, Map<string, Pending>>();
  for (const [unit, { clusters }] of ownersOf(input.rollouts)) {
    if (!isMachineSet(unit)) continue;
    for (const placement of clusters) {
      const pending = pendingAt(input, unit, placement);
      if (pending === undefined) continue;
      const its = found.get(placement.name) ?? new Map<string, Pending>();
      found.set(placement.name, its.set(unit, pending));
    }
  }
  return found;
}

function pendingAt(input: PendingInput, unit: string, placement: Placement): Pending | undefined {
  const record = input.recorded.get(placement.name)?.find((each) => each.unit === unit);
  if (isWhole(placement, record)) return undefined;
  const { atMost } = placement;
  const had = record?.fleet === input.fleet ? machinesHad(input, placement.name, unit, record) : 0;
  if (atMost === undefined || had <= atMost) return { atMost, late: undefined };
  const digest = record?.digest;
  return { atMost, late: { digest, isCounted: digest === undefined || input.replicas.has(digest) } };
}

const isMachineSet = (unit: string): boolean => unit.startsWith(`${MachineSets.kind}/`);

function isWhole({ digest }: Placement, record: UnitStatus | undefined): boolean {
  if (digest === undefined) return record === undefined || isGone(record);
  return record?.digest === digest && record.begun === undefined;
}

/** Without those that go already for a number of the hub. */
function machinesHad({ machines, replicas }: PendingInput, cluster: string, unit: string, { digest, begun }: UnitStatus): number {
  const there = machines.get(cluster)?.sets.get(unit)?.replicas ?? 0;
  const given = [digest, begun].flatMap((each) => (each === undefined || each === REMOVAL ? [] : [replicas.get(each) ?? Infinity]));
  return Math.min(there, given.length === 0 ? Infinity : Math.max(...given));
}

/** Sets that may have too many machines for what is pending, with their numbers, as one text to compare; undefined: none. */
export function lateText(rollouts: readonly Rollout[], clusters: readonly Cluster[]): string | undefined {
  const reports = new Map(clusters.map((cluster) => [cluster.metadata.name, cluster]));
  const late = [...ownersOf(rollouts)].flatMap(([unit, { clusters: placements }]) =>
    placements.flatMap((placement) => {
      if (placement.atMost === undefined) return [];
      const { status } = reports.get(placement.name) ?? {};
      const set = status?.machines?.sets?.find((each) => `${MachineSets.kind}/${each.set}` === unit);
      const record = status?.units?.find((each) => each.unit === unit);
      if (set === undefined || set.replicas <= placement.atMost || isWhole(placement, record)) return [];
      return [`${placement.name} ${unit} ${placement.atMost} ${set.replicas}`];
    }),
  );
  return late.length === 0 ? undefined : late.sort().join('\n');
}
