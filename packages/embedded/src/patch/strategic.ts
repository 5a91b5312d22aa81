import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { copy, equal, isObject, shown } from '../json.ts';
import { badRequest, Refusal } from '../refusal.ts';
import type { Schema } from '../schema/schema.ts';

const DIRECTIVE = '$patch';
const RETAIN_KEYS = '$retainKeys';
const DELETE_FROM = '$deleteFromPrimitiveList/';
const ORDER = '$setElementOrder/';

interface ListMeta {
  readonly merges: boolean;
  readonly mergeKey: string | undefined;
  readonly items: Schema | undefined;
}

function listMeta(schema: Schema | undefined): ListMeta {
  const strategies = (schema?.['x-kubernetes-patch-strategy'] ?? '').split(',');
  return { merges: strategies.includes('merge'), mergeKey: schema?.['x-kubernetes-patch-merge-key'], items: schema?.items };
}

function fieldSchema(schema: Schema | undefined, key: string): Schema | undefined {
  return schema?.properties?.[key] ?? (typeof schema?.additionalProperties === 'object' ? schema.additionalProperties : undefined);
}

/** As Go prints a map of plain values. */
function goMap(item: Json): string {
  if (!isObject(item)) return shown(item);
  const keys = Object.keys(item).sort();
  return `map[${keys.map((key) => `${key}:${goMap(item[key] ?? null)}`).join(' ')}]`;
}

function keyValue(item: Json, mergeKey: string): Json {
  const value = isObject(item) ? item[mergeKey] : undefined;
  if (value === undefined) throw new Refusal(500, undefined, `map: ${goMap(item)} does not contain declared merge key: ${mergeKey}`);
  return value;
}

/** What identifies a list item: its merge key, or itself. */
const identity = (item: Json, mergeKey: string | undefined) => JSON.stringify(mergeKey === undefined ? item : keyValue(item, mergeKey));

/** Directives in values that are taken over whole mean nothing and must not be stored. */
function withoutDirectives(value: Json): Json | undefined {
  if (Array.isArray(value)) return value.flatMap((item) => withoutDirectives(item) ?? []);
  if (!isObject(value)) return value;
  if (DIRECTIVE in value) return undefined;
  const out: JsonObject = {};
  for (const [key, item] of Object.entries(value)) {
    if (item === null || key === RETAIN_KEYS || key.startsWith(ORDER) || key.startsWith(DELETE_FROM)) continue;
    const kept = withoutDirectives(item);
    if (kept !== undefined) out[key] = kept;
  }
  return out;
}

/**
 * Items of the patch in the patch's order, the others where the live list has them. Items new to the list come before the
 * live ones that follow, as upstream does.
 */
function inOrder(merged: Json[], patchOrder: Json[], liveOrder: Json[], mergeKey: string | undefined): Json[] {
  const positions = (list: Json[]) => new Map(list.map((item, position) => [identity(item, mergeKey), position] as const));
  const byPatch = positions(patchOrder);
  const byLive = positions(liveOrder);
  const rank = (map: Map<string, number>, item: Json) => map.get(identity(item, mergeKey)) ?? Number.MAX_SAFE_INTEGER;
  const patched = merged.filter((item) => byPatch.has(identity(item, mergeKey))).sort((a, b) => rank(byPatch, a) - rank(byPatch, b));
  const others = merged.filter((item) => !byPatch.has(identity(item, mergeKey))).sort((a, b) => rank(byLive, a) - rank(byLive, b));
  const out: Json[] = [];
  while (patched.length > 0 || others.length > 0) {
    const [other] = others;
    const [next] = patched;
    if (next === undefined || other === undefined) {
      out.push(...others.splice(0), ...patched.splice(0));
      break;
    }
    const [a, b] = [byLive.get(identity(other, mergeKey)), byLive.get(identity(next, mergeKey))];
    const [first] = a !== undefined && b !== undefined && a < b ? others.splice(0, 1) : patched.splice(0, 1);
    out.push(first ?? null);
  }
  return out;
}

function mergeMaps(live: Json[], patch: Json[], meta: ListMeta, mergeKey: string, order: Json[] | undefined): Json[] {
  let kept = live;
  let replace = false;
  const items: Json[] = [];
  for (const item of patch) {
    const directive = isObject(item) ? item[DIRECTIVE] : undefined;
    if (directive === undefined) items.push(item);
    else if (directive === 'delete') {
      const id = identity(item, mergeKey);
      kept = kept.filter((other) => identity(other, mergeKey) !== id);
    } else if (directive === 'replace') replace = true;
    else throw new Refusal(500, undefined, `unknown patch type: ${shown(directive)} in map: ${goMap(item)}`);
  }
  if (replace) return items.flatMap((item) => withoutDirectives(item) ?? []);
  const merged = [...kept];
  for (const item of items) {
    const id = identity(item, mergeKey);
    const position = merged.findIndex((other) => identity(other, mergeKey) === id);
    if (position < 0) merged.push(withoutDirectives(item) ?? {});
    else merged[position] = mergeObjects(merged[position] as JsonObject, item as JsonObject, meta.items);
  }
  return inOrder(merged, order ?? items, kept, mergeKey);
}

