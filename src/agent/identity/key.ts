import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { AGENTS, agentUser } from '../../api/identity.ts';
import { sha256Hex } from '../../api/digest.ts';
import { agentError } from '../errors.ts';
import { makeRequest, pemOf, vouch } from './request.ts';
import type { Current, PendingRequest } from './state.ts';

export interface MachineIdentity {
  namespace: string;
  name: string;
  uid: string;
}

/** A request for a certificate of this machine. `key`: PEM of a key that is asked for again; absent: a new one, which never leaves this disk. */
export function newPending(
  machine: MachineIdentity,
  { key, voucherKey, admittedBy }: { key?: string | undefined; voucherKey?: string | undefined; admittedBy?: string | undefined },
): PendingRequest {
  const own = key === undefined ? generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey : createPrivateKey(key);
  const request = makeRequest(own, agentUser(machine.namespace, machine.name), AGENTS);
  return {
    machineUID: machine.uid,
    key: own.export({ type: 'pkcs8', format: 'pem' }).toString(),
    request: Buffer.from(pemOf(request)).toString('base64'),
    name: `kubenode-${machine.namespace}-${machine.name}`.slice(0, 200) + `-${sha256Hex(request).slice(0, 16)}`,
    ...(admittedBy === undefined ? {} : { admittedBy }),
    ...(voucherKey === undefined ? {} : { voucher: vouch(createPrivateKey(voucherKey), request) }),
  };
}

/** What was asked for, now that the certificate is there. Errors: `CertificateForeign`. */
export function certified(machine: MachineIdentity, pending: PendingRequest, pem: string, admittedBy: string): Current {
  const expected = agentUser(machine.namespace, machine.name);
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(pem);
  } catch (cause) {
    throw agentError('CertificateForeign', 'what the cluster issued is no certificate', { cause });
  }
  const names = certificate.subject.split('\n');
  if (!certificate.checkPrivateKey(createPrivateKey(pending.key)) || !names.includes(`CN=${expected}`))
    throw agentError('CertificateForeign', `the certificate that was issued is not for ${expected} and its key`);
  return { kind: 'Certificate', machineUID: machine.uid, key: pending.key, certificate: pem, admittedBy };
}

/** Wall ms. */
export function lifeOf(current: Current): { from: number; until: number } {
  if (current.kind === 'Token') return { from: current.since, until: current.until };
  const { validFrom, validTo } = new X509Certificate(current.certificate);
  return { from: Date.parse(validFrom), until: Date.parse(validTo) };
}
