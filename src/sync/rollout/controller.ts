import type { Fleet } from '../../api/fleet.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Bundles, StoredUnit } from '../bundles.ts';
import { openCells, type ConnectCell } from '../cell/cells.ts';
import { ClusterKeeper } from '../cluster/finalizer.ts';
import { Reports } from '../cluster/reports.ts';
import type { Fence } from '../fence.ts';
import { Executor } from './executor.ts';
import { fleetNames, inForceOf, openStores } from './hub-objects.ts';
import { runPass } from './pass.ts';
import { openUnits } from './units.ts';

export interface RolloutControllerOptions {
  client: Client;
  cache: Cache;
  bundles: Bundles;
  connect: ConnectCell;
  /** Of this term; the controllers of one hub share it. */
  fence: Fence;
  /** Renders a commit again and gives one unit of it; its digest is checked by the caller. */
  render: (fleet: string, commit: string, unit: string, cluster: string, signal: AbortSignal) => Promise<StoredUnit>;
  recorder: Recorder;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** Carries the rollouts of each fleet through its clusters. Key: the fleet's name. */
export async function runRolloutController(options: RolloutControllerOptions): Promise<void> {
  const { client, cache, log } = options;
  const stores = openStores(cache);
  const { rollouts, clusters, fleets } = stores;
  const wake = (fleet: string): void => controller.enqueue(fleet);
  const cells = openCells({ ...options, hub: client, onChange: () => fleetNames(stores).forEach(wake) });
  const dependencies = { ...options, clusters, fleets, inForceOf: (fleet: Stored<Fleet>) => inForceOf(stores, fleet) };
  const executor = new Executor({ ...options, clusters, unitOf: (...wanted) => unitOf(options, ...wanted), wake });
  const keeper = new ClusterKeeper(dependencies);
  const reports = new Reports(dependencies);
  const pass = { ...options, stores, cells, units: openUnits(options), keeper, executor, reports };
  const controller = createController({
    ...options,
    name: 'rollout',
    watches: [
      watch(rollouts, (rollout) => [rollout.spec.fleet]),
      watch(clusters, () => fleetNames(stores)),
      watch(fleets, (fleet) => [fleet.metadata.name]),
    ],
    concurrency: 2,
    resyncMs: 60_000,
    async reconcile(fleet, context) {
      const requeueAfterMs = await runPass(pass, fleet, context);
      return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
    },
  });
  try {
    await controller.run();
  } finally {
    await executor.ended();
    await cells.close();
    log.debug({}, 'rollout controller stopped');
  }
}

/** As it was kept, else rendered again. */
async function unitOf(
  { bundles, render, signal }: Pick<RolloutControllerOptions, 'bundles' | 'render' | 'signal'>,
  fleet: string,
  digest: string,
  commit: string,
  unit: string,
  cluster: string,
): Promise<StoredUnit> {
  const known = await bundles.get(digest);
  if (known !== undefined) return known;
  const rendered = await render(fleet, commit, unit, cluster, signal);
  await bundles.put(digest, rendered);
  return rendered;
}
