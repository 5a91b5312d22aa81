import { defenderError, defenderErrorCodes } from '../../defender/errors.ts';
import { Leases, Nodes } from '../../api/builtin.ts';
import { DefenderPolicies } from '../../api/defender-policy.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruption-ledger.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import { Freezes } from '../../api/freeze.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machine-component-set.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { keyOf, parseKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { createReleaseMarks } from '../../defender/evidence.ts';
import { beginTerm, readLedger } from '../../defender/ledger.ts';
import { ledgerGone } from '../../defender/protocol.ts';
import { stateOf } from '../../defender/state.ts';
import { hasReason, isRefusal } from '../../kube/api-error.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { createController, watch, type ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { trackLiveness } from '../../kube/liveness.ts';
import { noteRenewal } from '../../kube/renewal.ts';
import { budgetsOf, keeping, unending } from './drain/budgets.ts';
import { carryOutAll } from './carry-out.ts';
import { mayAsk } from './order/components.ts';
import { decide } from './decide.ts';
import type { MachineView } from './view.ts';
import { eventOfChange, statusRefused } from './events.ts';
import { eventOf } from './steps.ts';
import type { CellAddress } from '../identity/provision.ts';
import { leftReservations } from './reservation/left-reservations.ts';
import { changedReservations, requeue, RESYNC_MS } from './requeue.ts';
import { watchLedgerWrites } from './reservation/ledger-writes.ts';
import { createObserver, type OwnKnowledge, type Stores } from './observe/observe.ts';
import { BY_UID, createPass, PASS } from './reservation/pass-loop.ts';
import { apiPort } from './port.ts';
import { rememberRefusedNodes } from './node-sync/refused-nodes.ts';
import { rememberRefusedReports } from './status/refused-reports.ts';
import { report, type ReportInput } from './status/report.ts';

export interface MachineControllerOptions {
  client: Client;
  /** May list what the cache holds; the rights of `client` are those of its writes. */
  reader: Client;
  cache: Cache;
  /** By name, as `spec.provider.name` says it. */
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

const POLL_MS = 1000;
/** How soon the lists of a new term are looked for. */
const LISTS_MS = 20;

/**
 * The machine controller of a cell: no other part reserves, cordons, drains, orders or uncordons (docs/protocols.md#c2). Two loops: one key for the
 * whole cell, which reserves for all machines at once, and one key a machine, which takes the next step.
 *
 * Begins a term by raising the ledger's epoch, and does nothing more before its stores have been read again after that (#d2). Rejects with
 * code `Deposed` when a later term is met, or the ledger is gone (#d1): whoever runs it may be elected again, which is another term.
 */
export async function runMachineController(options: MachineControllerOptions): Promise<void> {
  const { client, cache, clock, random, log, recorder, providers, cell } = options;
  const deposed = new AbortController();
  const signal = AbortSignal.any([options.signal, deposed.signal]);
  const epoch = await begun({ client, reader: options.reader, clock, log, signal });
  log.info({ epoch }, 'a term begins');
  options.onTerm?.(epoch);

  const stores: Stores = {
    machines: cache.store(Machines),
    nodes: cache.store(Nodes),
    leases: cache.store(Leases, { project: noteRenewal }),
    sets: cache.store(MachineComponentSets),
    policies: cache.store(DefenderPolicies),
    freezes: cache.store(Freezes),
    ledgers: cache.store(DisruptionLedgers),
    jobs: cache.store(RemedyOperationJobs),
  };
  const marks = createReleaseMarks();
  for (const store of [stores.machines, stores.nodes, stores.sets, stores.policies, stores.freezes, stores.jobs]) {
    // What earlier terms released, they had released before this epoch: a list begun after it shows all of that.
    const mark = store.mark();
    store.relist();
    marks.record(() => store.hasPassed({ name: '' }, undefined, mark));
  }
  await cache.whenSynced(signal);
  // docs/protocols.md#d2: by a store from before the term a job that is under way could be missing, and so be taken for one that is over: its node would be
  // given back, and its reservation released, before its repair is proven.
  while (!marks.allPassed()) await sleep(clock, LISTS_MS, signal);
  const liveness = trackLiveness(stores.leases, clock);
  const observer = createObserver(client, stores, providers, liveness, clock, epoch);
  const cycled = new Set<string>();
  const newID = (): string => [48, 40].map((bits) => Math.floor(random() * 2 ** bits).toString(36)).join('-');

  /** Runs `fn` unless a later term is known of, or the ledger is gone; what `fn` meets of either ends this term. */
  async function inTerm<T>(fn: () => Promise<T>): Promise<T> {
    try {
      // A store that is behind does not have it yet.
      if (stores.ledgers.get({ name: LEDGER_NAME }) === undefined && (await readLedger(client, signal)) === undefined) throw ledgerGone();
      if (observer.epoch() > epoch)
        throw defenderError('Deposed', `the ledger carries epoch ${observer.epoch()}, this leader's is ${epoch}: another term has begun`);
      return await fn();
    } catch (error) {
      if (isCoded(error, defenderErrorCodes, 'Deposed')) deposed.abort(error);
      throw error;
    }
  }

  const ledger = watchLedgerWrites(stores.ledgers, epoch);
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

  const refusedNodes = rememberRefusedNodes(clock);
  const refusedReports = rememberRefusedReports(random, clock);
  const own: OwnKnowledge = { revokedBy: (id) => pass.revokedBy(id), cycled };

  async function reconcile(key: string, run: ReconcileContext): Promise<QueueResult | void> {
    const machine = stores.machines.get(parseKey(key));
    // A machine that is gone may have left a reservation.
    if (machine === undefined) {
      refusedNodes.forget(key);
      refusedReports.forget(key);
      return passes.enqueue(PASS);
    }
    if (machine.spec.paused === true) return;
    const provider = providers.get(machine.spec.provider?.name ?? '');
    const view = refusedNodes.judge(key, await observer.machine(machine, provider, own, signal));
    const decision = decide(view);
    const hands = { client: run.client, port: portOf(run.client, provider), provider, cell, epoch, newID, signal };
    const { done, refusals, failure, nodeRefused } = await carryOutAll(decision.steps, view, hands, (step, { note }) => {
      run.log.info({ step: step.do, note }, step.why);
      const event = eventOf(step, view, note);
      if (event !== undefined) recorder.event(machine, event);
    });
    refusedNodes.note(key, machine, nodeRefused);
    if (nodeRefused !== undefined) view.notOnNode = [{ reason: 'NodeRefused', message: nodeRefused }, ...view.notOnNode];
    // What a provider refuses belongs into the status, and is tried again.
    if (failure !== undefined) view.instance = { state: 'Unknown', reason: failure.code, message: failure.message };
    if (done.some((step) => step === 'Release' || step === 'FreeCancelled')) passes.enqueue(PASS);
    // A machine whose finalizer went is gone by now, or soon; there is nothing left to report on.
    if (done.includes('Finalize')) return;
    const refusedPods = refusals.length > 0 ? (view.pods?.filter((pod) => !pod.terminating) ?? []) : [];
    const budgets = await budgetsOf(run.client, refusedPods, signal);
    const drain = { refusals, unending: unending(budgets, refusedPods), budgets: keeping(budgets, refusedPods) };
    const refused = refusedReports.note(key, await reportStatus(view, drain, run));
    if (refused?.isNew === true) recorder.event(machine, statusRefused(refused.message));
    if (failure !== undefined) throw failure;
    const again = requeue(view, decision, { progressed: done.length > 0, refused: refusals.length > 0 });
    return refused === undefined ? again : { requeueAfterMs: Math.min(refused.againMs, again?.requeueAfterMs ?? refused.againMs) };
  }

  /** What the server said to a status that it does not take, which keeps nothing else back. */

  async function reportStatus(
    view: MachineView,
    drain: Omit<ReportInput, 'view' | 'verdict'>,
    run: ReconcileContext,
  ): Promise<string | undefined> {
    const { machine } = view;
    const said = view.reservation === undefined ? pass.verdicts.of(machine.metadata.uid) : undefined;
    // What is granted shows in the ledger; told here, too, it would be two more writes before the order.
    const verdict = said?.allowed === true ? undefined : said;
    try {
      const changed = await report(run.client, { view, verdict, ...drain }, signal);
      const event = changed ? eventOfChange(machine.status?.phase, view) : undefined;
      if (event !== undefined) recorder.event(machine, event);
    } catch (error) {
      if (isRefusal(error)) return error.message;
      // Gone, or another machine has the name: the store will say so.
      if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
    }
    return undefined;
  }

  const shared = { client, clock, random, log, signal, resyncMs: RESYNC_MS };
  const passes = createController({
    ...shared,
    name: 'defender',
    watches: [
      watch(stores.machines, (machine, old) =>
        mayAsk(machine, observer.jobsOf) || (old !== undefined && mayAsk(old, observer.jobsOf)) ? [PASS] : [],
      ),
      watch(stores.jobs, () => [PASS]),
      watch(stores.ledgers, () => [PASS]),
      watch(stores.policies, () => [PASS]),
      watch(stores.freezes, () => [PASS]),
      watch(stores.sets, () => [PASS]),
    ],
    concurrency: 1,
    reconcile: (_, run) => inTerm(() => pass.run(run)),
  });
  const machines = createController({
    ...shared,
    name: 'machine',
    watches: [
      watch(stores.machines, key),
      watch(stores.jobs, machineOfJob),
      watch(stores.nodes, (node) => observer.machinesNamed(node.metadata.name).flatMap(key)),
      watch(stores.ledgers, (ledger, old) =>
        changedReservations(stateOf(ledger).reservations, old === undefined ? [] : stateOf(old).reservations),
      ),
    ],
    concurrency: 8,
    reconcile: (name, run) => inTerm(() => reconcile(name, run)),
  });
  try {
    await Promise.all([passes.run(), machines.run()]);
  } finally {
    observer.stop();
    liveness.stop();
  }
  if (deposed.signal.aborted && !options.signal.aborted) throw deposed.signal.reason;
}

/** A term's epoch, however long the server takes to give one. */
async function begun({
  client,
  reader,
  clock,
  log,
  signal,
}: Pick<MachineControllerOptions, 'client' | 'reader' | 'clock' | 'log' | 'signal'>): Promise<number> {
  for (;;) {
    try {
      return await beginTerm(client, signal, { reader, leftReservations });
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ error: messageOf(error) }, 'the epoch could not be raised; tries again');
      await sleep(clock, POLL_MS, signal);
    }
  }
}

const key = (machine: Stored<Machine>): string[] => [keyOf(machine.metadata)];
const machineOfJob = ({ metadata, spec }: RemedyOperationJob): string[] => [
  keyOf({ namespace: metadata.namespace, name: spec.machine.name }),
];
const byUID = (machine: Stored<Machine>): string[] => [machine.metadata.uid];
