import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';
import { isIPv4, isIPv6 } from 'node:net';
import { contentOf, DerError, elementsOf, inside, oidOf, TAG, textOf, type DerElement } from './der.ts';

export interface SubjectName {
  type: 'dns' | 'ip' | 'email' | 'uri' | 'other';
  value: string;
}

/** What a PKCS#10 request asks to be signed: everything in it, or it is refused. */
export interface SigningRequest {
  /** Attributes of the subject in their order: dotted OID, `CN` or `O`. */
  subject: { type: string; value: string }[];
  key: KeyObject;
  /** Hex, of the public key's SPKI. */
  keySHA256: string;
  /** Subject alternative names. */
  names: SubjectName[];
  /** Extensions asked for, besides subject alternative names, and attributes besides extensions: dotted OIDs. */
  others: string[];
  /** Bytes of the request. */
  der: Buffer;
}

const NAMES: Record<string, string> = { '2.5.4.3': 'CN', '2.5.4.10': 'O' };
const EXTENSION_REQUEST = '1.2.840.113549.1.9.14';
const ALTERNATIVE_NAMES = '2.5.29.17';

/** Hash of a signature algorithm; null: the algorithm names it. */
const HASHES: Record<string, string | null> = {
  '1.2.840.10045.4.3.2': 'sha256',
  '1.2.840.10045.4.3.3': 'sha384',
  '1.2.840.10045.4.3.4': 'sha512',
  '1.2.840.113549.1.1.11': 'sha256',
  '1.2.840.113549.1.1.12': 'sha384',
  '1.2.840.113549.1.1.13': 'sha512',
  '1.3.101.112': null,
};
const TYPES: Record<string, string> = { '1.2.840.10045.4.3': 'ec', '1.2.840.113549.1.1': 'rsa', '1.3.101': 'ed25519' };

/** No request of a node comes near. */
const LONGEST = 16 * 1024;

/**
 * Reads a request as it is in `spec.request` (base64 of PEM) and verifies that its maker has the key. Stricter than the signers are:
 * what it cannot read to the last byte it refuses. Throws a DerError that names why.
 */
export function parseSigningRequest(base64: string): SigningRequest {
  const der = bytesOf(base64);
  const [outer, ...behind] = elementsOf(der);
  if (behind.length > 0) throw new DerError('something follows the request');
  const [info, algorithm, signature, ...more] = inside(outer, TAG.sequence, 'the request');
  if (more.length > 0) throw new DerError('the request has too many parts');
  const [version, subject, spki, attributes, ...rest] = inside(info, TAG.sequence, 'what is signed');
  if (rest.length > 0) throw new DerError('what is signed has too many parts');
  if (!contentOf(version, TAG.integer, 'the version').equals(Buffer.from([0]))) throw new DerError('the version is not 0');
  contentOf(spki, TAG.sequence, 'the public key');
  const { names, others } = attributesOf(attributes);
  const spkiBytes = spki?.whole ?? Buffer.alloc(0);
  const key = publicKey(spkiBytes);
  if (info === undefined || !isSigned(info.whole, algorithm, signature, key)) throw new DerError('its signature is not valid');
  return { subject: subjectOf(subject), key, keySHA256: keyHash(spkiBytes), names, others, der };
}

export const keyHash = (spki: Uint8Array): string => createHash('sha256').update(spki).digest('hex');

/** Errors: DerError. */
export function publicKey(spki: Uint8Array): KeyObject {
  try {
    return createPublicKey({ key: Buffer.from(spki), format: 'der', type: 'spki' });
  } catch {
    throw new DerError('the public key cannot be read');
  }
}

/** Curve or size of a key, as people name it. */
export function kindOfKey(key: KeyObject): string {
  const { namedCurve, modulusLength } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'ec') return namedCurve === 'prime256v1' ? 'ECDSA P-256' : `ECDSA ${namedCurve ?? ''}`;
  return key.asymmetricKeyType === 'rsa' ? `RSA ${modulusLength ?? ''}` : (key.asymmetricKeyType ?? 'unknown');
}

function bytesOf(base64: string): Buffer {
  if (base64.length > LONGEST) throw new DerError('it is too long');
  const pem = Buffer.from(base64, 'base64').toString('latin1');
  const body = /^\s*-----BEGIN CERTIFICATE REQUEST-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE REQUEST-----\s*$/.exec(pem)?.[1];
  if (body === undefined) throw new DerError('it is not one PEM block of type CERTIFICATE REQUEST, and nothing else');
  const text = body.replace(/[\r\n]/g, '');
  const der = Buffer.from(text, 'base64');
  if (der.toString('base64') !== text) throw new DerError('its base64 is not valid');
  return der;
}

