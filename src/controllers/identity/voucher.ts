import { verify } from 'node:crypto';
import { keyHash, publicKey } from './signing-request.ts';

/** The hash of the key that vouches for the text, if it is one of `accepted`. `voucher` as in VOUCHER; no value of it makes this throw. */
export function isVouched(voucher: string | undefined, text: Uint8Array, accepted: readonly string[]): string | undefined {
  const [spki, signature, ...rest] = (voucher ?? '').split('.').map((part) => Buffer.from(part, 'base64'));
  if (spki === undefined || signature === undefined || rest.length > 0 || spki.length > 1024) return undefined;
  const hash = keyHash(spki);
  if (!accepted.includes(hash)) return undefined;
  try {
    return verify('sha256', text, publicKey(spki), signature) ? hash : undefined;
  } catch {
    return undefined;
  }
}
