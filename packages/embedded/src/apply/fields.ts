import type { Json } from '@kubenode/api-machinery/wire';
import { ElementError, fieldElement, itemElement } from './element.ts';
import type { FieldSet, FieldSetBuilder } from './field-set.ts';
import { leaf, putElement } from './field-set.ts';
import { kindOf, treatment } from './kinds.ts';
import type { SchemaNode } from './schema.ts';
import { isEmptyObject, isObject } from './value.ts';

/** The fields that a value names: the fields that a manager owns after it applied the value. Lists and maps without children own no field themselves, except `{}`. */
export function fieldsOf(schema: SchemaNode, value: Json): FieldSet {
  const set: FieldSetBuilder = new Map();
  collect(schema, value, set, false);
  return set;
}

/** As `fieldsOf`, with declared containers as members too: what `withNamedFields` makes of it, in one go. */
export function namedFieldsOf(schema: SchemaNode, value: Json): FieldSet {
  const set: FieldSetBuilder = new Map();
  collect(schema, value, set, true);
  return set;
}

/** Adds what is below a value; returns whether its own path is owned too. */
function collect(schema: SchemaNode, value: Json, into: FieldSetBuilder, named: boolean): boolean {
  const kind = treatment(schema, kindOf(schema, value));
  if (kind === 'scalar') return true;
  if (kind === 'list') {
    if (schema.list === undefined || schema.list.atomic) return true;
    if (!Array.isArray(value)) return false;
    const { list } = schema;
    const seen = new Set<string>();
    for (const item of value) {
      const found = itemElement(list, item);
      // An item that lost its keys, halfway through pruning, still keeps its list alive.
      const element = found instanceof ElementError ? '' : found;
      // Items that stand twice are owned as one lump.
      if (seen.has(element)) into.set(element, leaf);
      else {
        seen.add(element);
        const below: FieldSetBuilder = new Map();
        collect(list.item, item, below, named);
        putElement(into, element, true, below);
      }
    }
    return false;
  }
  const { map } = schema;
  if (map === undefined || map.atomic) return true;
  if (!isObject(value)) return false;
  for (const key of Object.keys(value)) {
    const child = value[key] ?? null;
    const field = map.fields.get(key);
    const type = field ?? map.element;
    if (type === undefined) continue;
    const below: FieldSetBuilder = new Map();
    const self = collect(type, child, below, named);
    const member = self || field === undefined || (named && below.size > 0) || child === null || (isObject(child) && isEmptyObject(child));
    putElement(into, fieldElement(key), member, below);
  }
  return false;
}