function isSigned(info: Buffer, algorithm: DerElement | undefined, signature: DerElement | undefined, key: KeyObject): boolean {
  const [oid, parameters, ...rest] = inside(algorithm, TAG.sequence, 'the signature algorithm');
  const name = oidOf(oid, 'the signature algorithm');
  const hash = HASHES[name];
  const isNull = parameters === undefined || (parameters.tag === 0x05 && parameters.content.length === 0);
  if (hash === undefined || rest.length > 0 || !isNull) throw new DerError(`its signature algorithm ${name} is not one that is read`);
  if (TYPES[name.slice(0, name.lastIndexOf('.'))] !== key.asymmetricKeyType) throw new DerError('its signature is not of its key');
  const bits = contentOf(signature, TAG.bitString, 'the signature');
  if (bits[0] !== 0) throw new DerError('its signature is not of whole bytes');
  return verify(hash, info, key, bits.subarray(1));
}

function subjectOf(name: DerElement | undefined): SigningRequest['subject'] {
  return inside(name, TAG.sequence, 'the subject').flatMap((relative) =>
    inside(relative, TAG.set, 'a part of the subject').map((attribute) => {
      const [type, value, ...rest] = inside(attribute, TAG.sequence, 'an attribute of the subject');
      if (rest.length > 0) throw new DerError('an attribute of the subject has too many parts');
      const oid = oidOf(type, 'the type of an attribute');
      return { type: NAMES[oid] ?? oid, value: textOf(value, `attribute ${NAMES[oid] ?? oid} of the subject`) };
    }),
  );
}

function attributesOf(attributes: DerElement | undefined): Pick<SigningRequest, 'names' | 'others'> {
  const names: SubjectName[] = [];
  const others: string[] = [];
  let extended = false;
  for (const attribute of inside(attributes, 0xa0, 'the list of attributes')) {
    const [type, values, ...rest] = inside(attribute, TAG.sequence, 'an attribute');
    if (rest.length > 0) throw new DerError('an attribute has too many parts');
    const oid = oidOf(type, 'the type of an attribute');
    if (oid !== EXTENSION_REQUEST) {
      others.push(oid);
      continue;
    }
    const [list, ...more] = inside(values, TAG.set, 'the extensions');
    // One reader would take the first, another the last.
    if (more.length > 0 || extended) throw new DerError('extensions are asked for twice');
    extended = true;
    for (const extension of inside(list, TAG.sequence, 'the extensions')) extensionInto(extension, names, others);
  }
  return { names, others };
}

function extensionInto(extension: DerElement, names: SubjectName[], others: string[]): void {
  const parts = inside(extension, TAG.sequence, 'an extension');
  const oid = oidOf(parts[0], 'the type of an extension');
  const value = parts.length === 3 ? parts[2] : parts[1];
  if (parts.length < 2 || parts.length > 3 || (parts.length === 3 && parts[1]?.tag !== TAG.boolean))
    throw new DerError(`extension ${oid} has another form`);
  const bytes = contentOf(value, TAG.octetString, `extension ${oid}`);
  if (oid !== ALTERNATIVE_NAMES) {
    others.push(oid);
    return;
  }
  if (names.length > 0) throw new DerError('alternative names are asked for twice');
  const [list, ...rest] = elementsOf(bytes);
  if (rest.length > 0) throw new DerError('something follows the alternative names');
  const found = inside(list, TAG.sequence, 'the alternative names');
  if (found.length === 0) throw new DerError('the list of alternative names is empty');
  names.push(...found.map(nameOf));
}

function nameOf(element: DerElement): SubjectName {
  const { tag, content } = element;
  const types: Record<number, SubjectName['type']> = { 0x81: 'email', 0x82: 'dns', 0x86: 'uri' };
  if (tag === 0x87) return { type: 'ip', value: addressOf(content) };
  const type = types[tag];
  if (type === undefined) return { type: 'other', value: content.toString('hex') };
  return { type, value: textOf({ ...element, tag: TAG.ia5 }, `an alternative name (${type})`) };
}

function addressOf(bytes: Buffer): string {
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length !== 16) throw new DerError('an IP address has a length of its own');
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2).toString(16));
  return canonicalAddress(groups.join(':'));
}

/** An address in one spelling: IPv6 written out in full, without leading zeros. What is no address stays as it is. */
export function canonicalAddress(text: string): string {
  if (isIPv4(text) || !isIPv6(text)) return text;
  const bare = new URL(`http://[${text.split('%')[0] ?? ''}]`).hostname.slice(1, -1);
  const [head = '', tail] = bare.split('::');
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: tail === undefined ? 0 : 8 - left.length - right.length }, () => '0');
  return [...left, ...zeros, ...right].join(':');
}
