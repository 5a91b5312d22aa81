/** How a node's agent comes by its identity: what agent, approver and access rules must agree on (docs/protocols.md#g1). */
import { AGENT_PREFIX } from './identity.ts';
import { isLabel, isSubdomain } from './object-name.ts';

export interface MachineKey {
  namespace: string;
  name: string;
}

const BOOTSTRAP_PREFIX = 'kubenode-bootstrap-';

/**
 * ServiceAccount, in the Machine's namespace, whose tokens admit an agent, once. It may create and read CertificateSigningRequests and
 * nothing else. Not below AGENT_PREFIX: it would be the agent's account of a Machine that is named so.
 */
export const bootstrapAccountName = (machine: string): string => `${BOOTSTRAP_PREFIX}${machine}`;

/** Who a node is to the API server: by its bootstrap token, its certificate, or the token instead of a certificate. */
export interface Requester extends MachineKey {
  kind: 'Bootstrap' | 'Certificate' | 'Token';
}

/** undefined: by its form the name belongs to no Machine. */
export function requesterOf(username: string): Requester | undefined {
  const requester = formOf(username);
  return requester !== undefined && isLabel(requester.namespace) && isSubdomain(requester.name) ? requester : undefined;
}

function formOf(username: string): Requester | undefined {
  const [, sort, namespace = '', name = ''] = /^(kubenode:machine|system:serviceaccount):([^:]+):([^:]+)$/.exec(username) ?? [];
  if (sort === 'kubenode:machine') return { kind: 'Certificate', namespace, name };
  if (name.startsWith(BOOTSTRAP_PREFIX)) return { kind: 'Bootstrap', namespace, name: name.slice(BOOTSTRAP_PREFIX.length) };
  if (name.startsWith(AGENT_PREFIX)) return { kind: 'Token', namespace, name: name.slice(AGENT_PREFIX.length) };
  return undefined;
}

export const SIGNERS = {
  client: 'kubernetes.io/kube-apiserver-client',
  kubeletClient: 'kubernetes.io/kube-apiserver-client-kubelet',
  kubeletServing: 'kubernetes.io/kubelet-serving',
} as const;

/** Usages of an agent's certificate: these and no other. */
export const AGENT_USAGES = ['client auth', 'digital signature'];

/** Seconds that an agent's certificate may be asked for. */
export const IDENTITY_SECONDS = { least: 600, usual: 24 * 3600, most: 7 * 24 * 3600 };

/**
 * Annotation on the request for a renewal with a new key: `<SPKI of the key so far>.<its signature>`, both base64 of DER. The signature is over
 * `vouchedText` of the request. So a certificate of an earlier admission renews nothing.
 */
export const VOUCHER = 'kubenode.io/voucher';
export const vouchedText = (request: Uint8Array): Uint8Array => Buffer.concat([Buffer.from('kubenode voucher\n'), request]);

/** Condition of a Machine: whether its agent is admitted, and as what. */
export const ADMITTED = 'Admitted';
