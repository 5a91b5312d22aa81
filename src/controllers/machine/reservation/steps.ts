/** Steps that write the ledger after a reservation: the ways out of it, and the two exchanges. M is the Machine, N its Node, L the ledger; r is the reservation. */
import { defenderErrorCodes } from '../../../defender/errors.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { isCoded } from '../../../api/errors.ts';
import type { Machine } from '../../../api/machine.ts';
import { parseKey } from '../../../api/resource.ts';
import type { Stored } from '../../../api/wire.ts';
import type { ReleaseMark } from '../../../defender/evidence.ts';
import type { GuardedWrite, Move, Seen } from '../../../defender/guarded-write.ts';
import { refusalByRates } from '../../../defender/judge.ts';
import { limitsOf } from '../../../defender/limits.ts';
import { ledgerGone, release, takeOver, type ReleaseEvidence } from '../../../defender/protocol.ts';
import { reservationFor } from '../../../defender/request.ts';
import { withState, type LedgerState } from '../../../defender/state.ts';
import { isSuccessor, type Claim } from '../observe/claim.ts';
import { isRecorded } from '../order/components.ts';
import { isFencedFor, ownerOf } from '../cordon/cordon.ts';
import { deletionTakingOver, isReplacing, takeOverRefusal } from '../deletion/deletion.ts';
import { normal } from '../events.ts';
import { deletionEnds, isDeleting } from '../facts.ts';
import type { StepKinds } from '../step-kind.ts';
import { isOrderFenced, isSucceeding, jobOfReservation, successionRequest, successorOf } from '../repair/repair.ts';
import { base, claimIn, isCancelled, ledgerWith, machineOf, reportOn, stop, type Act, type ActContext, type Guarded } from '../guards.ts';

/** M, N, L; writes L. What M and N show of r can change only with a later reservation, and there is none while r is in L. */
function freeCancelled(reservation: LedgerReservation, context: ActContext): Act {
  return freeing('free-cancelled', reservation, context, (machine, claim) => ({
    by: 'Cancelled',
    machineUID: machine.metadata.uid ?? '',
    operationID: isCancelled(reservation, machine) ? reservation.id : '',
    fenced: claim.state !== 'Claimed' || isFencedFor(claim.node, reservation.id),
    // An order names what to do. A cancellation (docs/protocols.md#d6) replaces one; an operator's release keeps what it named.
    unordered: machine.spec.operation?.components === undefined && machine.spec.operation?.action === undefined,
  }));
}

/** M, N, L; writes L. Report, record and settled cordon can change only with a later reservation, and there is none while r is in L. */
function releaseReported(reservation: LedgerReservation, context: ActContext): Act {
  return freeing('release', reservation, context, (machine, claim) => {
    const report = reportOn(reservation, machine);
    const operation = machine.spec.operation;
    if (report === undefined || operation === undefined) return stop('the operation has not ended');
    if (claim.state === 'Claimed' && ownerOf(claim.node) === reservation.id)
      return stop('the Node still bears the cordon of the reservation');
    if (claim.state === 'Claimed' && isSuccessor(reservation, claim.node) && !isFencedFor(claim.node, reservation.id))
      return stop('a cordon of the reservation may still be on its way to the Node, which registered again');
    const recorded =
      reservation.kind === 'Repair'
        ? jobOfReservation(reservation, context.facts) === undefined
        : isRecorded(machine, operation, (uid) => context.facts.sets.has(uid));
    return { by: 'Report', machineUID: machine.metadata.uid ?? '', report, recorded };
  });
}

/** M, N, L; writes L. A UID that is gone does not come back. The reservation names the Machine, since no store does any more (docs/protocols.md#c8). */
export function freeVanished(reservation: LedgerReservation, epoch: number): GuardedWrite {
  const machine = parseKey(reservation.machine);
  const context: FreeContext = { epoch, machine, node: machine.name };
  return {
    name: 'free-vanished',
    machine,
    node: machine.name,
    reads: ['machine', 'node', 'ledger'],
    writes: 'ledger',
    judge(seen) {
      const state = ledgerWith(reservation, seen, epoch);
      if (state === undefined) return stop('the ledger lacks the reservation');
      return freed(reservation, { by: 'MachineGone', presentUID: seen.machine?.metadata.uid }, state, seen, context);
    },
  };
}

/** M, L; writes L. The machine stays reserved throughout; that a deletion may begin now is judged by the very ledger in which it is counted. */
function takeOverForDeletion(reservation: LedgerReservation, context: ActContext): Act {
  return {
    ...base('take-over', context),
    reads: ['machine', 'ledger'],
    writes: 'ledger',
    judge(seen): Guarded {
      const state = ledgerWith(reservation, seen, context.epoch);
      if (state === undefined || seen.ledger === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined || !isDeleting(machine)) return stop('the machine is not being deleted');
      const ends = deletionEnds(machine);
      if (ends !== undefined) return stop(ends);
      const { facts } = context;
      const { nowMs } = facts;
      const refusal = takeOverRefusal(reservation, machine, facts, state.hours ?? []);
      if (refusal !== undefined) return stop(`${refusal.limit ?? ''} stops it`);
      const successor = reservationFor({ ...deletionTakingOver(reservation, machine), since: nowMs }, context.newID(), nowMs);
      const counted = isReplacing(reservation, machine) ? {} : { counted: { nowMs, rated: limitsOf(facts).rated } };
      const why = { because: 'Deleting', ...counted } as const;
      return { write: 'ledger', object: withState(seen.ledger, takeOver(state, context.epoch, reservation.id, successor, why)) };
    },
  };
}

