/** What the hub reports of each cell in the status of its Cluster. */
import { Clusters, type Cluster, type Orphans } from '../../api/cluster.ts';
import type { Log } from '../../api/ports.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { Away } from '../cell/away.ts';
import type { Cell } from '../cell/cell.ts';
import { orphansOf, wantedUnits } from '../orphans.ts';
import { writeEach } from '../status-writes.ts';
import type { ClusterDependencies } from './dependencies.ts';
import { NewOrphans } from './new-orphans.ts';
import { reasonOf, statusPatch, viewOf, type CellView } from './status.ts';

export class Reports {
  readonly #dependencies: ClusterDependencies;
  readonly #newOrphans: NewOrphans;

  constructor(dependencies: ClusterDependencies) {
    this.#dependencies = dependencies;
    this.#newOrphans = new NewOrphans(dependencies.clock);
  }

  /** The report of one cell may be refused, since its content comes from there; the others do not wait for it. Returns whether all was reported. */
  async report(connections: ReadonlyMap<string, Cell | Away>, hub: Client, log: Log): Promise<boolean> {
    const { clusters, fleets: fleetStore, inForceOf, recorder, signal } = this.#dependencies;
    const fleets = fleetStore.list();
    const names = new Set(fleets.map(({ metadata }) => metadata.name));
    const wanted = wantedUnits(fleets.map(inForceOf));
    this.#newOrphans.keep((name) => clusters.get({ name }) !== undefined);
    const write = async (cluster: Stored<Cluster>): Promise<void> => {
      const connection = connections.get(cluster.metadata.name);
      if (connection === undefined) return;
      const orphansIn = (objects: readonly KubeObject[]): Orphans | undefined =>
        orphansOf(objects, cluster, wanted.get(cluster.metadata.name) ?? new Set(), names);
      const view = viewOf(connection, orphansIn);
      if (view !== undefined) await this.#write(cluster, view, hub);
    };
    const { isWhole, failed } = await writeEach(clusters.list(), write, { recorder, log, signal });
    if (failed !== undefined) throw failed.error;
    return isWhole;
  }

  /** After how many ms something is to be reported that was found first. */
  waits(): number[] {
    return this.#newOrphans.waits();
  }

  async #write(cluster: Stored<Cluster>, view: CellView, hub: Client): Promise<void> {
    const { clock, recorder, signal } = this.#dependencies;
    const { name, resourceVersion } = cluster.metadata;
    const status = statusPatch(cluster, view, (found) => this.#newOrphans.reported(cluster, found), clock.now());
    if (status === undefined) return;
    const written = await hub
      .patch(Clusters, { name }, { merge: { metadata: { resourceVersion }, status } }, { subresource: 'status', signal })
      .catch((error: unknown) => {
        if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
      });
    const before = cluster.status?.conditions?.find(({ type }) => type === 'Reachable');
    const { away } = view;
    const reason = reasonOf(away);
    // What was judged from an older state of the object is not reported.
    if (written === undefined || before?.reason === reason || (before === undefined && away === undefined)) return;
    const message = away === undefined ? 'the hub reaches it again' : away.message;
    recorder.event(cluster, { type: away === undefined ? 'Normal' : 'Warning', reason, message });
  }
}
