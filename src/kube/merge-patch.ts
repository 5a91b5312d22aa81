import { canonical } from '../api/digest.ts';
import { own } from '../api/own.ts';

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** The RFC 7386 patch that turns `from` into `to`; undefined when they are equal. Lists are replaced whole; `null` removes. */
export function mergeDiff(from: object | undefined, to: object): Record<string, unknown> | undefined {
  const before: Record<string, unknown> = { ...from };
  const after: Record<string, unknown> = { ...to };
  const patch: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(after)) {
    const old = own(before, key);
    if (value === undefined) continue;
    if (isRecord(value) && isRecord(old)) {
      const inner = mergeDiff(old, value);
      if (inner !== undefined) patch[key] = inner;
    } else if (canonical(old) !== canonical(value)) {
      patch[key] = value;
    }
  }
  for (const [key, value] of Object.entries(before)) {
    if (value !== undefined && own(after, key) === undefined) patch[key] = null;
  }
  return Object.keys(patch).length === 0 ? undefined : patch;
}