/**
 * docs/protocols.md#c9. M, L; writes L. The machine stays reserved throughout; the order that it replaces can no longer begin, or never comes. It is counted in its scopes already. The
 * ledger that is written is also the one by which the rates are judged.
 */
function takeOverForRepair(reservation: LedgerReservation, jobUID: string, context: ActContext): Act {
  return {
    ...base('take-over-for-repair', context),
    reads: ['machine', 'ledger'],
    writes: 'ledger',
    judge(seen): Guarded {
      const state = ledgerWith(reservation, seen, context.epoch);
      if (state === undefined || seen.ledger === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined || isDeleting(machine)) return stop('the machine is gone, or going');
      if (isSucceeding(reservation, machine) && !isOrderFenced(reservation, machine))
        return stop('an order of the reservation may still arrive');
      const { facts } = context;
      const { nowMs } = facts;
      const job = successorOf(reservation, machine, facts);
      if (job === undefined || job.metadata.uid !== jobUID)
        return stop('the reservation is waited for again, or another repair is asked for');
      const request = successionRequest(job, machine, reservation);
      const refusal = refusalByRates(request, state.hours ?? [], facts, nowMs);
      if (refusal !== undefined) return stop(`${refusal.limit} has no room`);
      const successor = reservationFor({ ...request, since: nowMs }, context.newID(), nowMs);
      const why = { because: 'ProviderRepair', agentStale: !facts.agentAnswers, nowMs, rated: limitsOf(facts).rated } as const;
      return { write: 'ledger', object: withState(seen.ledger, takeOver(state, context.epoch, reservation.id, successor, why)) };
    },
  };
}

function freeing(
  name: string,
  reservation: LedgerReservation,
  context: ActContext,
  evidenceIn: (machine: Stored<Machine>, claim: Claim) => ReleaseEvidence | { stop: string },
): Act {
  return {
    ...base(name, context),
    reads: ['machine', 'node', 'ledger'],
    writes: 'ledger',
    judge(seen): Guarded {
      const state = ledgerWith(reservation, seen, context.epoch);
      if (state === undefined || seen.ledger === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      const evidence = evidenceIn(machine, claimIn(machine, seen));
      return 'stop' in evidence ? evidence : freed(reservation, evidence, state, seen, context);
    },
  };
}

/** The write that frees the reservation, or a stop where the evidence is not enough after all. */
function freed(reservation: LedgerReservation, evidence: ReleaseEvidence, state: LedgerState, seen: Seen, context: FreeContext): Move {
  if (seen.ledger === undefined) throw ledgerGone();
  try {
    const object = withState(seen.ledger, release(state, context.epoch, reservation.id, evidence));
    return { write: 'ledger', object, releases: markOf(seen, reservation, context) };
  } catch (error) {
    if (isCoded(error, defenderErrorCodes, 'NoEvidence')) return stop(error.message);
    throw error;
  }
}

type FreeContext = Pick<ActContext, 'epoch' | 'machine' | 'node'>;

function markOf(seen: Seen, reservation: LedgerReservation, context: FreeContext): ReleaseMark {
  const { node } = seen;
  const machine = seen.machine?.metadata.uid === reservation.machineUID ? seen.machine : undefined;
  const key = context.machine;
  // Without its Machine no Node counts for anything, also where another has the name at that time.
  if (machine === undefined) return { machine: { key, uid: reservation.machineUID }, node: undefined };
  const goneUID = machine.status?.nodeRef?.uid;
  return {
    machine: { key, uid: reservation.machineUID, resourceVersion: machine.metadata.resourceVersion },
    node:
      node !== undefined
        ? { name: context.node, resourceVersion: node.metadata.resourceVersion }
        : goneUID === undefined
          ? undefined
          : { name: context.node, goneUID },
  };
}

export const RESERVATION_STEPS: StepKinds<'Release' | 'FreeCancelled' | 'TakeOver' | 'TakeOverForRepair'> = {
  Release: { guarded: ({ reservation }, context) => releaseReported(reservation, context), event: ({ why }) => normal('Released', why) },
  FreeCancelled: {
    guarded: ({ reservation }, context) => freeCancelled(reservation, context),
    event: ({ why }) => normal('Released', why),
  },
  TakeOver: {
    guarded: ({ reservation }, context) => takeOverForDeletion(reservation, context),
    event: ({ why }) => normal('OperationTakenOver', why),
  },
  TakeOverForRepair: {
    guarded: ({ reservation, job }, context) => takeOverForRepair(reservation, job, context),
    event: ({ why }) => normal('OperationTakenOver', why),
  },
};
