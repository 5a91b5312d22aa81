import { LEDGER_NAME, type DisruptionLedger, type LedgerReservation } from '../../api/disruption-ledger.ts';
import type { Stored } from '../../api/wire.ts';
import type { Reflector } from '../../kube/reflector.ts';

/** The reservations of the ledger, by machine and by the job that asked. */
export interface Reservations {
  ofMachine(machineUID: string): LedgerReservation | undefined;
  askedBy(requesterUID: string): LedgerReservation | undefined;
  stop(): void;
}

interface Indexed {
  byMachine: ReadonlyMap<string, LedgerReservation>;
  byRequester: ReadonlyMap<string, LedgerReservation>;
}

function indexed(ledger: Stored<DisruptionLedger> | undefined): Indexed {
  const reservations = ledger?.status?.reservations ?? [];
  return {
    byMachine: new Map(reservations.map((reservation) => [reservation.machineUID, reservation])),
    byRequester: new Map(reservations.map((reservation) => [reservation.requesterUID, reservation])),
  };
}

/** `onChange` gets the UID of each machine whose reservation comes, goes or is another one. */
export function watchReservations(
  ledgers: Pick<Reflector<DisruptionLedger>, 'get' | 'subscribe'>,
  onChange: (machineUID: string) => void,
): Reservations {
  let now = indexed(ledgers.get({ name: LEDGER_NAME }));
  const stop = ledgers.subscribe((event) => {
    if (event.type === 'listed' || event.type === 'bookmark' || event.object.metadata.name !== LEDGER_NAME) return;
    const before = now;
    now = indexed(event.type === 'deleted' ? undefined : event.object);
    for (const uid of new Set([...before.byMachine.keys(), ...now.byMachine.keys()]))
      if (before.byMachine.get(uid)?.id !== now.byMachine.get(uid)?.id) onChange(uid);
  });
  return {
    ofMachine: (machineUID) => now.byMachine.get(machineUID),
    askedBy: (requesterUID) => now.byRequester.get(requesterUID),
    stop,
  };
}
