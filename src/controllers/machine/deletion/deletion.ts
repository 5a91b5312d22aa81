/**
 * How a machine goes (docs/protocols.md#c8, #c8a). Pure. Two ways lead there: a client deletes the Machine, or its MachineSet marks it. Both ask for a reservation,
 * under everything that forbids a disruption; until the order of the reservation, or the deletion of a marked Machine, it can be taken back.
 */
import type { LedgerReservation, StartsBucket } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import { reportedEnd } from '../../../api/machine/operation-end.ts';
import { gatesOf } from '../../../defender/gates.ts';
import { refusalByRates } from '../../../defender/judge.ts';
import { isRevocable } from '../../../defender/recheck.ts';
import type { Request, Verdict } from '../../../defender/request.ts';
import { asksForRestore, deletion, deletionRefusal } from '../reservation/ask.ts';
import { isNodeReady } from '../../../kube/liveness.ts';
import { isCordonedFor } from '../cordon/cordon.ts';
import { cancelReservation, type Cancellation } from '../order/cancel.ts';
import { drainDeadlineMs, drainTimeout, evicting } from '../drain/drain.ts';
import { deletionEnds, isDeleting, isNeverAskedFor, isRetiring, isUnjoined, requestBase, type AskFacts } from '../facts.ts';
import type { Decision, MachineView, Step } from '../view.ts';

/** Whether the reservation is of a repair that has deleted this Machine to have it replaced. */
export function isReplacing(reservation: LedgerReservation, { spec }: Machine): boolean {
  return reservation.kind === 'Repair' && spec.operation?.id === reservation.id && spec.operation.action === 'Replace';
}

/** What the Delete reservation records that replaces this one. Of a replacement it stays the repair that it was granted as. */
export function deletionTakingOver(reservation: LedgerReservation, machine: Machine): Omit<Request, 'since'> {
  const request = {
    ...requestBase(machine),
    ...deletion(machine),
    machine: reservation.machine,
    nodeUID: reservation.nodeUID,
    scopes: reservation.scopes,
  };
  return { ...request, class: isReplacing(reservation, machine) ? 'Repair' : 'Change' };
}

/** Why a deletion may not take over this reservation now. It is counted in its scopes already; all else is asked as of a new reservation (docs/protocols.md#d11). */
export function takeOverRefusal(
  reservation: LedgerReservation,
  machine: Machine,
  facts: AskFacts,
  hours: readonly StartsBucket[],
): Verdict | undefined {
  if (isReplacing(reservation, machine)) return undefined;
  const subject = deletionTakingOver(reservation, machine);
  return (
    deletionRefusal(machine, facts) ?? gatesOf(facts, facts.nowMs)(subject, undefined) ?? refusalByRates(subject, hours, facts, facts.nowMs)
  );
}

/** Nothing was made for it, by its own record or by its provider's answer: nothing is disrupted when it goes. */
export function isUnmade({ machine, instance, claim }: MachineView): boolean {
  if (claim.state === 'Claimed' || claim.state === 'Lost') return false;
  return isNeverAskedFor(machine) || (isUnjoined(machine) && instance.state === 'Absent');
}

/** Needs no reservation. */
export function unmaking(view: MachineView): Decision {
  const { machine, reservation } = view;
  const finalize: Step = { do: 'Finalize', reservation, why: 'nothing was ever made for the machine' };
  if (isNeverAskedFor(machine)) return { steps: [finalize] };
  return absent(view, reservation, finalize);
}

/** The provider is asked to delete also where there is no instance: a deposed leader may be about to make it, and after a deletion no provider makes it again. */
function absent(view: MachineView, reservation: LedgerReservation | undefined, finalize: Step): Decision {
  const remove: Step = { do: 'DeleteInstance', reservation, providerID: view.instanceID, why: 'there must be none, and none must be made' };
  return { steps: [remove, finalize], waits: { for: 'Provider', why: 'its absence is to be proven' } };
}

