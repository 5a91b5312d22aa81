import { controllerError } from '../../shared/errors.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { operationState } from '../../../api/machine/operation-end.ts';
import { nameOf } from '../facts.ts';

/**
 * What an operator writes to give up an operation whose agent will not report (docs/protocols.md#d5): the order is replaced by Cancelled under the same id and
 * epoch, in one write conditioned on the object's resourceVersion. The leader then clears the cordon and frees the reservation.
 *
 * Errors: `NothingToRelease`.
 */
export function operatorRelease(machine: Stored<Machine>, reason: string): Stored<Machine> {
  const found = operationState(machine);
  if (found.state !== 'UnderWay')
    throw controllerError('NothingToRelease', `${nameOf(machine)} has no operation under way`, {
      next: `kubenode why machine/${nameOf(machine)}`,
    });
  const { order } = found;
  if (order.kind === 'Delete')
    throw controllerError(
      'NothingToRelease',
      `${nameOf(machine)} is being deleted: its reservation goes when the provider proves that it is gone`,
      {
        next: `kubectl describe machine -n ${machine.metadata.namespace ?? ''} ${machine.metadata.name}`,
      },
    );
  // What was ordered stays in it: that distinguishes it from a cancellation without an order, which had no effect (`freeCancelled`).
  const operation = { ...order, kind: 'Cancelled' as const, cause: 'Released' as const, reason };
  return { ...machine, spec: { ...machine.spec, operation } };
}
