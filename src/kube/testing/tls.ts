import { webcrypto } from 'node:crypto';
import { createServer } from 'node:https';
import type { Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { JsonGeneralName } from '@peculiar/x509';

export interface Identity {
  /** PEM. */
  cert: string;
  key: string;
}

export interface Authority {
  /** PEM. */
  ca: string;
  /** For 127.0.0.1 and localhost, unless `names` has other names; valid from `from` (default an hour ago) to `until` (default in an hour). */
  issue(commonName: string, options?: { names?: string[]; from?: Date; until?: Date }): Promise<Identity>;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** tsyringe, below @peculiar/x509, refuses to load without these three; it keeps its injection tokens in them. */
function provideReflectMetadata(): void {
  if ('getMetadata' in Reflect) return;
  const kept = new WeakMap<object, Map<unknown, unknown>>();
  const get = (key: unknown, target: object): unknown => kept.get(target)?.get(key);
  const set = (key: unknown, value: unknown, target: object): unknown => kept.set(target, new Map(kept.get(target)).set(key, value));
  Object.assign(Reflect, { getMetadata: get, getOwnMetadata: get, defineMetadata: set });
}

/** A certificate authority that lives as long as the test. */
export async function createAuthority(): Promise<Authority> {
  provideReflectMetadata();
  const x509 = await import('@peculiar/x509');
  x509.cryptoProvider.set(webcrypto);
  const hour = 3_600_000;
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const authority = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=test authority',
    keys: keys,
    signingAlgorithm: ALGORITHM,
    notBefore: new Date(Date.now() - 30 * 24 * hour),
    notAfter: new Date(Date.now() + hour),
    extensions: [new x509.BasicConstraintsExtension(true, undefined, true)],
  });
  let serial = 1;
  return {
    ca: authority.toString('pem'),
    async issue(commonName, { names, from, until } = {}) {
      const own = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
      const alternatives: JsonGeneralName[] = (names ?? ['localhost']).map((value) => ({ type: 'dns', value }));
      if (names === undefined) alternatives.push({ type: 'ip', value: '127.0.0.1' });
      const certificate = await x509.X509CertificateGenerator.create({
        serialNumber: (serial++).toString(16).padStart(2, '0'),
        subject: `CN=${commonName}`,
        issuer: authority.subject,
        notBefore: from ?? new Date(Date.now() - hour),
        notAfter: until ?? new Date(Date.now() + hour),
        publicKey: own.publicKey,
        signingKey: keys.privateKey,
        signingAlgorithm: ALGORITHM,
        extensions: [new x509.SubjectAlternativeNameExtension(alternatives)],
      });
      const exported = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', own.privateKey)).toString('base64');
      const key = `-----BEGIN PRIVATE KEY-----\n${(exported.match(/.{1,64}/g) ?? []).join('\n')}\n-----END PRIVATE KEY-----\n`;
      return { cert: certificate.toString('pem'), key };
    },
  };
}

export interface TlsServer {
  server: Server;
  /** `https://127.0.0.1:PORT`. */
  url: string;
  close(): Promise<void>;
}

/** Serves on a free port of the loopback. */
export async function serveTls(
  identity: Identity,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
  options: { clientCa?: string } = {},
): Promise<TlsServer> {
  const clients = options.clientCa === undefined ? {} : { ca: options.clientCa, requestCert: true, rejectUnauthorized: false };
  const server = createServer({ ...identity, ...clients }, handle);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    server,
    url: `https://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
