/**
 * Steps that cordon and uncordon the Node. The comment of each guarded write names what it reads again, in which order, and why that is enough. There M is the
 * Machine, N its Node, L the ledger; r is the reservation of the step.
 */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { endOf, isUnderWay } from '../../../api/machine/operation-end.ts';
import { ledgerGone, requireEpoch } from '../../../defender/protocol.ts';
import { stateOf } from '../../../defender/state.ts';
import { isSuccessor, owesDegraded, type Claim } from '../observe/claim.ts';
import { degradedBy, failedComponents } from '../order/components.ts';
import { cordonedFor, DEGRADED, fencedFor, isFencedFor, ownerOf, uncordonedBy, wasDegraded } from './cordon.ts';
import { normal, warning } from '../events.ts';
import { deletionEnds, isRepairNeeded } from '../facts.ts';
import type { StepKinds } from '../step-kind.ts';
import { jobOfReservation, staysCordoned } from '../repair/repair.ts';
import { base, claimIn, isCancelled, ledgerWith, machineOf, reportOn, stop, type Act, type ActContext, type Guarded } from '../guards.ts';

/**
 * N, M, L; writes N. A cancellation of r writes M, then N, then L; a release comes after an order on M. So if this N was read after that
 * cancellation's write of N, its write of M shows; if before, the write of N here loses. And while L, read last, contains r, no later reservation can have
 * replaced r's trace on M.
 *
 * An ordered r cordons only a Node that replaced the one that it was reserved for. Where there is such a Node r is released only after its fence on it:
 * an N that was read after that shows it, and with one that was read before the write of N here loses. Where there was none yet when r was released, M, read
 * after this N, has the report and L lacks r (docs/protocols.md#c13).
 */
function cordon(reservation: LedgerReservation, context: ActContext): Act {
  return {
    ...base('cordon', context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      const ends = reservation.kind === 'Delete' ? deletionEnds(machine) : undefined;
      if (ends !== undefined) return stop(ends);
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const isOrdered = machine.spec.operation?.id === reservation.id;
      if (
        isOrdered &&
        (isCancelled(reservation, machine) || !isSuccessor(reservation, claim.node) || isFencedFor(claim.node, reservation.id))
      )
        return stop('the reservation has its order already, or was cancelled');
      if (isOrdered && !isUnderWay(machine, reservation.id) && jobOfReservation(reservation, context.facts) === undefined)
        return stop('its operation is over');
      // It is unknown whether the Node that is gone was Degraded. While a repair is due, pods are kept away after the operation, too.
      const isKept = isOrdered ? isRepairNeeded(machine) && ownerOf(claim.node) === undefined : owesDegraded(machine, claim.node);
      const object = cordonedFor((isKept ? cordonedFor(claim.node, DEGRADED) : undefined) ?? claim.node, reservation.id);
      return object === undefined ? stop('cordoned already') : { write: 'node', object };
    },
  };
}

/**
 * M, N; writes N. That r is cancelled, or its end reported, never becomes untrue while r is on M; a cordon of a later reservation is left alone. One of an ended r is
 * settled, and not lifted here.
 */
function fence(reservation: LedgerReservation, context: ActContext): Act {
  return {
    ...base('fence', context),
    reads: ['machine', 'node'],
    writes: 'node',
    judge(seen): Guarded {
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const isEnded =
        reportOn(reservation, machine) !== undefined && isSuccessor(reservation, claim.node) && ownerOf(claim.node) !== reservation.id;
      if (!isCancelled(reservation, machine) && !isEnded) return stop('the reservation is neither cancelled nor over');
      const object = fencedFor(claim.node, reservation.id, isRepairNeeded(machine));
      return object === undefined ? stop('fenced already') : { write: 'node', object };
    },
  };
}

/**
 * M, N; writes N. The report on r is final. Uncordons, or leaves the cordon and names Degraded its owner where the node must not be used (docs/protocols.md#c4).
 */
