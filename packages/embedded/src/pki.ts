import { createPrivateKey, webcrypto } from 'node:crypto';
import type * as library from '@peculiar/x509';
import type { Random } from '@kubenode/api-machinery/ports';

/**
 * Certificates, made by @peculiar/x509. The library costs 50 ms and 10 MB to load, so this module loads it when the first
 * certificate is made.
 */

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const DAY_MS = 24 * 60 * 60_000;

/** A key pair and its certificate, both PEM. */
export interface Identity {
  readonly certificate: string;
  readonly key: string;
}

type X509 = typeof library;

let loading: Promise<X509> | undefined;

/** tsyringe, under @peculiar/x509, needs the metadata part of Reflect, and uses three functions of it. */
function provideReflectMetadata(): void {
  const target = Reflect as unknown as Record<string, unknown>;
  if (typeof target['getMetadata'] === 'function') return;
  const stored = new WeakMap<object, Map<unknown, unknown>>();
  const read = (key: unknown, object: object) => stored.get(object)?.get(key);
  target['getMetadata'] = read;
  target['getOwnMetadata'] = read;
  target['defineMetadata'] = (key: unknown, value: unknown, object: object) => {
    const entries = stored.get(object) ?? new Map<unknown, unknown>();
    stored.set(object, entries.set(key, value));
  };
}

async function x509(): Promise<X509> {
  loading ??= (async () => {
    provideReflectMetadata();
    return import('@peculiar/x509');
  })();
  return loading;
}

function serial(random: Random): string {
  // Positive and not longer than 20 bytes, as RFC 5280 wants.
  return `4${Array.from({ length: 31 }, () => Math.floor(random() * 16).toString(16)).join('')}`;
}

async function keyPair(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
}

async function privatePem(key: webcrypto.CryptoKey): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', key));
  return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' }).export({ format: 'pem', type: 'pkcs8' }).toString();
}

async function importKey(pem: string): Promise<webcrypto.CryptoKey> {
  const der = createPrivateKey(pem).export({ format: 'der', type: 'pkcs8' });
  return webcrypto.subtle.importKey('pkcs8', new Uint8Array(der), ALGORITHM, true, ['sign']);
}

export interface Making {
  /** Wall time, ms. */
  readonly now: number;
  readonly random: Random;
}

/** A certificate authority of ten years. */
export async function makeAuthority(commonName: string, { now, random }: Making): Promise<Identity> {
  const lib = await x509();
  const keys = await keyPair();
  const certificate = await lib.X509CertificateGenerator.createSelfSigned({
    serialNumber: serial(random),
    name: [{ CN: [commonName] }],
    notBefore: new Date(now - DAY_MS),
    notAfter: new Date(now + 3650 * DAY_MS),
    signingAlgorithm: ALGORITHM,
    keys,
    extensions: [
      new lib.BasicConstraintsExtension(true, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.keyCertSign | lib.KeyUsageFlags.cRLSign | lib.KeyUsageFlags.digitalSignature, true),
      await lib.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: certificate.toString('pem'), key: await privatePem(keys.privateKey) };
}

/** A server certificate for the loopback names, and perhaps other addresses, of a year. */
export async function makeServerCertificate(
  authority: Identity,
  { now, random }: Making,
  addresses: readonly string[] = [],
): Promise<Identity> {
  const lib = await x509();
  const keys = await keyPair();
  const issuer = new lib.X509Certificate(authority.certificate);
  const certificate = await lib.X509CertificateGenerator.create({
    serialNumber: serial(random),
    subject: [{ CN: ['kubenode'] }],
    issuer: issuer.subjectName,
    notBefore: new Date(now - DAY_MS),
    notAfter: new Date(now + 365 * DAY_MS),
    signingAlgorithm: ALGORITHM,
    publicKey: keys.publicKey,
    signingKey: await importKey(authority.key),
    extensions: [
      new lib.BasicConstraintsExtension(false, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.digitalSignature, true),
      new lib.ExtendedKeyUsageExtension([lib.ExtendedKeyUsage.serverAuth]),
      new lib.SubjectAlternativeNameExtension([
        { type: 'dns', value: 'localhost' },
        { type: 'ip', value: '127.0.0.1' },
        { type: 'ip', value: '::1' },
        ...addresses.map((value) => ({ type: 'ip' as const, value })),
      ]),
      await lib.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return { certificate: certificate.toString('pem'), key: await privatePem(keys.privateKey) };
}

/** What a request asks for besides its key. */
export interface Asked {
  commonNames: string[];
  organizations: string[];
  hasAlternativeNames: boolean;
}

const ALTERNATIVE_NAMES = '2.5.29.17';

/**
 * Signs a PKCS#10 request (PEM) as a client certificate with the request's subject. Throws an Error that names what is
 * wrong with the request; `check` throws what is wrong with what it asks for.
 */
export async function signClient(
  authority: Identity,
  request: string,
  seconds: number,
  { now, random }: Making,
  check: (asked: Asked) => void = () => undefined,
): Promise<string> {
  const lib = await x509();
  const parsed = new lib.Pkcs10CertificateRequest(request);
  if (!(await parsed.verify())) throw new Error('the signature of the request is not valid');
  check({
    commonNames: parsed.subjectName.getField('CN'),
    organizations: parsed.subjectName.getField('O'),
    hasAlternativeNames: parsed.getExtension(ALTERNATIVE_NAMES) !== null,
  });
  const issuer = new lib.X509Certificate(authority.certificate);
  const certificate = await lib.X509CertificateGenerator.create({
    serialNumber: serial(random),
    subject: parsed.subjectName,
    issuer: issuer.subjectName,
    // Five minutes back, for clocks that are behind.
    notBefore: new Date(now - 5 * 60_000),
    notAfter: new Date(now + seconds * 1000),
    signingAlgorithm: ALGORITHM,
    publicKey: parsed.publicKey,
    signingKey: await importKey(authority.key),
    extensions: [
      new lib.BasicConstraintsExtension(false, undefined, true),
      new lib.KeyUsagesExtension(lib.KeyUsageFlags.digitalSignature | lib.KeyUsageFlags.keyEncipherment, true),
      new lib.ExtendedKeyUsageExtension([lib.ExtendedKeyUsage.clientAuth]),
      await lib.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  return certificate.toString('pem');
}
