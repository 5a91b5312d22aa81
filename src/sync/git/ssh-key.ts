import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';
import { own } from '../../api/own.ts';
import { sshReader, type SshReader } from './ssh-wire.ts';

/** An SSH public key that may sign. */
export interface SshKey {
  type: string;
  /** As base64, as in a public key line; two keys are one if and only if these are equal. */
  blob: Buffer;
  /** `SHA256:…` */
  fingerprint: string;
  /** Whether `signature`, an SSH signature blob, is this key's over `message`. Throws RangeError for a form that is not accepted. */
  verifies(message: Buffer, signature: Buffer): boolean;
}

const CURVES: Record<string, { name: string; jwk: string; hash: string; bytes: number }> = {
  nistp256: { name: 'nistp256', jwk: 'P-256', hash: 'sha256', bytes: 32 },
  nistp384: { name: 'nistp384', jwk: 'P-384', hash: 'sha384', bytes: 48 },
  nistp521: { name: 'nistp521', jwk: 'P-521', hash: 'sha512', bytes: 66 },
};

/** What `parseSshKey` accepts. Not: DSA, certificates, RSA below 2048 bits. */
export const keyTypes = [
  'ssh-ed25519',
  'ssh-rsa',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'sk-ssh-ed25519@openssh.com',
  'sk-ecdsa-sha2-nistp256@openssh.com',
];

/** Throws RangeError with what is wrong. */
export function parseSshKey(blob: Buffer): SshKey {
  const reader = sshReader(blob);
  const type = reader.text();
  if (type.includes('-cert-')) throw new RangeError(`is a certificate (${type}); plain keys only`);
  if (!keyTypes.includes(type)) throw new RangeError(`is of the type ${type}; allowed are ${keyTypes.join(', ')}`);
  const verifies = verifier(type, reader);
  reader.end();
  const fingerprint = `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`;
  return { type, blob, fingerprint, verifies };
}

function verifier(type: string, reader: SshReader): SshKey['verifies'] {
  switch (type) {
    case 'ssh-ed25519': {
      const key = ed25519(reader);
      return (message, signature) => verify(null, message, key, plain(signature, [type], 64));
    }
    case 'sk-ssh-ed25519@openssh.com': {
      const key = ed25519(reader);
      const application = reader.string();
      return (message, signature) => {
        const { inner, flags } = touched(signature, type);
        return verify(null, tokenMessage(application, flags, message), key, exactly(inner, 64));
      };
    }
    case 'ssh-rsa':
      return rsa(reader);
    case 'sk-ecdsa-sha2-nistp256@openssh.com': {
      const { key, curve } = ecdsa(reader, 'nistp256');
      const application = reader.string();
      return (message, signature) => {
        const { inner, flags } = touched(signature, type);
        return verify('sha256', tokenMessage(application, flags, message), { key, dsaEncoding: 'ieee-p1363' }, pair(inner, curve.bytes));
      };
    }
    default: {
      const { key, curve } = ecdsa(reader, type.slice('ecdsa-sha2-'.length));
      return (message, signature) =>
        verify(curve.hash, message, { key, dsaEncoding: 'ieee-p1363' }, pair(plain(signature, [type]), curve.bytes));
    }
  }
}

function ed25519(reader: SshReader): KeyObject {
  return createPublicKey({ format: 'jwk', key: { kty: 'OKP', crv: 'Ed25519', x: exactly(reader.string(), 32).toString('base64url') } });
}

function ecdsa(reader: SshReader, curveName: string) {
  const curve = CURVES[curveName];
  if (curve === undefined || reader.text() !== curveName) throw new RangeError('names a curve that is not its type');
  const point = exactly(reader.string(), 1 + 2 * curve.bytes);
  if (point[0] !== 4) throw new RangeError('has a compressed point');
  const x = point.subarray(1, 1 + curve.bytes).toString('base64url');
  const y = point.subarray(1 + curve.bytes).toString('base64url');
  // Throws for a point that is not on the curve.
  return { curve, key: createPublicKey({ format: 'jwk', key: { kty: 'EC', crv: curve.jwk, x, y } }) };
}

function rsa(reader: SshReader): SshKey['verifies'] {
  const e = reader.mpint();
  const n = reader.mpint();
  const bits = n.length * 8 - Math.clz32(n[0] ?? 0) + 24;
  if (bits < 2048 || bits > 16_384) throw new RangeError(`is an RSA key of ${bits} bits; allowed are 2048 to 16384`);
  const key = createPublicKey({ format: 'jwk', key: { kty: 'RSA', e: e.toString('base64url'), n: n.toString('base64url') } });
  // `ssh-rsa` as a signature is SHA-1, and so not among them.
  const hashes: Record<string, string> = { 'rsa-sha2-256': 'sha256', 'rsa-sha2-512': 'sha512' };
  return (message, signature) => {
    const blob = sshReader(signature);
    const algorithm = blob.text();
    const hash = own(hashes, algorithm);
    if (hash === undefined) throw new RangeError(`is made by ${algorithm}; of an RSA key, rsa-sha2-512 and rsa-sha2-256 are accepted`);
    const value = blob.string();
    blob.end();
    // OpenSSH writes full length; other agents drop leading zeros.
    if (value.length > n.length || value.length === 0) throw new RangeError('has a length that does not fit its key');
    return verify(hash, message, key, Buffer.concat([Buffer.alloc(n.length - value.length), value]));
  };
}

/** The bytes of a signature of one of the named algorithms. */
function plain(signature: Buffer, algorithms: readonly string[], length?: number): Buffer {
  const blob = sshReader(signature);
  const algorithm = blob.text();
  if (!algorithms.includes(algorithm)) throw new RangeError(`is made by ${algorithm}, which is not its key's`);
  const value = blob.string();
  blob.end();
  return length === undefined ? value : exactly(value, length);
}

/** A security key's signature; someone must have touched it. */
function touched(signature: Buffer, type: string): { inner: Buffer; flags: Buffer } {
  const blob = sshReader(signature);
  const algorithm = blob.text();
  if (algorithm !== type) throw new RangeError(`is made by ${algorithm}, which is not its key's`);
  const inner = blob.string();
  const flags = blob.fixed(5);
  blob.end();
  if (((flags[0] ?? 0) & 1) === 0) throw new RangeError('was made without anyone touching the security key');
  return { inner, flags };
}

function sha256(value: Buffer): Buffer {
  return createHash('sha256').update(value).digest();
}

/** What a security key signs: PROTOCOL.u2f of OpenSSH. `flags` contains the flags and the counter. */
function tokenMessage(application: Buffer, flags: Buffer, message: Buffer): Buffer {
  return Buffer.concat([sha256(application), flags, sha256(message)]);
}

/** `mpint r, mpint s` as two numbers of fixed width. */
function pair(value: Buffer, width: number): Buffer {
  const reader = sshReader(value);
  const numbers = [reader.mpint(), reader.mpint()];
  reader.end();
  return Buffer.concat(
    numbers.map((number) => {
      if (number.length > width) throw new RangeError('has a number too large for its curve');
      return Buffer.concat([Buffer.alloc(width - number.length), number]);
    }),
  );
}

function exactly(value: Buffer, length: number): Buffer {
  if (value.length !== length) throw new RangeError(`has ${value.length} bytes where ${length} belong`);
  return value;
}
