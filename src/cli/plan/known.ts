/** What a hub has recorded and a commit renders, by name: a plan asks for each unit of each cluster. Pure. */
import type { Cluster, UnitStatus } from '../../api/cluster.ts';
import type { Unit } from '../../api/unit.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { RenderedCommit } from '../../sync/fleet/checkout.ts';
import type { FleetView } from '../../sync/fleet/observe.ts';
import { REMOVAL } from '../../sync/records.ts';
import { isGone } from '../../sync/soak.ts';
import { groupsIn, type MachineGroup } from './members.ts';

type ContentOf = (digest: string) => readonly KubeObject[] | undefined;
type RenderedUnit = RenderedCommit['clusters'][number]['units'][number];

export interface KnownHub {
  cluster(name: string): Cluster | undefined;
  /** Of this Fleet. */
  record(cluster: string, unit: string): UnitStatus | undefined;
  /** Whether the hub has recorded anything of the cluster: where it has not, its records may be lost. */
  hasRecords(cluster: string): boolean;
  /** Another Fleet that has the unit there. */
  foreign(cluster: string, unit: string): string | undefined;
  /** Digests that machines may have of the unit: what is there, and what is begun over it. */
  there(cluster: string, unit: string): readonly string[];
  /** All machines of the cluster that are known here. */
  groups(cluster: string): readonly MachineGroup[];
  /** All that the commit has there. */
  units(cluster: string): readonly Unit[];
  rendered(cluster: string, unit: string): RenderedUnit | undefined;
  /** Whether the record of any cluster revokes the digest. */
  isRevoked(unit: string, digest: string): boolean;
  /** Clusters that halted the digest, each with its message. */
  halts(unit: string, digest: string): readonly string[];
}

export function knownOf({ fleet, clusters }: FleetView, commit: RenderedCommit, contentOf: ContentOf): KnownHub {
  const groups = new Map<string, MachineGroup[]>();
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
  const record = (cluster: string, unit: string): UnitStatus | undefined => {
    const found = records.get(cluster)?.get(unit);
    return found?.fleet === fleet.metadata.name ? found : undefined;
  };
  return {
    cluster: (name) => byName.get(name),
    record,
    hasRecords: (cluster) => (records.get(cluster)?.size ?? 0) > 0,
    foreign: (cluster, unit) => {
      const found = records.get(cluster)?.get(unit);
      return found === undefined || isGone(found) || found.fleet === fleet.metadata.name ? undefined : found.fleet;
    },
    there: (cluster, unit) => digestsOf(record(cluster, unit)),
    groups: (cluster) => {
      const known = groups.get(cluster);
      if (known !== undefined) return known;
      const before = [...(records.get(cluster)?.values() ?? [])].flatMap((each) =>
        digestsOf(each).flatMap((digest) => contentOf(digest) ?? []),
      );
      const made = groupsIn(before, units.get(cluster) ?? [], byName.get(cluster));
      groups.set(cluster, made);
      return made;
    },
    units: (cluster) => units.get(cluster) ?? [],
    rendered: (cluster, unit) => rendered.get(cluster)?.get(unit),
    isRevoked: (unit, digest) => revoked.has(keyOf(unit, digest)),
    halts: (unit, digest) => halts.get(keyOf(unit, digest)) ?? [],
  };
}

function digestsOf(record: UnitStatus | undefined): string[] {
  const digests = [record?.digest, record?.begun === REMOVAL ? undefined : record?.begun];
  return [...new Set(digests.flatMap((each) => each ?? []))];
}

const keyOf = (unit: string, digest: string): string => `${unit} ${digest}`;
