import { canonical } from '../../api/digest.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, ofBoth, watch } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { termOf } from '../shared/term.ts';
import type { Unsettled } from './mark.ts';
import type { Providers } from './provider.ts';
import { reconcileMachineSet } from './reconcile.ts';

export interface MachineSetControllerOptions {
  client: Client;
  /** Must keep the managedFields of `MANAGERS.machineSet`; else every reconciliation of a machine costs a GET. */
  cache: Cache;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  /** Those that the machine controller of this cell has. */
  providers: Providers;
  /** The epoch of this term, once the machine controller has raised it: before that nothing is done. */
  term: Promise<number>;
  signal: AbortSignal;
}

/** Keeps as many machines as each set wants, and their labels, taints and timeouts those of its template. Resolves when ended. */
export async function runMachineSetController(options: MachineSetControllerOptions): Promise<void> {
  const { client, cache, clock, random, log, recorder, providers, signal } = options;
  const epoch = await termOf(options);
  if (epoch === undefined) return;
  const unsettled: Unsettled = new Map();
  // Whether machines go depends on the manager that set the number.
  const sets = cache.store(MachineSets, { keepManagers: 'all' });
  const machines = cache.store(Machines);
  const componentSets = cache.store(MachineComponentSets);
  /** All sets where a component set comes, goes or changes its selection; none where only its status changes. */
  const whenSelectionChanges = (set: Stored<MachineComponentSet>, old?: Stored<MachineComponentSet>): string[] =>
    old !== undefined && selectionOf(set) === selectionOf(old) ? [] : sets.list().map(({ metadata }) => keyOf(metadata));
  await createController({
    name: 'machineset',
    watches: [watch(sets, (set) => [keyOf(set.metadata)]), watch(machines, ofBoth(ownersOf)), watch(componentSets, whenSelectionChanges)],
    reconcile: (key, run) =>
      reconcileMachineSet({ sets, machines, componentSets, clock, random, recorder, providers, epoch, unsettled }, key, run),
    client,
    clock,
    random,
    log,
    signal,
    concurrency: 4,
    resyncMs: 300_000,
  }).run();
}

function selectionOf({ spec }: MachineComponentSet): string {
  return canonical([spec.pools ?? null, spec.selector ?? null]);
}

function ownersOf(machine: Stored<Machine>): string[] {
  const { namespace, ownerReferences } = machine.metadata;
  // A set that is not there costs nothing, so the kind of the owner is not checked.
  return (ownerReferences ?? []).map((owner) => keyOf({ namespace, name: owner.name }));
}
