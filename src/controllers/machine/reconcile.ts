import type { Random } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import { parseKey } from '../../api/resource.ts';
import type { GuardedPort } from '../../defender/guarded-write.ts';
import { hasReason, isRefusal } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { ReconcileContext } from '../../kube/controller.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { CellAddress } from '../identity/provision.ts';
import { carryOutAll } from './carry-out.ts';
import { decide } from './decide.ts';
import { budgetsOf, keeping, unending } from './drain/budgets.ts';
import { eventOfChange, statusRefused } from './events.ts';
import type { Effect } from './guards.ts';
import type { RefusedNodes } from './node-sync/refused-nodes.ts';
import type { Observer } from './observe/observe.ts';
import { requeue } from './requeue.ts';
import type { Pass } from './reservation/pass-loop.ts';
import type { RefusedReports } from './status/refused-reports.ts';
import { report, type ReportInput } from './status/report.ts';
import { eventOf } from './steps.ts';
import type { Stores } from './stores.ts';
import type { MachineView } from './view.ts';

export interface MachineDeps {
  stores: Pick<Stores, 'machines'>;
  observer: Observer;
  pass: Pick<Pass, 'revokedBy' | 'verdicts'>;
  /** By name, as `spec.provider.name` has it. */
  providers: ReadonlyMap<string, InfraProvider>;
  cell: CellAddress;
  recorder: Pick<Recorder, 'event'>;
  refusedNodes: RefusedNodes;
  refusedReports: RefusedReports;
  /** Operations whose power cycle the provider has taken. */
  cycled: ReadonlySet<string>;
  epoch: number;
  newID: () => string;
  portOf: (client: Client, provider: InfraProvider | undefined) => GuardedPort<Effect>;
  /** Runs the reservation pass: slots of the ledger are free, or may be. */
  wakePass: () => void;
  signal: AbortSignal;
}

/** The ID of an operation, new each time. */
export const newOperationID = (random: Random): string => [48, 40].map((bits) => Math.floor(random() * 2 ** bits).toString(36)).join('-');

/** Takes the next step of one machine and reports it. */
export async function reconcileMachine(deps: MachineDeps, key: string, run: ReconcileContext): Promise<QueueResult | void> {
  const { observer, providers, recorder, refusedNodes, refusedReports, cell, epoch, newID, signal } = deps;
  const machine = deps.stores.machines.get(parseKey(key));
  // A machine that is gone may have left a reservation.
  if (machine === undefined) {
    refusedNodes.forget(key);
    refusedReports.forget(key);
    return deps.wakePass();
  }
  if (machine.spec.paused === true) return;
  const provider = providers.get(machine.spec.provider?.name ?? '');
  const own = { revokedBy: (id: string) => deps.pass.revokedBy(id), cycled: deps.cycled };
  const view = refusedNodes.judge(key, await observer.machine(machine, provider, own, signal));
  const decision = decide(view);
  const hands = { client: run.client, port: deps.portOf(run.client, provider), provider, cell, epoch, newID, signal };
  const { done, refusals, failure, nodeRefused } = await carryOutAll(decision.steps, view, hands, (step, { note }) => {
    run.log.info({ step: step.do, note }, step.why);
    const event = eventOf(step, view, note);
    if (event !== undefined) recorder.event(machine, event);
  });
  refusedNodes.note(key, machine, nodeRefused);
  if (nodeRefused !== undefined) view.notOnNode = [{ reason: 'NodeRefused', message: nodeRefused }, ...view.notOnNode];
  // What a provider refuses belongs into the status, and is tried again.
  if (failure !== undefined) view.instance = { state: 'Unknown', reason: failure.code, message: failure.message };
  if (done.some((step) => step === 'Release' || step === 'FreeCancelled')) deps.wakePass();
  // A machine whose finalizer went is gone by now, or soon; there is nothing left to report on.
  if (done.includes('Finalize')) return;
  const refused = refusedReports.note(key, await reportStatus(deps, view, await drainReport(view, refusals, run.client, signal), run));
  if (refused?.isNew === true) recorder.event(machine, statusRefused(refused.message));
  if (failure !== undefined) throw failure;
  const again = requeue(view, decision, { progressed: done.length > 0, refused: refusals.length > 0 });
  return refused === undefined ? again : { requeueAfterMs: Math.min(refused.againMs, again?.requeueAfterMs ?? refused.againMs) };
}

type DrainReport = Omit<ReportInput, 'view' | 'verdict'>;

/** Which evictions were refused, and which disruption budgets refused them. */
async function drainReport(view: MachineView, refusals: readonly string[], client: Client, signal: AbortSignal): Promise<DrainReport> {
  const pods = refusals.length > 0 ? (view.pods?.filter((pod) => !pod.terminating) ?? []) : [];
  const budgets = await budgetsOf(client, pods, signal);
  return { refusals, unending: unending(budgets, pods), budgets: keeping(budgets, pods) };
}

/** Gives the message of the server where it refuses the status. Nothing else waits for that. */
async function reportStatus(
  { pass, recorder, signal }: MachineDeps,
  view: MachineView,
  drain: DrainReport,
  run: ReconcileContext,
): Promise<string | undefined> {
  const { machine } = view;
  const last = view.reservation === undefined ? pass.verdicts.of(machine.metadata.uid) : undefined;
  // The ledger shows what is granted. The status would need two more writes for it before the order.
  const verdict = last?.allowed === true ? undefined : last;
  try {
    const changed = await report(run.client, { view, verdict, ...drain }, signal);
    const event = changed ? eventOfChange(machine.status?.phase, view) : undefined;
    if (event !== undefined) recorder.event(machine, event);
  } catch (error) {
    if (isRefusal(error)) return error.message;
    // The machine is gone, or another one has the name: the store will show it.
    if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
  }
  return undefined;
}
