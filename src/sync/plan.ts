import type { Fleet, Stage } from '../api/fleet.ts';
import type { Rollout, RolloutUnit } from '../api/rollout.ts';
import { sha256Hex } from '../api/digest.ts';
import { MachineSets } from '../api/machine-set.ts';
import { matchesLabels } from '../api/selector.ts';
import type { Change, HeldBack } from './deletions/change.ts';
import { judgeDeletions } from './deletions/judge.ts';
import { syncError } from './errors.ts';
import { refuseTooLarge } from './rollout-limits.ts';
import { machinesGoing, machinesThere, MOST, type CellMachines, type Counted, type ReplicasByDigest } from './going.ts';

/** What one commit renders to, reduced to digests: cluster → unit → digest. */
export type DigestsByCluster = ReadonlyMap<string, ReadonlyMap<string, string>>;

export interface PlanInput {
  fleet: Fleet;
  /** Digests of the commit. Clusters that it does not declare are left alone: absence is not removal. */
  rendered: DigestsByCluster;
  /** Digests wanted before this commit: of the newest rollout that names a unit, else as recorded. */
  wanted: DigestsByCluster;
  /** Whether a rollout carries the unit there (`carriedBy`); absent: everywhere. What none carries is taken over, also where nothing differs. */
  carried?(cluster: string, unit: string): boolean;
  /** Whether an earlier commit removes the unit there, and that goes on or soaks (`removingBy`): what takes the unit over takes that along; absent: nowhere. */
  removing?(cluster: string, unit: string): boolean;
  /** Labels of the clusters that the commit declares. */
  labels: ReadonlyMap<string, Record<string, string>>;
  /** Of MachineSets, before and after; what is not in it is not known, and counts as the most. */
  replicas?: ReplicasByDigest;
  /** By cluster: what a reached cell reports; a cluster that is not in it is not known, and lets no machine go. */
  machines?: ReadonlyMap<string, CellMachines>;
  /** What clusters were given of a unit, wholly or in part: digests; undefined: not known. */
  there?(cluster: string, unit: string): readonly string[] | undefined;
  /** Whether a change to this digest (undefined: a removal) takes back at once what was never proven in the cluster; absent: nowhere. */
  restores?(cluster: string, unit: string, digest: string | undefined): boolean;
  /** What a cluster was ever given of its units, as far as it is recorded: digests, also of units that nothing wants any more. */
  given?: (cluster: string) => readonly { unit: string; digests: readonly string[] }[];
  /** Up to how many machines what is wanted of a set was counted before (`countedBy`). */
  counted?(cluster: string, unit: string): number | undefined;
  /** The commit that renders what was wanted before this one. */
  commitOf?(cluster: string, unit: string): string | undefined;
}

export interface Plan {
  units: RolloutUnit[];
  stages: Rollout['spec']['stages'];
  /** Units that the commit no longer declares but that are never deleted: Namespaces. */
  kept: { unit: string; cluster: string }[];
  /** MachineSets that keep all of their former content in a cluster, since too many machines would go; undefined: none. */
  heldBack: HeldBack | undefined;
}

/**
 * Splits what differs into units, or throws a coded refusal; an empty plan means that nothing differs.
 *
 * More deletions of objects than a limit allows refuse the commit. Where it is the machines of its MachineSets that are too many, those sets alone
 * are held back, in the clusters that the limit is of: all else goes on, since it may be a revert that cannot wait (docs/protocols.md#e9).
 */
