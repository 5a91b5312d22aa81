import type { Node } from '../../api/builtin.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';

/** Which Node is this Machine's. One Machine one Node, by name and providerID, and for good by UID. */
export type Claim =
  | { state: 'None' }
  | { state: 'Claimed'; node: Stored<Node> }
  /** It had one, and that one is gone. A Node of the same name with another UID is another node. */
  | { state: 'Lost'; message: string }
  /** A Node has the name and is not this machine's. */
  | { state: 'Foreign'; message: string };

/** `node` is the Node with the Machine's name, if there is one; `providerID` undefined while nobody knows it. */
export function claimOf(machine: Machine, providerID: string | undefined, node: Stored<Node> | undefined): Claim {
  const ref = machine.status?.nodeRef;
  if (ref !== undefined) {
    if (node?.metadata.uid === ref.uid) return { state: 'Claimed', node };
    return {
      state: 'Lost',
      message:
        node === undefined
          ? `Node ${ref.name} was deleted by someone else`
          : `Node ${ref.name} was deleted and one with UID ${node.metadata.uid} has its name`,
    };
  }
  if (node === undefined) return { state: 'None' };
  if (providerID !== undefined && node.spec?.providerID === providerID) return { state: 'Claimed', node };
  return {
    state: 'Foreign',
    message: `Node ${node.metadata.name} has providerID "${node.spec?.providerID ?? ''}", this machine's is "${providerID ?? ''}"`,
  };
}
