import { createHash } from 'node:crypto';

/**
 * JSON with keys sorted by code unit and without undefined values: equal values give equal text.
 * Text is emitted directly, since an object rebuilt with sorted keys still puts integer-like keys first.
 */
export function canonical(value: unknown): string {
  if (value === null || typeof value !== 'object') {
    if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`${value} is not JSON`);
    return JSON.stringify(value) ?? 'null';
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(',')}}`;
}

export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

/**
 * Digest of a unit: the objects that make it up, whole, in an order that does not depend on who rendered them.
 * The prefix is the hash version: digests of different versions are never compared, the unit is stamped again instead.
 */
export function unitDigest(objects: readonly unknown[]): string {
  return `v1:${sha256Hex(`[${objects.map(canonical).sort().join(',')}]`)}`;
}
