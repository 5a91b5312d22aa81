import { Leases } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, ofBoth, watch } from '../../kube/controller.ts';
import { trackLiveness } from '../../kube/liveness.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { noteRenewal } from '../../kube/renewal.ts';
import { ifRelevant, ifSoakChanged, machinesOf, setsAbout, setsNaming, setsOfComponent } from './concerned.ts';
import { leasesOf } from './observe.ts';
import { createOverlay } from './overlay.ts';
import { reconcileMachine } from './machine/reconcile.ts';
import { reconcileSet } from './reconcile.ts';
import { termOf } from '../shared/term.ts';

export interface SetControllerOptions {
  client: Client;
  cache: Cache;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  /** The epoch of this term, once the machine controller has raised it: before that nothing is done. */
  term: Promise<number>;
  /** Ends it. A deposed leader must be ended before the next one begins to write. */
  signal: AbortSignal;
}

/** No event reports that a Lease is not renewed: sets and machines are reconciled about this often. */
const RESYNC_MS = 60_000;

/** Index of Machines by the Leases that show whether they are alive. */
const BY_LEASE = 'machinecomponentset/lease';
function byLease(machine: Stored<Machine>): string[] {
  const { agent, kubelet } = leasesOf(machine);
  return [keyOf(agent), keyOf(kubelet)];
}

/**
 * The only writer of `Machine.spec.components` (docs/protocols.md#a2). Two loops: one a set, which batches; one a machine, which answers
 * failures and refusals and judges what is proved. Resolves when the signal has ended both.
 */
export async function runMachineComponentSetController(options: SetControllerOptions): Promise<void> {
  const { client, cache, clock, random, log, recorder, signal } = options;
  const epoch = await termOf(options);
  if (epoch === undefined) return;
  const stores = {
    sets: cache.store(MachineComponentSets),
    components: cache.store(MachineComponents),
    machines: cache.store(Machines, { indexes: { [BY_LEASE]: byLease } }),
    leases: cache.store(Leases, { project: noteRenewal }),
  };
  const liveness = trackLiveness(stores.leases, clock);
  const machines = createOverlay(stores.machines);
  const sets = createOverlay(stores.sets);
  const begun = new Set<string>();
  const shared = { client, clock, random, log, signal, resyncMs: RESYNC_MS };
  const ofSets = createController({
    ...shared,
    name: 'machinecomponentset',
    watches: [
      watch(
        stores.sets,
        ofBoth((set) => setsOfComponent(stores.sets, set)),
      ),
      watch(stores.components, (component) => setsNaming(stores.sets, component)),
      watch(stores.machines, ifRelevant(ofBoth((machine) => setsAbout(stores.sets, machine)))),
      watch(stores.leases, () => []),
    ],
    reconcile: (key, run) => reconcileSet({ stores: { ...stores, liveness }, machines, sets, clock, recorder, epoch, begun }, key, run),
  });
  const ofMachines = createController({
    ...shared,
    name: 'machinecomponentset-machine',
    watches: [
      watch(stores.machines, (machine) => [keyOf(machine.metadata)]),
      watch(
        stores.sets,
        ifSoakChanged((set) => machinesOf(stores.machines, set)),
      ),
      watch(stores.leases, () => []),
    ],
    reconcile: (key, run) => reconcileMachine({ sets: stores.sets, machines, liveness, clock, recorder }, key, run),
  });
  // A renewal changes no decision, save where its holder had been stale.
  liveness.onReturn((key) => {
    for (const machine of stores.machines.byIndex(BY_LEASE, keyOf(key))) {
      ofMachines.enqueue(keyOf(machine.metadata));
      for (const set of setsAbout(stores.sets, machine)) ofSets.enqueue(set);
    }
  });
  try {
    await Promise.all([ofSets.run(), ofMachines.run()]);
  } finally {
    liveness.stop();
  }
}
