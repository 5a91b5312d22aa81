import { webcrypto } from 'node:crypto';
import { makeAuthority } from '../pki.ts';

type Name = Record<string, string[]>[];

/** A PKCS#10 request in PEM, with a key of its own. */
export async function makeRequest(name: Name): Promise<string> {
  return (await makeRequestAndKey(name)).request;
}

export async function makeRequestAndKey(name: Name): Promise<{ request: string; key: string }> {
  // The library is set up by the module that owns it.
  await makeAuthority('warm-up', { now: 0, random: () => 0.5 });
  const lib = await import('@peculiar/x509');
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const request = await lib.Pkcs10CertificateRequestGenerator.create({ name, keys, signingAlgorithm: algorithm });
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64');
  return { request: request.toString('pem'), key: `-----BEGIN PRIVATE KEY-----\n${der}\n-----END PRIVATE KEY-----\n` };
}
