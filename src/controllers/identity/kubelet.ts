/**
 * Kubelets' certificates: a client certificate for the Node of that Machine, a serving one for that Machine's addresses (docs/protocols.md#g4). Whose Node it is
 * never follows from a name alone, since people who may create Machines choose their names.
 */
import { IDENTITY_SECONDS, requesterOf, SIGNERS } from '../../api/admission.ts';
import { AGENTS } from '../../api/identity.ts';
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { isSubdomain } from '../../api/object-name.ts';
import { SSH_PROVIDER } from '../../api/ssh.ts';
import type { Stored } from '../../api/wire.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { deny, isSet, type Asked, type RequesterFacts, type SigningVerdict } from './asked.ts';
import { endOfHold, holdName, isHeld, MOST_UNSIGNED } from './holds.ts';
import { isAddress, isOfServer } from './server-names.ts';
import { canonicalAddress, kindOfKey, type SigningRequest } from './signing-request.ts';

const NODES = 'system:nodes';
/** Requests of one node that are left to a person. */
export const MOST_LEFT = 4;
const NODE_USER = 'system:node:';
const LEAVE: SigningVerdict = { do: 'Leave' };

/**
 * The Node for which the requester may have a kubelet's certificate. It follows from the requester, and never from the request. undefined: there is none, or
 * the signer is not a kubelet's.
 */
export function nodeFor({ username, signerName }: Pick<Asked, 'username' | 'signerName'>): string | undefined {
  if (signerName === SIGNERS.client) return undefined;
  const name = username.startsWith(NODE_USER) ? username.slice(NODE_USER.length) : requesterOf(username)?.name;
  return name !== undefined && isSubdomain(name) ? name : undefined;
}

/** Node that a request of a kubelet's signer names; undefined when it names none that can be. */
export function nodeOf(asked: Pick<Asked, 'request'>): string | undefined {
  if ('unreadable' in asked.request) return undefined;
  const name = asked.request.subject.find(({ type, value }) => type === 'CN' && value.startsWith(NODE_USER))?.value.slice(NODE_USER.length);
  return name !== undefined && isSubdomain(name) ? name : undefined;
}

export function decideKubelet(asked: Asked, known: RequesterFacts): SigningVerdict {
  const agent = requesterOf(asked.username);
  const isNode = asked.username.startsWith(NODE_USER);
  // Others may have approvers of their own for nodes that they bootstrap.
  if (agent === undefined && !isNode) return LEAVE;
  const serving = asked.signerName === SIGNERS.kubeletServing;
  if (isNode) {
    const node = nodeFor(asked);
    if (node === undefined) return LEAVE;
    const owners = known.ofNode.filter((machine) => machine.status?.nodeRef?.name === node);
    const [machine, ...more] = owners;
    if (machine === undefined) return judgeUnclaimed(node, known);
    if (more.length > 0) return deny('NodeAmbiguous', `${owners.length} Machines claim Node ${node}`);
    if (!asked.groups.includes(NODES)) return deny('ForeignRequester', `${asked.username} is not in group ${NODES}`);
    return nodeVerdict(node, machine, known) ?? judgeHeld(asked, machine, node, serving, known);
  }
  const { machine } = known;
  if (machine === undefined) return agent?.kind === 'Certificate' ? deny('NoMachine', 'there is no Machine of this requester') : LEAVE;
  if (agent?.kind === 'Bootstrap')
    return machine.status?.bootstrap?.accountUID === asked.userUID
      ? deny('ForeignRequester', 'a bootstrap token is for the certificate of the agent, and for nothing else')
      : LEAVE;
  if (agent?.kind === 'Certificate' && !asked.groups.includes(AGENTS))
    return deny('ForeignRequester', `${asked.username} is not in group ${AGENTS}`);
  if (agent?.kind === 'Token' && machine.status?.bootstrap?.by !== 'Token')
    return deny('NotByToken', 'no ServiceAccount stands in for a certificate of this machine');
  if (serving) return deny('ForeignRequester', 'a serving certificate is asked for by the node itself');
  const node = machine.metadata.name;
  const other = known.ofNode.find(({ metadata, status }) => metadata.uid !== machine.metadata.uid && status?.nodeRef?.name === node);
  if (other !== undefined)
    return deny('NodeOfAnother', `Node ${node} belongs to Machine ${other.metadata.namespace}/${other.metadata.name}`);
  const wrong = nodeVerdict(node, machine, known);
  if (wrong !== undefined) return wrong;
  const twin = known.ofNode.find(({ metadata }) => metadata.uid !== machine.metadata.uid && metadata.name === node);
  // The provider's report proves a claim; a twin has only the name.
  if (twin !== undefined && known.node === undefined && machine.status?.nodeRef?.name !== node)
    return deny(
      'NodeAmbiguous',
      `Machine ${twin.metadata.namespace}/${twin.metadata.name} has this name too: one of the two must go first`,
    );
  return judgeHeld(asked, machine, node, false, known);
}

