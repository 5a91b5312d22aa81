import type { Json } from '@kubenode/api-machinery/wire';
import { copy, isObject } from '../json.ts';
import type { Schema } from './schema.ts';

const needsDefault = (value: Json | undefined, schema: Schema): boolean =>
  schema.default !== undefined && (value === undefined || (value === null && schema.nullable !== true));

/** Fills what is absent, and what is null but may not be, from the defaults of the schema; changes the value itself, parents first. */
export function fillDefaults(value: Json, schema: Schema | undefined): void {
  if (schema === undefined) return;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      if (schema.items !== undefined && item === null && needsDefault(item, schema.items))
        value[index] = copy(schema.items.default ?? null);
      fillDefaults(value[index] ?? null, schema.items);
    }
    return;
  }
  if (!isObject(value)) return;
  for (const [key, property] of Object.entries(schema.properties ?? {})) {
    if (needsDefault(value[key], property)) value[key] = copy(property.default ?? null);
  }
  const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
  for (const key of Object.keys(value)) {
    const known = schema.properties?.[key] ?? rest;
    if (known === undefined) continue;
    if (value[key] === null && needsDefault(null, known)) value[key] = copy(known.default ?? null);
    fillDefaults(value[key] ?? null, known);
  }
}
