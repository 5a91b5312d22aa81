/**
 * What to do for one machine next, and why: pure. Each step of an operation is found from the state of Machine, Node and ledger alone, so that any
 * of them can be repeated by whoever leads next (docs/protocols.md#c3). What a step needs to be safe it reads again itself (`act.ts`).
 */
import type { LedgerRow } from '../../api/disruption-ledger.ts';
import type { Machine } from '../../api/machine.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { refusalByRates } from '../../defender/judge.ts';
import { orderable, permitted } from './ask.ts';
import { isNodeReady } from './availability.ts';
import { degradedBy, drainNeeded, failedComponents, isRecorded } from './components.ts';
import { DEGRADED, isCordonedFor, isFencedFor, ownerOf } from './cordon.ts';
import { isSuccessor, owesDegraded } from './claim.ts';
import { cancellationText, cancelRow, type Cancellation } from './cancel.ts';
import { drainDeadlineMs, drainTimeout, evicting } from './drain.ts';
import { going, isUnmade, takeOverRefusal, unmaking, wantsDrainToGo } from './deletion.ts';
import { hasFinalizer, isDeleting, isNeverAskedFor, isRepairNeeded, isRetiring } from './facts.ts';
import { carryingOut, retiring } from './own-operation.ts';
import {
  askingJob,
  finalReport,
  isControllerOperation,
  isOrderFenced,
  isSucceeding,
  isUnderWay,
  jobOfRow,
  repairOrder,
  repairRefusal,
  successionRequest,
  successorOf,
  wantsCordon,
  wantsDrainFirst,
} from './repair.ts';
import type { Decision, MachineView, Step } from './view.ts';

const isMine = (row: LedgerRow, machine: Machine): boolean => machine.spec.operation?.id === row.id;

function wantsDrain(view: MachineView, row: LedgerRow): boolean {
  const { machine, claim } = view;
  if (claim.state !== 'Claimed') return false;
  if (isMine(row, machine)) return isMigrating(view);
  if (row.kind === 'Delete') return wantsDrainToGo(view, row);
  if (row.kind === 'Change') return drainNeeded(orderable(row, machine, view.facts));
  const job = jobOfRow(row, view.facts);
  return job !== undefined && wantsDrainFirst(job, machine);
}

/** Whether a repair takes the pods away after its order, and has not ended. */
function isMigrating({ machine }: MachineView): boolean {
  const { operation } = machine.spec;
  return operation?.kind === 'Repair' && operation.action === 'MigratePods' && finalReport(machine) === undefined;
}

/** Whether pods are being taken away now, so that they must be looked at. */
export function isDraining(view: MachineView): boolean {
  const { row, claim } = view;
  return row !== undefined && claim.state === 'Claimed' && isCordonedFor(claim.node, row.id) && wantsDrain(view, row);
}

/** Whether what the provider says of the instance is acted on, so that nothing older than this moment will do. */
export function isOnItsProvider({ machine, row }: Pick<MachineView, 'machine' | 'row'>): boolean {
  const { operation } = machine.spec;
  return row !== undefined && operation?.id === row.id && operation.kind === 'Repair' && isControllerOperation(operation.action);
}

export function decide(view: MachineView): Decision {
  const { machine, row } = view;
  if (!hasFinalizer(machine)) {
    if (isDeleting(machine)) return { steps: [] };
    return { steps: [{ do: 'AddFinalizer', why: 'nothing is made for a machine that could vanish unnoticed' }] };
  }
  const operation = isDeleting(machine) && isUnmade(view) ? unmaking(view) : row === undefined ? withoutRow(view) : withRow(view, row);
  return { ...operation, steps: [...housekeeping(view), ...operation.steps] };
}

