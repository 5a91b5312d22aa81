import { Leases, type Lease } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponents } from '../../api/machine-component.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, ofBoth, watch } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { noteRenewal } from '../../kube/renewal.ts';
import { ifRelevant, ifReturned, ifSoakChanged, machinesOf, setsAbout, setsNaming, setsOfComponent } from './concerned.ts';
import { leaseAges } from '../shared/lease-ages.ts';
import { agentLease, kubeletLease } from './observe.ts';
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

/** Silence is not an event: how long agents have been silent is looked at about this often. */
const RESYNC_MS = 60_000;

/** Index of Machines by the Leases that tell whether they are alive. */
const BY_LEASE = 'machinecomponentset/lease';
function leasesOf(machine: Stored<Machine>): string[] {
  return [keyOf(agentLease(machine)), keyOf(kubeletLease(machine))];
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
    machines: cache.store(Machines, { indexes: { [BY_LEASE]: leasesOf } }),
    leases: cache.store(Leases, { project: noteRenewal }),
  };
  const ages = leaseAges(stores.leases, clock);
  const machines = createOverlay(stores.machines);
  const sets = createOverlay(stores.sets);
  const begun = new Set<string>();
  const machinesOfLease = (lease: Lease): Stored<Machine>[] => stores.machines.byIndex(BY_LEASE, keyOf(lease.metadata));
  const shared = { client, clock, random, log, signal, resyncMs: RESYNC_MS };
  try {
    await Promise.all([
      createController({
        ...shared,
        name: 'machinecomponentset',
        watches: [
          watch(
            stores.sets,
            ofBoth((set) => setsOfComponent(stores.sets, set)),
          ),
          watch(stores.components, (component) => setsNaming(stores.sets, component)),
          watch(stores.machines, ifRelevant(ofBoth((machine) => setsAbout(stores.sets, machine)))),
          watch(
            stores.leases,
            ifReturned(machinesOfLease, (machine) => setsAbout(stores.sets, machine)),
          ),
        ],
        reconcile: (key, run) =>
          reconcileSet({ stores: { ...stores, leases: ages }, machines, sets, clock, recorder, epoch, begun }, key, run),
      }).run(),
      createController({
        ...shared,
        name: 'machinecomponentset-machine',
        watches: [
          watch(stores.machines, (machine) => [keyOf(machine.metadata)]),
          watch(
            stores.sets,
            ifSoakChanged((set) => machinesOf(stores.machines, set)),
          ),
          watch(
            stores.leases,
            ifReturned(machinesOfLease, (machine) => [keyOf(machine.metadata)]),
          ),
        ],
        reconcile: (key, run) => reconcileMachine({ sets: stores.sets, machines, leases: ages, clock, recorder }, key, run),
      }).run(),
    ]);
  } finally {
    ages.stop();
  }
}
