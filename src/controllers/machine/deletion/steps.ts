/** Steps by which a machine goes. In the comments M is the Machine, N its Node, L the ledger; r is the reservation of the step. */
import { Leases, Nodes } from '../../../api/builtin.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { FINALIZERS } from '../../../api/names.ts';
import type { Performed } from '../../../defender/guarded-write.ts';
import { ledgerGone, requireEpoch } from '../../../defender/protocol.ts';
import { stateOf } from '../../../defender/state.ts';
import { hasReason } from '../../../kube/api-error.ts';
import { agentLease, kubeletLease } from '../../../kube/liveness.ts';
import { isCordonedFor } from '../cordon/cordon.ts';
import { normal } from '../events.ts';
import { isDeleting, isGivenBack, isNeverAskedFor, isRetiring } from '../facts.ts';
import { setFinalizers } from '../finalizers.ts';
import { base, claimIn, isCancelled, ledgerWith, machineOf, stop, type Act, type ActContext, type Guarded } from '../guards.ts';
import { deletionRefusal } from '../reservation/ask.ts';
import type { Hands, StepKinds } from '../step-kind.ts';
import type { MachineView } from '../view.ts';
import { givenBack, hasLeft } from './give-back.ts';

/**
 * N, M, L; the deletion follows, conditioned on this version of M: a client that takes the mark back, puts the machine on hold or cancels r in between makes it lose.
 * The mark bears this term's epoch, so a late mark of another term has no effect. Without r only where nothing was made.
 */
function retire(reservation: LedgerReservation | undefined, context: ActContext): Act {
  return {
    ...base('retire', context),
    reads: reservation === undefined ? ['machine'] : ['node', 'machine', 'ledger'],
    writes: 'effect',
    judge(seen): Guarded {
      if (reservation !== undefined && (reservation.kind !== 'Delete' || ledgerWith(reservation, seen, context.epoch) === undefined))
        return stop('the ledger lacks the reservation');
      const machine = reservation === undefined ? seen.machine : machineOf(reservation, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      if (!isRetiring(machine, context)) return stop('its MachineSet does not want it gone any more, or it goes already');
      if (deletionRefusal(machine, context.facts) !== undefined) return stop('it is held');
      if (reservation === undefined)
        return isNeverAskedFor(machine) ? { effect: { do: 'DeleteMachine', machine } } : stop('an instance was asked for');
      if (isCancelled(reservation, machine)) return stop('the reservation is cancelled');
      const claim = claimIn(machine, seen);
      if (claim.state === 'Claimed' && !isCordonedFor(claim.node, reservation.id))
        return stop("the Node's cordon does not name the reservation");
      return { effect: { do: 'DeleteMachine', machine } };
    },
  };
}

/** M, L; the request to the provider follows. An instance belongs to one Machine UID, and that Machine goes: a late request does no harm. */
function deleteInstance(reservation: LedgerReservation, providerID: string, context: ActContext): Act {
  return {
    ...base('delete-instance', context),
    reads: ['machine', 'ledger'],
    writes: 'effect',
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined || reservation.kind !== 'Delete')
        return stop('the ledger lacks a Delete reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined || !isDeleting(machine)) return stop('the machine is not being deleted');
      if (isCancelled(reservation, machine)) return stop('the reservation is cancelled');
      return { effect: { do: 'DeleteInstance', providerID } };
    },
  };
}

/**
 * N, M, L; writes N. Neither the deletion nor what the agent recorded is ever taken back, and a machine that is given back gets no reservation: where L lacks one
 * after that none comes. Each write of the Node is conditioned on the last one, so that what is under way for an earlier reservation loses.
 */
function giveBack(context: ActContext): Act {
  return {
    ...base('give-back', context),
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
      if (!isGivenBack(machine) || !hasLeft(machine)) return stop('the machine is not given back, or its agent has not left');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed') return stop('the machine has no Node');
      const object = givenBack(machine, claim.node);
      return object === undefined ? stop('given back already') : { write: 'node', object };
    },
  };
}

/**
 * Takes along what belonged to the machine and has no owner that would, and last the finalizer. Of Nodes only one with the providerID of the
 * instance that is proven gone: one that merely has the name is another machine's (proof 1). Where the machine was given back its Node stays.
 */
async function finalize(view: MachineView, hands: Hands): Promise<Performed> {
  const { machine, providerID } = view;
  const { client, signal } = hands;
  const { name } = machine.metadata;
  const node = await client.find(Nodes, { name }, { signal });
  const isOurs =
    node !== undefined &&
    !isGivenBack(machine) &&
    (node.metadata.uid === machine.status?.nodeRef?.uid || (providerID !== undefined && node.spec?.providerID === providerID));
  if (isOurs) {
    await gone(client.delete(Nodes, { name }, { uid: node.metadata.uid, signal }));
    await gone(client.delete(Leases, kubeletLease(name), { signal }));
  }
  await gone(client.delete(Leases, agentLease(machine), { signal }));
  const finalizers = (machine.metadata.finalizers ?? []).filter((finalizer) => finalizer !== FINALIZERS.machine);
  return await setFinalizers(view, finalizers, hands);
}

async function gone(deletion: Promise<void>): Promise<void> {
  try {
    await deletion;
  } catch (error) {
    // Conflict: another object has the name by now.
    if (!hasReason(error, 'NotFound', 'Conflict')) throw error;
  }
}

export const DELETION_STEPS: StepKinds<'Retire' | 'DeleteInstance' | 'GiveBack' | 'Finalize'> = {
  Retire: { guarded: ({ reservation }, context) => retire(reservation, context), event: ({ why }) => normal('Retired', why) },
  DeleteInstance: {
    guarded: ({ reservation, providerID }, context) =>
      reservation === undefined ? undefined : deleteInstance(reservation, providerID, context),
    // Nothing is known of a provider that the cell does not have any more.
    plain: async ({ providerID }, _, { provider, signal }) =>
      provider === undefined
        ? { done: false, why: 'the cell has no such provider' }
        : { done: true, note: await provider.delete(providerID, signal) },
    event: ({ why }) => normal('DeletingInstance', why),
  },
  GiveBack: { guarded: (_, context) => giveBack(context), event: ({ why }) => normal('GivenBack', why) },
  Finalize: { guarded: undefined, plain: (_, view, hands) => finalize(view, hands), event: undefined },
};