function housekeeping(view: MachineView): Step[] {
  const { machine, instance, claim } = view;
  if (isDeleting(machine)) return [];
  const steps: Step[] = [];
  // Once recorded an instance is never made again: one that is gone makes its machine NodeLost.
  if (instance.state === 'Absent' && machine.status?.providerID === undefined && machine.spec.retire === undefined)
    steps.push({ do: 'EnsureInstance', why: 'the machine has no instance yet' });
  if (claim.state === 'Claimed' && view.nodeDrift) steps.push({ do: 'SyncNode', why: "labels or taints differ from the machine's" });
  return steps;
}

function withoutRow(view: MachineView): Decision {
  const { machine, claim } = view;
  if (claim.state === 'Claimed') {
    const owner = ownerOf(claim.node);
    if (owner !== undefined && isUnderWay(machine, owner)) {
      const why = `the end of operation ${owner} was not reported, and the ledger lost its row; \`kubenode release\` gives it up`;
      return { steps: [], waits: { for: 'Agent', why } };
    }
    if (owner !== undefined && owner !== DEGRADED)
      return { steps: [{ do: 'LiftCordon', owner, why: `the ledger has no row ${owner} any more` }] };
    if (!isDeleting(machine)) {
      const [degraded] = degradedBy(machine);
      if (degraded !== undefined && !isCordonedFor(claim.node, DEGRADED)) return { steps: [{ do: 'MarkDegraded', why: degraded }] };
      if (owesDegraded(machine, claim.node))
        return { steps: [{ do: 'MarkDegraded', why: 'its Node registered again, and its last repair has not healed it' }] };
      if (owner === DEGRADED && failedComponents(machine).length === 0 && !isRepairNeeded(machine))
        return { steps: [{ do: 'LiftDegraded', why: 'no component is in a failure any more, and no repair is due' }] };
    }
  }
  if (isDeleting(machine) || isRetiring(machine, view.facts)) {
    if (!isDeleting(machine) && isNeverAskedFor(machine))
      return { steps: [{ do: 'Retire', row: undefined, why: 'its MachineSet wants it gone, and nothing was ever made for it' }] };
    return { steps: [], waits: { for: 'Defender', why: 'deletion disrupts the node and needs a reservation' } };
  }
  return { steps: [] };
}

function withRow(view: MachineView, row: LedgerRow): Decision {
  const { machine } = view;
  const operation = machine.spec.operation;
  if (operation?.id === row.id && operation.kind === 'Cancelled') return cancelled(view, row);
  if (row.kind === 'Delete') return going(view, row);
  // Where a deletion may not begin now, what runs there goes on and ends as if there were none.
  if (isDeleting(machine) && takeOverRefusal(row, machine, view.facts, view.hours) === undefined)
    return { steps: [{ do: 'TakeOver', row, why: 'the machine is being deleted; what runs there is not waited for' }] };
  return operation?.id === row.id ? ordered(view, row) : notOrdered(view, row);
}

function cancelled(view: MachineView, row: LedgerRow): Decision {
  const { claim } = view;
  if (claim.state === 'Claimed' && !isFencedFor(claim.node, row.id))
    return { steps: [{ do: 'Fence', row, why: 'the operation was cancelled; a cordon for it that is still under way must lose' }] };
  return { steps: [...retiring(view, row), { do: 'FreeCancelled', row, why: 'the operation was cancelled' }] };
}

