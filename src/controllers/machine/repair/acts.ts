/** Guarded writes and effects of the repairs that this controller carries out itself. See `act.ts` for how they are built. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Node } from '../../../api/builtin.ts';
import type { Machine, RepairStatus } from '../../../api/machine.ts';
import type { RepairOperation } from '../../../api/node-remedier.ts';
import type { Stored } from '../../../api/wire.ts';
import { isCordonedFor } from '../cordon/cordon.ts';
import { isDeleting, isReplaceable } from '../facts.ts';
import {
  base,
  claimIn,
  ledgerWith,
  machineOf,
  repairUnderWay,
  stop,
  type Act,
  type ActContext,
  type Effect,
  type Guarded,
} from '../guards.ts';
import { markedOutOfService, notedOutOfService } from '../node-sync/node-sync.ts';
import { isControllerOperation, mayAskForPower } from './repair.ts';
import type { Step } from '../view.ts';

const MAX_MESSAGE = 1024;

/** M, L; writes M's status. r is ordered, and nobody has begun it: the boot that is noted is that before anything was done. */
export function beginRepair({ reservation, bootID }: Extract<Step, { do: 'BeginRepair' }>, context: ActContext): Act {
  return onMachine('begin-repair', 'machine', reservation, context, (machine) => {
    const order = machine.spec.operation;
    if (order?.id !== reservation.id || order.kind !== 'Repair' || !isControllerOperation(order.action))
      return stop('the reservation has no such order');
    if (machine.status?.repair?.id === reservation.id) return stop('begun already');
    return withRepair(machine, { id: reservation.id, state: 'Running', bootID, startedAt: at(context) });
  });
}

/** M, L; writes M's status. What is over stays so: a late end finds another one, or another order. */
export function endRepair({ reservation, outcome, message, bootID }: Extract<Step, { do: 'EndRepair' }>, context: ActContext): Act {
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

/**
 * M, L; the provider follows. The operation is under way: the boot before it is noted. A second call cycles nothing, since the provider does so once
 * for an operation; nor does a late one, since the operation is retired before it ends.
 */
export function powerCycle({ reservation, providerID }: Extract<Step, { do: 'PowerCycle' }>, context: ActContext): Act {
  return effect('power-cycle', 'PowerCycle', reservation, context, () => ({ do: 'PowerCycle', providerID, operationID: reservation.id }));
}

/** M, L; writes M's status. Whoever ends r after this sees that somebody may be about to have its power cut. */
export function noteCut(reservation: LedgerReservation, context: ActContext): Act {
  return onMachine('note-cut', 'machine', reservation, context, (machine) => {
    const repair = repairUnderWay(reservation, machine, 'MigratePods');
    if (repair === undefined || repair.cutsPower === true) return stop('noted already, or the repair is not under way');
    return withRepair(machine, { ...repair, cutsPower: true });
  });
}

/**
 * M, L; the provider follows. The node's pods were to leave it anyway, and nobody on it answers. It is noted on M that the power may be cut: a late
 * call finds an operation that was retired before it ended.
 */
export function stopInstance({ reservation, providerID }: Extract<Step, { do: 'StopInstance' }>, context: ActContext): Act {
  return effect('stop-instance', 'MigratePods', reservation, context, (machine) =>
    machine.status?.repair?.cutsPower === true
      ? { do: 'StopInstance', providerID, operationID: reservation.id }
      : stop('it is not noted that the power is cut'),
  );
}

/**
 * M, L; the provider follows. Of an operation that is about to end, or was taken back: what a leader that was slow still asks for it does nothing.
 * A late retirement does no harm, since operations do not come back.
 */
export function retirePower({ reservation, providerID }: Extract<Step, { do: 'RetirePower' }>, context: ActContext): Act {
  return onMachine('retire-power', 'effect', reservation, context, (machine) =>
    mayAskForPower(reservation, machine)
      ? { effect: { do: 'RetirePower', providerID, operationID: reservation.id } }
      : stop('nobody asks the provider for anything'),
  );
}

/** M, L; the deletion follows, of this very version: what came between, such as an operator's release, makes it lose. */
export function deleteMachine(reservation: LedgerReservation, context: ActContext): Act {
  return effect('delete-machine', 'Replace', reservation, context, (machine) =>
    isDeleting(machine) || !isReplaceable(machine)
      ? stop('the machine is being deleted, or nothing would take its place')
      : { do: 'DeleteMachine', machine },
  );
}

/**
 * N, M, L; writes M's status. The mark is not there, and nobody else's: what is there later is ours. While N is cordoned for r the note stays, so that a mark
 * that arrives late is known, too.
 */
export function noteOutOfService(reservation: LedgerReservation, context: ActContext): Act {
  return onCordonedNode('note-out-of-service', 'machine', reservation, context, (machine, node) => {
    const nodeKeys = notedOutOfService(machine, node);
    if (nodeKeys === undefined) return stop('noted already, or somebody marked it');
    return { write: 'machine', object: { ...machine, status: { ...machine.status, nodeKeys } }, status: true };
  });
}

/** N, M, L; writes N. Only after the proof that the node is off; a node that was turned on since was so by a later reservation. It is noted on M that the mark is ours. */
export function markOutOfService(reservation: LedgerReservation, context: ActContext): Act {
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
export function forceDelete({ reservation, pods, providerID }: Extract<Step, { do: 'ForceDelete' }>, context: ActContext): Act {
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

const withRepair = (machine: Stored<Machine>, repair: RepairStatus): Guarded => ({
  write: 'machine',
  object: { ...machine, status: { ...machine.status, repair } },
  status: true,
});

function onMachine(
  name: string,
  writes: 'machine' | 'effect',
  reservation: LedgerReservation,
  context: ActContext,
  judge: (machine: Stored<Machine>) => Guarded,
): Act {
  return {
    ...base(name, context),
    reads: ['machine', 'ledger'],
    writes,
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      return machine === undefined ? stop('the machine is gone') : judge(machine);
    },
  };
}

function effect(
  name: string,
  action: RepairOperation,
  reservation: LedgerReservation,
  context: ActContext,
  made: (machine: Stored<Machine>) => Effect | { stop: string },
): Act {
  return onMachine(name, 'effect', reservation, context, (machine) => {
    if (repairUnderWay(reservation, machine, action) === undefined) return stop('the repair is not under way');
    const found = made(machine);
    return 'stop' in found ? found : { effect: found };
  });
}
