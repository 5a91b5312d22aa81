/** Who asks for a reservation: `requester` for people, as Kind/[namespace/]name. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import { nameOf, type SetFacts } from '../facts.ts';

type Requester = Pick<LedgerReservation, 'requesterUID' | 'requester'>;

export function jobRequester({ metadata }: RemedyOperationJob): Requester {
  return { requesterUID: metadata.uid ?? '', requester: `RemedyOperationJob/${metadata.namespace ?? ''}/${metadata.name}` };
}

/** By its UID where the set is gone. */
export function setRequester(uid: string, sets: ReadonlyMap<string, SetFacts>): Requester {
  return { requesterUID: uid, requester: `MachineComponentSet/${sets.get(uid)?.name ?? uid}` };
}

export function machineRequester(machine: Machine): Requester {
  return { requesterUID: machine.metadata.uid ?? '', requester: `Machine/${nameOf(machine)}` };
}