function ordered(view: MachineView, row: LedgerRow): Decision {
  const { machine, claim } = view;
  const order = machine.spec.operation;
  const report = finalReport(machine);
  if (order === undefined || report === undefined) {
    if (isCordonLost(view, row)) return cordoningAgain(row);
    if (order?.kind === 'Repair' && isControllerOperation(order.action)) return carryingOut(view, row, order);
    const successor = successorOf(row, machine, view.facts);
    if (successor !== undefined) return takingOver(view, row, successor);
    return {
      steps: [],
      waits: {
        for: 'Agent',
        why: `operation ${row.id} is ordered; a row is freed by the agent's report, never by the clock`,
        ...(askingJob(machine, view.facts.jobsOf) === undefined ? {} : { untilMs: Date.parse(row.notAfter) }),
      },
    };
  }
  // Until its recovery is proven a node under repair is neither given back nor counted as one that is there.
  if (row.kind === 'Repair' && jobOfRow(row, view.facts) !== undefined) {
    if (isCordonLost(view, row)) return cordoningAgain(row);
    return { steps: [], waits: { for: 'RemedyJob', why: `${row.requester} has not recorded what came of operation ${row.id}` } };
  }
  if (claim.state === 'Claimed' && ownerOf(claim.node) === row.id)
    return { steps: [{ do: 'Settle', row, why: `operation ${row.id} ended: ${report.outcome ?? 'nobody says how'}` }] };
  if (claim.state === 'Claimed' && isSuccessor(row, claim.node) && !isFencedFor(claim.node, row.id))
    return {
      steps: [
        { do: 'Fence', row, why: `the Node registered again during operation ${row.id}; a cordon that is still under way must lose` },
      ],
    };
  if (!isRecorded(machine, order, (uid) => view.facts.sets.has(uid)))
    return { steps: [], waits: { for: 'SetController', why: 'a failed change is over when its set has answered it' } };
  return { steps: [{ do: 'Release', row, why: `operation ${row.id} ended as ${report.outcome ?? 'reported'} and is recorded` }] };
}

function isCordonWanted({ machine, facts }: MachineView, row: LedgerRow): boolean {
  const job = row.kind === 'Repair' ? jobOfRow(row, facts) : undefined;
  return job === undefined || wantsCordon(job, machine);
}

/** docs/protocols.md#c13: the Node that bore the cordon of this row, which has its order, was deleted, and the machine's Node registered again. */
function isCordonLost(view: MachineView, row: LedgerRow): boolean {
  const { claim } = view;
  if (claim.state !== 'Claimed' || !isSuccessor(row, claim.node)) return false;
  return ownerOf(claim.node) !== row.id && !isFencedFor(claim.node, row.id) && isCordonWanted(view, row);
}

const cordoningAgain = (row: LedgerRow): Decision => ({
  steps: [{ do: 'Cordon', row, why: `operation ${row.id} goes on, and the Node registered again without its cordon` }],
});

function takingOver({ machine, facts, hours }: MachineView, row: LedgerRow, successor: RemedyOperationJob): Decision {
  const refusal = refusalByRates(successionRequest(successor, machine, row), hours, facts, facts.nowMs);
  if (refusal !== undefined)
    return {
      steps: [],
      waits: { for: 'Defender', why: `${refusal.limit}: ${successor.metadata.name} waits until ${refusal.wouldPassWhen}` },
    };
  const job = successor.metadata.uid ?? '';
  if (isSucceeding(row, machine) && !isOrderFenced(row, machine))
    return {
      steps: [
        {
          do: 'FenceOrder',
          row,
          job,
          why: `${successor.metadata.name} takes over operation ${row.id}, whose order must not come any more`,
        },
      ],
    };
  const why = `its agent is silent and operation ${row.succeeds ?? row.id} can no longer begin; ${successor.metadata.name} repairs it without`;
  return { steps: [{ do: 'TakeOverForRepair', row, job, why }] };
}

