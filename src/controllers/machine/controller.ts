import { Leases, Nodes } from '../../api/builtin.ts';
import { DefenderPolicies } from '../../api/defenderpolicy.ts';
import { DisruptionLedgers, LEDGER_NAME } from '../../api/disruptionledger.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import { Freezes } from '../../api/freeze.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponentSets } from '../../api/machinecomponentset.ts';
import { agentLeaseName, FINALIZERS, MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import { keyOf, parseKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/apierror.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Client } from '../../kube/client.ts';
import { runController, watch, type ReconcileContext } from '../../kube/controller.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { createReleaseMarks } from '../../defender/evidence.ts';
import { perform } from '../../defender/guardedwrite.ts';
import { beginTerm } from '../../defender/ledger.ts';
import { stateOf } from '../../defender/state.ts';
import type { Verdict } from '../../defender/request.ts';
import { leaseAges } from '../machinecomponentset/leaseages.ts';
import { actOf, freeVanished, type ActContext } from './act.ts';
import { mayAsk } from './components.ts';
import { decide, type Decision, type MachineView, type Step } from './decide.ts';
import { eventOf } from './events.ts';
import { ensureInstance, type CellAddress } from './instance.ts';
import { syncedNode } from './nodesync.ts';
import { createObserver, type Stores } from './observe.ts';
import { reservation, rowsWithoutMachine } from './pass.ts';
import { apiPort } from './port.ts';
import { report } from './report.ts';

export interface MachineControllerOptions {
  client: Client;
  /** Its stores must be of this term: made after leadership was acquired (D2). */
  cache: Cache;
  /** By name, as `spec.provider.name` says it. */
  providers: ReadonlyMap<string, InfraProvider>;
  cell: CellAddress;
  clock: Clock;
  random: Random;
  log: Log;
  recorder: Recorder;
  /** Of this term of leadership. */
  signal: AbortSignal;
}

const PASS = 'cell';
/** Verdicts depend on time and on what no event tells (a Lease that grows old). */
const PASS_AGAIN_MS = 2000;
const POLL_MS = 1000;
const RESYNC_MS = 30_000;
/** Steps of one machine in one run: each is found from state, and a run should not hold its worker for long. */
const MAX_STEPS = 8;

/**
 * The machine controller of a cell: nobody else reserves, cordons, drains, orders or uncordons (PROTOCOLS C2). Two loops: one key for the
 * whole cell, which reserves for all machines at once, and one key a machine, which takes the next step.
 *
 * Begins a term by raising the ledger's epoch. Rejects with code `Deposed` when a later term is met: then the process must not go on.
 */
export async function runMachineController(options: MachineControllerOptions): Promise<void> {
  const { client, cache, clock, random, log, recorder, providers } = options;
  const deposed = new AbortController();
  const signal = AbortSignal.any([options.signal, deposed.signal]);
  const epoch = await beginTerm(client, signal);
  log.info({ epoch }, 'a term begins');

  const stores: Stores = {
    machines: cache.store(Machines),
    nodes: cache.store(Nodes),
    leases: cache.store(Leases),
    sets: cache.store(MachineComponentSets),
    policies: cache.store(DefenderPolicies),
    freezes: cache.store(Freezes),
    ledgers: cache.store(DisruptionLedgers),
  };
  await cache.whenSynced(signal);
  const ages = leaseAges(stores.leases, clock);
  const marks = createReleaseMarks();
  const observer = createObserver(client, stores, ages, () => clock.now());
  const newID = (): string =>
    Math.floor(random() * 2 ** 48)
      .toString(36)
      .padStart(10, '0') +
    Math.floor(random() * 2 ** 24)
      .toString(36)
      .padStart(5, '0');
  const verdicts = new Map<string, Verdict>();
  const asking = new Map<string, number>();
  let wakeMachine: (key: string) => void = () => undefined;
  let wakePass: (key: string) => void = () => undefined;

  const stopIfDeposed = (error: unknown): void => {
    if (isCoded(error, 'Deposed')) deposed.abort(error);
  };
  const providerOf = (machine: Machine): InfraProvider | undefined => providers.get(machine.spec.provider?.name ?? '');

  async function pass(_: string, run: ReconcileContext): Promise<{ requeueAfterMs?: number } | void> {
    try {
      const since = (uid: string): number => {
        const known = asking.get(uid) ?? clock.monotonic();
        asking.set(uid, known);
        return known;
      };
      const port = apiPort({ client: run.client, clock, stores, marks, provider: undefined, signal });
      await perform(
        reservation(
          epoch,
          () => observer.cell(since, marks),
          newID,
          ({ rows, verdicts: said }) => {
            for (const row of rows) run.log.info({ row: row.id, machine: row.machine, class: row.class }, 'reserved');
            for (const uid of asking.keys()) if (!said.has(uid) && !rows.some((row) => row.machineUID === uid)) asking.delete(uid);
            tell(said);
          },
        ),
        port,
      );
      const ledger = stores.ledgers.get({ name: LEDGER_NAME });
      for (const row of rowsWithoutMachine(ledger === undefined ? [] : stateOf(ledger).rows, stores.machines.list())) {
        const freed = await perform(freeVanished(row, epoch), port);
        if (freed.done) run.log.info({ row: row.id, machine: row.machine }, 'released: the machine is gone');
      }
      return verdicts.size === 0 ? undefined : { requeueAfterMs: PASS_AGAIN_MS };
    } catch (error) {
      stopIfDeposed(error);
      throw error;
    }
  }

  /** Verdicts are written by each machine's own loop. */
  function tell(said: ReadonlyMap<string, Verdict>): void {
    for (const machine of stores.machines.list()) {
      const { uid } = machine.metadata;
      const verdict = said.get(uid);
      if (JSON.stringify(verdict) === JSON.stringify(verdicts.get(uid))) continue;
      if (verdict === undefined) verdicts.delete(uid);
      else verdicts.set(uid, verdict);
      wakeMachine(keyOf(machine.metadata));
    }
    for (const uid of verdicts.keys()) if (!said.has(uid)) verdicts.delete(uid);
  }

  async function reconcile(key: string, run: ReconcileContext): Promise<{ requeueAfterMs?: number } | void> {
    const machine = stores.machines.get(parseKey(key));
    if (machine === undefined) {
      wakePass(PASS);
      return;
    }
    const provider = providerOf(machine);
    try {
      const view = await observer.machine(machine, provider, signal);
      const decision = decide(view);
      let progressed = false;
      let disruptedAt: string | undefined;
      for (const step of decision.steps.slice(0, MAX_STEPS)) {
        const done = await take(step, view, provider, run);
        progressed ||= done;
        if (done && step.do === 'Release') disruptedAt = new Date(clock.now()).toISOString();
      }
      // A machine whose finalizer went is gone by now, or soon; there is nothing left to report on.
      if (!decision.steps.some((step) => step.do === 'Finalize')) {
        await report(
          run.client,
          { view, decision, verdict: view.row === undefined ? verdicts.get(machine.metadata.uid) : undefined, disruptedAt },
          signal,
        );
      }
      return again(view, decision, progressed);
    } catch (error) {
      stopIfDeposed(error);
      if (hasReason(error, 'NotFound') && stores.machines.get(parseKey(key)) === undefined) return;
      throw error;
    }
  }

  function again(view: MachineView, decision: Decision, progressed: boolean): { requeueAfterMs: number } | undefined {
    if (progressed) return { requeueAfterMs: 50 };
    if (decision.waits?.for === 'Provider' || decision.waits?.for === 'Pods') return { requeueAfterMs: POLL_MS };
    if (decision.waits?.untilMs !== undefined)
      return { requeueAfterMs: Math.max(POLL_MS, Math.min(RESYNC_MS, decision.waits.untilMs - view.nowMs)) };
    // Until it runs, the instance and the Node are looked at again and again: no event tells of a provider's progress.
    return view.machine.status?.phase === 'Running' ? undefined : { requeueAfterMs: POLL_MS };
  }

  /** Carries one step out. False: there was nothing to do any more, or somebody else was faster. */
  async function take(step: Step, view: MachineView, provider: InfraProvider | undefined, run: ReconcileContext): Promise<boolean> {
    const { machine } = view;
    const key = { namespace: machine.metadata.namespace, name: machine.metadata.name };
    const context: ActContext = { epoch, machine: key, node: machine.metadata.name, facts: view.facts, newID };
    const act = actOf(step, context);
    let note: string | undefined;
    if (act === undefined) {
      if (!(await plainly(step, view, provider, run))) return false;
    } else {
      const performed = await perform(act, apiPort({ client: run.client, clock, stores, marks, provider, signal }));
      if (!performed.done) {
        run.log.debug({ step: step.do, why: performed.why }, 'not done');
        return false;
      }
      ({ note } = performed);
    }
    run.log.info({ step: step.do, machine: keyOf(key), note }, step.why);
    const event = eventOf(step, note);
    if (event !== undefined) recorder.event(machine, event);
    if (['Release', 'FreeCancelled', 'Finalize'].includes(step.do)) wakePass(PASS);
    return true;
  }

  /** Steps that touch nothing which two leaders could dispute. */
  async function plainly(step: Step, view: MachineView, provider: InfraProvider | undefined, run: ReconcileContext): Promise<boolean> {
    const { machine, claim } = view;
    switch (step.do) {
      case 'AddFinalizer':
        return await patchFinalizers(machine, [...(machine.metadata.finalizers ?? []), FINALIZERS.machine], run.client);
      case 'EnsureInstance':
        if (provider === undefined) return false;
        await ensureInstance(run.client, machine, provider, options.cell, signal);
        return true;
      case 'SyncNode': {
        const live = await run.client.find(Nodes, { name: machine.metadata.name }, { signal });
        if (live === undefined || claim.state !== 'Claimed' || live.metadata.uid !== claim.node.metadata.uid) return false;
        const next = syncedNode(machine, live);
        if (next === undefined) return false;
        return await unlessConflict(run.client.update(Nodes, next, { fieldManager: MANAGERS.machine, signal }));
      }
      case 'Finalize': {
        // What belonged to the machine and has no owner that would take it along.
        if (claim.state === 'Claimed')
          await gone(run.client.delete(Nodes, { name: claim.node.metadata.name }, { uid: claim.node.metadata.uid, signal }));
        await gone(
          run.client.delete(Leases, { namespace: machine.metadata.namespace, name: agentLeaseName(machine.metadata.name) }, { signal }),
        );
        if (machine.status?.nodeRef !== undefined)
          await gone(run.client.delete(Leases, { namespace: 'kube-node-lease', name: machine.metadata.name }, { signal }));
        return await patchFinalizers(
          machine,
          (machine.metadata.finalizers ?? []).filter((finalizer) => finalizer !== FINALIZERS.machine),
          run.client,
        );
      }
      default:
        throw new Error(`${step.do} is a guarded write`);
    }
  }

  async function patchFinalizers(machine: Stored<Machine>, finalizers: string[], using: Client): Promise<boolean> {
    const { namespace, name, resourceVersion } = machine.metadata;
    return await unlessConflict(
      using.patch(
        Machines,
        { namespace, name },
        { merge: { metadata: { resourceVersion, finalizers } } },
        { fieldManager: MANAGERS.machine, signal },
      ),
    );
  }

  const shared = { client, clock, random, log, signal };
  const key = (machine: Stored<Machine>): string[] => [keyOf(machine.metadata)];
  const machinesNamed = (name: string): string[] =>
    stores.machines
      .list()
      .filter((machine) => machine.metadata.name === name)
      .map((machine) => keyOf(machine.metadata));
  try {
    await Promise.all([
      runController({
        ...shared,
        name: 'defender',
        watches: [
          watch(stores.machines, (machine, old) => (mayAsk(machine) || (old !== undefined && mayAsk(old)) ? [PASS] : [])),
          watch(stores.ledgers, () => [PASS]),
          watch(stores.policies, () => [PASS]),
          watch(stores.freezes, () => [PASS]),
          watch(stores.sets, () => [PASS]),
        ],
        concurrency: 1,
        resyncMs: RESYNC_MS,
        reconcile: pass,
        triggers: [
          (add) => {
            wakePass = add;
            return () => undefined;
          },
        ],
      }),
      runController({
        ...shared,
        name: 'machine',
        watches: [
          watch(stores.machines, key),
          watch(stores.nodes, (node) => machinesNamed(node.metadata.name)),
          watch(stores.ledgers, (ledger, old) => changedRows(stateOf(ledger).rows, old === undefined ? [] : stateOf(old).rows)),
        ],
        concurrency: 8,
        resyncMs: RESYNC_MS,
        reconcile,
        triggers: [
          (add) => {
            wakeMachine = add;
            return () => undefined;
          },
        ],
      }),
    ]);
  } finally {
    ages.stop();
  }
  if (deposed.signal.aborted) throw deposed.signal.reason;
}

/** Machines whose row came, went or is another now. */
function changedRows(now: readonly { id: string; machine: string }[], before: readonly { id: string; machine: string }[]): string[] {
  const gone = before.filter((row) => !now.some((other) => other.id === row.id));
  const made = now.filter((row) => !before.some((other) => other.id === row.id));
  return [...new Set([...gone, ...made].map((row) => row.machine))];
}

async function unlessConflict(write: Promise<unknown>): Promise<boolean> {
  try {
    await write;
    return true;
  } catch (error) {
    if (hasReason(error, 'Conflict')) return false;
    throw error;
  }
}

async function gone(deletion: Promise<void>): Promise<void> {
  try {
    await deletion;
  } catch (error) {
    if (!hasReason(error, 'NotFound', 'Conflict')) throw new Error(messageOf(error), { cause: error });
  }
}