export function plan(input: PlanInput): Plan {
  const { fleet, rendered, wanted, labels, replicas = new Map(), machines = new Map() } = input;
  if (rendered.size === 0)
    throw syncError('EmptyRender', 'the fleet declares no cluster; nothing was changed', {
      next: `declare a cluster in ${fleet.spec.entry ?? 'fleet/main.ts'}`,
    });
  const stages = stagesOf(fleet, labels);
  for (const [cluster, units] of rendered) {
    if (units.size === 0 && (wanted.get(cluster)?.size ?? 0) > 0) {
      throw syncError(
        'EmptyRender',
        `the fleet renders no object at all for cluster "${cluster}", which has ${wanted.get(cluster)?.size} units; nothing was changed`,
        {
          next: 'an empty render never deletes: remove objects one commit at a time, within the limits of its stage in the Fleet (docs/fleet.md)',
        },
      );
    }
    if (units.size > 0 && !stages.some((stage) => stage.clusters.includes(cluster))) {
      throw syncError('NoStage', `cluster "${cluster}" is in no stage of fleet "${fleet.metadata.name}"; nothing was changed`, {
        next: `give it labels that one of these select: ${fleet.spec.stages.map((stage) => `${stage.name} ${JSON.stringify(stage.clusterSelector)}`).join(', ')}`,
      });
    }
  }

  const kept: Plan['kept'] = [];
  const changes = new Map<string, Change[]>();
  const absent = new Map<string, string[]>();
  for (const unit of unitsIn(rendered, wanted)) {
    const its: Change[] = [];
    for (const [cluster, digests] of rendered) {
      const digest = digests.get(unit);
      const from = wanted.get(cluster)?.get(unit);
      if (digest === undefined && from === undefined) {
        if (input.removing?.(cluster, unit) === true) absent.set(unit, [...(absent.get(unit) ?? []), cluster]);
        continue;
      }
      if (digest === undefined && unit.startsWith('Namespace/')) {
        kept.push({ unit, cluster });
        continue;
      }
      its.push(changeOf(input, unit, cluster, from, digest));
    }
    changes.set(unit, its);
  }
  const { held, heldBack } = judgeDeletions({
    fleet,
    stages,
    changes: [...changes.values()].flat(),
    replicas,
    machines,
    ...(input.given === undefined ? {} : { given: input.given }),
  });

  const units: RolloutUnit[] = [];
  for (const [unit, its] of changes) {
    // A set that only its cell has, and that is held back, is no part of the commit: to name it without a digest would remove it.
    const parts = its.filter((change) => !held.has(change) || change.from !== undefined || input.removing?.(change.cluster, unit) === true);
    const clusters = parts.map((change): RolloutUnit['clusters'][number] => {
      const { cluster: name, from } = change;
      const digest = held.has(change) ? from : change.digest;
      const counted = countedFor(input, change, digest);
      const commit = held.has(change) ? input.commitOf?.(name, unit) : undefined;
      const base = { name, ...(digest === undefined ? {} : { digest }), ...(from === undefined ? {} : { from }) };
      return { ...base, ...(commit === undefined ? {} : { commit }), ...counted };
    });
    // A unit that changes anywhere is taken over whole, so that one rollout has all of it.
    const isDue = ({ name, digest, from }: RolloutUnit['clusters'][number]): boolean =>
      digest !== from || input.carried?.(name, unit) === false;
    if (clusters.some(isDue))
      units.push({
        unit,
        clusters: [...clusters, ...(absent.get(unit) ?? []).map((name) => ({ name, ...carriedOver(input, name, unit) }))].sort(byName),
      });
  }
  refuseTooLarge(fleet, { units, stages });
  return { units: units.sort((a, b) => (a.unit < b.unit ? -1 : 1)), stages, kept, heldBack };
}

function changeOf(input: PlanInput, unit: string, cluster: string, from: string | undefined, digest: string | undefined): Change {
  const by = countedBefore(input, unit, cluster, digest);
  const machines = machinesGoing(unit, from, digest, by);
  const recorded = machinesGoing(unit, from, digest, { ...by, cell: undefined });
  return {
    unit,
    cluster,
    digest,
    from,
    machines,
    unrecorded: Math.max(0, machines - recorded),
    unmade: by.restores ? Math.max(0, recorded - machines) : 0,
  };
}

function countedBefore(input: PlanInput, unit: string, cluster: string, digest: string | undefined): Counted & { restores: boolean } {
  const { total, sets } = input.machines?.get(cluster) ?? {};
  return {
    replicas: input.replicas ?? new Map(),
    most: total,
    there: input.there?.(cluster, unit),
    cell: sets?.get(unit),
    restores: input.restores?.(cluster, unit, digest) === true,
  };
}

/** Up to how many machines a set was counted for `digest`, which is its number of before where it is held back. What wants more lets none go. */
function countedFor(input: PlanInput, { unit, cluster, from, digest: wanted }: Change, digest: string | undefined): { machines?: number } {
  if (!unit.startsWith(`${MachineSets.kind}/`)) return {};
  const isChanged = wanted !== from && digest === wanted;
  if (!isChanged && input.counted?.(cluster, unit) !== undefined) return carriedOver(input, cluster, unit);
  const by = countedBefore(input, unit, cluster, digest);
  const there = machinesThere(from, isChanged ? by : { ...by, cell: undefined });
  const after = digest === undefined ? 0 : by.replicas.get(digest);
  // Left out: the set keeps what it has.
  return { machines: after === null ? MOST : Math.min(MOST, Math.max(there, after ?? 0)) };
}

function carriedOver({ counted }: Pick<PlanInput, 'counted'>, cluster: string, unit: string): { machines?: number } {
  const machines = counted?.(cluster, unit);
  return machines === undefined ? {} : { machines };
}

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);

function unitsIn(...digests: DigestsByCluster[]): Set<string> {
  return new Set(digests.flatMap((each) => [...each.values()].flatMap((units) => [...units.keys()])));
}

/** The first stage that selects a cluster with these labels. */
export function stageOf({ spec }: Fleet, labels: Record<string, string> | undefined): Stage | undefined {
  return spec.stages.find((stage) => matchesLabels(stage.clusterSelector, labels));
}

