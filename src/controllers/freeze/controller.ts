import { Freezes } from '../../api/freeze.ts';
import { Machines } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import { createController, watch } from '../../kube/controller.ts';
import { poolsFound } from '../shared/pools-found.ts';

export interface FreezeControllerOptions {
  client: Client;
  cache: Cache;
  clock: Clock;
  random: Random;
  log: Log;
  signal: AbortSignal;
}

/** Reports in the status of each Freeze whether the pools that it names have machines: people write one in a hurry. */
export async function runFreezeController(options: FreezeControllerOptions): Promise<void> {
  const { cache, clock, signal } = options;
  const freezes = cache.store(Freezes);
  const machines = cache.store(Machines);
  await createController({
    ...options,
    name: 'freeze',
    watches: [
      watch(freezes, (freeze) => [freeze.metadata.name]),
      // A pool begins and ends with a machine.
      watch(machines, ({ metadata: { namespace = '' } }, old) =>
        old === undefined
          ? freezes.list().flatMap(({ metadata, spec }) => (spec.pools?.includes(namespace) === true ? [metadata.name] : []))
          : [],
      ),
    ],
    async reconcile(name, { client }) {
      const freeze = freezes.get({ name });
      if (freeze === undefined) return;
      const found = poolsFound([{ path: 'spec.pools', pools: freeze.spec.pools }], (pool) => machines.inNamespace(pool).length > 0);
      const { generation } = freeze.metadata;
      const observed = generation === undefined ? {} : { observedGeneration: generation };
      const conditions = setCondition(freeze.status?.conditions, { ...found, ...observed }, clock.now());
      if (conditions === freeze.status?.conditions) return;
      await client.patch(
        Freezes,
        { name },
        { merge: { status: { conditions, ...observed } } },
        { subresource: 'status', fieldManager: MANAGERS.defender, signal },
      );
    },
  }).run();
}
