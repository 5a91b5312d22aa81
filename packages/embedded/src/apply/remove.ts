import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { ElementError, fieldElement, itemElement } from './element.ts';
import type { FieldSet } from './field-set.ts';
import { kindOf, treatment } from './kinds.ts';
import type { SchemaNode } from './schema.ts';
import { isObject, put } from './value.ts';

/**
 * The value without the given fields and items. A container that a path goes into and that ends up empty becomes null,
 * as on the server; one that is itself named goes altogether.
 */
export function removeFields(schema: SchemaNode, value: Json, fields: FieldSet): Json {
  const kind = treatment(schema, kindOf(schema, value));
  if (kind === 'scalar') return value;
  if (kind === 'list') {
    const { list } = schema;
    if (list === undefined || list.atomic || !Array.isArray(value) || value.length === 0) return null;
    let changed = false;
    const out: Json[] = [];
    for (const item of value) {
      const element = itemElement(list, item);
      const found = element instanceof ElementError ? undefined : fields.get(element);
      if (found?.member === true) changed = true;
      else if (found?.children === undefined) out.push(item);
      else {
        const left = removeFields(list.item, item, found.children);
        changed ||= left !== item;
        out.push(left);
      }
    }
    if (out.length === 0) return null;
    return changed ? out : value;
  }
  const { map } = schema;
  if (map === undefined || map.atomic || !isObject(value)) return null;
  let out: JsonObject | undefined;
  let kept = 0;
  const keys = Object.keys(value);
  for (const [at, key] of keys.entries()) {
    const found = fields.get(fieldElement(key));
    const old = value[key] ?? null;
    const type = map.fields.get(key) ?? map.element;
    if (found?.member === true) {
      out ??= slice(value, keys, at);
      continue;
    }
    kept++;
    const left = found?.children === undefined || type === undefined ? old : removeFields(type, old, found.children);
    if (left !== old) out ??= slice(value, keys, at);
    if (out !== undefined) put(out, key, left);
  }
  if (kept === 0) return null;
  return out ?? value;
}

/** The first `count` properties. */
function slice(value: JsonObject, keys: string[], count: number): JsonObject {
  const out: JsonObject = {};
  for (const key of keys.slice(0, count)) put(out, key, value[key] ?? null);
  return out;
}
