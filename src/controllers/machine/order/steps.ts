/** Steps that write the Machine's operation. In the comments M is the Machine, L the ledger; r is the reservation of the step. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Operation } from '../../../api/machine.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import { keptFromDeletion } from '../deletion/deletion.ts';
import { orderable } from '../reservation/ask.ts';
import { tryOf } from '../reservation/backoff.ts';
import { drainNeeded } from './components.ts';
import { isDeleting } from '../facts.ts';
import { isOrderFenced, isSucceeding, repairOrder, successorOf } from '../repair/repair.ts';
import { restoresOf } from './restores.ts';
import { base, ledgerWith, machineOf, stop, type Act, type ActContext, type Guarded } from '../guards.ts';
import { normal } from '../events.ts';
import type { StepKinds, StepOf } from '../step-kind.ts';

/**
 * M, L; writes M. While L, read after M, contains r, no order of a later reservation can have been on M when it was read; one that comes after, or r's
 * cancellation, makes this write lose.
 */
function order(reservation: LedgerReservation, drained: boolean, context: ActContext): Act {
  return {
    ...base('order', context),
    reads: ['machine', 'ledger'],
    writes: 'machine',
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      if (machine.spec.operation?.id === reservation.id) return stop('ordered or cancelled already');
      if (isOrderFenced(reservation, machine)) return stop('another repair takes the reservation over');
      if (isDeleting(machine) !== (reservation.kind === 'Delete')) return stop('the machine is being deleted, or is not');
      // What was to run on could not be brought back.
      const kept = reservation.kind === 'Delete' ? keptFromDeletion(reservation, machine, context.facts) : undefined;
      if (kept !== undefined) return stop(kept);
      const retry = tryOf(reservation, machine, context.facts.nowMs);
      const operation: Operation = {
        id: reservation.id,
        epoch: context.epoch,
        kind: reservation.kind,
        notAfter: reservation.notAfter,
        ...retry,
      };
      if (reservation.kind === 'Change') {
        const components = orderable(reservation, machine, context.facts).filter((component) => drained || !drainNeeded([component]));
        if (components.length === 0) return stop('nothing waits any more');
        operation.components = components.map(({ name, revision }) => ({ name, revision }));
      }
      Object.assign(operation, restoresOf(reservation, operation.components ?? [], machine));
      if (reservation.kind === 'Repair') {
        const repair = repairOrder(reservation, machine, context.facts);
        if ('waitsFor' in repair) return stop(repair.why);
        operation.action = repair.action;
        if (repair.args !== undefined) operation.args = repair.args;
      }
      return { write: 'machine', object: { ...machine, spec: { ...machine.spec, operation } } };
    },
  };
}

/**
 * docs/protocols.md#c9. M, L; writes M: an order of r that came first makes this lose, and every one that comes after loses. So the ledger may exchange r, whose
 * M itself shows nothing.
 */
function fenceOrder(reservation: LedgerReservation, jobUID: string, context: ActContext): Act {
  return {
    ...base('fence-order', context),
    reads: ['machine', 'ledger'],
    writes: 'machine',
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined || isDeleting(machine)) return stop('the machine is gone, or going');
      if (!isSucceeding(reservation, machine)) return stop('the reservation has its order, or what it took over has ended');
      if (isOrderFenced(reservation, machine)) return stop('the reservation is fenced already');
      if (successorOf(reservation, machine, context.facts)?.metadata.uid !== jobUID) return stop('another repair is asked for, or none');
      const annotations = { ...machine.metadata.annotations, [ANNOTATIONS.orderFence]: reservation.id };
      return { write: 'machine', object: { ...machine, metadata: { ...machine.metadata, annotations } } };
    },
  };
}

/** M, L; writes M: as `order`, and an order of r that came first makes this lose. First of the three writes that cancel r (docs/protocols.md#d6). */
function writeCancelled({ reservation, cause, reason }: StepOf<'WriteCancelled'>, context: ActContext): Act {
  return {
    ...base('write-cancelled', context),
    reads: ['machine', 'ledger'],
    writes: 'machine',
    judge(seen): Guarded {
      if (ledgerWith(reservation, seen, context.epoch) === undefined) return stop('the ledger lacks the reservation');
      const machine = machineOf(reservation, seen, context.epoch);
      if (machine === undefined) return stop('the machine is gone');
      if (machine.spec.operation?.id === reservation.id) return stop('the reservation has its order already, or is cancelled');
      if (isSucceeding(reservation, machine)) return stop('what the reservation took over may still go on');
      const retry = tryOf(reservation, machine, context.facts.nowMs);
      const restores = restoresOf(reservation, reservation.components ?? [], machine);
      const { id, notAfter } = reservation;
      const operation: Operation = { id, epoch: context.epoch, kind: 'Cancelled', notAfter, cause, reason, ...retry, ...restores };
      return { write: 'machine', object: { ...machine, spec: { ...machine.spec, operation } } };
    },
  };
}

export const ORDER_STEPS: StepKinds<'Order' | 'FenceOrder' | 'WriteCancelled'> = {
  Order: {
    guarded: ({ reservation, drained }, context) => order(reservation, drained, context),
    event: ({ why }) => normal('OperationOrdered', why),
  },
  FenceOrder: { guarded: ({ reservation, job }, context) => fenceOrder(reservation, job, context), event: undefined },
  WriteCancelled: { guarded: writeCancelled, event: ({ reason }) => normal('OperationCancelled', reason) },
};
