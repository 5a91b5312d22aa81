import type { Machine } from '../../api/machine.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { stateOf } from '../../defender/state.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { createController, watch, type Watch } from '../../kube/controller.ts';
import { trackLiveness } from '../../kube/liveness.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { CellAddress } from '../identity/provision.ts';
import { rememberRefusedNodes } from './node-sync/refused-nodes.ts';
import { createObserver, type Observer } from './observe/observe.ts';
import { mayAsk } from './order/components.ts';
import { apiPort } from './port.ts';
import { newOperationID, reconcileMachine, type MachineDeps } from './reconcile.ts';
import { changedReservations, RESYNC_MS } from './requeue.ts';
import { watchLedgerWrites } from './reservation/ledger-writes.ts';
import { BY_UID, createPass, PASS } from './reservation/pass-loop.ts';
import { rememberRefusedReports } from './status/refused-reports.ts';
import { openStores, type Stores } from './stores.ts';
import { createTerm, inTerm, listAgain, raiseEpoch } from './term.ts';

export interface MachineControllerOptions {
  client: Client;
  /** May list the objects of the cache; the rights of `client` are those of its writes. */
  reader: Client;
  cache: Cache;
  /** By name, as in `spec.provider.name`. */
  providers: ReadonlyMap<string, InfraProvider>;
  cell: CellAddress;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  /** Gets the epoch of this term as soon as it is raised. */
  onTerm?: (epoch: number) => void;
  /** Of this term of leadership. */
  signal: AbortSignal;
}

/**
 * The machine controller of a cell: no other part reserves, cordons, drains, orders or uncordons (docs/protocols.md#c2). Two loops: one key for the
 * whole cell, which reserves for all machines at once, and one key a machine, which takes the next step.
 *
 * Begins a term by raising the ledger's epoch, and does nothing more before its stores have been read again after that (#d2). Rejects with
 * code `Deposed` when a later term is met, or the ledger is gone (#d1). The caller may be elected again, in another term.
 */
export async function runMachineController(options: MachineControllerOptions): Promise<void> {
  const { client, cache, clock, random, log, recorder, providers, cell } = options;
  const epoch = await raiseEpoch(options);
  log.info({ epoch }, 'a term begins');
  options.onTerm?.(epoch);
  const stores = openStores(cache);
  const marks = await listAgain(stores, options);
  const term = createTerm({ epoch, client, ledgers: stores.ledgers }, options.signal);
  const { signal } = term;

  const liveness = trackLiveness(stores.leases, clock);
  const observer = createObserver({ client, stores, providers, liveness, clock, epoch });
  const ledger = watchLedgerWrites(stores.ledgers, epoch);
  const cycled = new Set<string>();
  const newID = (): string => newOperationID(random);
  const portOf = (using: Client, provider: InfraProvider | undefined) =>
    apiPort({ client: using, stores, ledger, marks, provider, cycled, signal });
  stores.machines.addIndex(BY_UID, byUID);
  const pass = createPass({
    epoch,
    stores,
    asking: observer.asking,
    clock,
    newID,
    jobsOf: observer.jobsOf,
    view: (askingSince) => observer.cell(askingSince, marks),
    portOf: (using) => portOf(using, undefined),
    wakeMachine: (key) => machines.enqueue(key),
  });
  const deps: MachineDeps = {
    stores,
    observer,
    pass,
    providers,
    cell,
    recorder,
    refusedNodes: rememberRefusedNodes(clock),
    refusedReports: rememberRefusedReports(random, clock),
    cycled,
    epoch,
    newID,
    portOf,
    wakePass: () => passes.enqueue(PASS),
    signal,
  };

  const shared = { client, clock, random, log, signal, resyncMs: RESYNC_MS };
  const passes = createController({
    ...shared,
    name: 'defender',
    watches: passWatches(stores, observer),
    concurrency: 1,
    reconcile: (_, run) => inTerm(term, () => pass.run(run)),
  });
  const machines = createController({
    ...shared,
    name: 'machine',
    watches: machineWatches(stores, observer),
    concurrency: 8,
    reconcile: (key, run) => inTerm(term, () => reconcileMachine(deps, key, run)),
  });
  try {
    await Promise.all([passes.run(), machines.run()]);
  } finally {
    observer.stop();
    liveness.stop();
  }
  if (term.deposed.signal.aborted && !options.signal.aborted) throw term.deposed.signal.reason;
}

/** What may change the verdict on a request: all of it wakes the one pass of the cell. */
function passWatches(stores: Stores, { jobsOf }: Pick<Observer, 'jobsOf'>): Watch[] {
  const asks = (machine: Stored<Machine> | undefined): boolean => machine !== undefined && mayAsk(machine, jobsOf);
  return [
    watch(stores.machines, (machine, old) => (asks(machine) || asks(old) ? [PASS] : [])),
    watch(stores.jobs, () => [PASS]),
    watch(stores.ledgers, () => [PASS]),
    watch(stores.policies, () => [PASS]),
    watch(stores.freezes, () => [PASS]),
    watch(stores.sets, () => [PASS]),
  ];
}

function machineWatches(stores: Stores, { machinesNamed }: Pick<Observer, 'machinesNamed'>): Watch[] {
  return [
    watch(stores.machines, keysOf),
    watch(stores.jobs, machineOfJob),
    watch(stores.nodes, (node) => machinesNamed(node.metadata.name).flatMap(keysOf)),
    watch(stores.ledgers, (ledger, old) =>
      changedReservations(stateOf(ledger).reservations, old === undefined ? [] : stateOf(old).reservations),
    ),
  ];
}

const keysOf = (machine: Stored<Machine>): string[] => [keyOf(machine.metadata)];
const machineOfJob = ({ metadata, spec }: RemedyOperationJob): string[] => [
  keyOf({ namespace: metadata.namespace, name: spec.machine.name }),
];
const byUID = (machine: Stored<Machine>): string[] => [machine.metadata.uid];
