import { X509Certificate } from 'node:crypto';
import type { User } from '../kinds/served.ts';

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';

function strings(value: unknown): string[] {
  const list: unknown[] = Array.isArray(value) ? value : [value];
  return list.filter((item) => typeof item === 'string');
}

/**
 * The user that a client certificate stands for: CN is the name, every O a group. Undefined when the certificate was not
 * signed by `authority` (PEM), is out of date at `now`, or is not for client authentication. TLS has already checked
 * that the peer has the key.
 */
export function userOfCertificate(certificate: X509Certificate, authority: string, now: number): User | undefined {
  const issuer = new X509Certificate(authority);
  if (!certificate.checkIssued(issuer) || !certificate.verify(issuer.publicKey)) return undefined;
  if (now < Date.parse(certificate.validFrom) || now > Date.parse(certificate.validTo)) return undefined;
  // Absent, against its type, when the certificate names no extended usage.
  const usages: readonly string[] | undefined = certificate.keyUsage;
  if (usages === undefined || !usages.includes(CLIENT_AUTH)) return undefined;
  const subject: Record<string, unknown> = { ...certificate.toLegacyObject().subject };
  const [name] = strings(subject['CN']);
  if (name === undefined || name === '') return undefined;
  return { name, groups: [...strings(subject['O']), 'system:authenticated'] };
}
