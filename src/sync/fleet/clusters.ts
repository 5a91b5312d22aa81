/** The Clusters that a commit declares, on the hub. */
import { syncErrorCodes } from '../errors.ts';
import { Clusters, type Cluster } from '../../api/cluster.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import { Fleets, type Fleet } from '../../api/fleet.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import { applyIfChanged, wouldChange } from '../../kube/apply.ts';
import type { Client } from '../../kube/client.ts';
import type { Checkout } from './checkout.ts';
import type { FleetDependencies, FleetRun } from './dependencies.ts';
import { Outdated, short } from './status.ts';

/** Applies a Cluster, where it differs. Another hub may have accepted another commit since the Fleet was read: what it has written stays. */
export async function declare(
  { fence, signal }: Pick<FleetDependencies, 'fence' | 'signal'>,
  client: Client,
  fleet: Stored<Fleet>,
  object: Cluster,
  listed: readonly Stored<Cluster>[],
): Promise<void> {
  const { name } = object.metadata;
  const applying = { fieldManager: MANAGERS.sync, force: true, signal };
  const known = listed.find((cluster) => cluster.metadata.name === name);
  if (known !== undefined && wouldChange(object, known, applying) === false) return;
  const stored = await client.find(Clusters, { name }, { signal });
  if (stored !== undefined) fence.require(stored);
  const { metadata } = await client.get(Fleets, { name: fleet.metadata.name }, { signal });
  if (metadata.resourceVersion !== fleet.metadata.resourceVersion) throw new Outdated();
  await applyIfChanged<Cluster>(client, Clusters, object, { ...applying, stored, asRead: true }).catch((error: unknown) => {
    throw hasReason(error, 'Conflict') ? new Outdated() : error;
  });
}

/**
 * Makes Clusters again that the accepted commit declares and a user deleted. Nothing is judged here, and no record comes back: a Cluster that has a halt is not
 * gone (docs/protocols.md#e12, #e13). What cannot be made is tried again when the branch is observed next.
 */
export async function putBack(deps: FleetDependencies, { client, log }: FleetRun, fleet: Stored<Fleet>, checkout: Checkout): Promise<void> {
  const { clusters, recorder, signal } = deps;
  const { name } = fleet.metadata;
  const { commit, clusters: declared = [] } = fleet.status ?? {};
  const missing = declared.filter((each) => clusters.get({ name: each }) === undefined);
  if (commit === undefined || missing.length === 0) return;
  try {
    const listed = (await client.listAll(Clusters, { signal })).items;
    const gone = missing.filter((each) => !listed.some(({ metadata }) => metadata.name === each));
    if (gone.length === 0) return;
    const rendered = await checkout.render(commit, signal);
    for (const { object } of rendered.clusters.filter((each) => gone.includes(each.name))) {
      await declare(deps, client, fleet, object, listed);
      log.warn({ fleet: name, cluster: object.metadata.name, commit }, 'makes a Cluster again that a user deleted');
      const message = `a user deleted it, and ${short(commit)} declares it; the hub starts without its former records`;
      const made = await client.find(Clusters, { name: object.metadata.name }, { signal });
      if (made !== undefined) recorder.event(made, { type: 'Warning', reason: 'ClusterMadeAgain', message });
    }
  } catch (error) {
    if (signal.aborted || error instanceof Outdated || isCoded(error, syncErrorCodes, 'Deposed')) throw error;
    const message = `${missing.slice(0, 5).join(', ')} cannot be made again as ${short(commit)} declares it: ${messageOf(error)}; it is tried again`;
    log.warn({ fleet: name, commit }, message);
    recorder.event(fleet, { type: 'Warning', reason: 'ClusterNotMade', message: message.slice(0, 1000) });
  }
}
