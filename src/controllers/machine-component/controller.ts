import { Machines } from '../../api/machine.ts';
import { MachineComponents, type MachineComponent } from '../../api/machine-component.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import { createController, watch } from '../../kube/controller.ts';
import { fateOf, IN_USE, namedComponents } from './decide.ts';

export interface MachineComponentControllerOptions {
  client: Client;
  cache: Cache;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** The only key: which components are named follows from all Machines and sets together. */
const ALL = 'all';
const RECHECK_MS = 3_600_000;

/**
 * Collects versions of components that nothing has named for 30 days (docs/protocols.md#a7). Reconciles when a version comes, and each hour.
 *
 * Guarantees: before a version is deleted all Machines and sets are listed live, and the deletion is conditioned on the very object that
 * was judged. A partial or failed list deletes nothing.
 */
export async function runMachineComponentController(options: MachineComponentControllerOptions): Promise<void> {
  const { cache, client, clock, log, signal } = options;
  const components = cache.store(MachineComponents);
  const machines = cache.store(Machines);
  const sets = cache.store(MachineComponentSets);

  async function report(component: Stored<MachineComponent>, inUse: boolean): Promise<void> {
    const input = inUse
      ? { type: IN_USE, status: 'True' as const, reason: 'Named', message: '' }
      : { type: IN_USE, status: 'False' as const, reason: 'NotNamed', message: 'no Machine or set names it; deleted after 30 days' };
    const conditions = setCondition(component.status?.conditions, input, clock.now());
    const { name, resourceVersion } = component.metadata;
    await client.patch(
      MachineComponents,
      { name },
      { merge: { metadata: { resourceVersion }, status: { conditions } } },
      { subresource: 'status', fieldManager: MANAGERS.machineComponentSet, signal },
    );
  }

  async function remove(component: Stored<MachineComponent>, since: string): Promise<void> {
    const [live, liveSets] = await Promise.all([client.listAll(Machines, { signal }), client.listAll(MachineComponentSets, { signal })]);
    const { name, uid, resourceVersion } = component.metadata;
    if (namedComponents(live.items, liveSets.items).has(name)) return;
    await client.delete(MachineComponents, { name }, { uid, resourceVersion, signal });
    log.info({ component: name, since }, 'deleted: nothing has named it for 30 days');
  }

  await createController({
    ...options,
    name: 'machinecomponent',
    watches: [watch(components, () => [ALL]), watch(sets, (set, old) => (old?.spec.version === set.spec.version ? [] : [ALL]))],
    concurrency: 1,
    async reconcile() {
      const named = namedComponents(machines.list(), sets.list());
      for (const component of components.list()) {
        const fate = fateOf(component, named, clock.now());
        try {
          if (fate.do === 'Report') await report(component, fate.inUse);
          if (fate.do === 'Delete') await remove(component, fate.since);
        } catch (error) {
          // It changed or went meanwhile: the next run judges it again.
          if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
        }
      }
      return { requeueAfterMs: RECHECK_MS };
    },
  }).run();
}
