/** What a hub has recorded and a commit renders, by name: a plan asks for each unit of each cluster. Pure. */
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import type { Unit } from '../../api/unit.ts';
import type { RenderedCommit } from '../../sync/fleet/checkout.ts';
import type { FleetView } from '../../sync/fleet/observe.ts';

type RenderedUnit = RenderedCommit['clusters'][number]['units'][number];

export interface Known {
  cluster(name: string): Cluster | undefined;
  record(cluster: string, unit: string): UnitStatus | undefined;
  /** All that the commit has there. */
  units(cluster: string): readonly Unit[];
  rendered(cluster: string, unit: string): RenderedUnit | undefined;
  /** Whether the record of any cluster revokes the digest. */
  isRevoked(unit: string, digest: string): boolean;
  /** Clusters that halted the digest, each with its message. */
  halts(unit: string, digest: string): readonly string[];
}

export function knownOf({ clusters }: FleetView, commit: RenderedCommit): Known {
  const byName = new Map(clusters.map((cluster) => [cluster.metadata.name, cluster]));
  const records = new Map(
    clusters.map(({ metadata, status }) => [metadata.name, new Map((status?.units ?? []).map((each) => [each.unit, each]))]),
  );
  const units = new Map(commit.clusters.map((cluster) => [cluster.name, cluster.units]));
  const rendered = new Map(commit.clusters.map((cluster) => [cluster.name, new Map(cluster.units.map((unit) => [unit.key, unit]))]));
  const revoked = new Set<string>();
  const halts = new Map<string, string[]>();
  for (const { metadata, status } of clusters) {
    for (const record of status?.units ?? []) {
      for (const digest of record.revoked ?? []) revoked.add(keyOf(record.unit, digest));
      if (record.halt === undefined) continue;
      const key = keyOf(record.unit, record.halt.digest);
      halts.set(key, [...(halts.get(key) ?? []), `${metadata.name}: ${record.halt.message}`]);
    }
  }
  return {
    cluster: (name) => byName.get(name),
    record: (cluster, unit) => records.get(cluster)?.get(unit),
    units: (cluster) => units.get(cluster) ?? [],
    rendered: (cluster, unit) => rendered.get(cluster)?.get(unit),
    isRevoked: (unit, digest) => revoked.has(keyOf(unit, digest)),
    halts: (unit, digest) => halts.get(keyOf(unit, digest)) ?? [],
  };
}

const keyOf = (unit: string, digest: string): string => `${unit} ${digest}`;