/** Why a row without an order is given up (docs/protocols.md#d6); undefined while it may go on. */
function givenUp(view: MachineView, row: LedgerRow): Cancellation | undefined {
  const { machine, facts, nowMs } = view;
  if (isDeleting(machine)) return { cause: 'RequestGone', why: 'the machine is being deleted' };
  if (row.kind === 'Repair') {
    if (isOrderFenced(row, machine)) return { cause: 'RequestGone', why: 'another repair was to take over' };
    const job = jobOfRow(row, facts);
    if (job === undefined) return { cause: 'RequestGone', why: `${row.requester} is finished or gone` };
    if (job.status?.cancelling !== undefined) return { cause: 'RequestGone', why: job.status.cancelling.why };
    const refusal = repairRefusal(job, machine, facts);
    if (refusal !== undefined) return { cause: 'Refused', why: `${refusal.limit ?? ''} stops it` };
  } else if (orderable(row, machine, facts).length === 0) {
    const { refusal } = permitted(machine, facts);
    return refusal === undefined
      ? { cause: 'RequestGone', why: 'nothing waits any more' }
      : { cause: 'Refused', why: `${refusal.limit ?? ''} stops it` };
  }
  if (view.revoked !== undefined) return { cause: 'Refused', why: view.revoked.limit ?? '' };
  // Of what took over nobody is late: the provider carries it out when this controller says so.
  return nowMs > Date.parse(row.notAfter) && !isSucceeding(row, machine)
    ? { cause: 'Expired', why: `it had not begun by ${row.notAfter}` }
    : undefined;
}

function notOrdered(view: MachineView, row: LedgerRow): Decision {
  const { machine, claim, nowMs, facts } = view;
  const held = isSucceeding(row, machine);
  const cancellation = givenUp(view, row);
  if (held && (cancellation !== undefined || facts.agentAnswers))
    return heldBack(view, row, cancellation === undefined ? undefined : cancellationText(cancellation));
  if (cancellation !== undefined) return cancelRow(row, cancellation);
  if (claim.state === 'Claimed' && !isCordonedFor(claim.node, row.id) && isCordonWanted(view, row))
    return { steps: [{ do: 'Cordon', row, why: `operation ${row.id} is reserved` }] };
  const drain = wantsDrain(view, row);
  if (drain && claim.state === 'Claimed' && isHeldByPods(view, row)) {
    const deadline = drainDeadlineMs(row, machine);
    if (nowMs < deadline || held) return evicting(view, row, deadline);
    // A node that cannot end its pods is no better off for waiting; one that could and did not is protected by somebody's budget.
    if (isNodeReady(claim.node, view.kubeletAnswers)) return cancelRow(row, drainTimeout(machine, deadline));
  }
  const untilMs = Date.parse(row.notAfter);
  if (row.kind === 'Repair') {
    const repair = repairOrder(row, machine, facts);
    if ('waitsFor' in repair) return { steps: [], waits: { for: repair.waitsFor, why: repair.why, untilMs } };
    return { steps: [{ do: 'Order', row, drained: drain, why: `${row.requester}: ${repair.action}` }] };
  }
  if (!facts.agentAnswers) return { steps: [], waits: { for: 'Agent', why: 'no order is given to an agent that is silent', untilMs } };
  const components = orderable(row, machine, facts);
  const why = `${components.map((each) => each.name).join(', ')} may switch`;
  return { steps: [{ do: 'Order', row, drained: drainNeeded(components), why }] };
}

/**
 * Instead of giving up a row whose machine may be disrupted still: what it took over may go on as soon as the agent is back. It holds its place, and
 * nothing is done in its name, until its end is reported or another repair takes over (docs/protocols.md#d5).
 */
function heldBack(view: MachineView, row: LedgerRow, reason = 'its agent is back'): Decision {
  const successor = successorOf(row, view.machine, view.facts);
  if (successor !== undefined) return takingOver(view, row, successor);
  const why = `${reason}; operation ${row.succeeds}, which may have begun on the node, has not ended as far as is known`;
  return { steps: [], waits: { for: 'Agent', why } };
}

/** Whether pods keep the order waiting. Under a repair those that are on their way do not where the kubelet that would end them is what is ill. */
function isHeldByPods({ pods, kubeletAnswers }: MachineView, row: LedgerRow): boolean {
  if (pods === undefined) return true;
  return row.kind === 'Repair' && !kubeletAnswers ? pods.some((pod) => !pod.terminating) : pods.length > 0;
}
