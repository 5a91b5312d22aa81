/** What both loops of the identity controller work with. */
import type { CertificateSigningRequest } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import type { Clock } from '../../api/ports.ts';
import type { InfraProvider } from '../../api/provider.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Reflector } from '../../kube/reflector.ts';
import type { CellAddress } from './provision.ts';
import type { ServerNames } from './server-names.ts';
import { isJudged, machineOf, stateOf, type StoredRequest } from './requests.ts';

export interface IdentityDeps {
  client: Client;
  clock: Clock;
  recorder: Recorder;
  signal: AbortSignal;
  providers: ReadonlyMap<string, InfraProvider>;
  cell: CellAddress;
  /** Of KubeNode's own objects. */
  namespace: string;
  signerDeadlineMs: number;
  nodeDomains: readonly string[];
  requests: Reflector<CertificateSigningRequest>;
  machines: Reflector<Machine>;
  /** Whether a name of a Node is kept for Nodes that are no Machine's. */
  reserved: (node: string) => boolean;
  /** The names of this API server. */
  server: () => Promise<ServerNames>;
  /** UIDs of requests that were denied here and have their Event. */
  denied: Set<string>;
}

export const BY_NODE = 'identity/node';
export const BY_UID = 'identity/uid';
export const BY_REQUESTER = 'identity/requester';
/** Of an open request: its signer and its requester. */
export const openRequesterOf = (request: StoredRequest): string[] =>
  isJudged(request) && stateOf(request) === 'Open' ? [`${request.spec.signerName} ${request.spec.username ?? ''}`] : [];
export const isAfter = ({ metadata: a }: StoredRequest, { metadata: b }: StoredRequest): boolean =>
  a.creationTimestamp === b.creationTimestamp ? a.uid > b.uid : a.creationTimestamp > b.creationTimestamp;
export const uidOf = ({ metadata }: StoredRequest): string[] => [metadata.uid];
export const nodesOf = ({ metadata, status }: Stored<Machine>): string[] => [
  ...new Set([metadata.name, ...(status?.nodeRef === undefined ? [] : [status.nodeRef.name])]),
];

/** Open requests of the same requester to the same signer. */
export const beside = (requests: IdentityDeps['requests'], request: StoredRequest): StoredRequest[] =>
  openRequesterOf(request).flatMap((requester) => requests.byIndex(BY_REQUESTER, requester));

/** The Machine of the requester, as it is now and not as a cache has it. */
export async function machineNow({ client, signal }: IdentityDeps, request: StoredRequest): Promise<Stored<Machine> | undefined> {
  const key = machineOf(request);
  return key === undefined ? undefined : await client.find(Machines, { namespace: key.namespace, name: key.name }, { signal });
}
