/** From CertificateSigningRequests to what a decision sees of them, and back. */
import { requesterOf, SIGNERS, VOUCHER } from '../../api/admission.ts';
import { CertificateSigningRequests, type CertificateSigningRequest } from '../../api/builtin.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { rfc3339 } from '../../kube/clock.ts';
import type { Asked, SigningVerdict } from './asked.ts';
import { DerError } from './der.ts';
import { parseSigningRequest } from './signing-request.ts';

export type StoredRequest = Stored<CertificateSigningRequest>;
type Condition = NonNullable<NonNullable<CertificateSigningRequest['status']>['conditions']>[number] & {
  lastUpdateTime?: string;
  lastTransitionTime?: string;
};

const SIGNER_NAMES: readonly string[] = Object.values(SIGNERS);

/** Whether it is of a signer whose requests KubeNode judges. */
export const isJudged = ({ spec }: CertificateSigningRequest): boolean => SIGNER_NAMES.includes(spec.signerName);

/** Only the fields that are read: other clients may make any number of requests, of any size that the API takes (docs/protocols.md#g7a). */
export function keptOf(request: StoredRequest): StoredRequest {
  const { apiVersion, kind, metadata, spec, status } = request;
  const { name, uid, resourceVersion, creationTimestamp, annotations } = metadata;
  const own = { name, uid, resourceVersion, creationTimestamp };
  if (!isJudged(request)) return { apiVersion, kind, metadata: own, spec: { signerName: spec.signerName, request: '' } };
  const voucher = annotations?.[VOUCHER];
  const { signerName, usages, expirationSeconds, username, groups } = spec;
  const { uid: userUID } = spec as { uid?: string };
  const who = { signerName, ...(username !== undefined && { username }), ...(userUID !== undefined && { uid: userUID }) };
  const conditions = status?.conditions;
  if (stateOf(request) === 'Denied')
    return { apiVersion, kind, metadata: own, spec: { ...who, request: '' }, status: { ...(conditions && { conditions }) } };
  return {
    apiVersion,
    kind,
    metadata: { ...own, ...(voucher !== undefined && { annotations: { [VOUCHER]: voucher } }) },
    spec: {
      ...who,
      request: spec.request,
      ...(usages && { usages }),
      ...(expirationSeconds !== undefined && { expirationSeconds }),
      ...(groups && { groups }),
    },
    ...(status && { status }),
  };
}

const conditionsOf = ({ status }: CertificateSigningRequest): readonly Condition[] => status?.conditions ?? [];
export const conditionOf = (request: CertificateSigningRequest, type: 'Approved' | 'Denied' | 'Failed'): Condition | undefined =>
  conditionsOf(request).find((each) => each.type === type && each.status !== 'False');

export function stateOf(request: CertificateSigningRequest): 'Open' | 'Approved' | 'Denied' | 'Failed' | 'Issued' {
  if (conditionOf(request, 'Denied') !== undefined) return 'Denied';
  if (conditionOf(request, 'Failed') !== undefined) return 'Failed';
  if ((request.status?.certificate ?? '') !== '') return 'Issued';
  return conditionOf(request, 'Approved') === undefined ? 'Open' : 'Approved';
}

/** Machine whose identity asks, by the requester's name. */
export const machineOf = ({ spec }: CertificateSigningRequest) => requesterOf(spec.username ?? '');

export function askedOf({ metadata, spec }: StoredRequest): Asked {
  const { uid: userUID } = spec as { uid?: string };
  return {
    uid: metadata.uid,
    createdAt: metadata.creationTimestamp,
    signerName: spec.signerName,
    usages: spec.usages ?? [],
    expirationSeconds: spec.expirationSeconds,
    username: spec.username ?? '',
    userUID: userUID === '' ? undefined : userUID,
    groups: spec.groups ?? [],
    voucher: metadata.annotations?.[VOUCHER],
    request: requestOf(spec.request),
  };
}

export function requestOf(text: string): Asked['request'] {
  try {
    return parseSigningRequest(text);
  } catch (error) {
    if (error instanceof DerError) return { unreadable: error.message };
    throw error;
  }
}

/** Conditioned on what was read. Errors: those of the API, `Conflict` above all. */
export async function answer(
  client: Client,
  request: StoredRequest,
  verdict: Extract<SigningVerdict, { do: 'Approve' | 'Deny' }>,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  const now = rfc3339(nowMs);
  const condition: Condition = {
    type: verdict.do === 'Approve' ? 'Approved' : 'Denied',
    status: 'True',
    reason: verdict.reason,
    message: verdict.message,
    lastUpdateTime: now,
    lastTransitionTime: now,
  };
  const status = { ...request.status, conditions: [...conditionsOf(request), condition] };
  await client.update(CertificateSigningRequests, { ...request, status }, { subresource: 'approval', signal });
}
