/** What sync changes in the records of who wrote which field (`metadata.managedFields`), so that its next apply leaves no more and no less than it must. Pure. */
import { canonical } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { MANAGERS } from '../api/names.ts';
import type { JsonObject, ManagedFieldsEntry } from '../api/wire.ts';
import { isRecord } from '../kube/failure.ts';
import { hasMembers } from '../kube/ownership.ts';
import type { ExtraField } from './extra-fields.ts';

type Members = readonly string[];

/** An apply takes out what the record of sync's last apply names and it does not give. */
export const isOfApply = ({ manager, operation, subresource }: ManagedFieldsEntry): boolean =>
  manager === MANAGERS.sync && operation === 'Apply' && subresource === undefined;

/** The record of sync's applies names these fields of `spec` no more, so that an apply leaves them. */
export function given(records: readonly ManagedFieldsEntry[], fields: readonly string[]): ManagedFieldsEntry[] {
  const paths = pathsOf(fields.map((field) => ['f:spec', `f:${field}`]));
  return records.map((record) => (isOfApply(record) ? withoutAll(record, paths) : record));
}

/** The record of sync's applies alone names these fields, so that an apply takes them out together with all else that it changes. */
export function taken(records: readonly ManagedFieldsEntry[], extra: readonly ExtraField[]): ManagedFieldsEntry[] {
  if (extra.length === 0) return [...records];
  const paths = pathsOf(extra.map(({ members }) => members));
  const others = records.flatMap((record) => {
    if (isOfApply(record)) return [record];
    const left = withoutAll(record, paths);
    return Object.keys(left.fieldsV1).length === 0 ? [] : [left];
  });
  // A server has one record of them.
  const at = others.findIndex(isOfApply);
  const own = others[at] ?? NO_APPLY;
  return at === -1 ? [...others, withAll(own, extra)] : others.with(at, withAll(own, extra));
}

const isOfUpdate = ({ manager, operation, subresource }: ManagedFieldsEntry): boolean =>
  manager === MANAGERS.sync && operation === 'Update' && subresource === undefined;

interface Gives {
  /** Whether Git gives `replicas`. Where it does not, the record that a removal wrote of them stays (docs/protocols.md#c8e). */
  givesReplicas: boolean;
}

/** What is left of a record of an update of sync. */
function leftOf(record: ManagedFieldsEntry, { givesReplicas }: Gives): ManagedFieldsEntry[] {
  if (givesReplicas || !hasMembers(record, REPLICAS)) return [];
  return [{ ...record, fieldsV1: { 'f:spec': { 'f:replicas': {} } } }];
}
const REPLICAS = ['f:spec', 'f:replicas'];

/** Whether a record of an update of sync names what Git gives, or gave: after an update that no apply, or no `withoutUpdates`, followed. */
export function hasUpdates(records: readonly ManagedFieldsEntry[], gives: Gives): boolean {
  return records.some((record) => isOfUpdate(record) && !areSame([record], leftOf(record, gives)));
}

/** No record of an update of sync names what Git gives: it would keep a field that a later commit drops. */
export function withoutUpdates(records: readonly ManagedFieldsEntry[], gives: Gives): ManagedFieldsEntry[] {
  return records.flatMap((record) => (isOfUpdate(record) ? leftOf(record, gives) : [record]));
}

/**
 * The record of sync's applies names what its updates wrote, so that an apply takes out what Git gives no more, whatever became of the writes that were to follow the
 * update.
 */
export function withUpdates(records: readonly ManagedFieldsEntry[], gives: Gives): ManagedFieldsEntry[] {
  const updates = records.filter(isOfUpdate);
  if (updates.length === 0) return [...records];
  const paths = pathsOf(gives.givesReplicas ? [] : [REPLICAS]);
  const written = updates.map((record) => withoutAll(record, paths).fieldsV1);
  const others = withoutUpdates(records, gives);
  // A server has one record of them.
  const at = others.findIndex(isOfApply);
  const own = others[at] ?? NO_APPLY;
  const all = { ...own, fieldsV1: written.reduce(union, own.fieldsV1) };
  return at === -1 ? [...others, all] : others.with(at, all);
}

