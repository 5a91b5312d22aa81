import { AGENT_USAGES, SIGNERS, VOUCHER } from '../../api/admission.ts';
import { CertificateSigningRequests, ServiceAccounts } from '../../api/builtin.ts';
import type { CertificateSigningRequest } from '../../api/builtin.ts';
import { agentServiceAccountName } from '../../api/identity.ts';
import { apiVersionOf, pathOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { ApiError, hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import type { PendingRequest } from './state.ts';

export type SigningAnswer =
  | { is: 'Issued'; certificate: string }
  /** `approved`: what is left is the signer's. */
  | { is: 'Waiting'; approved: boolean }
  | { is: 'Failed'; why: string }
  | { is: 'Denied'; why: string }
  /** The server has removed it; requests are cleaned up after an hour. */
  | { is: 'Gone' };

export type AskedRequest = Pick<PendingRequest, 'name' | 'request' | 'voucher'>;

/** Makes the request, or finds the one that was made before a crash. */
export async function ask(
  client: Client,
  pending: AskedRequest,
  expirationSeconds: number,
  signal: AbortSignal,
  signerName: string = SIGNERS.client,
): Promise<SigningAnswer> {
  const object: CertificateSigningRequest = {
    apiVersion: apiVersionOf(CertificateSigningRequests),
    kind: CertificateSigningRequests.kind,
    metadata: { name: pending.name, ...(pending.voucher === undefined ? {} : { annotations: { [VOUCHER]: pending.voucher } }) },
    spec: { request: pending.request, signerName, usages: [...AGENT_USAGES], expirationSeconds },
  };
  try {
    return answerOf(await client.create(CertificateSigningRequests, object, { signal }), pending);
  } catch (error) {
    if (!hasReason(error, 'AlreadyExists')) throw error;
    return await readAnswer(client, pending, signal);
  }
}

export async function readAnswer(client: Client, pending: AskedRequest, signal: AbortSignal): Promise<SigningAnswer> {
  const found = await client.find(CertificateSigningRequests, { name: pending.name }, { signal });
  return found === undefined ? { is: 'Gone' } : answerOf(found, pending);
}

function answerOf({ spec, status }: Stored<CertificateSigningRequest>, pending: AskedRequest): SigningAnswer {
  if (spec.request !== pending.request) return { is: 'Denied', why: `another request has the name ${pending.name}` };
  const condition = (type: string) => status?.conditions?.find((each) => each.type === type);
  const textOf = ({ reason = '', message = '' }: { reason?: string; message?: string }): string =>
    [reason, message].filter(Boolean).join(': ');
  const denied = condition('Denied');
  if (denied !== undefined) return { is: 'Denied', why: textOf(denied) };
  const certificate = status?.certificate ?? '';
  if (certificate !== '') return { is: 'Issued', certificate: Buffer.from(certificate, 'base64').toString('utf8') };
  const failed = condition('Failed');
  if (failed !== undefined) return { is: 'Failed', why: textOf(failed) };
  return { is: 'Waiting', approved: condition('Approved') !== undefined };
}

/** A token of the account that replaces a certificate; undefined: this machine was not given one. Times in wall ms. */
export async function standInToken(
  client: Client,
  machine: { namespace: string; name: string },
  expirationSeconds: number,
  signal: AbortSignal,
): Promise<{ token: string; until: number } | undefined> {
  const path = pathOf(ServiceAccounts, machine.namespace, agentServiceAccountName(machine.name), 'token');
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds } };
  try {
    const answer = (await client.post(path, request, { signal })) as { status?: { token?: unknown; expirationTimestamp?: unknown } } | null;
    const { token, expirationTimestamp } = answer?.status ?? {};
    const until = typeof expirationTimestamp === 'string' ? Date.parse(expirationTimestamp) : Number.NaN;
    return typeof token === 'string' && !Number.isNaN(until) ? { token, until } : undefined;
  } catch (error) {
    if (hasReason(error, 'NotFound', 'Forbidden')) return undefined;
    throw error;
  }
}

export const isUnauthorized = (error: unknown): boolean => error instanceof ApiError && error.status === 401;
