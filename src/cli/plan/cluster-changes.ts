/** What a commit changes of the Clusters themselves: labels, pauses, Secrets. Pure. */
import type { Cluster } from '../../api/cluster.ts';
import type { RenderedCommit } from '../../sync/fleet/checkout.ts';
import { fieldChanges, type FieldChange } from './fields.ts';

export interface ClusterChanges {
  cluster: string;
  change: 'Add' | 'Change';
  fields: FieldChange[];
}

/** One for each Cluster that the commit declares. `accepted`: what the hub has applied of Clusters; a field that only another manager wrote stays. */
export function clusterChanges(
  rendered: RenderedCommit,
  accepted: RenderedCommit | undefined,
  clusters: readonly Cluster[],
): (ClusterChanges & { isPaused: boolean })[] {
  const stored = new Map(clusters.map((cluster) => [cluster.metadata.name, cluster]));
  const former = new Map((accepted?.clusters ?? []).map(({ name, object }) => [name, object]));
  return rendered.clusters.map(({ name, object }) => {
    const [is, was] = [stored.get(name), former.get(name)];
    if (is === undefined) return { cluster: name, change: 'Add', fields: [], isPaused: object.spec.paused === true };
    const written = fieldChanges(specOf(is), specOf(object)).filter(({ to }) => to !== undefined);
    const removed = was === undefined ? [] : fieldChanges(specOf(was), specOf(object)).filter(({ to }) => to === undefined);
    const isPaused = object.spec.paused ?? (was?.spec.paused === undefined && is.spec.paused === true);
    return { cluster: name, change: 'Change', fields: [...written, ...removed], isPaused };
  });
}

function specOf(cluster: Cluster): unknown {
  // Annotations change nothing that the hub does.
  const { metadata, spec } = cluster;
  return { metadata: { labels: metadata.labels ?? {} }, spec };
}
