/** What the hub reports of each cell in the status of its Cluster. */
import { Clusters, type Cluster, type Orphans } from '../../api/cluster.ts';
import { canonical } from '../../api/digest.ts';
import { messageOf } from '../../api/errors.ts';
import { plainText } from '../../api/plain-text.ts';
import type { Log } from '../../api/ports.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { setConditions } from '../../kube/conditions.ts';
import { CONNECTING, isCell, type Away, type Cell } from '../cells.ts';
import { orphansOf, wantedUnits } from '../orphans.ts';
import { contentOf } from './content.ts';
import type { ClusterDependencies } from './dependencies.ts';

export interface Reports {
  /** What is reported of one cell may be refused, since it comes from there; no other waits for that. Returns whether all was reported. */
  report(connections: ReadonlyMap<string, Cell | Away>, hub: Client, log: Log): Promise<boolean>;
  /** After how many ms something is to be reported that was found first. */
  waits(): number[];
}

/** Stores follow one by one, and a commit makes a Cluster before it is in force: what is known to nobody for so long is nobody's. */
const ORPHANED_MS = 60_000;

export function openReports({ clusters, fleets: fleetStore, inForceOf, recorder, clock, signal }: ClusterDependencies): Reports {
  /** Since when clusters that report no orphans have some; ms of the monotonic clock. */
  const orphanedSince = new Map<string, number>();

  async function reportClusters(connections: ReadonlyMap<string, Cell | Away>, hub: Client, log: Log): Promise<boolean> {
    let isWhole = true;
    let failed: { error: unknown } | undefined;
    const fleets = fleetStore.list();
    const names = new Set(fleets.map(({ metadata }) => metadata.name));
    const wanted = wantedUnits(fleets.map(inForceOf));
    for (const name of orphanedSince.keys()) if (clusters.get({ name }) === undefined) orphanedSince.delete(name);
    for (const cluster of clusters.list()) {
      const connection = connections.get(cluster.metadata.name);
      if (connection === undefined) continue;
      try {
        const orphansIn = (objects: readonly KubeObject[]): Orphans | undefined =>
          orphansOf(objects, cluster, wanted.get(cluster.metadata.name) ?? new Set(), names);
        await reportCluster(cluster, connection, orphansIn, hub);
      } catch (error) {
        signal.throwIfAborted();
        isWhole = false;
        const message = plainText(messageOf(error));
        log.warn({ cluster: cluster.metadata.name, error: message }, 'its status cannot be written');
        recorder.event(cluster, { type: 'Warning', reason: 'StatusNotWritten', message });
        if (!hasReason(error, 'Invalid', 'BadRequest', 'RequestEntityTooLarge')) failed ??= { error };
      }
    }
    // The hub's own server may be what does not answer.
    if (failed !== undefined) throw failed.error;
    return isWhole;
  }

  /** What is found first is reported only once it was so for a while. */
  function reportedOrphans({ metadata: { name }, status }: Cluster, found: Orphans | undefined): Orphans | undefined {
    if (found === undefined || status?.orphans !== undefined) {
      orphanedSince.delete(name);
      return found;
    }
    const since = orphanedSince.get(name) ?? clock.monotonic();
    orphanedSince.set(name, since);
    return clock.monotonic() - since >= ORPHANED_MS ? found : undefined;
  }

  async function reportCluster(
    cluster: Stored<Cluster>,
    cell: Cell | Away,
    orphansIn: (objects: readonly KubeObject[]) => Orphans | undefined,
    hub: Client,
  ): Promise<void> {
    // What it says may make it away.
    const content = isCell(cell) ? cell.read((each) => contentOf(each, orphansIn)) : undefined;
    const away = isCell(cell) ? cell.away() : cell;
    if (away?.reason === CONNECTING || (away === undefined && isCell(cell) && !cell.synced())) return;
    if (away === undefined && isCell(cell) && cell.isOnTrial()) return;
    const before = cluster.status?.conditions?.find(({ type }) => type === 'Reachable');
    const reason = away?.reason ?? 'Connected';
    const conditions = setConditions(
      cluster.status?.conditions,
      [
        {
          type: 'Reachable',
          status: away === undefined ? 'True' : 'False',
          reason,
          message: plainText(away?.message ?? '', 32_000),
          ...(cluster.metadata.generation === undefined ? {} : { observedGeneration: cluster.metadata.generation }),
        },
      ],
      clock.now(),
    );
    // What was said last stays while it is away.
    const machines = content?.machines;
    const attention = content?.attention ?? cluster.status?.attention ?? [];
    const orphans = content === undefined ? cluster.status?.orphans : reportedOrphans(cluster, content.orphans);
    // The first that is reached, or the one that is said to be meant.
    const cellUID = away === undefined && isCell(cell) ? cell.uid() : cluster.status?.cellUID;
    const reported = {
      conditions,
      attention,
      ...(cellUID === undefined ? {} : { cellUID }),
      ...(machines === undefined ? {} : { machines }),
      ...(orphans === undefined ? {} : { orphans }),
    };
    const { units: _units, orphans: named, ...known } = cluster.status ?? {};
    const reportedBefore = { attention: [], ...known, ...(named === undefined ? {} : { orphans: named }) };
    if (canonical({ ...known, ...reported }) === canonical(reportedBefore)) return;
    // A merge keeps what it does not name.
    const status = {
      ...reported,
      ...(machines === undefined ? {} : { machines: { sets: null, ...machines } }),
      ...(orphans === undefined && named !== undefined ? { orphans: null } : {}),
    };
    const written = await hub
      .patch(
        Clusters,
        { name: cluster.metadata.name },
        { merge: { metadata: { resourceVersion: cluster.metadata.resourceVersion }, status } },
        { subresource: 'status', signal },
      )
      .catch((error: unknown) => {
        if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
      });
    // What was judged from an older state of the object is not reported.
    if (written === undefined || before?.reason === reason || (before === undefined && away === undefined)) return;
    const message = away === undefined ? 'the hub reaches it again' : away.message;
    recorder.event(cluster, { type: away === undefined ? 'Normal' : 'Warning', reason, message });
  }

  return {
    report: reportClusters,
    waits: () => [...orphanedSince.values()].map((since) => Math.max(0, since + ORPHANED_MS - clock.monotonic())),
  };
}