/**
 * A Node that is there belongs to the Machine that has claimed it (by providerID, and then by UID), or that has its providerID. The provider reports the
 * providerID of the Machine. What a node or its agent reports about itself proves nothing.
 */
function nodeVerdict(name: string, machine: Stored<Machine>, { node, reserved, server }: RequesterFacts): SigningVerdict | undefined {
  if (isOfServer(name, server)) return serverName(`Node ${name}`);
  if (server.addresses === undefined && isAddress({ type: 'dns', value: name })) return { do: 'Wait', why: UNRESOLVED };
  if (reserved) return deny('NodeNameReserved', `the name of Node ${name} is reserved for Nodes that KubeNode does not manage`);
  if (node === undefined) return undefined;
  const { nodeRef, providerID } = machine.status ?? {};
  const found = node.spec?.providerID ?? '';
  const claimed = nodeRef?.name === name && nodeRef.uid === node.metadata.uid;
  const same = nodeRef === undefined && found !== '' && found === providerID;
  if (claimed || same) return undefined;
  const why =
    nodeRef === undefined
      ? `its providerID is "${found}", and this Machine's "${providerID ?? ''}"`
      : `its UID is ${node.metadata.uid}, and this Machine's Node had ${nodeRef.uid}`;
  return deny('NodeNotOfMachine', `Node ${name} exists and is not proven to belong to this Machine: ${why}`);
}

/**
 * KubeNode leaves requests for other Nodes to other approvers. It denies the request where a pool has the name: left open, the request would still be there when
 * another Machine claims the Node. A kubelet that was too early asks again within a minute.
 */
function judgeUnclaimed(node: string, { hold, node: found, nowMs }: RequesterFacts): SigningVerdict {
  // Its kubelet stays in the cluster, under other approvers. Kubelets cannot write that mark, and it goes with the Node.
  if (found?.metadata.annotations?.[ANNOTATIONS.givenBack] !== undefined) return LEAVE;
  if (hold === undefined || !isHeld(hold, nowMs)) return LEAVE;
  return deny('NodeUnclaimed', `no Machine claims Node ${node}, whose name Machines of pool ${hold.pool} have certificates for`);
}

/** Certificates outlive their Machine: a machine of another pool that has one with this name would be this Machine's Node. */
function judgeHeld(asked: Asked, machine: Stored<Machine>, node: string, serving: boolean, known: RequesterFacts): SigningVerdict {
  const { hold, nowMs } = known;
  const pool = machine.metadata.namespace ?? '';
  if (hold !== undefined && hold.pool !== pool && isHeld(hold, nowMs))
    return deny(
      'NodeNameHeld',
      `Machines of pool ${hold.pool} got certificates for Node ${node}, and the last ends by ${rfc3339(endOfHold(hold))}; an administrator who knows that no process has them deletes Lease ${holdName(node)}`,
    );
  const before = whatCameAfter(asked, machine, known);
  if (before !== undefined) return deny('RequestOutdated', `this request was made before ${before}: who it is of now asks again`);
  const verdict = judge(asked, machine, node, serving, known);
  const unsigned = hold?.unsigned ?? [];
  // Each of them may be signed for a year: the lifetime is unknown before the signer has signed.
  if (verdict.do === 'Approve' && unsigned.length >= MOST_UNSIGNED && !unsigned.includes(asked.uid))
    return deny('TooManyRequests', `${unsigned.length} requests for Node ${node} are approved, and not signed yet`);
  return verdict.do === 'Approve' ? { ...verdict, holder: pool } : verdict;
}

