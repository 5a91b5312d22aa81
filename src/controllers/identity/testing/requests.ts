import { webcrypto } from 'node:crypto';
import type { Extension, JsonGeneralName } from '@peculiar/x509';
import { AGENT_USAGES, SIGNERS } from '../../../api/admission.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Bootstrap, Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { makeAuthority } from '@kubenode/embedded/pki';
import type { Asked, RequesterFacts, SigningVerdict } from '../asked.ts';
import { requestOf } from '../requests.ts';

const P256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
const ALGORITHMS = {
  'P-256': P256,
  'P-384': { name: 'ECDSA', namedCurve: 'P-384', hash: 'SHA-384' },
  RSA: { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) },
  'RSA-1024': { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256', modulusLength: 1024, publicExponent: new Uint8Array([1, 0, 1]) },
};

export interface Made {
  subject?: Record<string, string[]>[];
  names?: JsonGeneralName[];
  /** In one more extension of alternative names. */
  moreNames?: JsonGeneralName[];
  /** Dotted OIDs of more extensions. */
  extensions?: string[];
  challenge?: string;
  algorithm?: keyof typeof ALGORITHMS;
}

export const AGENT_SUBJECT = [{ O: ['kubenode:machines'] }, { CN: ['kubenode:machine:web:a'] }];

/** A PKCS#10 request by another hand than the agent's, in PEM, with a key of its own. */
export async function pkcs10({ subject = AGENT_SUBJECT, names, moreNames, extensions = [], challenge, algorithm = 'P-256' }: Made = {}) {
  // The library is set up by the module that owns it.
  await makeAuthority('warm-up', { now: 0, random: () => 0.5 });
  const lib = await import('@peculiar/x509');
  const signingAlgorithm = ALGORITHMS[algorithm];
  const keys = await webcrypto.subtle.generateKey(signingAlgorithm, true, ['sign', 'verify']);
  const all: Extension[] = extensions.map((oid) => new lib.Extension(oid, true, new Uint8Array([0x05, 0x00])));
  for (const each of [names, moreNames]) if (each !== undefined) all.push(new lib.SubjectAlternativeNameExtension(each));
  const request = await lib.Pkcs10CertificateRequestGenerator.create({
    name: subject,
    keys,
    signingAlgorithm,
    extensions: all,
    attributes: challenge === undefined ? [] : [new lib.ChallengePasswordAttribute(challenge)],
  });
  return { pem: `${request.toString('pem')}\n`, der: Buffer.from(request.rawData), keys };
}

export const base64 = (text: string): string => Buffer.from(text).toString('base64');

export const BOOTSTRAP_USER = 'system:serviceaccount:web:kubenode-bootstrap-a';
export const TOKEN_USER = 'system:serviceaccount:web:kubenode-agent-a';
export const AGENT_USER = 'kubenode:machine:web:a';

/** A right request by the bootstrap token of Machine web/a, unless `made` has others. */
export async function asked(made: Made = {}, more: Partial<Asked> = {}): Promise<Asked> {
  const { pem } = await pkcs10(made);
  return {
    uid: 'csr-1',
    createdAt: '2026-11-20T12:00:00Z',
    signerName: SIGNERS.client,
    usages: AGENT_USAGES,
    expirationSeconds: 86_400,
    username: BOOTSTRAP_USER,
    userUID: 'account-1',
    groups: ['system:serviceaccounts', 'system:authenticated'],
    voucher: undefined,
    request: requestOf(base64(pem)),
    ...more,
  };
}

export const OPEN: Bootstrap = { epoch: 1, accountUID: 'account-1', tokenUntil: '2026-11-20T13:00:00Z' };

export function machineWith(bootstrap: Bootstrap | undefined, more: Partial<Machine['status']> = {}, name = 'a'): Stored<Machine> {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace: 'web', name, uid: `machine-${name}`, resourceVersion: '1', creationTimestamp: '2026-11-20T12:00:00Z' },
    spec: {},
    status: { ...(bootstrap === undefined ? {} : { bootstrap }), ...more },
  };
}

export const NOW_MS = Date.parse('2026-11-20T12:00:00Z');
/** What the controller knows, unless `more` has others: that Machine, and no Node. */
export const known = (bootstrap: Bootstrap | undefined, more: Partial<RequesterFacts> = {}): RequesterFacts => ({
  nowMs: NOW_MS,
  machine: machineWith(bootstrap),
  ofNode: [],
  node: undefined,
  reserved: false,
  hold: undefined,
  server: { hosts: ['api.prod.example', '10.96.0.1'], addresses: ['203.0.113.9', '2001:db8:0:0:0:0:0:9'] },
  nodeDomains: [],
  newer: 0,
  ...more,
});
export const summary = (verdict: SigningVerdict): string => ('reason' in verdict ? `${verdict.do} ${verdict.reason}` : verdict.do);
