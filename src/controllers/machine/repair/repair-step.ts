/** What the steps of a repair share that this controller carries out itself. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine, RepairStatus } from '../../../api/machine.ts';
import type { RepairOperation } from '../../../api/node-remedier/values.ts';
import type { Stored } from '../../../api/wire.ts';
import { base, ledgerWith, machineOf, repairUnderWay, stop, type Act, type ActContext, type Effect, type Guarded } from '../guards.ts';

export const withRepair = (machine: Stored<Machine>, repair: RepairStatus): Guarded => ({
  write: 'machine',
  object: { ...machine, status: { ...machine.status, repair } },
  status: true,
});

/** M, L. */
export function onMachine(
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

/** M, L; the effect follows while this repair is under way. */
export function repairEffect(
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
