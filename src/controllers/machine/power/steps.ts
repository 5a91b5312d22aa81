/** Steps that ask the provider for the power of a machine under repair. M is the Machine, L the ledger; r is the reservation of the step. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { warning } from '../events.ts';
import { repairUnderWay, stop, type Act, type ActContext } from '../guards.ts';
import { mayAskForPower } from '../repair/repair.ts';
import { onMachine, repairEffect, withRepair } from '../repair/repair-step.ts';
import type { StepKinds, StepOf } from '../step-kind.ts';

/**
 * M, L; the request to the provider follows. The operation is under way: the boot before it is noted. A second request has no effect, since the provider cycles
 * the power once for an operation. Nor has a late one, since the operation is retired before it ends.
 */
function powerCycle({ reservation, providerID }: StepOf<'PowerCycle'>, context: ActContext): Act {
  return repairEffect('power-cycle', 'PowerCycle', reservation, context, () => ({
    do: 'PowerCycle',
    providerID,
    operationID: reservation.id,
  }));
}

/** M, L; writes M's status. A leader that ends r after this sees that its power may be about to be cut. */
function noteCut(reservation: LedgerReservation, context: ActContext): Act {
  return onMachine('note-cut', 'machine', reservation, context, (machine) => {
    const repair = repairUnderWay(reservation, machine, 'MigratePods');
    if (repair === undefined || repair.cutsPower === true) return stop('noted already, or the repair is not under way');
    return withRepair(machine, { ...repair, cutsPower: true });
  });
}

/**
 * M, L; the request to the provider follows. The node's pods were to leave it anyway, and neither its agent nor its kubelet answers. M notes that the power may be
 * cut. A late request has no effect, since the operation is retired before it ends.
 */
function stopInstance({ reservation, providerID }: StepOf<'StopInstance'>, context: ActContext): Act {
  return repairEffect('stop-instance', 'MigratePods', reservation, context, (machine) =>
    machine.status?.repair?.cutsPower === true
      ? { do: 'StopInstance', providerID, operationID: reservation.id }
      : stop('it is not noted that the power is cut'),
  );
}

/**
 * M, L; the request to the provider follows. The operation is about to end, or was taken back. After this, a request of a slow leader for it has no effect. A
 * late retirement does no harm, since operations do not come back.
 */
function retirePower({ reservation, providerID }: StepOf<'RetirePower'>, context: ActContext): Act {
  return onMachine('retire-power', 'effect', reservation, context, (machine) =>
    mayAskForPower(reservation, machine)
      ? { effect: { do: 'RetirePower', providerID, operationID: reservation.id } }
      : stop('no leader asks the provider for anything'),
  );
}

export const POWER_STEPS: StepKinds<'PowerCycle' | 'NoteCut' | 'StopInstance' | 'RetirePower'> = {
  PowerCycle: { guarded: powerCycle, event: ({ why }, _, note) => warning('PowerCycled', note ?? why) },
  NoteCut: { guarded: ({ reservation }, context) => noteCut(reservation, context), event: undefined },
  StopInstance: { guarded: stopInstance, event: ({ why }) => warning('PowerCut', why) },
  RetirePower: { guarded: retirePower, event: undefined },
};