/** Members of each stage in the order they go: by a hash seeded with the fleet's name, so that not always the same cluster is first. */
export function stagesOf(fleet: Fleet, labels: ReadonlyMap<string, Record<string, string>>): Rollout['spec']['stages'] {
  const members = Map.groupBy(labels.keys(), (cluster) => stageOf(fleet, labels.get(cluster))?.name);
  const order = (cluster: string): string => sha256Hex(`${fleet.metadata.name}/${cluster}`);
  return fleet.spec.stages.map((stage: Stage) => {
    const clusters = members.get(stage.name) ?? [];
    return {
      name: stage.name,
      clusters: clusters.sort((a, b) => (order(a) < order(b) ? -1 : 1)),
      soakSeconds: stage.soakSeconds ?? 0,
      maxClusters: stage.maxClusters ?? 1,
    };
  });
}

/** By unit, the newest rollout that names it, and what it wants of it; an older one of the unit is superseded. */
export function ownersOf(rollouts: readonly Rollout[]): Map<string, { rollout: Rollout; clusters: RolloutUnit['clusters'] }> {
  return new Map(rollouts.flatMap((rollout) => rollout.spec.units.map(({ unit, clusters }) => [unit, { rollout, clusters }] as const)));
}

/** Whether the newest rollout that names a unit names the cluster too: one that had left the fleet when that rollout was made is carried by none. */
export function carriedBy(rollouts: readonly Rollout[]): (cluster: string, unit: string) => boolean {
  const clusters = new Map([...ownersOf(rollouts)].map(([unit, owner]) => [unit, new Set(owner.clusters.map(({ name }) => name))]));
  return (cluster, unit) => clusters.get(unit)?.has(cluster) === true;
}

/** Up to how many machines of a set the newest rollout that names it counted in the cluster. */
export function countedBy(rollouts: readonly Rollout[]): (cluster: string, unit: string) => number | undefined {
  const owners = ownersOf(rollouts);
  return (cluster, unit) => owners.get(unit)?.clusters.find(({ name }) => name === cluster)?.machines;
}

/**
 * Whether the newest rollout that names a unit removes it from the cluster, and that is not over: a record shows that something is there still, or since when it is
 * gone; or no hub has reported yet that nothing is there, so that what was decided before that rollout may begin there still.
 */
export function removingBy(
  fleet: string,
  rollouts: readonly Rollout[],
  recorded: ReadonlyMap<string, readonly { unit: string; fleet: string }[]>,
): (cluster: string, unit: string) => boolean {
  const owners = ownersOf(rollouts);
  return (cluster, unit) => {
    const owner = owners.get(unit);
    if (owner?.clusters.some(({ name, digest }) => name === cluster && digest === undefined) !== true) return false;
    const record = recorded.get(cluster)?.find((each) => each.unit === unit);
    return record === undefined ? phaseOf(owner.rollout, unit, cluster) !== 'Verified' : record.fleet === fleet;
  };
}

function phaseOf({ status }: Rollout, unit: string, cluster: string): string | undefined {
  const clusters = status?.units?.find((each) => each.unit === unit)?.clusters;
  return clusters?.find(({ name }) => name === cluster)?.phase;
}

/** What is wanted now: by the newest rollout that names the unit, else what is recorded as applied. */
export function wantedOf(
  fleet: string,
  rollouts: readonly Rollout[],
  recorded: ReadonlyMap<string, readonly { unit: string; fleet: string; digest?: string }[]>,
): Map<string, Map<string, string>> {
  return withoutCommits(wantedWithCommits(fleet, rollouts, recorded));
}

export interface Wanted {
  digest: string;
  /** That renders it; undefined: not known. */
  commit: string | undefined;
}

export function withoutCommits(wanted: ReadonlyMap<string, ReadonlyMap<string, Wanted>>): Map<string, Map<string, string>> {
  return new Map([...wanted].map(([cluster, units]) => [cluster, new Map([...units].map(([unit, { digest }]) => [unit, digest]))]));
}

export function wantedWithCommits(
  fleet: string,
  rollouts: readonly Rollout[],
  recorded: ReadonlyMap<string, readonly { unit: string; fleet: string; digest?: string; commit?: string }[]>,
): Map<string, Map<string, Wanted>> {
  const wanted = new Map<string, Map<string, Wanted>>();
  const unitsOf = (cluster: string): Map<string, Wanted> => {
    const units = wanted.get(cluster) ?? new Map<string, Wanted>();
    wanted.set(cluster, units);
    return units;
  };
  for (const [cluster, records] of recorded) {
    for (const record of records)
      if (record.fleet === fleet && record.digest !== undefined)
        unitsOf(cluster).set(record.unit, { digest: record.digest, commit: record.commit });
  }
  for (const [unit, { rollout, clusters }] of ownersOf(rollouts)) {
    for (const { name, digest, commit = rollout.spec.commit } of clusters) {
      if (digest === undefined) unitsOf(name).delete(unit);
      else unitsOf(name).set(unit, { digest, commit });
    }
  }
  return wanted;
}
