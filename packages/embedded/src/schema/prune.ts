import type { Json } from '@kubenode/api-machinery/wire';
import { isObject } from '../json.ts';
import { objectMeta } from '../kinds/object-meta.ts';
import type { Schema } from './schema.ts';

const TYPE_AND_METADATA = new Set(['apiVersion', 'kind', 'metadata']);

const pathTo = (path: string, key: string) => (path === '' ? key : `${path}.${key}`);

function embeds(schema: Schema | undefined): boolean {
  return schema?.['x-kubernetes-embedded-resource'] === true;
}

function additional(schema: Schema): Schema | undefined {
  return typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
}

/** The metadata of an embedded object is the same as of any object. */
function pruneMetadata(key: string, item: Json, path: string, unknown: string[]): void {
  if (key === 'metadata') prune(item, objectMeta, pathTo(path, key), unknown);
}

/** Inside `preserve-unknown-fields` only fields that the schema names are pruned. */
function pruneKnown(value: Json, schema: Schema, path: string, unknown: string[]): void {
  if (Array.isArray(value)) {
    if (schema.items === undefined) return;
    for (const [index, item] of value.entries()) pruneKnown(item, schema.items, `${path}[${index}]`, unknown);
    return;
  }
  if (!isObject(value)) return;
  for (const [key, item] of Object.entries(value)) {
    if (embeds(schema) && TYPE_AND_METADATA.has(key)) {
      pruneMetadata(key, item, path, unknown);
      continue;
    }
    const known = schema.properties?.[key] ?? additional(schema);
    if (known !== undefined) prune(item, known, pathTo(path, key), unknown);
  }
}

/**
 * Removes every field that the schema does not name from the object itself, as the API server does before it stores an object.
 * `unknown` collects the paths of what was removed. A root object keeps its type and metadata regardless of its schema.
 */
export function prune(value: Json, schema: Schema | undefined, path: string, unknown: string[], root = false): void {
  if (schema?.['x-kubernetes-preserve-unknown-fields'] === true) return pruneKnown(value, schema, path, unknown);
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) prune(item, schema?.items, `${path}[${index}]`, unknown);
    return;
  }
  if (!isObject(value)) return;
  for (const [key, item] of Object.entries(value)) {
    if ((root || embeds(schema)) && TYPE_AND_METADATA.has(key)) {
      if (!root) pruneMetadata(key, item, path, unknown);
      continue;
    }
    const known = schema?.properties?.[key] ?? (schema === undefined ? undefined : additional(schema));
    if (known !== undefined) prune(item, known, pathTo(path, key), unknown);
    else if (schema?.additionalProperties !== true) {
      unknown.push(pathTo(path, key));
      delete value[key];
    }
  }
}

/** Drops null members whose schema neither allows null nor has a default: for the API they were never sent. */
export function dropNulls(value: Json, schema: Schema | undefined): void {
  if (schema === undefined) return;
  if (Array.isArray(value)) {
    for (const item of value) dropNulls(item, schema.items);
    return;
  }
  if (!isObject(value)) return;
  for (const [key, item] of Object.entries(value)) {
    const known = schema.properties?.[key] ?? additional(schema);
    if (known === undefined) continue;
    if (item === null && known.nullable !== true && known.default === undefined) delete value[key];
    else dropNulls(item, known);
  }
}

/** Built-in kinds: a null member is an absent one. */
export function dropAllNulls(value: Json): void {
  if (Array.isArray(value)) for (const item of value) dropAllNulls(item);
  else if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      if (item === null) delete value[key];
      else dropAllNulls(item);
    }
  }
}