function settle(reservation: LedgerReservation, context: ActContext): Act {
  return {
    ...base('settle', context),
    reads: ['machine', 'node'],
    writes: 'node',
    judge(seen): Guarded {
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined || reportOn(reservation, machine) === undefined) return stop('the operation has not ended');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed' || ownerOf(claim.node) !== reservation.id) return stop("the Node's cordon is not the reservation's");
      const unhealed = isRepairNeeded(machine) && wasDegraded(claim.node);
      const stays = unhealed || degradedBy(machine).length > 0 || staysCordoned(machine);
      const object = stays ? cordonedFor(claim.node, DEGRADED) : uncordonedBy(claim.node, reservation.id);
      return object === undefined ? stop('settled already') : { write: 'node', object };
    },
  };
}

/**
 * N, M, L; writes N. A reservation is in L before its cordon is on N, and its id never comes back: so N first, L last (docs/protocols.md#c4). Where a person took the reservation out of
 * L while its order goes on, M shows that.
 */
function liftCordon(owner: string, context: ActContext): Act {
  return {
    ...base('lift-cordon', context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      if (seen.ledger === undefined) throw ledgerGone();
      if (seen.machine !== undefined && isUnderWay(seen.machine, owner)) return stop('its operation has not ended');
      const state = stateOf(seen.ledger);
      requireEpoch(state, context.epoch);
      if (seen.node === undefined || ownerOf(seen.node) !== owner) return stop('the cordon has another owner');
      if (state.reservations.some((reservation) => reservation.id === owner)) return stop('the ledger has the reservation');
      const object = uncordonedBy(seen.node, owner);
      return object === undefined ? stop('lifted already') : { write: 'node', object };
    },
  };
}

/** N, M, L; writes N. Not while the machine has a reservation, whose own end settles the cordon. */
function markDegraded(context: ActContext): Act {
  return degrading('mark-degraded', context, (machine, claim) =>
    degradedBy(machine).length > 0 || owesDegraded(machine, claim.node) ? cordonedFor(claim.node, DEGRADED) : undefined,
  );
}

/** N, M, L; writes N. As `markDegraded`. */
function liftDegraded(context: ActContext): Act {
  return degrading('lift-degraded', context, (machine, claim) =>
    failedComponents(machine).length > 0 || isRepairNeeded(machine) ? undefined : uncordonedBy(claim.node, DEGRADED),
  );
}

function degrading(
  name: string,
  context: ActContext,
  change: (machine: Stored<Machine>, claim: Extract<Claim, { state: 'Claimed' }>) => ReturnType<typeof cordonedFor>,
): Act {
  return {
    ...base(name, context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'node',
    judge(seen): Guarded {
      const { machine, ledger } = seen;
      if (ledger === undefined) throw ledgerGone();
      if (machine === undefined) return stop('the machine is gone');
      const state = stateOf(ledger);
      requireEpoch(state, context.epoch);
      if (state.reservations.some((reservation) => reservation.machineUID === machine.metadata.uid))
        return stop('the machine has a reservation');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const object = change(machine, claim);
      return object === undefined ? stop('it is so already') : { write: 'node', object };
    },
  };
}

export const CORDON_STEPS: StepKinds<'Cordon' | 'Fence' | 'Settle' | 'LiftCordon' | 'MarkDegraded' | 'LiftDegraded'> = {
  Cordon: { guarded: ({ reservation }, context) => cordon(reservation, context), event: ({ why }) => normal('Cordoned', why) },
  Fence: { guarded: ({ reservation }, context) => fence(reservation, context), event: undefined },
  Settle: {
    guarded: ({ reservation }, context) => settle(reservation, context),
    event: ({ why }, { machine }) =>
      endOf(machine)?.outcome === 'Succeeded' ? normal('OperationSucceeded', why) : warning('OperationEnded', why),
  },
  LiftCordon: { guarded: ({ owner }, context) => liftCordon(owner, context), event: ({ why }) => warning('StrayCordonLifted', why) },
  MarkDegraded: { guarded: (_, context) => markDegraded(context), event: ({ why }) => warning('Degraded', why) },
  LiftDegraded: { guarded: (_, context) => liftDegraded(context), event: ({ why }) => normal('DegradedLifted', why) },
};
