import type { Json, JsonObject } from '@kubenode/api-machinery/wire';

export function isObject(value: Json | undefined): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

export function isEmptyObject(value: JsonObject): boolean {
  for (const _ in value) return false;
  return true;
}

/** An own property; undefined for anything inherited, so that a key such as `constructor` is only ever data. */
export function own(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Sets a property as data, also when its name is `__proto__`. */
export function put(object: JsonObject, key: string, value: Json): void {
  if (key === '__proto__') Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  else object[key] = value;
}

/** Equality of JSON: lists by order, objects without. Shared subtrees cost nothing. */
export function deepEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false;
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (!deepEqual(a[i], b[i])) return false;
    return true;
  }
  if (Array.isArray(b)) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  for (const key of keys) if (!Object.hasOwn(b, key) || !deepEqual(a[key], b[key])) return false;
  return true;
}

/** Byte order of the UTF-8 forms, which is Go's order of strings; UTF-16 order differs only where surrogates meet U+E000 and above. */
export function compareStrings(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) {
      if (x >= 0xd800 && y >= 0xd800) return (x >= 0xe000 ? x - 0x2000 : x + 0x2000) - (y >= 0xe000 ? y - 0x2000 : y + 0x2000);
      return x - y;
    }
  }
  return a.length - b.length;
}

const order = (value: Json): number => {
  if (typeof value === 'number') return 0;
  if (typeof value === 'string') return 1;
  if (typeof value === 'boolean') return 2;
  if (Array.isArray(value)) return 3;
  return value === null ? 5 : 4;
};

/** structured-merge-diff's total order: numbers, strings, booleans, lists, maps, null. */
export function compareValues(a: Json, b: Json): number {
  const rank = order(a) - order(b);
  if (rank !== 0) return rank;
  if (typeof a === 'string' && typeof b === 'string') return compareStrings(a, b);
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let i = 0; i < a.length && i < b.length; i++) {
      const c = compareValues(a[i] ?? null, b[i] ?? null);
      if (c !== 0) return c;
    }
    return a.length - b.length;
  }
  if (isObject(a) && isObject(b)) {
    const left = Object.keys(a).sort(compareStrings);
    const right = Object.keys(b).sort(compareStrings);
    for (let i = 0; i < left.length && i < right.length; i++) {
      const c = compareStrings(left[i] ?? '', right[i] ?? '') || compareValues(a[left[i] ?? ''] ?? null, b[right[i] ?? ''] ?? null);
      if (c !== 0) return c;
    }
    return left.length - right.length;
  }
  return Number(a) - Number(b);
}
