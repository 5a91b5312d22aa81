import type { Fleet, Stage } from '../api/fleet.ts';
import type { Rollout, RolloutUnit } from '../api/rollout.ts';
import { sha256Hex } from '../api/digest.ts';
import { matchesLabels } from '../api/selector.ts';
import { syncError } from './errors.ts';
import { machinesGoing, type ReplicasByDigest } from './going.ts';

/** What one commit renders to, reduced to digests: cluster → unit → digest. */
export type Digests = ReadonlyMap<string, ReadonlyMap<string, string>>;

export interface PlanInput {
  fleet: Fleet;
  /** Digests of the commit. Clusters that it does not declare are left alone: absence is not removal. */
  rendered: Digests;
  /** Digests wanted before this commit: of the newest rollout that names a unit, else as recorded. */
  wanted: Digests;
  /** Labels of the clusters that the commit declares. */
  labels: ReadonlyMap<string, Record<string, string>>;
  /** Of MachineSets, before and after; what is not in it is not known, and counts as the most. */
  replicas?: ReplicasByDigest;
  /** By cluster: how many machines there are, where that is known. */
  most?: ReadonlyMap<string, number>;
}

export interface Plan {
  units: RolloutUnit[];
  stages: Rollout['spec']['stages'];
  /** Units that the commit no longer declares but that are never deleted: Namespaces. */
  kept: { unit: string; cluster: string }[];
}

/** Splits what differs into units, or throws a coded refusal; an empty plan means that nothing differs. */
export function plan({ fleet, rendered, wanted, labels, replicas = new Map(), most = new Map() }: PlanInput): Plan {
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
          next: 'an empty render never deletes: remove objects one commit at a time, within spec.prune.maxDeletions of the Fleet',
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
  const units: RolloutUnit[] = [];
  let deletions = 0;
  let machines = 0;
  const going: string[] = [];
  for (const unit of unitsIn(rendered, wanted)) {
    const clusters: RolloutUnit['clusters'] = [];
    let changed = false;
    for (const [cluster, digests] of rendered) {
      const digest = digests.get(unit);
      const from = wanted.get(cluster)?.get(unit);
      if (digest === undefined && from === undefined) continue;
      if (digest === undefined && unit.startsWith('Namespace/')) {
        kept.push({ unit, cluster });
        continue;
      }
      if (digest !== from) changed = true;
      if (digest === undefined) deletions += 1;
      const leaving = machinesGoing(unit, from, digest, replicas, most.get(cluster));
      machines += leaving;
      if (leaving > 0) going.push(`${unit} in ${cluster}: ${countIn(from, replicas)} → ${countIn(digest, replicas)}`);
      clusters.push({ name: cluster, ...(digest === undefined ? {} : { digest }), ...(from === undefined ? {} : { from }) });
    }
    // A unit that changes anywhere is taken over whole, so that one rollout has all of it.
    if (changed) units.push({ unit, clusters: clusters.sort(byName) });
  }
  const budget = fleet.spec.prune?.maxDeletions ?? 3;
  if (deletions + machines > budget) {
    const gone = units.filter((unit) => unit.clusters.some((cluster) => cluster.digest === undefined)).map((unit) => unit.unit);
    const named = [...going, ...gone.filter((unit) => !going.some((line) => line.startsWith(`${unit} `)))];
    const what = [...(deletions === 0 ? [] : [`${deletions} objects`]), ...(machines === 0 ? [] : [`${machines} machines`])].join(' and ');
    throw syncError(
      'PruneBudget',
      `the commit would delete ${what}, ${budget} are allowed: ${named.slice(0, 5).join(', ')}${named.length > 5 ? ', …' : ''}; nothing was changed`,
      {
        next: 'delete fewer at a time (to take back a version alone, commit it with `replicas` as they are now), or raise spec.prune.maxDeletions of the Fleet if this is meant',
      },
    );
  }
  return { units: units.sort((a, b) => (a.unit < b.unit ? -1 : 1)), stages, kept };
}

/** As it is told: how many machines a digest wants. */
function countIn(digest: string | undefined, replicas: ReplicasByDigest): string {
  if (digest === undefined) return '0';
  return String(replicas.get(digest) ?? 'unknown');
}

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);

function unitsIn(...digests: Digests[]): Set<string> {
  return new Set(digests.flatMap((each) => [...each.values()].flatMap((units) => [...units.keys()])));
}

/** Members of each stage in the order they go: by a hash seeded with the fleet's name, so that not always the same cluster is first. */
export function stagesOf(fleet: Fleet, labels: ReadonlyMap<string, Record<string, string>>): Rollout['spec']['stages'] {
  const taken = new Set<string>();
  const order = (cluster: string): string => sha256Hex(`${fleet.metadata.name}/${cluster}`);
  return fleet.spec.stages.map((stage: Stage) => {
    const clusters = [...labels]
      .filter(([cluster, its]) => !taken.has(cluster) && matchesLabels(stage.clusterSelector, its))
      .map(([cluster]) => cluster);
    for (const cluster of clusters) taken.add(cluster);
    return {
      name: stage.name,
      clusters: clusters.sort((a, b) => (order(a) < order(b) ? -1 : 1)),
      soakSeconds: stage.soakSeconds ?? 0,
      maxClusters: stage.maxClusters ?? 1,
    };
  });
}

/** What is wanted now: the newest rollout's word on each (unit, cluster), else what is recorded as applied. */
export function wantedOf(
  fleet: string,
  rollouts: readonly Rollout[],
  recorded: ReadonlyMap<string, readonly { unit: string; fleet: string; digest?: string }[]>,
): Map<string, Map<string, string>> {
  const wanted = new Map<string, Map<string, string>>();
  const unitsOf = (cluster: string): Map<string, string> => {
    const units = wanted.get(cluster) ?? new Map<string, string>();
    wanted.set(cluster, units);
    return units;
  };
  for (const [cluster, records] of recorded) {
    for (const record of records)
      if (record.fleet === fleet && record.digest !== undefined) unitsOf(cluster).set(record.unit, record.digest);
  }
  for (const rollout of rollouts) {
    for (const { unit, clusters } of rollout.spec.units) {
      for (const { name, digest } of clusters) {
        if (digest === undefined) unitsOf(name).delete(unit);
        else unitsOf(name).set(unit, digest);
      }
    }
  }
  return wanted;
}
