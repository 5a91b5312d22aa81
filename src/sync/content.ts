/** The whole content that an object of KubeNode is to have in a cell, for what an apply cannot write (docs/protocols.md#e3). Pure. */
import { kindNamed } from '../api/kinds.ts';
import type { JsonObject, KubeObject, ManagedFieldsEntry, Stored } from '../api/wire.ts';
import { isRecord } from '../kube/failure.ts';
import { ownerIndex } from '../kube/owner-index.ts';
import { isMerged, itemSchema, keyMember, keysOf, memberSchema, specOf, type Schema } from './extra-fields.ts';
import { isOfApply } from './field-records.ts';
import { decidingAnnotations, isGivenKind, othersFields } from './spec-owners.ts';

export interface WholeContent {
  spec: JsonObject;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

/**
 * What an apply of `desired` is to leave, without the defaults of the schema. What others write by design stays, as does what the schema of this hub does not
 * have. `records`: by which an apply would decide what sync gives no more.
 */
export function wholeContent(stored: Stored<KubeObject>, desired: KubeObject, records: readonly ManagedFieldsEntry[]): WholeContent {
  const { kind } = desired;
  const schema: unknown = kindNamed(kind)?.specSchema;
  const isDropped = droppedBy(records);
  const [found, given] = [specOf(stored), specOf(desired)];
  const others = isGivenKind(kind) ? othersFields(kind) : new Map<string, unknown>();
  const stays = ([name]: [string, unknown]): boolean =>
    others.has(name) && !Object.hasOwn(given, name) && !isDropped(['f:spec', `f:${name}`]);
  const spec = {
    ...Object.fromEntries(Object.entries(found).filter(stays)),
    ...(merged(isRecord(schema) ? schema : {}, found, given) as JsonObject),
  } as JsonObject;
  const deciding = isGivenKind(kind) ? decidingAnnotations(kind) : [];
  const named = (field: 'labels' | 'annotations'): Record<string, string> => {
    const kept = Object.entries(stored.metadata[field] ?? {}).filter(
      ([name]) => !(field === 'annotations' && deciding.includes(name)) && !isDropped(['f:metadata', `f:${field}`, `f:${name}`]),
    );
    return { ...Object.fromEntries(kept), ...desired.metadata[field] };
  };
  return { spec, labels: named('labels'), annotations: named('annotations') };
}

/** Whether an apply that does not give a field takes it out: it is sync's alone. */
function droppedBy(records: readonly ManagedFieldsEntry[]): (members: readonly string[]) => boolean {
  const applied = ownerIndex(records.filter(isOfApply));
  const others = ownerIndex(records.filter((record) => !isOfApply(record)));
  return (members) => applied(members) !== undefined && others(members) === undefined;
}

function merged(schema: Schema, stored: unknown, desired: unknown): unknown {
  if (isMerged(schema, stored) && isMerged(schema, desired)) {
    const kept = Object.entries(stored).filter(([name]) => memberSchema(schema, name) === undefined);
    const given = Object.entries(desired).map(([name, value]) => {
      const member = memberSchema(schema, name);
      return [name, member === undefined || !Object.hasOwn(stored, name) ? value : merged(member, stored[name], value)] as const;
    });
    return Object.fromEntries([...kept, ...given]);
  }
  const keys = keysOf(schema);
  if (keys === undefined || !Array.isArray(stored) || !Array.isArray(desired)) return desired;
  const found = new Map(stored.map((each: unknown) => [keyMember(keys, each), each]));
  return desired.map((each: unknown) => merged(itemSchema(schema), found.get(keyMember(keys, each)), each));
}
