import { createPrivateKey, type KeyObject } from 'node:crypto';
import { sshReader } from '../../sync/git/ssh-wire.ts';
import { cliError } from '../errors.ts';

/**
 * A private Ed25519 key: PKCS#8 in PEM, as `kubenode component keygen` and openssl write it, or OpenSSH's own form without a passphrase. Errors:
 * `KeyInvalid`, which never shows the key.
 */
export function readPrivateKey(text: string, where: string): KeyObject {
  const body = /^-----BEGIN OPENSSH PRIVATE KEY-----\n([A-Za-z0-9+/=\r\n]+)-----END OPENSSH PRIVATE KEY-----\s*$/.exec(text)?.[1];
  try {
    const key = body === undefined ? createPrivateKey(text) : openSshKey(Buffer.from(body, 'base64'));
    if (key.asymmetricKeyType === 'ed25519') return key;
  } catch {
    // The message of any error here might contain the key.
  }
  throw cliError('KeyInvalid', `${where} has no private Ed25519 key without a passphrase`, {
    next: 'kubenode component keygen --out FILE, or: ssh-keygen -t ed25519 -N "" -f FILE',
  });
}

/** PROTOCOL.key of OpenSSH. Throws any error where it is none. */
function openSshKey(bytes: Buffer): KeyObject {
  const magic = 'openssh-key-v1\0';
  if (bytes.subarray(0, magic.length).toString('latin1') !== magic) throw new RangeError('is another form');
  const outer = sshReader(bytes.subarray(magic.length));
  const [cipher, kdf] = [outer.text(), outer.text()];
  outer.string();
  if (cipher !== 'none' || kdf !== 'none' || outer.uint32() !== 1) throw new RangeError('has a passphrase, or several keys');
  outer.string();
  const inner = sshReader(outer.string());
  if (inner.uint32() !== inner.uint32() || inner.text() !== 'ssh-ed25519') throw new RangeError('is of another kind');
  const [open, both] = [inner.string(), inner.string()];
  if (open.length !== 32 || both.length !== 64) throw new RangeError('has another length');
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: open.toString('base64url'), d: both.subarray(0, 32).toString('base64url') };
  return createPrivateKey({ format: 'jwk', key: jwk });
}
