/**
 * What to do for one machine next, and why: pure. Each step of an operation follows from the state of Machine, Node and ledger alone, so that the next
 * leader can repeat any of them (docs/protocols.md#c3). A step reads again itself what makes it safe (`steps.ts` of each folder).
 */
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import type { Machine } from '../../api/machine.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { endOf, isControllerOperation, isUnderWay } from '../../api/machine/operation-end.ts';
import { refusalByRates } from '../../defender/judge.ts';
import { orderable, permitted } from './reservation/ask.ts';
import { isNodeReady } from '../../kube/liveness.ts';
import { degradedBy, drainNeeded, failedComponents, isRecorded } from './order/components.ts';
import { DEGRADED, isCordonedFor, isFencedFor, ownerOf } from './cordon/cordon.ts';
import { isSuccessor, owesDegraded } from './observe/claim.ts';
import { cancellationText, cancelReservation, type Cancellation } from './order/cancel.ts';
import { drainDeadlineMs, drainTimeout, evicting } from './drain/drain.ts';
import { givingBack } from './deletion/give-back.ts';
import { going, isUnmade, takeOverRefusal, unmaking, wantsDrainToGo } from './deletion/deletion.ts';
import { deletionEnds, hasFinalizer, hasNoAgent, isDeleting, isGivenBack, isNeverAskedFor, isRepairNeeded, isRetiring } from './facts.ts';
import { carryingOut, retiring } from './repair/own-operation.ts';
import {
  askingJob,
  isOrderFenced,
  isSucceeding,
  jobOfReservation,
  repairOrder,
  repairRefusal,
  successionRequest,
  successorOf,
  wantsCordon,
  wantsDrainFirst,
} from './repair/repair.ts';
import type { Decision, MachineView, Step } from './view.ts';

/** Whether pods are being taken away now, so that they must be observed. */
export function isDraining(view: MachineView): boolean {
  const { reservation, claim } = view;
  return (
    reservation !== undefined && claim.state === 'Claimed' && isCordonedFor(claim.node, reservation.id) && wantsDrain(view, reservation)
  );
}

/** Whether the next step depends on what the provider reports of the instance, so that its answer must be of this moment. */
export function isOnItsProvider({ machine, reservation }: Pick<MachineView, 'machine' | 'reservation'>): boolean {
  const { operation } = machine.spec;
  return (
    reservation !== undefined && operation?.id === reservation.id && operation.kind === 'Repair' && isControllerOperation(operation.action)
  );
}

