import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { ElementError, itemElement } from './element.ts';
import { kindOf, treatment } from './kinds.ts';
import type { ListType, MapType, SchemaNode } from './schema.ts';
import { deepEqual, isEmptyObject, isObject, own, put } from './value.ts';

/**
 * The live value with the applied one laid over it; no field is removed. Both fit the schema. What does not change is shared
 * with `live`, down to the object itself.
 */
export function merge(schema: SchemaNode, live: Json | undefined, applied: Json | undefined): Json | undefined {
  if (applied === undefined) return live;
  if (live === undefined || live === applied) return applied;
  const kind = treatment(schema, kindOf(schema, applied));
  if (kind === 'map' && schema.map !== undefined && !schema.map.atomic) {
    const left = isObject(live) && !isEmptyObject(live) ? live : undefined;
    const right = isObject(applied) && !isEmptyObject(applied) ? applied : undefined;
    if (left !== undefined) return right === undefined ? left : mergeMap(schema.map, left, right);
  } else if (kind === 'list' && schema.list !== undefined && !schema.list.atomic) {
    const left = Array.isArray(live) && live.length > 0 ? live : undefined;
    const right = Array.isArray(applied) && applied.length > 0 ? applied : undefined;
    if (left !== undefined) return right === undefined ? left : mergeList(schema.list, left, right);
  }
  return deepEqual(live, applied) ? live : applied;
}

function mergeMap(type: MapType, live: JsonObject, applied: JsonObject): JsonObject {
  let out: JsonObject | undefined;
  for (const key of Object.keys(applied)) {
    const field = type.fields.get(key) ?? type.element;
    if (field === undefined) continue;
    const old = own(live, key);
    const value = merge(field, old, applied[key]);
    if (value === undefined || value === old) continue;
    out ??= { ...live };
    put(out, key, value);
  }
  return out ?? live;
}

/**
 * Items of both lists, in an order that keeps each list's own where they do not disagree; where they do, the applied one's.
 * Items that only `live` has keep their position between those they share.
 */
function mergeList(type: ListType, live: Json[], applied: Json[]): Json[] {
  const left = index(type, live);
  const right = index(type, applied);
  const shared = right.elements.filter((element) => left.values.has(element));
  let nextShared = 0;
  const merged = new Set<string>();
  const out: Json[] = [];
  const take = (value: Json | undefined) => {
    if (value !== undefined) out.push(value);
  };

  for (let l = 0, r = 0; l < left.elements.length || r < right.elements.length;) {
    const at = left.elements[l];
    const want = right.elements[r];
    if (at !== undefined && want !== undefined) {
      if (at === want) {
        merged.add(at);
        take(merge(type.item, left.values.get(at), right.values.get(at)));
        l++;
        r++;
        nextShared++;
        continue;
      }
      const next = shared[nextShared];
      if (right.values.has(at) && next !== undefined && next !== at) {
        // Shared, but at the position that the applied list gives it.
        l++;
        continue;
      }
    }
    if (at !== undefined) {
      if (!right.values.has(at)) {
        take(live[left.positions[l] ?? 0]);
        l++;
        continue;
      }
      if (merged.has(at)) l++;
    }
    if (want !== undefined) {
      merged.add(want);
      take(merge(type.item, left.values.get(want), right.values.get(want)));
      r++;
      if (shared[nextShared] === want) nextShared++;
    }
  }
  return out.length === live.length && out.every((item, i) => item === live[i]) ? live : out;
}

function index(type: ListType, list: Json[]): { elements: string[]; positions: number[]; values: Map<string, Json> } {
  const elements: string[] = [];
  const positions: number[] = [];
  const values = new Map<string, Json>();
  list.forEach((item, i) => {
    const element = itemElement(type, item);
    if (element instanceof ElementError) return;
    // Items that stand twice are not merged into: what is applied replaces them whole.
    values.set(element, values.has(element) ? null : item);
    elements.push(element);
    positions.push(i);
  });
  return { elements, positions, values };
}
