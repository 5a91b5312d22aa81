/** Where a commit only takes back what was never proven, so that it begins at once (docs/protocols.md#e6). Pure. */
import type { Cluster } from '../../api/cluster.ts';
import { REMOVAL } from '../records.ts';
import { goesBack, currentDigest } from '../rollout/lane.ts';
import type { FleetView } from './observe.ts';

/**
 * By cluster, unit and what is to be there (undefined: nothing): whether what is there never had evidence, and that takes the restore lane, without stages or soak.
 * False where something may keep it from beginning at once.
 */
export function restoresIn(
  fleet: string,
  clusters: readonly Cluster[],
  recorded: FleetView['recorded'],
): (cluster: string, unit: string, digest: string | undefined) => boolean {
  const paused = new Set(clusters.filter(({ spec }) => spec.paused === true).map(({ metadata }) => metadata.name));
  const revoked = new Set([...recorded.values()].flat().flatMap((each) => (each.revoked ?? []).map((digest) => `${each.unit} ${digest}`)));
  return (cluster, unit, digest) => {
    const record = recorded.get(cluster)?.find((each) => each.unit === unit);
    const current = currentDigest(record);
    if (record?.fleet !== fleet || record.begun === REMOVAL || current === undefined || paused.has(cluster)) return false;
    if (record.verified?.some((entry) => entry.digest === current) === true) return false;
    // What is new there, and was never proven.
    if (digest === undefined) return record.added !== undefined && record.added.verifiedAt === undefined;
    return goesBack(record, digest) && !revoked.has(`${unit} ${digest}`);
  };
}
