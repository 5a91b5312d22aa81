/** Ed25519 keys and signatures of MachineComponents. Keys are written as OpenSSH writes them: `ssh-ed25519 AAAA… comment`. */
import { createHash, createPublicKey, sign, verify, type KeyObject } from 'node:crypto';
import { signedText } from './component-form.ts';
import { objectError } from './errors.ts';

/** One signature of a component, as its MachineComponent carries it. */
export interface ComponentSignature {
  keyID: string;
  /** Base64. */
  value: string;
}

export interface ComponentKey {
  /** Fingerprint as `ssh-keygen -l` prints it: `SHA256:…`. */
  id: string;
  key: KeyObject;
  comment: string;
}

const TYPE = 'ssh-ed25519';
const BYTES = 32;
const string = (content: Uint8Array): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(content.length);
  return Buffer.concat([length, content]);
};
const HEAD = Buffer.concat([string(Buffer.from(TYPE)), string(Buffer.alloc(BYTES)).subarray(0, 4)]);

/** The line of a public key. `key` is an Ed25519 key, public or private. */
export function keyLine(key: KeyObject, comment: string): string {
  return [TYPE, blobOf(key).toString('base64'), ...(comment === '' ? [] : [comment])].join(' ');
}

export const keyIDOf = (key: KeyObject): string => idOf(blobOf(key));

function blobOf(key: KeyObject): Buffer {
  const { x } = (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' });
  return Buffer.concat([HEAD, Buffer.from(x ?? '', 'base64url')]);
}

const idOf = (blob: Uint8Array): string => `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;

/** A key a line; empty lines and lines that begin with # are left out. Errors: `KeysInvalid` with `where` and the line; none at all is one. */
export function parseKeys(text: string, where: string): ComponentKey[] {
  const keys: ComponentKey[] = [];
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const [type, base64 = '', ...comment] = line.split(/\s+/);
    const blob = Buffer.from(base64, 'base64');
    if (
      type !== TYPE ||
      blob.length !== HEAD.length + BYTES ||
      !blob.subarray(0, HEAD.length).equals(HEAD) ||
      blob.toString('base64') !== base64
    )
      throw objectError('KeysInvalid', `${where}, line ${index + 1}: must be a public key, "${TYPE} AAAA… comment"`);
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: blob.subarray(HEAD.length).toString('base64url') };
    keys.push({ id: idOf(blob), key: createPublicKey({ format: 'jwk', key: jwk }), comment: comment.join(' ') });
  }
  if (keys.length === 0) throw objectError('KeysInvalid', `${where} contains no key`);
  return keys;
}

/** `key` is a private Ed25519 key. Errors: `FormUnknown`. */
export function signComponent(spec: unknown, key: KeyObject): ComponentSignature {
  return { keyID: keyIDOf(key), value: sign(null, Buffer.from(signedText(spec)), key).toString('base64') };
}

/** Key by which a component is signed: one of `keys`. Errors: `FormUnknown`; `Unsigned` and `SignatureWrong`, which name the component and what is accepted. */
export function verifiedBy(spec: unknown, keys: readonly ComponentKey[]): ComponentKey {
  const text = Buffer.from(signedText(spec));
  const signatures = signaturesOf(spec);
  for (const { keyID, value } of signatures) {
    const key = keys.find(({ id }) => id === keyID);
    if (key === undefined) continue;
    const bytes = Buffer.from(value, 'base64');
    if (bytes.toString('base64') === value && verify(null, text, key.key, bytes)) return key;
  }
  const accepted = keys.map(({ id, comment }) => (comment === '' ? id : `${id} (${comment})`)).join(', ');
  if (signatures.length === 0) throw objectError('Unsigned', `it carries no signature; accepted: ${accepted}`);
  const known = signatures.some(({ keyID }) => keys.some(({ id }) => id === keyID));
  const why = known ? 'its signature is not of this content' : `it is signed by ${signatures.map(({ keyID }) => keyID).join(', ')}`;
  throw objectError('SignatureWrong', `${why}; accepted: ${accepted}`);
}

/** What has another form than a signature is none. */
function signaturesOf(spec: unknown): ComponentSignature[] {
  const list: unknown = spec !== null && typeof spec === 'object' && 'signatures' in spec ? spec.signatures : undefined;
  if (!Array.isArray(list)) return [];
  return list.slice(0, 16).flatMap((each: unknown) => {
    if (each === null || typeof each !== 'object' || !('keyID' in each) || !('value' in each)) return [];
    const { keyID, value } = each;
    return typeof keyID === 'string' && typeof value === 'string' ? [{ keyID, value }] : [];
  });
}
