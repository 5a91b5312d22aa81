/** Steps of the repairs that this controller carries out itself. In the comments M is the Machine, N its Node, L the ledger; r is the reservation of the step. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Node } from '../../../api/builtin.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { isControllerOperation } from '../../../api/machine/operation-end.ts';
import { isCordonedFor } from '../cordon/cordon.ts';
import { isDeleting, isReplaceable } from '../facts.ts';
import { base, claimIn, ledgerWith, machineOf, repairUnderWay, stop, type Act, type ActContext, type Guarded } from '../guards.ts';
import { markedOutOfService, notedOutOfService } from '../node-sync/node-sync.ts';
import { normal, warning } from '../events.ts';
import type { StepKinds, StepOf } from '../step-kind.ts';
import { onMachine, repairEffect, withRepair } from './repair-step.ts';

const MAX_MESSAGE = 1024;

/** M, L; writes M's status. r is ordered, and its repair has not begun: the boot that is noted is that from before the repair. */
function beginRepair({ reservation, bootID }: StepOf<'BeginRepair'>, context: ActContext): Act {
  return onMachine('begin-repair', 'machine', reservation, context, (machine) => {
    const order = machine.spec.operation;
    if (order?.id !== reservation.id || order.kind !== 'Repair' || !isControllerOperation(order.action))
      return stop('the reservation has no such order');
    if (machine.status?.repair?.id === reservation.id) return stop('begun already');
    return withRepair(machine, { id: reservation.id, state: 'Running', bootID, startedAt: at(context) });
  });
}

/** M, L; writes M's status. An end is final: a late end finds another one, or another order. */
function endRepair({ reservation, outcome, message, bootID }: StepOf<'EndRepair'>, context: ActContext): Act {
  return onMachine('end-repair', 'machine', reservation, context, (machine) => {
    const repair = repairUnderWay(reservation, machine);
    if (repair === undefined) return stop('the repair is not under way');
    return withRepair(machine, {
      ...repair,
      state: 'Done',
      outcome,
      message: message.slice(0, MAX_MESSAGE),
      finishedAt: at(context),
      ...(bootID === undefined ? {} : { bootID }),
    });
  });
}

/** M, L; the deletion follows, conditioned on this version: any change in between, such as an operator's release, makes it lose. */
function deleteMachine(reservation: LedgerReservation, context: ActContext): Act {
  return repairEffect('delete-machine', 'Replace', reservation, context, (machine) =>
    isDeleting(machine) || !isReplaceable(machine)
      ? stop('the machine is being deleted, or nothing would replace it')
      : { do: 'DeleteMachine', machine },
  );
}

/**
 * N, M, L; writes M's status. There is no mark yet, neither ours nor another: a mark that is there later is ours. The note stays while N is cordoned for r, so
 * that a mark that arrives late is known, too.
 */
function noteOutOfService(reservation: LedgerReservation, context: ActContext): Act {
  return onCordonedNode('note-out-of-service', 'machine', reservation, context, (machine, node) => {
    const nodeKeys = notedOutOfService(machine, node);
    if (nodeKeys === undefined) return stop('noted already, or marked by another client');
    return { write: 'machine', object: { ...machine, status: { ...machine.status, nodeKeys } }, status: true };
  });
}

/** N, M, L; writes N. Only after the proof that the node is off. Only a later reservation could have turned it on since. M notes that the mark is ours. */
function markOutOfService(reservation: LedgerReservation, context: ActContext): Act {
  return onCordonedNode('mark-out-of-service', 'node', reservation, context, (machine, node) => {
    const object = markedOutOfService(machine, node);
    return object === undefined ? stop('marked already, or not noted') : { write: 'node', object };
  });
}

function onCordonedNode(
  name: string,
  writes: 'machine' | 'node',
  reservation: LedgerReservation,
  context: ActContext,
  judge: (machine: Stored<Machine>, node: Stored<Node>) => Guarded,
): Act {
  return {
    ...base(name, context),
    reads: ['node', 'machine', 'ledger'],
    writes,
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined || repairUnderWay(reservation, machine, 'MigratePods') === undefined)
        return stop('the repair is not under way');
      const claim = claimIn(machine, seen);
      if (claim.state !== 'Claimed' || !isCordonedFor(claim.node, reservation.id))
        return stop("the Node's cordon does not name the reservation");
      return judge(machine, claim.node);
    },
  };
}

/** N, M, L; the provider is asked again, and the deletion of these pods, by their UIDs, follows. */
function forceDelete({ reservation, pods, providerID }: StepOf<'ForceDelete'>, context: ActContext): Act {
  return {
    ...base('force-delete', context),
    reads: ['node', 'machine', 'ledger'],
    writes: 'effect',
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined || repairUnderWay(reservation, machine, 'MigratePods') === undefined)
        return stop('the repair is not under way');
      if (seen.node === undefined || !isCordonedFor(seen.node, reservation.id))
        return stop("the Node's cordon does not name the reservation");
      return { effect: { do: 'ForceDelete', pods, providerID } };
    },
  };
}

const at = ({ facts }: ActContext): string => new Date(facts.nowMs).toISOString();

export const REPAIR_STEPS: StepKinds<
  'BeginRepair' | 'EndRepair' | 'NoteOutOfService' | 'MarkOutOfService' | 'ForceDelete' | 'DeleteMachine'
> = {
  BeginRepair: { guarded: beginRepair, event: undefined },
  EndRepair: {
    guarded: endRepair,
    event: ({ outcome, why }) => (outcome === 'Succeeded' ? normal('RepairDone', why) : warning('RepairFailed', why)),
  },
  NoteOutOfService: { guarded: ({ reservation }, context) => noteOutOfService(reservation, context), event: undefined },
  MarkOutOfService: {
    guarded: ({ reservation }, context) => markOutOfService(reservation, context),
    event: ({ why }) => warning('OutOfService', why),
  },
  ForceDelete: { guarded: forceDelete, event: ({ why }, _, note) => warning('PodTakenByForce', note ?? why) },
  DeleteMachine: {
    guarded: ({ reservation }, context) => deleteMachine(reservation, context),
    event: ({ why }) => warning('Replaced', why),
  },
};
