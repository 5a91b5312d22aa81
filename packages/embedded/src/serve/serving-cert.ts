import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '@kubenode/api-machinery/errors';
import { makeAuthority, makeServerCertificate, type Identity, type Making } from '../pki.ts';
import { embeddedError } from '../errors.ts';

const RENEW_BEFORE_MS = 30 * 24 * 60 * 60_000;

export interface ServingIdentity extends Identity {
  /** PEM of the authority, for kubeconfigs. */
  readonly authority: string;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Whole or not at all: a crash leaves the old file. */
function write(path: string, text: string): void {
  writeFileSync(`${path}.new`, text, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

function pair(dir: string, name: string): Identity | undefined {
  const certificate = read(join(dir, `${name}.crt`));
  const key = read(join(dir, `${name}.key`));
  return certificate === undefined || key === undefined ? undefined : { certificate, key };
}

function keep(dir: string, name: string, identity: Identity): void {
  write(join(dir, `${name}.key`), identity.key);
  write(join(dir, `${name}.crt`), identity.certificate);
}

/** Whether it can be served for a while. One that cannot be read counts as none: the server makes another, and kubeconfigs stay valid. */
function good(server: Identity, authority: Identity, now: number): boolean {
  const { publicKey } = new X509Certificate(authority.certificate);
  try {
    const certificate = new X509Certificate(server.certificate);
    return (
      certificate.verify(publicKey) &&
      certificate.checkPrivateKey(createPrivateKey(server.key)) &&
      Date.parse(certificate.validTo) - now > RENEW_BEFORE_MS
    );
  } catch {
    return false;
  }
}

/**
 * The listener's certificate and its authority: from `dir/pki`, made there when they are missing or soon out of date;
 * with no folder, made for this process. Throws CodedError StateDamaged when what is there cannot be read.
 */
export async function servingIdentity(dir: string | undefined, making: Making): Promise<ServingIdentity> {
  if (dir === undefined) {
    const authority = await makeAuthority('kubenode embedded CA', making);
    return { ...(await makeServerCertificate(authority, making)), authority: authority.certificate };
  }
  const folder = join(dir, 'pki');
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    let authority = pair(folder, 'ca');
    if (authority === undefined) keep(folder, 'ca', (authority = await makeAuthority('kubenode embedded CA', making)));
    let server = pair(folder, 'server');
    if (server === undefined || !good(server, authority, making.now)) {
      keep(folder, 'server', (server = await makeServerCertificate(authority, making)));
    }
    return { ...server, authority: authority.certificate };
  } catch (error) {
    throw embeddedError('StateDamaged', `cannot use the certificates in ${folder}: ${messageOf(error)}`, {
      cause: error,
      next: `remove ${folder} to have new ones made; kubeconfigs written before will no longer fit`,
    });
  }
}
