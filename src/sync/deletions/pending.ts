/**
 * What commits in force want of MachineSets, and has not begun or ended in a cluster: it was judged with so many machines, and its cell may have made more since
 * (docs/protocols.md#e9). Pure.
 */
import { isUnitOf } from '../../api/unit.ts';
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { Rollout, RolloutUnit } from '../../api/rollout.ts';
import { ownersOf } from '../plan.ts';
import { REMOVAL } from '../records.ts';
import { isGone } from '../soak.ts';
import { isUncounted, machinesOf, type CellMachines, type ReplicasByDigest } from '../going.ts';

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
  /** Clusters that have more sets than are reported (`isUncounted`). */
  uncounted: ReadonlySet<string>;
  replicas: ReplicasByDigest;
}

/** By cluster and unit. */
export type PendingByCluster = ReadonlyMap<string, ReadonlyMap<string, Pending>>;

export function pendingIn(input: PendingInput): PendingByCluster {
  const found = new Map<string, Map<string, Pending>>();
  for (const [unit, { clusters }] of ownersOf(input.rollouts)) {
    if (!isUnitOf(unit, MachineSets)) continue;
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
  const isOurs = record?.fleet === input.fleet;
  const had = isOurs ? machinesReported(input, placement, unit, record) : 0;
  if (!isOurs || atMost === undefined || had <= atMost) return { atMost, late: undefined };
  const given = largestGiven(input, record);
  // Then no record names any more what the cell has.
  const digest = given === placement.digest ? undefined : given;
  return { atMost, late: { digest, isCounted: digest === undefined || input.replicas.has(digest) } };
}

function isWhole({ digest }: Placement, record: UnitStatus | undefined): boolean {
  if (digest === undefined) return record === undefined || isGone(record);
  return record?.digest === digest && record.begun === undefined;
}

/** Without those that go already for a number of the hub. */
function machinesReported(input: PendingInput, { name, digest: target }: Placement, unit: string, record: UnitStatus): number {
  const unknown = input.uncounted.has(name) ? Infinity : 0;
  const { replicas = unknown, wanted = unknown } = input.machines.get(name)?.sets.get(unit) ?? {};
  const given = largestGiven(input, record);
  const most = given === undefined ? Infinity : numberOf(input, given);
  // Where the target has begun, its cell may have what had only begun before it.
  return Math.min(replicas, record.begun === (target ?? REMOVAL) ? Math.max(most, wanted) : most);
}

/** Of what its cell was given, wholly or in part, what has the largest number: what only began may be there, since its answer can be lost. */
function largestGiven(input: PendingInput, { digest, begun }: UnitStatus): string | undefined {
  const given = [digest, begun].flatMap((each) => (each === undefined || each === REMOVAL ? [] : each));
  return given.toSorted((a, b) => (numberOf(input, a) < numberOf(input, b) ? 1 : -1))[0];
}

const numberOf = ({ replicas }: PendingInput, digest: string): number => replicas.get(digest) ?? Infinity;

/**
 * Sets that may have too many machines for what is pending, with their numbers, as one text to compare; undefined: none. Of cells that the hub reaches, as `pendingIn`
 * judges them: what a cell reported before it was away has been judged by nothing.
 */
export function lateText(rollouts: readonly Rollout[], clusters: readonly Cluster[]): string | undefined {
  const reports = new Map(clusters.map((cluster) => [cluster.metadata.name, cluster]));
  const machines = machinesOf(clusters, () => false);
  const late = [...ownersOf(rollouts)].flatMap(([unit, { clusters: placements }]) =>
    placements.flatMap((placement) => {
      if (placement.atMost === undefined) return [];
      const cluster = reports.get(placement.name);
      const record = cluster?.status?.units?.find((each) => each.unit === unit);
      if (cluster === undefined || isWhole(placement, record)) return [];
      const replicas = isUncounted(cluster) ? Infinity : (machines.get(placement.name)?.sets.get(unit)?.replicas ?? 0);
      return replicas <= placement.atMost ? [] : [`${placement.name} ${unit} ${placement.atMost} ${replicas}`];
    }),
  );
  return late.length === 0 ? undefined : late.sort().join('\n');
}
