import type { JsonObject } from '@kubenode/api-machinery/wire';
import { copy, isObject } from '../json.ts';
import type { Schema } from '../schema/schema.ts';

/** Fields that Go's encoder writes although no client set them, of the items of some lists: by the path of the list. */
export type ItemZeros = Readonly<Record<string, JsonObject>>;

/** Removes empty maps and lists, which Go's encoder leaves out; changes the object itself. */
export function dropEmpty(object: JsonObject, schema: Schema): void {
  for (const [key, value] of Object.entries(object)) {
    const known = schema.properties?.[key];
    if (known === undefined || value === null || typeof value !== 'object') continue;
    const map = !Array.isArray(value) && known.additionalProperties !== undefined;
    if ((Array.isArray(value) && value.length === 0) || (map && Object.keys(value).length === 0)) {
      delete object[key];
      continue;
    }
    if (Array.isArray(value)) {
      for (const item of value) if (isObject(item) && known.items !== undefined) dropEmpty(item, known.items);
    } else dropEmpty(value, known);
  }
}

function fill(object: JsonObject, zero: JsonObject): void {
  for (const [key, value] of Object.entries(zero)) {
    const present = object[key];
    if (present === undefined) object[key] = copy(value);
    else if (isObject(present) && isObject(value)) fill(present, value);
  }
}

/** Adds what is there without anyone having set it: the zero object of the kind, and zeros of list items; changes the object itself. */
export function fillZeros(object: JsonObject, zero: JsonObject, items: ItemZeros): void {
  fill(object, zero);
  for (const [path, itemZero] of Object.entries(items)) {
    let here: unknown = object;
    for (const key of path.split('.')) here = isObject(here) ? here[key] : undefined;
    if (Array.isArray(here)) for (const item of here) if (isObject(item)) fill(item, itemZero);
  }
}
