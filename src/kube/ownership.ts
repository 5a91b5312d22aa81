import type { JsonObject, KubeObject, ManagedFieldsEntry } from '../api/wire.ts';

/** Who applies: managedFields contain one Apply entry for each. */
export interface Manager {
  fieldManager: string;
  subresource?: string;
}

/** Whether a record in managedFields names this field, or something in it, as its manager's. */
export function names(entry: ManagedFieldsEntry, path: readonly string[]): boolean {
  return hasMembers(
    entry,
    path.map((field) => `f:${field}`),
  );
}

/** The same of a path as records have it, which may lead through items of lists: `k:{"name":"x"}`. */
export function hasMembers({ fieldsV1 }: ManagedFieldsEntry, members: readonly string[]): boolean {
  let fields: unknown = fieldsV1;
  for (const member of members) {
    if (!isRecord(fields) || !Object.hasOwn(fields, member)) return false;
    fields = fields[member];
  }
  return true;
}

/** What identifies an object is in every apply and has no owner. */
const IDENTITY = new Set([
  'name',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'generateName',
  'managedFields',
]);

/**
 * Whether applying `desired` as `manager` would change `stored`: a desired field has another value, or the manager does not own it yet,
 * or owns one that is no longer desired. Undefined when `stored` has no Apply entry of this manager, so that its ownership is not known.
 *
 * managedFields show how each list merges: by keys (`k:`), as a set (`v:`), or, where it is a leaf, as a whole.
 * Caveat: where the server completes or rewrites a value (defaults inside an atomic item, quantities), it seems to differ each time;
 * the apply that follows is then the server's to find empty.
 */
export function wouldChange(desired: KubeObject, stored: KubeObject, manager: Manager): boolean | undefined {
  const entry = stored.metadata.managedFields?.find(
    (entry) => entry.manager === manager.fieldManager && entry.operation === 'Apply' && entry.subresource === manager.subresource,
  );
  if (entry === undefined) return undefined;
  if (entry.apiVersion !== desired.apiVersion) return true;
  const { apiVersion: _apiVersion, kind: _kind, metadata, ...fields } = desired;
  const named = Object.fromEntries(Object.entries(metadata).filter(([field]) => !IDENTITY.has(field)));
  const content = Object.keys(named).length === 0 ? fields : { ...fields, metadata: named };
  return !isSame(content, stored, entry.fieldsV1);
}

function isSame(desired: unknown, stored: unknown, owned: unknown): boolean {
  if (!isRecord(owned)) return false;
  const members = Object.keys(owned).filter((member) => member !== '.');
  if (members.length === 0) return sameJson(desired, stored);
  if (Array.isArray(desired)) return Array.isArray(stored) && isSameList(desired, stored, owned, members);
  if (!isRecord(desired) || !isRecord(stored)) return false;
  const fields = Object.keys(desired).filter((field) => desired[field] !== undefined);
  // As many, and each of them owned: then none is owned that is not desired.
  return fields.length === members.length && fields.every((field) => isSame(desired[field], stored[field], owned[`f:${field}`]));
}

function isSameList(desired: unknown[], stored: unknown[], owned: JsonObject | Record<string, unknown>, members: string[]): boolean {
  if (desired.length !== members.length || members.length * stored.length > MOST_COMPARED) return false;
  return members.every((member) => {
    const value = parsed(member.slice(2));
    if (value === NO_JSON) return false;
    if (member.startsWith('v:')) return includes(desired, value) && includes(stored, value);
    if (!member.startsWith('k:') || !isRecord(value)) return false;
    const wanted = desired.filter((item) => hasKeys(item, value));
    const found = stored.filter((item) => hasKeys(item, value, true));
    // A key that the server filled in by default is missing from what is desired; then the rest must distinguish the items.
    return wanted.length === 1 && found.length === 1 && isSame(wanted[0], found[0], withoutDefaulted(owned[member], wanted[0], value));
  });
}

/** Items that are compared: a server may send more than any has, and nothing else runs meanwhile. */
const MOST_COMPARED = 1_000_000;

const NO_JSON = Symbol('no JSON');

/** Ownership is read from what the server sends: what cannot be read is a difference. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return NO_JSON;
  }
}

function includes(list: unknown[], value: unknown): boolean {
  return list.some((item) => sameJson(item, value));
}

/** `strictly`: also a key that the item does not have is a difference. */
function hasKeys(item: unknown, keys: Record<string, unknown>, strictly = false): boolean {
  if (!isRecord(item)) return false;
  return Object.entries(keys).every(([key, value]) => (item[key] === undefined ? !strictly : sameJson(item[key], value)));
}

/** Keys are owned also where the server filled them in. */
function withoutDefaulted(owned: unknown, item: unknown, keys: Record<string, unknown>): unknown {
  if (!isRecord(owned) || !isRecord(item)) return owned;
  return Object.fromEntries(Object.entries(owned).filter(([member]) => !(member.slice(2) in keys) || item[member.slice(2)] !== undefined));
}

/** Equal once written as JSON: neither prototypes nor undefined members count. */
function sameJson(a: unknown, b: unknown): boolean {
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((item, i) => sameJson(item, b[i]));
  if (!isRecord(a) || !isRecord(b)) return a === b;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) => sameJson(a[key], b[key]));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
