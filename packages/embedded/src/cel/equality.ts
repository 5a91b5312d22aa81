import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { equal, isObject } from '../json.ts';
import type { Schema } from '../schema/schema.ts';

/** The keys of a list-map's item as one text. */
export function keyOf(item: Json, schema: Schema): string {
  return JSON.stringify((schema['x-kubernetes-list-map-keys'] ?? []).map((key) => (isObject(item) ? (item[key] ?? null) : null)));
}

function sameItems(a: readonly Json[], b: readonly Json[], schema: Schema): boolean {
  if (a.length !== b.length) return false;
  const same = (one: Json, other: Json | undefined) => other !== undefined && alike(one, other, schema.items ?? {});
  switch (schema['x-kubernetes-list-type']) {
    case 'map': {
      const byKey = new Map(b.map((item) => [keyOf(item, schema), item]));
      return a.every((item) => same(item, byKey.get(keyOf(item, schema))));
    }
    case 'set':
      return a.every((item) => b.some((other) => same(item, other)));
    case 'atomic':
    case undefined:
      return a.every((item, index) => same(item, b[index]));
    default:
      return schema['x-kubernetes-list-type'] satisfies never;
  }
}

function sameFields(a: JsonObject, b: JsonObject, schema: Schema): boolean {
  const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {};
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => {
      const [one, other] = [a[key], b[key]];
      return one !== undefined && other !== undefined && alike(one, other, schema.properties?.[key] ?? rest);
    })
  );
}

/** Equal as rules see it: the order of a set and of a list-map does not count. */
export function alike(a: Json, b: Json, schema: Schema): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) return sameItems(a, b, schema);
  if (isObject(a) && isObject(b)) return sameFields(a, b, schema);
  return equal(a, b);
}