export function decide(view: MachineView): Decision {
  const { machine, reservation } = view;
  if (!hasFinalizer(machine)) {
    if (isDeleting(machine)) return { steps: [] };
    return { steps: [{ do: 'AddFinalizer', why: 'nothing is made for a machine that could vanish unnoticed' }] };
  }
  const operation =
    isDeleting(machine) && isUnmade(view)
      ? unmaking(view)
      : reservation === undefined
        ? withoutReservation(view)
        : withReservation(view, reservation);
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

function withoutReservation(view: MachineView): Decision {
  const { machine, claim } = view;
  if (claim.state === 'Claimed') {
    const owner = ownerOf(claim.node);
    if (owner !== undefined && isUnderWay(machine, owner)) {
      const why = `the end of operation ${owner} was not reported, and the ledger lost its reservation; \`kubenode release\` gives it up`;
      return { steps: [], waits: { for: 'Agent', why } };
    }
    if (owner !== undefined && owner !== DEGRADED)
      return { steps: [{ do: 'LiftCordon', owner, why: `the ledger has no reservation ${owner} any more` }] };
    if (!isDeleting(machine)) {
      const [degraded] = degradedBy(machine);
      if (degraded !== undefined && !isCordonedFor(claim.node, DEGRADED)) return { steps: [{ do: 'MarkDegraded', why: degraded }] };
      if (owesDegraded(machine, claim.node))
        return { steps: [{ do: 'MarkDegraded', why: 'its Node registered again, and its last repair has not healed it' }] };
      if (owner === DEGRADED && failedComponents(machine).length === 0 && !isRepairNeeded(machine))
        return { steps: [{ do: 'LiftDegraded', why: 'no component is in a failure any more, and no repair is due' }] };
    }
  }
  if (isGivenBack(machine)) return givingBack(view);
  if (hasNoAgent(machine)) {
    const why =
      'its agent has left to give it back: set `spec.deletionPolicy: Orphan` again, or confirm by annotation that the machine is off';
    return { steps: [], waits: { for: 'Agent', why } };
  }
  if (isDeleting(machine) || isRetiring(machine, view.facts)) {
    if (!isDeleting(machine) && isNeverAskedFor(machine))
      return { steps: [{ do: 'Retire', reservation: undefined, why: 'its MachineSet wants it gone, and nothing was ever made for it' }] };
    return { steps: [], waits: { for: 'Defender', why: 'deletion disrupts the node and needs a reservation' } };
  }
  return { steps: [] };
}

function withReservation(view: MachineView, reservation: LedgerReservation): Decision {
  const { machine } = view;
  const operation = machine.spec.operation;
  if (operation?.id === reservation.id && operation.kind === 'Cancelled') return cancelled(view, reservation);
  if (reservation.kind === 'Delete') return going(view, reservation);
  // Where a deletion may not begin now, or disrupts nothing, what runs there goes on and ends as if there were none.
  if (
    isDeleting(machine) &&
    deletionEnds(machine) === undefined &&
    takeOverRefusal(reservation, machine, view.facts, view.hours) === undefined
  )
    return { steps: [{ do: 'TakeOver', reservation, why: 'the machine is being deleted; what runs there is not waited for' }] };
  return operation?.id === reservation.id ? ordered(view, reservation) : notOrdered(view, reservation);
}

function cancelled(view: MachineView, reservation: LedgerReservation): Decision {
  const { claim } = view;
  if (claim.state === 'Claimed' && !isFencedFor(claim.node, reservation.id))
    return { steps: [{ do: 'Fence', reservation, why: 'the operation was cancelled; a cordon for it that is still under way must lose' }] };
  return { steps: [...retiring(view, reservation), { do: 'FreeCancelled', reservation, why: 'the operation was cancelled' }] };
}

function ordered(view: MachineView, reservation: LedgerReservation): Decision {
  const { machine, claim } = view;
  const order = machine.spec.operation;
  const end = endOf(machine);
  if (order === undefined || end === undefined) {
    if (isCordonLost(view, reservation)) return cordoningAgain(reservation);
    if (order?.kind === 'Repair' && isControllerOperation(order.action)) return carryingOut(view, reservation, order, order.action);
    const successor = successorOf(reservation, machine, view.facts);
    if (successor !== undefined) return takingOver(view, reservation, successor);
    return {
      steps: [],
      waits: {
        for: 'Agent',
        why: `operation ${reservation.id} is ordered; a reservation is freed by the agent's report, never by the clock`,
        ...(askingJob(machine, view.facts.jobsOf) === undefined ? {} : { untilMs: Date.parse(reservation.notAfter) }),
      },
    };
  }
  // A node under repair is neither given back nor counted as available before its recovery is proven.
  if (reservation.kind === 'Repair' && jobOfReservation(reservation, view.facts) !== undefined) {
    if (isCordonLost(view, reservation)) return cordoningAgain(reservation);
    return {
      steps: [],
      waits: { for: 'RemedyJob', why: `${reservation.requester} has not recorded what came of operation ${reservation.id}` },
    };
  }
  if (claim.state === 'Claimed' && ownerOf(claim.node) === reservation.id)
    return { steps: [{ do: 'Settle', reservation, why: `operation ${reservation.id} ended: ${end.outcome}` }] };
  if (claim.state === 'Claimed' && isSuccessor(reservation, claim.node) && !isFencedFor(claim.node, reservation.id))
    return {
      steps: [
        {
          do: 'Fence',
          reservation,
          why: `the Node registered again during operation ${reservation.id}; a cordon that is still under way must lose`,
        },
      ],
    };
  if (!isRecorded(machine, order, (uid) => view.facts.sets.has(uid)))
    return { steps: [], waits: { for: 'SetController', why: 'a failed change is over when its set has answered it' } };
  return {
    steps: [{ do: 'Release', reservation, why: `operation ${reservation.id} ended as ${end.outcome} and is recorded` }],
  };
}

/** docs/protocols.md#c13: the Node that bore the cordon of this reservation, which has its order, was deleted, and the machine's Node registered again. */
function isCordonLost(view: MachineView, reservation: LedgerReservation): boolean {
  const { claim } = view;
  if (claim.state !== 'Claimed' || !isSuccessor(reservation, claim.node)) return false;
  return ownerOf(claim.node) !== reservation.id && !isFencedFor(claim.node, reservation.id) && isCordonWanted(view, reservation);
}

const cordoningAgain = (reservation: LedgerReservation): Decision => ({
  steps: [{ do: 'Cordon', reservation, why: `operation ${reservation.id} goes on, and the Node registered again without its cordon` }],
});

function notOrdered(view: MachineView, reservation: LedgerReservation): Decision {
  const { machine, claim, nowMs, facts } = view;
  const succeeds = isSucceeding(reservation, machine);
  const cancellation = givenUp(view, reservation);
  if (succeeds && (cancellation !== undefined || facts.agentAnswers))
    return heldBack(view, reservation, cancellation === undefined ? undefined : cancellationText(cancellation));
  if (cancellation !== undefined) return cancelReservation(reservation, cancellation);
  if (claim.state === 'Claimed' && !isCordonedFor(claim.node, reservation.id) && isCordonWanted(view, reservation))
    return { steps: [{ do: 'Cordon', reservation, why: `operation ${reservation.id} is reserved` }] };
  const drain = wantsDrain(view, reservation);
  if (drain && claim.state === 'Claimed' && isHeldByPods(view, reservation)) {
    const deadline = drainDeadlineMs(reservation, machine);
    if (nowMs < deadline || succeeds) return evicting(view, reservation, deadline);
    // To wait helps no node that cannot end its pods. Where the kubelet could end them and they are left, a disruption budget protects them.
    if (isNodeReady(claim.node, view.kubeletAnswers)) return cancelReservation(reservation, drainTimeout(machine, deadline));
  }
  const untilMs = Date.parse(reservation.notAfter);
  if (reservation.kind === 'Repair') {
    const repair = repairOrder(reservation, machine, facts);
    if ('waitsFor' in repair) return { steps: [], waits: { for: repair.waitsFor, why: repair.why, untilMs } };
    return { steps: [{ do: 'Order', reservation, drained: drain, why: `${reservation.requester}: ${repair.action}` }] };
  }
  if (!facts.agentAnswers)
    return { steps: [], waits: { for: 'Agent', why: 'an agent that does not renew its Lease gets no order', untilMs } };
  const components = orderable(reservation, machine, facts);
  const why = `${components.map((each) => each.name).join(', ')} may switch`;
  return { steps: [{ do: 'Order', reservation, drained: drainNeeded(components), why }] };
}

function wantsDrain(view: MachineView, reservation: LedgerReservation): boolean {
  const { machine, claim } = view;
  if (claim.state !== 'Claimed') return false;
  if (isMine(reservation, machine)) return isMigrating(view);
  if (reservation.kind === 'Delete') return wantsDrainToGo(view, reservation);
  if (reservation.kind === 'Change') return drainNeeded(orderable(reservation, machine, view.facts));
  const job = jobOfReservation(reservation, view.facts);
  return job !== undefined && wantsDrainFirst(job, machine);
}

const isMine = (reservation: LedgerReservation, machine: Machine): boolean => machine.spec.operation?.id === reservation.id;

/** Whether a repair takes the pods away after its order, and has not ended. */
function isMigrating({ machine }: MachineView): boolean {
  const { operation } = machine.spec;
  return operation?.kind === 'Repair' && operation.action === 'MigratePods' && endOf(machine) === undefined;
}

function isCordonWanted({ machine, facts }: MachineView, reservation: LedgerReservation): boolean {
  const job = reservation.kind === 'Repair' ? jobOfReservation(reservation, facts) : undefined;
  return job === undefined || wantsCordon(job, machine);
}

/** Why a reservation without an order is given up (docs/protocols.md#d6); undefined while it may go on. */
function givenUp(view: MachineView, reservation: LedgerReservation): Cancellation | undefined {
  const { machine, facts, nowMs } = view;
  if (isDeleting(machine)) return { cause: 'RequestGone', why: 'the machine is being deleted' };
  if (reservation.kind === 'Repair') {
    if (isOrderFenced(reservation, machine)) return { cause: 'RequestGone', why: 'another repair was to take over' };
    const job = jobOfReservation(reservation, facts);
    if (job === undefined) return { cause: 'RequestGone', why: `${reservation.requester} is finished or gone` };
    if (job.status?.cancelling !== undefined) return { cause: 'RequestGone', why: job.status.cancelling.why };
    const refusal = repairRefusal(job, machine, facts);
    if (refusal !== undefined) return { cause: 'Refused', why: `${refusal.limit ?? ''} stops it` };
  } else if (orderable(reservation, machine, facts).length === 0) {
    const { refusal } = permitted(machine, facts);
    return refusal === undefined
      ? { cause: 'RequestGone', why: 'nothing waits any more' }
      : { cause: 'Refused', why: `${refusal.limit ?? ''} stops it` };
  }
  if (view.revoked !== undefined) return { cause: 'Refused', why: view.revoked.limit ?? '' };
  // A reservation that took over does not expire: the provider carries it out when this controller asks it to.
  return nowMs > Date.parse(reservation.notAfter) && !isSucceeding(reservation, machine)
    ? { cause: 'Expired', why: `it had not begun by ${reservation.notAfter}` }
    : undefined;
}

/**
 * Keeps a reservation whose machine may still be disrupted, instead of giving it up: the operation that it took over may go on as soon as the agent is back.
 * It keeps its reservation, and nothing is done in its name, until its end is reported or another repair takes over (docs/protocols.md#d5).
 */
function heldBack(view: MachineView, reservation: LedgerReservation, reason = 'its agent is back'): Decision {
  const successor = successorOf(reservation, view.machine, view.facts);
  if (successor !== undefined) return takingOver(view, reservation, successor);
  const why = `${reason}; operation ${reservation.succeeds}, which may have begun on the node, has not ended as far as is known`;
  return { steps: [], waits: { for: 'Agent', why } };
}

function takingOver({ machine, facts, hours }: MachineView, reservation: LedgerReservation, successor: RemedyOperationJob): Decision {
  const refusal = refusalByRates(successionRequest(successor, machine, reservation), hours, facts, facts.nowMs);
  if (refusal !== undefined)
    return {
      steps: [],
      waits: { for: 'Defender', why: `${refusal.limit}: ${successor.metadata.name} waits until ${refusal.wouldPassWhen}` },
    };
  const job = successor.metadata.uid ?? '';
  if (isSucceeding(reservation, machine) && !isOrderFenced(reservation, machine))
    return {
      steps: [
        {
          do: 'FenceOrder',
          reservation,
          job,
          why: `${successor.metadata.name} takes over operation ${reservation.id}, whose order must not come any more`,
        },
      ],
    };
  const why = `its agent does not renew its Lease and operation ${reservation.succeeds ?? reservation.id} can no longer begin; ${successor.metadata.name} repairs it without`;
  return { steps: [{ do: 'TakeOverForRepair', reservation, job, why }] };
}

/** Whether pods keep the order waiting. Under a repair of a node whose kubelet has failed, pods that are terminating do not. */
function isHeldByPods({ pods, kubeletAnswers }: MachineView, reservation: LedgerReservation): boolean {
  if (pods === undefined) return true;
  return reservation.kind === 'Repair' && !kubeletAnswers ? pods.some((pod) => !pod.terminating) : pods.length > 0;
}
