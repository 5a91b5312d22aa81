/** Ownership through a merge: structured-merge-diff's updater, for objects of one API version. */
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { compare, ignoring } from './compare.ts';
import type { Conflicts } from './conflict.ts';
import { fieldElement } from './element.ts';
import { fieldsOf, namedFieldsOf } from './fields.ts';
import type { FieldSet } from './field-set.ts';
import { difference, differenceWithChildren, includes, intersection, isEmpty, union, withNamedFields } from './field-set.ts';
import type { FieldManager, Managers } from './managers.ts';
import { owning, withManager } from './managers.ts';
import { merge } from './merge.ts';
import { reconcile } from './reconcile.ts';
import { removeFields } from './remove.ts';
import type { SchemaNode } from './schema.ts';
import { isObject, own, put } from './value.ts';

export interface Merge {
  schema: SchemaNode;
  /** Fields that the request cannot change. */
  reset: FieldSet;
}

export type UpdaterResult =
  | {
      ok: true;
      /** `live` itself when no field changed. */
      object: Json;
      /** Everyone but the applier. */
      others: Managers;
      /** What the applier owns now. */
      set: FieldSet;
    }
  | { ok: false; conflicts: Conflicts };

function reconcileAll(schema: SchemaNode, managers: Managers): Managers {
  let out: Map<string, FieldManager> | undefined;
  for (const [id, manager] of managers) {
    const next = owning(manager, reconcile(schema, manager.set));
    if (next !== manager) (out ??= new Map(managers)).set(id, next);
  }
  return out ?? managers;
}

/** Takes changed and removed fields from all managers. A manager without any field left is removed. */
function release(managers: Managers, changed: FieldSet, removed: FieldSet): Managers {
  let out = managers;
  for (const [id, manager] of managers) {
    const left = difference(difference(manager.set, changed), removed);
    if (left !== manager.set || isEmpty(left)) out = withManager(out, id, owning(manager, left));
  }
  return out;
}

/** Fields that an update changed or added, and what that leaves to everyone. */
export function recordUpdate(
  { schema, reset }: Merge,
  managers: Managers,
  before: Json,
  after: Json,
): { managers: Managers; taken: FieldSet } {
  const { added, modified, removed } = ignoring(compare(schema, before, after), reset);
  const taken = union(modified, added);
  return { managers: release(reconcileAll(schema, managers), taken, removed), taken };
}

/** Merges what the applier with this identity applies. */
export function applyMerge(
  { schema, reset }: Merge,
  managers: Managers,
  live: Json,
  applied: Json,
  id: string,
  force: boolean,
): UpdaterResult {
  const others = new Map(reconcileAll(schema, managers));
  const last = others.get(id);
  others.delete(id);
  const set = differenceWithChildren(fieldsOf(schema, applied), reset);

  const merged = merge(schema, live, applied) ?? null;
  const object = last === undefined ? merged : prune(schema, merged, last.set, set, others);
  const { added, modified, removed } = ignoring(compare(schema, live, object), reset);
  const changed = union(modified, added);

  if (!force) {
    const conflicts = new Map<string, { manager: FieldManager; set: FieldSet }>();
    for (const [other, manager] of others) {
      const conflict = intersection(manager.set, changed);
      if (!isEmpty(conflict)) conflicts.set(other, { manager, set: conflict });
    }
    if (conflicts.size > 0) return { ok: false, conflicts };
  }
  return { ok: true, object, others: release(others, changed, removed), set };
}

/**
 * Removes what the applier applied last time and not now, unless someone else owns it. Whole containers go first, then what
 * is owned comes back, then what no manager owned and the applier never had.
 */
function prune(schema: SchemaNode, merged: Json, last: FieldSet, now: FieldSet, others: Managers): Json {
  if (!isObject(merged)) return merged;
  // Fields can go only below a top-level field that the applier gave up in part; the rest need not be compared.
  const given = new Map([...last].filter((field) => !includes(now, new Map([field]))));
  const names = Object.keys(merged).filter((name) => given.has(fieldElement(name)));
  if (names.length === 0) return merged;
  const part: JsonObject = {};
  for (const name of names) put(part, name, merged[name] ?? null);
  const withNames = (set: FieldSet) => withNamedFields(new Map([...set].filter(([element]) => given.has(element))), schema);

  const fields = namedFieldsOf(schema, part);
  const lastFields = withNames(last);
  const bare = removeFields(schema, part, lastFields);
  let owned = union(namedFieldsOf(schema, bare), withNames(now));
  for (const manager of others.values()) owned = union(owned, withNames(manager.set));
  const withOwned = removeFields(schema, part, difference(fields, owned));
  const left = removeFields(schema, part, intersection(difference(fields, namedFieldsOf(schema, withOwned)), lastFields));

  const out: JsonObject = {};
  for (const name of Object.keys(merged)) {
    const value = names.includes(name) ? (isObject(left) ? own(left, name) : undefined) : merged[name];
    if (value !== undefined) put(out, name, value);
  }
  return out;
}