/** Whether pods are to go before the machine does. */
export function wantsDrainToGo({ machine, claim, kubeletAnswers, nowMs }: MachineView, reservation: LedgerReservation): boolean {
  if (claim.state !== 'Claimed') return false;
  // Where a client deleted the Machine, pods that cannot be drained are not waited for: without its kubelet no pod of this node ends.
  return !isDeleting(machine) || (isNodeReady(claim.node, kubeletAnswers) && nowMs < drainDeadlineMs(reservation, machine));
}

/** Why a Delete reservation without an order is given up (docs/protocols.md#d6). */
function givenUp({ machine, facts, revoked }: MachineView, reservation: LedgerReservation): Cancellation | undefined {
  const ends = deletionEnds(machine);
  if (ends !== undefined) return { cause: 'RequestGone', why: ends };
  if (!isDeleting(machine) && !isRetiring(machine, facts))
    return { cause: 'RequestGone', why: 'its MachineSet does not want it gone any more' };
  if (!isDeleting(machine) && asksForRestore(machine, facts)) return { cause: 'RequestGone', why: 'the way back goes first' };
  if (!isRevocable(reservation)) return undefined;
  const refusal = deletionRefusal(machine, facts) ?? revoked;
  return refusal === undefined ? undefined : { cause: 'Refused', why: `${refusal.limit ?? ''} stops it` };
}

/** Why the order of a deletion must not be written, on the Machine as it is now; the decision may have seen an older one. */
export function keptFromDeletion(reservation: LedgerReservation, machine: Machine, facts: AskFacts): string | undefined {
  const ends = deletionEnds(machine);
  if (ends !== undefined) return ends;
  const refusal = isRevocable(reservation) ? deletionRefusal(machine, facts) : undefined;
  return refusal === undefined ? undefined : `${refusal.limit ?? ''} stops it`;
}

/** With a Delete reservation that is not cancelled. */
export function going(view: MachineView, reservation: LedgerReservation): Decision {
  const { machine, instance, claim } = view;
  const isOrdered = machine.spec.operation?.id === reservation.id;
  const cancellation = isOrdered ? undefined : givenUp(view, reservation);
  if (cancellation !== undefined) return cancelReservation(reservation, cancellation);
  if (instance.state === 'Unknown') return { steps: [], waits: { for: 'Provider', why: instance.message } };
  if (isDeleting(machine)) {
    const finalize: Step = { do: 'Finalize', reservation, why: 'the provider proves that there is no instance' };
    if (instance.state === 'NoProvider') return { steps: [finalize] };
    if (instance.state === 'Absent') return absent(view, reservation, finalize);
    if (isOrdered) return removing(view, reservation);
  }
  if (claim.state === 'Claimed' && !isCordonedFor(claim.node, reservation.id))
    return { steps: [{ do: 'Cordon', reservation, why: 'the machine is to go' }] };
  if (wantsDrainToGo(view, reservation) && (view.pods === undefined || view.pods.length > 0)) {
    const deadline = drainDeadlineMs(reservation, machine);
    if (view.nowMs < deadline) return evicting(view, reservation, deadline);
    // To wait helps no node that cannot end its pods. Where the kubelet could end them and they are left, a disruption budget protects them.
    if (claim.state === 'Claimed' && isNodeReady(claim.node, view.kubeletAnswers))
      return cancelReservation(reservation, drainTimeout(machine, deadline));
  }
  if (!isDeleting(machine)) return { steps: [{ do: 'Retire', reservation, why: 'its MachineSet wants it gone, and it is drained' }] };
  // The order cannot be taken back. The provider is asked for nothing before it.
  return { steps: [{ do: 'Order', reservation, drained: true, why: 'the machine goes; an agent that answers cleans up' }] };
}

function removing({ machine, facts, nowMs, instanceID }: MachineView, reservation: LedgerReservation): Decision {
  const notAfter = Date.parse(reservation.notAfter);
  const isDone = reportedEnd(machine, reservation.id) !== undefined;
  if (!isDone && facts.agentAnswers && machine.status?.agent !== undefined && nowMs <= notAfter)
    return { steps: [], waits: { for: 'Agent', why: 'the agent cleans up', untilMs: notAfter } };
  return {
    steps: [{ do: 'DeleteInstance', reservation, providerID: instanceID, why: 'nothing is left to do on the node' }],
    waits: { for: 'Provider', why: 'the instance is being deleted' },
  };
}
