/**
 * The reservations of a ledger that is lost, from what its terms wrote elsewhere (docs/protocols.md#d1). Pure. Each operation that may still be under way gets its
 * reservation again, under its own id, and ends as it would have ended. Where only the id is left, the kind of the reservation is unknown: it becomes a Change
 * that was granted nothing. The writes of #d6 give that up, and make every late order and every late cordon of it lose.
 */
import { MAX_SCOPES, type LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine, Operation } from '../../../api/machine.ts';
import type { Node } from '../../../api/builtin.ts';
import { isFinished, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import { endOf } from '../../../api/machine/operation-end.ts';
import type { Traces } from '../../../defender/ledger.ts';
import { conditionScope, setScope } from '../../../defender/scopes.ts';
import { cellSets } from '../observe/cell-sets.ts';
import { claimOf } from '../observe/claim.ts';
import { entryOf, isRecorded } from '../order/components.ts';
import { DEGRADED, isFencedFor, ownerOf } from '../cordon/cordon.ts';
import { withTopology } from '../observe/counted.ts';
import { nameOf, type SetFacts } from '../facts.ts';
import { scopesOf } from './ask.ts';
import { mayAskForPower } from '../repair/repair.ts';
import { jobRequester, machineRequester, setRequester } from './requester.ts';

/** What is known of one machine. */
interface Left {
  machine: Stored<Machine>;
  /** That it has claimed. */
  node: Stored<Node> | undefined;
  /** Those that are not finished. */
  jobs: readonly RemedyOperationJob[];
}

/**
 * Lists that were made one after the other are enough, in this order: machines, nodes, jobs. A late order of a reservation comes after its cordon on the Node, or,
 * where there is none, after its note on the job. So the later lists show what the list of machines did not show yet.
 */
export function leftReservations({ machines, nodes, sets, jobs, since }: Traces): LedgerReservation[] {
  const { facts } = cellSets(sets);
  const nodeOf = new Map(nodes.map((node) => [node.metadata.name, node]));
  const jobsOf = Map.groupBy(
    jobs.filter((job) => !isFinished(job)),
    (job) => job.spec.machine.uid,
  );
  return machines.flatMap((machine) => {
    const claim = claimOf(machine, machine.status?.providerID, nodeOf.get(machine.metadata.name));
    const node = claim.state === 'Claimed' ? claim.node : undefined;
    const reservation = leftBy({ machine, node, jobs: jobsOf.get(machine.metadata.uid) ?? [] }, facts, since);
    return reservation === undefined ? [] : [reservation];
  });
}

/** At most one: its order, the cordon of a reservation that has none yet, the note of a job that was granted one. */
function leftBy(left: Left, sets: ReadonlyMap<string, SetFacts>, since: string): LedgerReservation | undefined {
  const { machine, node, jobs } = left;
  const order = machine.spec.operation;
  if (order !== undefined && !isOver(order, left, sets)) {
    const { id, kind, notAfter } = order;
    // The kind of a cancelled one makes no difference any more.
    return reservationOf(left, { id, kind: kind === 'Cancelled' ? 'Change' : kind, notAfter, order }, sets, since);
  }
  const owner = node === undefined ? undefined : ownerOf(node);
  const granted = jobs.find(({ status }) => status?.phase === 'Granted' && status.operationID !== order?.id)?.status?.operationID;
  const id = owner === DEGRADED ? granted : (owner ?? granted);
  if (id === undefined) return undefined;
  const kind = jobs.some(({ status }) => status?.operationID === id) ? 'Repair' : 'Change';
  // It has no order, and gets none any more.
  return reservationOf(left, { id, kind, notAfter: since }, sets, since);
}

/** Whether its reservation would have been released, or could be: by exactly what a release asks for. */
function isOver(order: Operation, { machine, node, jobs }: Left, sets: ReadonlyMap<string, SetFacts>): boolean {
  if (order.kind === 'Cancelled') return (node === undefined || isFencedFor(node, order.id)) && !mayAskForPower(order, machine);
  // Its machine is still there.
  if (order.kind === 'Delete') return false;
  return (
    endOf(machine) !== undefined &&
    (node === undefined || ownerOf(node) !== order.id) &&
    jobs.every(({ status }) => status?.operationID !== order.id) &&
    isRecorded(machine, order, (uid) => sets.has(uid))
  );
}

function reservationOf(
  { machine, node, jobs }: Left,
  { id, kind, notAfter, order }: Pick<LedgerReservation, 'id' | 'kind' | 'notAfter'> & { order?: Operation },
  sets: ReadonlyMap<string, SetFacts>,
  since: string,
): LedgerReservation {
  const job = jobs.find(({ status }) => status?.operationID === id);
  const setUIDs = [...new Set((order?.components ?? []).flatMap((each) => entryOf(machine, each.name)?.setUID ?? []))];
  const scopes = [
    ...setUIDs.map(setScope),
    ...withTopology(scopesOf(machine, sets), machine, node),
    ...(job === undefined ? [] : [conditionScope(job.spec.healedWhen.condition)]),
  ];
  const [setUID] = setUIDs;
  const requester = job !== undefined ? jobRequester(job) : setUID !== undefined ? setRequester(setUID, sets) : machineRequester(machine);
  return {
    id,
    machineUID: machine.metadata.uid,
    machine: nameOf(machine),
    ...(node === undefined ? {} : { nodeUID: node.metadata.uid }),
    kind,
    class: kind === 'Repair' ? 'Repair' : 'Change',
    ...requester,
    ...(job !== undefined && kind === 'Repair' ? { action: job.spec.action } : {}),
    scopes: [...new Set(scopes)].slice(0, MAX_SCOPES),
    since,
    notAfter,
  };
}
