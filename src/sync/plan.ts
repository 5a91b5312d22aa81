import { Namespaces } from '../api/builtin.ts';
import { isUnitOf } from '../api/unit.ts';
import type { Fleet, Stage } from '../api/fleet.ts';
import type { Rollout, RolloutUnit } from '../api/rollout.ts';
import { sha256Hex } from '../api/digest.ts';
import { MachineSets } from '../api/machine-set.ts';
import { matchesLabels } from '../api/selector.ts';
import type { Change, HeldBack } from './deletions/change.ts';
import type { Pending, PendingByCluster } from './deletions/pending.ts';
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
  /** Of a MachineSet, what was accepted before and has not begun or ended there (`pendingIn`); absent: nothing. */
  pending?: PendingByCluster;
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
  for (const unit of unitsIn(rendered, wanted, input.pending ?? new Map())) {
    const its: Change[] = [];
    for (const [cluster, digests] of rendered) {
      const digest = digests.get(unit);
      const late = lateOf(input, cluster, unit, digest);
      const from = late === undefined ? wanted.get(cluster)?.get(unit) : late.digest;
      if (digest === undefined && from === undefined) {
        if (input.removing?.(cluster, unit) === true) absent.set(unit, [...(absent.get(unit) ?? []), cluster]);
        continue;
      }
      if (digest === undefined && isUnitOf(unit, Namespaces)) {
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
    const found = unitOf(input, unit, its, held, absent.get(unit) ?? []);
    if (found !== undefined) units.push(found);
  }
  refuseTooLarge(fleet, { units, stages });
  return { units: units.sort((a, b) => (a.unit < b.unit ? -1 : 1)), stages, kept, heldBack };
}

/** A unit that changes anywhere is taken over whole, so that one rollout has all of it; undefined: it changes nowhere. */
function unitOf(
  input: PlanInput,
  unit: string,
  its: readonly Change[],
  held: ReadonlySet<Change>,
  absent: readonly string[],
): RolloutUnit | undefined {
  // A set that only its cell has, and that is held back, is no part of the commit: to name it without a digest would remove it.
  const parts = its.filter((change) => !held.has(change) || change.from !== undefined || input.removing?.(change.cluster, unit) === true);
  if (!parts.some((change) => !isAsBefore(change, held) || input.carried?.(change.cluster, unit) === false)) return undefined;
  const clusters = parts.map((change) => placementOf(input, change, held));
  const removed = absent.map((name) => ({ name, ...carriedOver(input, name, unit), ...carriedMost(input, name, unit) }));
  return { unit, clusters: [...clusters, ...removed].sort(byName) };
}

function placementOf(input: PlanInput, change: Change, held: ReadonlySet<Change>): RolloutUnit['clusters'][number] {
  const { unit, cluster: name, from } = change;
  const isKept = held.has(change) && !waitsThere(change);
  const digest = isKept ? from : change.digest;
  const commit = isKept ? input.commitOf?.(name, unit) : undefined;
  const waits = change.late !== undefined && isAsBefore(change, held);
  return {
    name,
    ...(digest === undefined ? {} : { digest }),
    ...(from === undefined ? {} : { from }),
    ...(commit === undefined ? {} : { commit }),
    ...(waits ? carriedOver(input, name, unit) : countedFor(input, change, digest)),
    ...atMostFor(input, change, held),
  };
}

function changeOf(input: PlanInput, unit: string, cluster: string, from: string | undefined, digest: string | undefined): Change {
  const by = countedBefore(input, unit, cluster, digest);
  const late = lateOf(input, cluster, unit, digest);
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
    ...(late === undefined ? {} : { late: { wanted: input.wanted.get(cluster)?.get(unit) } }),
  };
}

/** What has too many machines to begin. Content whose number is not known is judged by what its cell is to have, where this commit wants other content. */
function lateOf({ pending, wanted }: PlanInput, cluster: string, unit: string, digest: string | undefined): Pending['late'] {
  const late = pending?.get(cluster)?.get(unit)?.late;
  return late?.isCounted === true || digest === wanted.get(cluster)?.get(unit) ? late : undefined;
}

/**
 * Whether what is held back comes into force all the same, and waits in the cell for the machines that are too many: it would begin at once, and what is there is not
 * made as a whole, so that the cell would go on making machines that this commit does not want.
 */
const waitsThere = ({ unmade, late }: Change): boolean => unmade > 0 || late !== undefined;

/** Whether a change is none: it has the content that was wanted before, and waits for nothing that this commit allows. */
function isAsBefore(change: Change, held: ReadonlySet<Change>): boolean {
  const { from, digest, late } = change;
  if (held.has(change)) return late === undefined ? !waitsThere(change) : digest === late.wanted;
  return late === undefined && digest === from;
}

/** Up to how many machines may be there where this begins. */
function atMostFor(input: PlanInput, change: Change, held: ReadonlySet<Change>): { atMost?: number } {
  const { unit, cluster, from, digest, late } = change;
  if (!unit.startsWith(`${MachineSets.kind}/`)) return {};
  if (isAsBefore(change, held)) return carriedMost(input, cluster, unit);
  const by = countedBefore(input, unit, cluster, digest);
  const number = digest === undefined ? 0 : by.replicas.get(digest);
  // Left out: the set keeps what it has.
  const after = number === null ? MOST : (number ?? 0);
  if (held.has(change)) return { atMost: Math.min(MOST, after) };
  const judged = Math.min(MOST, Math.max(machinesThere(from, by), after));
  const pending = late === undefined ? input.pending?.get(cluster)?.get(unit) : undefined;
  if (pending === undefined) return { atMost: judged };
  return pending.atMost === undefined ? {} : { atMost: Math.max(judged, pending.atMost) };
}

function carriedMost({ pending }: Pick<PlanInput, 'pending'>, cluster: string, unit: string): { atMost?: number } {
  const atMost = pending?.get(cluster)?.get(unit)?.atMost;
  return atMost === undefined ? {} : { atMost };
}

function countedBefore(input: PlanInput, unit: string, cluster: string, digest: string | undefined): Counted & { restores: boolean } {
  const { total, sets } = input.machines?.get(cluster) ?? {};
  const isLate = lateOf(input, cluster, unit, digest) !== undefined;
  const cell = sets?.get(unit);
  return {
    replicas: input.replicas ?? new Map(),
    most: total,
    there: input.there?.(cluster, unit),
    // What waits lets none go.
    cell: cell === undefined || !isLate ? cell : { ...cell, removing: false },
    restores: isLate || input.restores?.(cluster, unit, digest) === true,
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

function unitsIn(...digests: ReadonlyMap<string, ReadonlyMap<string, unknown>>[]): Set<string> {
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
