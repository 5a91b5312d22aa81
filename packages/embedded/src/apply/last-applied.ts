/**
 * The bridge from client-side `kubectl apply`: what was applied by its annotation, server-side apply by the manager `kubectl`
 * may take over without force, and the annotation follows what that manager applies.
 */
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { compare } from './compare.ts';
import { fieldsOf } from './fields.ts';
import type { FieldSet } from './field-set.ts';
import { difference } from './field-set.ts';
import { goJson } from './go-text.ts';
import type { SchemaNode } from './schema.ts';
import { isObject } from './value.ts';
import { validate } from './validate.ts';

export const lastAppliedManager = 'kubectl';

const annotation = 'kubectl.kubernetes.io/last-applied-configuration';
const maxAnnotationBytes = 256 * 1024;

function annotationsOf(object: Json): JsonObject | undefined {
  const metadata = isObject(object) ? object['metadata'] : undefined;
  const annotations = isObject(metadata) ? metadata['annotations'] : undefined;
  return isObject(annotations) ? annotations : undefined;
}

/** Fields whose values are still the ones in the annotation; undefined without a usable annotation. */
export function lastAppliedFields(schema: SchemaNode, live: JsonObject): FieldSet | undefined {
  const text = annotationsOf(live)?.[annotation];
  if (typeof text !== 'string' || text === '') return undefined;
  let applied: Json;
  try {
    applied = JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
  if (!isObject(applied) || applied['apiVersion'] !== live['apiVersion']) return undefined;
  if (validate(schema, live, false).length > 0 || validate(schema, applied, false).length > 0) return undefined;
  const { modified, added, removed } = compare(schema, applied, live);
  return difference(difference(difference(fieldsOf(schema, applied), modified), added), removed);
}

/** The object with its annotation, if it has one, which contains what was applied now. Too large a one is dropped. */
export function followLastApplied(object: JsonObject, applied: JsonObject): JsonObject {
  const old = annotationsOf(object);
  const stands = old?.[annotation];
  if (old === undefined || typeof stands !== 'string' || stands === '') return object;
  const { [annotation]: _, ...kept } = annotationsOf(applied) ?? {};
  const metadata = applied['metadata'];
  const bare =
    annotationsOf(applied) === undefined || !isObject(metadata) ? applied : { ...applied, metadata: { ...metadata, annotations: kept } };
  const text = `${goJson(bare)}\n`;
  if (text === stands) return object;
  const { [annotation]: __, ...others } = old;
  const annotations: JsonObject = { ...others, [annotation]: text };
  const bytes = Object.entries(annotations).reduce(
    (sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(typeof value === 'string' ? value : ''),
    0,
  );
  const holder = object['metadata'];
  return { ...object, metadata: { ...(isObject(holder) ? holder : {}), annotations: bytes > maxAnnotationBytes ? others : annotations } };
}
