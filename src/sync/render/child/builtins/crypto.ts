/** Stands for `node:crypto` in the fleet's realm: digests, which the host makes. */
import { hexOf, twoDigits } from './hex.ts';

export const hashPort: { hash: (algorithm: string, hex: string) => string } = {
  hash: () => {
    throw new Error('no digest can be made yet');
  },
};

export function createHash(algorithm: string): { update: (data: string | Uint8Array) => unknown; digest: (encoding: string) => string } {
  let hex = '';
  const hash = {
    update(data: string | Uint8Array) {
      hex += typeof data === 'string' ? hexOf(data) : Array.from(data, twoDigits).join('');
      return hash;
    },
    digest(encoding: string) {
      if (encoding !== 'hex') throw new TypeError('digests are to be had as "hex"');
      return hashPort.hash(algorithm, hex);
    },
  };
  return hash;
}
