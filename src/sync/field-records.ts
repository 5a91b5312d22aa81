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
  const paths = fields.map((field) => ['f:spec', `f:${field}`]);
  return records.map((record) => (isOfApply(record) ? withoutAll(record, paths) : record));
}

/** The record of sync's applies alone names these fields, so that an apply takes them out together with all else that it changes. */
export function taken(records: readonly ManagedFieldsEntry[], extra: readonly ExtraField[]): ManagedFieldsEntry[] {
  if (extra.length === 0) return [...records];
  const paths = extra.map(({ members }) => members);
  const others = records.flatMap((record) => {
    if (isOfApply(record)) return [record];
    const left = withoutAll(record, paths);
    return Object.keys(left.fieldsV1).length === 0 ? [] : [left];
  });
  if (others.some(isOfApply)) return others.map((record) => (isOfApply(record) ? withAll(record, extra) : record));
  const own = { manager: MANAGERS.sync, operation: 'Apply', apiVersion: API_VERSION, fieldsType: 'FieldsV1', fieldsV1: {} } as const;
  return [...others, withAll(own, extra)];
}

/**
 * No record of an update of sync names what Git gives: it would keep a field that a later commit drops. Where Git leaves `replicas` out, that stays: a removal wrote it
 * (docs/protocols.md#c8e).
 */
export function withoutUpdates(
  records: readonly ManagedFieldsEntry[],
  { givesReplicas }: { givesReplicas: boolean },
): ManagedFieldsEntry[] {
  return records.flatMap((record) => {
    if (record.manager !== MANAGERS.sync || record.operation !== 'Update' || record.subresource !== undefined) return [record];
    if (givesReplicas || !hasMembers(record, ['f:spec', 'f:replicas'])) return [];
    return [{ ...record, fieldsV1: { 'f:spec': { 'f:replicas': {} } } }];
  });
}

export function areSame(before: readonly ManagedFieldsEntry[], after: readonly ManagedFieldsEntry[]): boolean {
  return canonical(before.map(({ fieldsV1 }) => fieldsV1)) === canonical(after.map(({ fieldsV1 }) => fieldsV1));
}

function withoutAll(record: ManagedFieldsEntry, paths: readonly Members[]): ManagedFieldsEntry {
  const fieldsV1 = without(record.fieldsV1, paths) ?? {};
  return fieldsV1 === record.fieldsV1 ? record : { ...record, fieldsV1 };
}

/** Undefined where nothing is left. The same object where it names none of the paths. One walk over all paths, as one object may have very many. */
function without(fields: JsonObject, paths: readonly Members[]): JsonObject | undefined {
  const changed = new Map<string, JsonObject | undefined>();
  for (const [member, its] of Map.groupBy(paths, ([first]) => first)) {
    const found = member === undefined ? undefined : fields[member];
    if (member === undefined || !isRecord(found)) continue;
    const isWhole = its.some(({ length }) => length === 1);
    const left = isWhole ? undefined : without(found, its.map(restOf));
    if (left !== found) changed.set(member, left);
  }
  if (changed.size === 0) return fields;
  const entries = Object.entries(fields).flatMap(([member, found]) => {
    const left = changed.has(member) ? changed.get(member) : found;
    return left === undefined ? [] : [[member, left] as const];
  });
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
