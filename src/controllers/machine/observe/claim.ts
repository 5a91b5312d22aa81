import type { Node } from '../../../api/builtin.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { ownerOf } from '../cordon/cordon.ts';
import { staysCordoned } from '../repair/repair.ts';

/** Which Node is this Machine's: one Machine one Node, by name and providerID, and then by UID (docs/protocols.md#c13). */
export type Claim =
  | { state: 'None' }
  | { state: 'Claimed'; node: Stored<Node> }
  /** It had one, and that one is gone. A Node that has the name now is not proven to be this machine's. */
  | { state: 'Lost'; message: string }
  /** A Node has the name and is not this machine's. */
  | { state: 'Foreign'; message: string };

/** `node` is the Node with the Machine's name, if there is one; `providerID` undefined while it is unknown. */
export function claimOf(machine: Machine, providerID: string | undefined, node: Stored<Node> | undefined): Claim {
  const ref = machine.status?.nodeRef;
  if (node !== undefined) {
    if (node.metadata.uid === ref?.uid) return { state: 'Claimed', node };
    // Also for a Node that was deleted and registers again: the proof is the same as the first time.
    if (providerID !== undefined && node.spec?.providerID === providerID) return { state: 'Claimed', node };
  }
  const ids = `providerID "${node?.spec?.providerID ?? ''}", this machine's is "${providerID ?? ''}"`;
  if (ref !== undefined) {
    const deleted = `Node ${ref.name} was deleted`;
    return {
      state: 'Lost',
      message: node === undefined ? `${deleted} by another client` : `${deleted}, and one that has its name has ${ids}`,
    };
  }
  return node === undefined ? { state: 'None' } : { state: 'Foreign', message: `Node ${node.metadata.name} has ${ids}` };
}

/** Whether the Node replaced the one that the reservation was made for. Nothing that was done to that Node is done to this one. */
export const isSuccessor = (reservation: Pick<LedgerReservation, 'nodeUID'>, node: Stored<Node>): boolean =>
  reservation.nodeUID !== undefined && node.metadata.uid !== reservation.nodeUID;

/**
 * Whether the Node registered again, has no cordon of ours yet, and pods must stay away after its last repair (docs/protocols.md#c4): the Node that bore that
 * cordon is gone. Known until the Machine names this Node as its own.
 */
export function owesDegraded(machine: Machine, node: Stored<Node>): boolean {
  const { status } = machine;
  if (status?.nodeRef === undefined || status.nodeRef.uid === node.metadata.uid || ownerOf(node) !== undefined) return false;
  return staysCordoned(machine);
}
