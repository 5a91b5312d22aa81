/** What sync changes in the records of who wrote which field (`metadata.managedFields`), so that its next apply leaves no more and no less than it must. Pure. */
import { canonical } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { MANAGERS } from '../api/names.ts';
import type { JsonObject, ManagedFieldsEntry } from '../api/wire.ts';
import { isRecord } from '../kube/failure.ts';
import type { ExtraField } from './extra-fields.ts';

type Members = readonly string[];

/** An apply takes out what the record of sync's last apply names and it does not give. */
const isOfApply = ({ manager, operation, subresource }: ManagedFieldsEntry): boolean =>
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

export function areSame(before: readonly ManagedFieldsEntry[], after: readonly ManagedFieldsEntry[]): boolean {
  return canonical(before.map(({ fieldsV1 }) => fieldsV1)) === canonical(after.map(({ fieldsV1 }) => fieldsV1));
}

function withoutAll(record: ManagedFieldsEntry, paths: readonly Members[]): ManagedFieldsEntry {
  const fieldsV1 = paths.reduce<JsonObject>((fields, path) => without(fields, path) ?? {}, record.fieldsV1);
  return fieldsV1 === record.fieldsV1 ? record : { ...record, fieldsV1 };
}

/** Undefined where nothing is left. The same object where it did not name the path. */
function without(fields: JsonObject, [member, ...rest]: Members): JsonObject | undefined {
  const found = member === undefined ? undefined : fields[member];
  if (member === undefined || !isRecord(found)) return fields;
  const left = rest.length === 0 ? undefined : without(found, rest);
  if (left === found) return fields;
  const { [member]: _, ...others } = fields;
  const after = left === undefined ? others : { ...others, [member]: left };
  const names = Object.keys(after);
  if (names.length === 0) return undefined;
  // Nothing is below it any more: the field itself is named as `{}`.
  return names.every((name) => name === '.') ? {} : after;
}

function withAll(record: ManagedFieldsEntry, extra: readonly ExtraField[]): ManagedFieldsEntry {
  const fieldsV1 = extra.reduce<JsonObject>((fields, { members, fields: below }) => withMember(fields, members, below), record.fieldsV1);
  return { ...record, fieldsV1 };
}

function withMember(fields: JsonObject, [member, ...rest]: Members, below: JsonObject): JsonObject {
  if (member === undefined) return below;
  const found = fields[member];
  // `{}` names the field itself, which must be named beside what is below it now.
  const before = !isRecord(found) ? {} : Object.keys(found).length === 0 ? { '.': {} } : found;
  return { ...fields, [member]: withMember(before, rest, below) };
}
