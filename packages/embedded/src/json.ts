import type { Json, JsonObject } from '@kubenode/api-machinery/wire';

export function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** Deep copy of plain JSON; several times faster than structuredClone. */
export function copy<T extends Json>(value: T): T {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(copy) as T;
  const out: JsonObject = {};
  for (const [key, item] of Object.entries(value)) {
    // Assigned, it would be the prototype of the copy.
    if (key === '__proto__') Object.defineProperty(out, key, { value: copy(item), enumerable: true, configurable: true, writable: true });
    else out[key] = copy(item);
  }
  return out as T;
}

/** Equal as JSON: key order does not matter, an absent key and `undefined` are the same. */
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false;
  if (Array.isArray(a)) {
    if (!Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, index) => equal(item, b[index]));
  }
  if (Array.isArray(b)) return false;
  let keys = 0;
  for (const key of Object.keys(a)) {
    if (a[key] === undefined) continue;
    keys++;
    if (!equal(a[key], b[key])) return false;
  }
  for (const key of Object.keys(b)) if (b[key] !== undefined) keys--;
  return keys === 0;
}

/** As Go prints a value in a message: text as it is, the rest as JSON. */
export function shown(value: Json | undefined): string {
  return typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
}

/** The value at a path of plain keys. */
export function at(value: Json | undefined, ...path: string[]): Json | undefined {
  let here = value;
  for (const key of path) {
    if (!isObject(here)) return undefined;
    here = here[key];
  }
  return here;
}

export function textAt(value: Json | undefined, ...path: string[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === 'string' ? found : undefined;
}

export function numberAt(value: Json | undefined, ...path: string[]): number | undefined {
  const found = at(value, ...path);
  return typeof found === 'number' ? found : undefined;
}

export function objectAt(value: Json | undefined, ...path: string[]): JsonObject {
  const found = at(value, ...path);
  return isObject(found) ? found : {};
}

export function listAt(value: Json | undefined, ...path: string[]): Json[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** The object's metadata; made when it has none. */
export function metaOf(object: JsonObject): JsonObject {
  const found = object['metadata'];
  if (isObject(found)) return found;
  const made: JsonObject = {};
  object['metadata'] = made;
  return made;
}

export function stringsAt(value: Json | undefined, ...path: string[]): string[] {
  return listAt(value, ...path).filter((item) => typeof item === 'string');
}

export function stringMapAt(value: Json | undefined, ...path: string[]): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [key, item] of Object.entries(objectAt(value, ...path))) if (typeof item === 'string') out[key] = item;
  return out;
}

/** Sets or, with undefined, removes a key. */
export function put(object: JsonObject, key: string, value: Json | undefined): void {
  if (value === undefined) delete object[key];
  else object[key] = value;
}

/** The usual order for people who read raw JSON; nothing depends on it. */
export function ordered(object: JsonObject): JsonObject {
  const { apiVersion, kind, metadata, ...rest } = object;
  return { apiVersion: apiVersion ?? null, kind: kind ?? null, metadata: metadata ?? null, ...rest };
}

/** Values nested deeper than this are refused wherever they come from: everything after it may recurse. */
export const MAX_DEPTH = 500;

/** Whether a value is nested deeper than MAX_DEPTH. Does not recurse, so that any value can be asked about. */
export function tooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return true;
    level = level
      .filter((item): item is object => item !== null && typeof item === 'object')
      .flatMap((item): unknown[] => Object.values(item))
      .filter((item) => item !== null && typeof item === 'object');
  }
  return false;
}