const NO_APPLY: ManagedFieldsEntry = {
  manager: MANAGERS.sync,
  operation: 'Apply',
  apiVersion: API_VERSION,
  fieldsType: 'FieldsV1',
  fieldsV1: {},
};

function union(some: JsonObject, more: JsonObject): JsonObject {
  const members = Object.entries(more).map(([member, found]): [string, JsonObject] => {
    const known = Object.hasOwn(some, member) ? some[member] : undefined;
    if (!isRecord(known)) return [member, isRecord(found) ? found : {}];
    return [member, isRecord(found) ? union(named(known, found), named(found, known)) : known];
  });
  return { ...some, ...Object.fromEntries(members) };
}

/** `{}` names the field itself, which must be named beside what is below it in the other. */
const named = (fields: JsonObject, other: object): JsonObject =>
  Object.keys(fields).length === 0 && Object.keys(other).length > 0 ? { '.': {} } : fields;

export function areSame(before: readonly ManagedFieldsEntry[], after: readonly ManagedFieldsEntry[]): boolean {
  return canonical(before.map(({ fieldsV1 }) => fieldsV1)) === canonical(after.map(({ fieldsV1 }) => fieldsV1));
}

/** What is to go out of records: a field as a whole, or what is below it. */
type Paths = 'Whole' | Map<string, Paths>;

/** As one tree, so that a record is walked once however many they are. */
function pathsOf(all: readonly Members[]): Paths {
  const root: Paths = new Map();
  for (const members of all) {
    let level = root;
    for (const [index, member] of members.entries()) {
      const known = level.get(member);
      if (known === 'Whole') break;
      if (index === members.length - 1) level.set(member, 'Whole');
      else {
        const next = known ?? new Map<string, Paths>();
        level.set(member, next);
        level = next;
      }
    }
  }
  return root;
}

function withoutAll(record: ManagedFieldsEntry, paths: Paths): ManagedFieldsEntry {
  const fieldsV1 = without(record.fieldsV1, paths) ?? {};
  return fieldsV1 === record.fieldsV1 ? record : { ...record, fieldsV1 };
}

/** Undefined where nothing is left. The same object where it names none of the paths. */
function without(fields: JsonObject, paths: Paths): JsonObject | undefined {
  if (paths === 'Whole') return undefined;
  let isChanged = false;
  const entries = Object.entries(fields).flatMap(([member, found]) => {
    const below = paths.get(member);
    if (below === undefined || !isRecord(found)) return [[member, found] as const];
    const left = without(found, below);
    isChanged ||= left !== found;
    return left === undefined ? [] : [[member, left] as const];
  });
  if (!isChanged) return fields;
  if (entries.length === 0) return undefined;
  // Nothing is below it any more: the field itself is named as `{}`.
  return entries.every(([name]) => name === '.') ? {} : Object.fromEntries(entries);
}

function withAll(record: ManagedFieldsEntry, extra: readonly ExtraField[]): ManagedFieldsEntry {
  return { ...record, fieldsV1: withMembers(record.fieldsV1, extra) };
}

type Named = Pick<ExtraField, 'members' | 'fields'>;

function withMembers(fields: JsonObject, named: readonly Named[]): JsonObject {
  const changed = [...Map.groupBy(named, ({ members: [first = ''] }) => first)].map(([member, its]): [string, JsonObject] => {
    const whole = its.find(({ members }) => members.length === 1);
    if (whole !== undefined) return [member, whole.fields];
    const found = fields[member];
    // `{}` names the field itself, which must be named beside what is below it now.
    const before = !isRecord(found) ? {} : Object.keys(found).length === 0 ? { '.': {} } : found;
    const below = its.map(({ members, fields: last }) => ({ members: restOf(members), fields: last }));
    return [member, withMembers(before, below)];
  });
  return { ...fields, ...Object.fromEntries(changed) };
}

const restOf = (members: Members): Members => members.slice(1);