/**
 * What is newer than the request, though the requester is this Machine's Node or agent only by it: then another client may have made the request. The API server
 * wrote all of these times, so no clock is compared with another (docs/protocols.md#g4g).
 */
function whatCameAfter({ createdAt }: Asked, machine: Stored<Machine>, { node, hold }: RequesterFacts): string | undefined {
  const createdMs = Date.parse(createdAt);
  const isBefore = (at: string | undefined): boolean => at !== undefined && !(createdMs >= Date.parse(at));
  if (isBefore(machine.metadata.creationTimestamp)) return 'this Machine';
  if (isBefore(node?.metadata.creationTimestamp)) return 'this Node';
  if (hold === undefined) return undefined;
  if (hold.pool !== machine.metadata.namespace)
    return isHeld(hold, createdMs) ? `the last certificate of pool ${hold.pool} for this Node ended` : undefined;
  return isBefore(hold.since) ? 'this pool had the name of the Node' : undefined;
}

function judge(asked: Asked, machine: Stored<Machine>, node: string, serving: boolean, known: RequesterFacts): SigningVerdict {
  if (machine.metadata.deletionTimestamp !== undefined) return deny('MachineDeleting', `Machine ${machine.metadata.name} is being deleted`);
  if ('unreadable' in asked.request) return deny('RequestUnreadable', `the request cannot be read: ${asked.request.unreadable}`);
  const wrong = subjectError(asked.request, node) ?? usageError(asked.usages, serving) ?? lifeError(asked) ?? keyError(asked.request);
  if (wrong !== undefined) return deny('RequestInvalid', wrong);
  if (!serving) {
    const { names, others } = asked.request;
    if (names.length > 0 || others.length > 0) return deny('RequestInvalid', 'a client certificate of a kubelet has no extensions');
    return { do: 'Approve', reason: 'NodeOfMachine', message: `Node ${node} belongs to this Machine` };
  }
  return judgeNames(asked.request, machine, node, known);
}

function subjectError({ subject }: SigningRequest, node: string): string | undefined {
  for (const [type, value] of [
    ['O', NODES],
    ['CN', `${NODE_USER}${node}`],
  ] as const) {
    const found = subject.filter((each) => each.type === type).map((each) => each.value);
    if (found.length !== 1 || found[0] !== value) return `${type} must be ${value} and no other, not ${found.join(', ') || 'nothing'}`;
  }
  return subject.length === 2 ? undefined : 'the subject has attributes besides CN and O';
}

function usageError(usages: readonly string[], serving: boolean): string | undefined {
  const needed = [serving ? 'server auth' : 'client auth', 'digital signature'];
  if (isSet(usages, needed) || isSet(usages, [...needed, 'key encipherment'])) return undefined;
  return `usages must be ${needed.join(', ')} and at most key encipherment, not ${usages.join(', ')}`;
}

/** Kubelets ask for no lifetime when they renew, and get what the signer gives. Agents, which ask for a first certificate, always name one. */
function lifeError({ username, expirationSeconds: seconds }: Asked): string | undefined {
  const { least, usual, most } = IDENTITY_SECONDS;
  if (seconds === undefined ? username.startsWith(NODE_USER) : seconds >= least && seconds <= most) return undefined;
  return `spec.expirationSeconds must be ${least} to ${most}, such as ${usual}, not ${seconds ?? 'absent'}`;
}

function keyError({ key }: SigningRequest): string | undefined {
  if (key.asymmetricKeyType !== 'rsa' || (key.asymmetricKeyDetails?.modulusLength ?? 0) >= 2048) return undefined;
  return `its key is too short: ${kindOfKey(key)}`;
}

