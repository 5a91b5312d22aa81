import { kubeError } from './errors.ts';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import type { CodedError } from '../api/errors.ts';
import type { Clock } from '../api/ports.ts';
import type { Connection } from './connect.ts';

/**
 * Refuses what no server would take, before one is asked. `source` is where it was read, for the message. Errors: `KubeconfigInvalid`,
 * `CredentialsExpired`. Never shows a secret.
 */
export function checkCredentials({ ca, token, clientCert, clientKey }: Connection, source: string, clock: Clock): void {
  if (ca !== undefined) parsed('certificate authority', ca, source);
  if ((clientCert === undefined) !== (clientKey === undefined))
    throw invalid(
      `${source}: its user has a client ${clientCert === undefined ? 'key and no certificate for it' : 'certificate and no key for it'}`,
    );
  if (clientCert !== undefined && clientKey !== undefined) checkPair(clientCert, clientKey, source, clock);
  if (typeof token === 'string') checkToken(token, source, clock);
}

function parsed(what: string, pem: string, source: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw invalid(`${source}: its ${what} is no certificate that can be read (PEM is expected)`, cause);
  }
}

function checkPair(certificate: string, key: string, source: string, clock: Clock): void {
  const read = parsed('client certificate', certificate, source);
  const until = Date.parse(read.validTo);
  if (until < clock.now()) throw expired(source, 'client certificate', until);
  let matches: boolean;
  try {
    matches = read.checkPrivateKey(createPrivateKey(key));
  } catch (cause) {
    throw invalid(`${source}: its client key cannot be read (PEM without a password is expected)`, cause);
  }
  if (!matches) throw invalid(`${source}: its client key does not belong to its client certificate`);
}

/** A token that is a JWT names its end; others do not. */
function checkToken(token: string, source: string, clock: Clock): void {
  const [, payload, signature] = token.split('.');
  if (payload === undefined || signature === undefined) return;
  let until: unknown;
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString());
    until = claims !== null && typeof claims === 'object' && 'exp' in claims ? claims.exp : undefined;
  } catch {
    return;
  }
  if (typeof until === 'number' && until * 1000 < clock.now()) throw expired(source, 'token', until * 1000);
}

function invalid(message: string, cause?: unknown): CodedError {
  return kubeError('KubeconfigInvalid', message, { cause });
}

function expired(source: string, what: string, untilMs: number): CodedError {
  return kubeError('CredentialsExpired', `${source}: its ${what} expired on ${new Date(untilMs).toISOString()}`, {
    next: 'fetch a new kubeconfig from its issuer',
  });
}