function mergeList(live: Json[], patch: Json[], schema: Schema | undefined, order?: Json[]): Json[] {
  const meta = listMeta(schema);
  if (!meta.merges) return patch.flatMap((item) => withoutDirectives(item) ?? []);
  if (![...live, ...patch].some(isObject)) {
    const merged = [...live, ...patch].filter((item, index, all) => all.findIndex((other) => equal(other, item)) === index);
    return inOrder(merged, order ?? patch, live, undefined);
  }
  if (meta.mergeKey === undefined) throw badRequest('cannot merge lists without merge key');
  return mergeMaps(live, patch, meta, meta.mergeKey, order);
}

function retainKeys(live: JsonObject, patch: JsonObject): JsonObject {
  const keys = patch[RETAIN_KEYS];
  if (keys === undefined) return live;
  const malformed = badRequest('invalid patch format of retainKeys');
  if (!Array.isArray(keys)) throw malformed;
  const retained = new Set(keys);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || key === RETAIN_KEYS || key.startsWith(ORDER) || key.startsWith(DELETE_FROM)) continue;
    if (!retained.has(key)) throw malformed;
  }
  return Object.fromEntries(Object.entries(live).filter(([key]) => retained.has(key)));
}

/** A `$setElementOrder` list must contain what its patch list contains, in the same order. */
function checkOrder(patch: Json[], order: Json[], mergeKey: string | undefined): void {
  let position = 0;
  for (const item of patch) {
    if (isObject(item) && DIRECTIVE in item) continue;
    const id = identity(item, mergeKey);
    while (position < order.length && identity(order[position] ?? null, mergeKey) !== id) position++;
    if (position >= order.length) throw badRequest("The order in patch list doesn't match $setElementOrder list");
    position++;
  }
}

function mergeField(live: Json | undefined, patch: Json, schema: Schema | undefined): Json | undefined {
  if (isObject(live) && isObject(patch)) {
    return schema?.['x-kubernetes-patch-strategy'] === 'replace' ? withoutDirectives(patch) : mergeObjects(live, patch, schema);
  }
  if (Array.isArray(live) && Array.isArray(patch)) return mergeList(live, patch, schema);
  return withoutDirectives(patch);
}

function mergeObjects(live: JsonObject, patch: JsonObject, schema: Schema | undefined): JsonObject {
  const directive = patch[DIRECTIVE];
  if (directive === 'replace') {
    const { [DIRECTIVE]: _directive, ...rest } = patch;
    return (withoutDirectives(rest) ?? {}) as JsonObject;
  }
  if (directive === 'delete') return {};
  if (directive !== undefined && directive !== 'merge') throw badRequest(`unknown patch type found: ${JSON.stringify(directive)}`);
  const out = { ...retainKeys(live, patch) };
  const ordered = new Set<string>();
  for (const [key, order] of Object.entries(patch)) {
    if (!key.startsWith(ORDER)) continue;
    const field = key.slice(ORDER.length);
    if (!Array.isArray(order)) throw badRequest('invalid patch format of setElementOrder list');
    const itemSchema = fieldSchema(schema, field);
    const { mergeKey } = listMeta(itemSchema);
    const [before, change] = [out[field], patch[field]];
    if (change === null) continue;
    ordered.add(field);
    checkOrder(Array.isArray(change) ? change : [], order, mergeKey);
    if (!Array.isArray(before) && !Array.isArray(change)) continue;
    if (!Array.isArray(before)) out[field] = withoutDirectives(change ?? []) ?? [];
    else if (Array.isArray(change)) out[field] = mergeList(before, change, itemSchema, order);
    else out[field] = inOrder(before, order, before, mergeKey);
  }
  for (const [key, value] of Object.entries(patch)) {
    if (key === DIRECTIVE || key === RETAIN_KEYS || key.startsWith(ORDER) || ordered.has(key)) continue;
    if (key.startsWith(DELETE_FROM)) {
      const field = key.slice(DELETE_FROM.length);
      const list = out[field];
      if (Array.isArray(list) && Array.isArray(value)) out[field] = list.filter((item) => !value.some((other) => equal(item, other)));
      continue;
    }
    if (value === null) {
      delete out[key];
      continue;
    }
    const merged = mergeField(out[key], value, fieldSchema(schema, key));
    if (merged === undefined) delete out[key];
    else out[key] = merged;
  }
  return out;
}

/**
 * A strategic merge patch, guided by the merge keys of the kind's schema, with the directives `$patch`, `$retainKeys`,
 * `$setElementOrder` and `$deleteFromPrimitiveList`. The target is not changed. Throws a Refusal 400.
 */
export function strategicPatch(target: JsonObject, patch: Json, schema: Schema): JsonObject {
  if (!isObject(patch))
    throw badRequest(
      `json: cannot unmarshal ${Array.isArray(patch) ? 'array' : typeof patch} into Go value of type map[string]interface {}`,
    );
  return mergeObjects(copy(target), patch, schema);
}