const serverName = (what: string): SigningVerdict => deny('ServerName', `${what} is a name by which clients reach the API server`);
const serviceName = (name: string): SigningVerdict =>
  deny('NameOfAnother', `${name} is a name by which clients reach services of a cluster`);
const UNRESOLVED = 'the addresses of the API server are not known: the name service gives no answer';

function judgeNames(
  { names, others }: SigningRequest,
  machine: Stored<Machine>,
  node: string,
  { server, nodeDomains, newer }: RequesterFacts,
): SigningVerdict {
  if (others.length > 0) return deny('RequestInvalid', `it asks for extensions or attributes ${others.join(', ')}`);
  if (names.length === 0) return deny('RequestInvalid', 'a serving certificate needs alternative names');
  if (isServiceName(node)) return serviceName(node);
  const stolen = names.find(({ value }) => isOfServer(value, server));
  if (stolen !== undefined) return serverName(`${stolen.type} ${stolen.value}`);
  const isChosen = isChosenByPeople(node, machine, nodeDomains);
  // People who may create Machines typed these addresses. Only a person who knows the machine may approve them.
  if (machine.spec.provider?.name === SSH_PROVIDER)
    return !isChosen && names.every(({ type, value }) => type === 'dns' && value === node)
      ? { do: 'Approve', reason: 'NodeOfMachine', message: `its only name is the name of Node ${node}` }
      : leftToPerson(newer);
  const service = names.find(({ value }) => isServiceName(value));
  if (service !== undefined) return serviceName(service.value);
  const addresses = machine.status?.addresses;
  if (addresses === undefined) return { do: 'Wait', why: `the addresses of Machine ${machine.metadata.name} are not known yet` };
  const known = new Set([node, ...addresses.map(({ address }) => canonicalAddress(address))]);
  const strange = names.find(({ type, value }) => (type !== 'dns' && type !== 'ip') || !known.has(value) || value.includes('*'));
  if (strange !== undefined)
    return deny('NameOfAnother', `${strange.type} ${strange.value} is not of this Machine, whose addresses are ${[...known].join(', ')}`);
  if (isChosen && names.some(({ value }) => value === node)) return leftToPerson(newer);
  if (server.addresses === undefined && names.some(isAddress)) return { do: 'Wait', why: UNRESOLVED };
  return { do: 'Approve', reason: 'AddressesOfMachine', message: 'all names are those of this Machine' };
}

/** A kubelet gives a request up after a quarter of an hour and makes another: an older one is of no use to it, and only fills memory. */
function leftToPerson(newer: number): SigningVerdict {
  if (newer < MOST_LEFT) return LEAVE;
  return deny('TooManyRequests', `${newer} newer requests of this node wait for a person (kubectl certificate approve)`);
}

/**
 * Whether the name of a Node could be the name of another server, and only the person who made the Machine vouches that it is not: neither its set, which
 * the fleet names, nor its provider, which has it in DNS, does (docs/protocols.md#g4c).
 */
function isChosenByPeople(node: string, { metadata, spec, status }: Stored<Machine>, domains: readonly string[]): boolean {
  if (!node.includes('.') || domains.some((domain) => node.endsWith(`.${domain}`))) return false;
  if (metadata.ownerReferences?.some(({ controller, kind }) => controller === true && kind === 'MachineSet') === true) return false;
  const isProven = ({ type, address }: { type: string; address: string }): boolean => PROVEN.has(type) && address === node;
  return spec.provider?.name === SSH_PROVIDER || status?.addresses?.some(isProven) !== true;
}

/** Types of addresses that a provider has in DNS; a hostname may be no more than the name that the machine was asked for with. */
const PROVEN = new Set(['InternalDNS', 'ExternalDNS']);

/** Names under which API servers and other Services are asked for in a cluster. */
const isServiceName = (name: string): boolean => /^(localhost|kubernetes|kubernetes\.default)$|\.svc(\.|$)/i.test(name);
