/** What a rendered commit changes, against what is wanted and recorded now; or why that cannot be judged. Pure but for the renderings of earlier commits, which are asked for. */
import type { Bundles } from '../bundles.ts';
import { pendingIn } from '../deletions/pending.ts';
import { refuseGroupChanges } from '../group-changes.ts';
import { isUncounted, machinesOf, replicasOf } from '../going.ts';
import { carriedBy, countedBy, removingBy, type PlanInput } from '../plan.ts';
import { withoutCommits } from '../wanted.ts';
import { REMOVAL } from '../records.ts';
import { refuseReleaseChanges } from '../release-changes.ts';
import type { RenderedCommit } from './checkout.ts';
import type { FleetView } from './observe.ts';
import { restoresIn } from './restore.ts';

export interface Renderings {
  bundles: Bundles;
  /** A commit of before, rendered again, where its content is not kept any more. */
  render: (commit: string) => Promise<RenderedCommit>;
}

export async function planInput(view: FleetView, rendered: RenderedCommit, { bundles, render }: Renderings): Promise<PlanInput> {
  const { fleet, rollouts, clusters, recorded, wanted } = view;
  const { name } = fleet.metadata;
  const again = async (commit: string) => (await render(commit)).clusters;
  await refuseGroupChanges({ clusters: rendered.clusters, recorded, wanted, bundles });
  await refuseReleaseChanges({ clusters: rendered.clusters, recorded, wanted, rollouts, bundles });
  const replicas = await replicasOf(rendered.clusters, contentBefore(view), bundles, again);
  const machines = machinesOf(clusters, (cluster, unit) => {
    const isOurs = recorded.get(cluster)?.some((each) => each.unit === unit && each.fleet === name) === true;
    return isOurs && wanted.get(cluster)?.has(unit) !== true;
  });
  const uncounted = new Set(clusters.filter(isUncounted).map(({ metadata }) => metadata.name));
  return {
    fleet,
    rendered: digestsOf(rendered),
    wanted: withoutCommits(wanted),
    carried: carriedBy(rollouts),
    removing: removingBy(name, rollouts, recorded),
    counted: countedBy(rollouts),
    labels: new Map(rendered.clusters.map((cluster) => [cluster.name, cluster.object.metadata.labels ?? {}])),
    replicas,
    machines,
    pending: pendingIn({ fleet: name, rollouts, recorded, machines, uncounted, replicas }),
    there: (cluster, unit) => {
      const records = recorded.get(cluster) ?? [];
      const { digest, begun } = records.find((each) => each.unit === unit) ?? {};
      // Without any record it may be that they were lost.
      return records.length === 0 ? undefined : [digest, begun].flatMap((each) => (each === undefined || each === REMOVAL ? [] : each));
    },
    restores: restoresIn(name, clusters, recorded),
    given: (cluster) =>
      (recorded.get(cluster) ?? []).map(({ unit, digest, begun, verified = [] }) => ({
        unit,
        digests: [digest, begun, ...verified.map((each) => each.digest)].flatMap((each) => each ?? []),
      })),
    commitOf: (cluster, unit) => wanted.get(cluster)?.get(unit)?.commit,
  };
}

/** Every content that a cluster may have of a unit now, each with the commit that renders it. */
function contentBefore({ wanted, recorded }: FleetView): { unit: string; digest: string; commit: string | undefined }[] {
  const records = [...recorded.values()].flat();
  return [
    ...[...wanted.values()].flatMap((units) => [...units].map(([unit, each]) => ({ unit, ...each }))),
    ...records.flatMap(({ unit, digest, commit }) => (digest === undefined ? [] : [{ unit, digest, commit }])),
    // Only how many machines they were: where that is lost it is not rendered for.
    ...records.flatMap(({ unit, verified = [] }) => verified.map(({ digest }) => ({ unit, digest, commit: undefined }))),
  ];
}

function digestsOf(rendered: RenderedCommit): Map<string, Map<string, string>> {
  return new Map(rendered.clusters.map((cluster) => [cluster.name, new Map(cluster.units.map((unit) => [unit.key, unit.digest]))]));
}
