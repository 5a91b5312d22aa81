import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import type { Element } from './element.ts';
import { ElementError, fieldElement, itemElement } from './element.ts';
import type { FieldSet, FieldSetBuilder } from './field-set.ts';
import { differenceWithChildren, insert } from './field-set.ts';
import { kindOf, sameKind, treatment } from './kinds.ts';
import type { ListType, MapType, SchemaNode } from './schema.ts';
import { deepEqual, isEmptyObject, isObject, own } from './value.ts';

/** Fields that differ between two values. An added or removed container counts as such, together with what is in it. */
export interface Comparison {
  removed: FieldSet;
  modified: FieldSet;
  added: FieldSet;
}

class Walk {
  readonly removed: FieldSetBuilder = new Map();
  readonly modified: FieldSetBuilder = new Map();
  readonly added: FieldSetBuilder = new Map();
  readonly path: Element[] = [];
}

export function compare(schema: SchemaNode, before: Json, after: Json): Comparison {
  const walk = new Walk();
  visit(walk, schema, before, after);
  return walk;
}

/** The comparison without fields that a request cannot change. */
export function ignoring(comparison: Comparison, reset: FieldSet): Comparison {
  return {
    removed: differenceWithChildren(comparison.removed, reset),
    modified: differenceWithChildren(comparison.modified, reset),
    added: differenceWithChildren(comparison.added, reset),
  };
}

function visit(walk: Walk, schema: SchemaNode, before: Json | undefined, after: Json | undefined): void {
  if (before === after) return;
  const left = before === undefined ? undefined : kindOf(schema, before);
  const right = after === undefined ? undefined : kindOf(schema, after);
  let whole: boolean;
  if (right === undefined) whole = as(walk, schema, treatment(schema, left ?? 'open'), before, after);
  else {
    // A value that changed its shape goes as one shape and comes as the other.
    if (left !== undefined && !sameKind(schema, left, right)) as(walk, schema, treatment(schema, left), before, after);
    whole = as(walk, schema, treatment(schema, right), before, after);
  }
  if (whole) return;
  if (before === undefined) insert(walk.added, walk.path);
  else if (after === undefined) insert(walk.removed, walk.path);
}

/** Compares as one kind of value; true when it was recorded whole. */
function as(walk: Walk, schema: SchemaNode, kind: 'scalar' | 'list' | 'map', before: Json | undefined, after: Json | undefined): boolean {
  if (kind === 'map' && schema.map !== undefined && !schema.map.atomic) {
    const left = isObject(before) && !isEmptyObject(before) ? before : undefined;
    const right = isObject(after) && !isEmptyObject(after) ? after : undefined;
    if (left !== undefined || right !== undefined) {
      visitMap(walk, schema.map, left, right);
      return false;
    }
  } else if (kind === 'list' && schema.list !== undefined && !schema.list.atomic) {
    const left = Array.isArray(before) && before.length > 0 ? before : undefined;
    const right = Array.isArray(after) && after.length > 0 ? after : undefined;
    if (left !== undefined || right !== undefined) {
      visitList(walk, schema.list, left ?? [], right ?? []);
      return false;
    }
  }
  if (before === undefined) insert(walk.added, walk.path);
  else if (after === undefined) insert(walk.removed, walk.path);
  else if (!deepEqual(before, after)) insert(walk.modified, walk.path);
  return true;
}

function step(walk: Walk, element: Element, schema: SchemaNode, before: Json | undefined, after: Json | undefined): void {
  walk.path.push(element);
  visit(walk, schema, before, after);
  walk.path.pop();
}

function visitMap(walk: Walk, type: MapType, before: JsonObject | undefined, after: JsonObject | undefined): void {
  if (before !== undefined) {
    for (const key of Object.keys(before)) {
      const field = type.fields.get(key) ?? type.element;
      const next = after === undefined ? undefined : own(after, key);
      if (field !== undefined && before[key] !== next) step(walk, fieldElement(key), field, before[key], next);
    }
  }
  if (after !== undefined) {
    for (const key of Object.keys(after)) {
      const field = type.fields.get(key) ?? type.element;
      if (field !== undefined && (before === undefined || !Object.hasOwn(before, key))) {
        step(walk, fieldElement(key), field, undefined, after[key]);
      }
    }
  }
}

function visitList(walk: Walk, type: ListType, before: Json[], after: Json[]): void {
  const left = groups(type, before);
  const right = groups(type, after);
  for (const element of new Set([...left.keys(), ...right.keys()])) {
    const old = left.get(element) ?? [];
    const next = right.get(element) ?? [];
    if (old.length <= 1 && next.length <= 1) step(walk, element, type.item, old[0], next[0]);
    else if (old.length >= 2 && next.length >= 2) {
      if (!deepEqual(old, next)) insert(walk.modified, [...walk.path, element]);
    } else if (old.length >= 2) {
      // Items that stood twice were one lump: the lump goes and the item that is left comes again.
      if (next.length > 0) step(walk, element, type.item, undefined, next[0]);
      insert(walk.removed, [...walk.path, element]);
    } else {
      if (old.length > 0) step(walk, element, type.item, old[0], undefined);
      insert(walk.added, [...walk.path, element]);
    }
  }
}

function groups(type: ListType, list: Json[]): Map<Element, Json[]> {
  const out = new Map<Element, Json[]>();
  for (const item of list) {
    const element = itemElement(type, item);
    if (element instanceof ElementError) continue;
    const group = out.get(element);
    if (group === undefined) out.set(element, [item]);
    else group.push(item);
  }
  return out;
}
