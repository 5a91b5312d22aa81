/** What is asked, what is known, and the verdict. */
import type { Node } from '../../api/builtin.ts';
import type { Bootstrap, Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import type { NameHold } from './holds.ts';
import type { ServerNames } from './server-names.ts';
import type { SigningRequest } from './signing-request.ts';
import { plainText } from '../../api/plain-text.ts';

/** A CertificateSigningRequest as a decision sees it. */
export interface Asked {
  uid: string;
  /** When the API server stored it. */
  createdAt: string;
  signerName: string;
  usages: readonly string[];
  expirationSeconds: number | undefined;
  /** Who asks, as the API server wrote it down. */
  username: string;
  userUID: string | undefined;
  groups: readonly string[];
  voucher: string | undefined;
  /** Or why it cannot be read. */
  request: SigningRequest | { unreadable: string };
}

export interface RequesterFacts {
  nowMs: number;
  /** The Machine that the requester's name stands for, read live. */
  machine: Stored<Machine> | undefined;
  /** Machines that claim the Node which the requester may ask for, or have its name. */
  ofNode: readonly Stored<Machine>[];
  /** That Node, read live; undefined: there is none. */
  node: Stored<Node> | undefined;
  /** The operators of the cell keep the name of that Node for Nodes that are not KubeNode's. */
  reserved: boolean;
  /** Which pool has the name of that Node, read live; undefined: none has. `unsigned`: UIDs of requests in it that are there, and whose end is not recorded. */
  hold: (Pick<NameHold, 'pool' | 'ends' | 'since'> & { unsigned: readonly string[] }) | undefined;
  /** Open requests of the same requester to the same signer that were made after this one. */
  newer: number;
  server: ServerNames;
  /** Domains below which Nodes may have names that people chose. */
  nodeDomains: readonly string[];
}

export type SigningVerdict =
  /** KubeNode does not judge it. */
  | { do: 'Leave' }
  | { do: 'Wait'; why: string }
  | { do: 'Deny'; reason: string; message: string }
  /**
   * `record` is written to the Machine first, and only if it is as it was read. `holder`: the pool that has the name of the Node from then on, which is
   * written first, too.
   */
  | { do: 'Approve'; reason: string; message: string; record?: Bootstrap; holder?: string };

export const deny = (reason: string, message: string): SigningVerdict => ({ do: 'Deny', reason, message: plainText(message) });

/** Equal as sets, and without repetition. */
export function isSet(found: readonly string[], expected: readonly string[]): boolean {
  return found.length === expected.length && expected.every((each) => found.includes(each));
}
