/** What an object of KubeNode has in a cell and Git does not give: an apply leaves it where another manager owns it, or none does (docs/protocols.md#e3). Pure. */
import { canonical } from '../api/digest.ts';
import { API_VERSION } from '../api/kind.ts';
import { kindNamed } from '../api/kinds.ts';
import type { JsonObject, KubeObject } from '../api/wire.ts';
import { isRecord } from '../kube/failure.ts';
import { decidingAnnotations, isGivenKind, othersFields } from './spec-owners.ts';

export interface ExtraField {
  /** Its path as records in managedFields have it: `f:spec`, `f:limits`, `k:{"name":"x"}`. */
  members: readonly string[];
  /** To read: `spec.limits[name=x]`. */
  path: string;
  found: unknown;
  /** What the schema puts there once it is taken out. */
  byDefault: unknown;
  /** All that it has, as a record in managedFields names it. */
  fields: JsonObject;
  /** Git gives the map or the list that it is in, and nothing in that. */
  inEmpty?: true;
}

export type Schema = Readonly<Record<string, unknown>>;

/** Below `x-kubernetes-preserve-unknown-fields` maps merge by key, and lists as a whole. */
const ANY: Schema = { 'x-kubernetes-preserve-unknown-fields': true };

/**
 * Empty for kinds that no commit has. A field that the schema of this hub does not have is left alone: only a cell of a later version keeps one.
 * What apply itself corrects is not here: fields that Git gives, and lists and objects that merge as a whole.
 */
export function extraFields(stored: KubeObject, desired: KubeObject): ExtraField[] {
  const { kind, apiVersion } = desired;
  if (apiVersion !== API_VERSION || !isGivenKind(kind)) return [];
  const schema: unknown = kindNamed(kind)?.specSchema;
  if (!isRecord(schema)) return [];
  const others = othersFields(kind);
  const root = { members: ['f:spec'], path: 'spec' };
  const inSpec = extraIn(schema, specOf(stored), specOf(desired), root).filter(
    ({ members: [, member = ''] }) => !others.has(member.slice(2)) || Object.hasOwn(specOf(desired), member.slice(2)),
  );
  const { annotations: found = {} } = stored.metadata;
  const { annotations: given = {} } = desired.metadata;
  const annotations = decidingAnnotations(kind).flatMap((name): ExtraField[] => {
    if (found[name] === undefined || given[name] !== undefined) return [];
    const members = ['f:metadata', 'f:annotations', `f:${name}`];
    return [{ members, path: `metadata.annotations.${name}`, found: found[name], byDefault: undefined, fields: {} }];
  });
  return [...inSpec, ...annotations];
}

/** Fields that stay though Git does not give them, and are reported. */
export function reportedFields(stored: KubeObject, desired: KubeObject): string[] {
  if (desired.apiVersion !== API_VERSION || !isGivenKind(desired.kind)) return [];
  const [found, given] = [specOf(stored), specOf(desired)];
  return [...othersFields(desired.kind)].flatMap(([field, { reported }]) =>
    reported === true && found[field] === true && given[field] === undefined ? [`spec.${field}`] : [],
  );
}

export function specOf(object: KubeObject): Record<string, unknown> {
  const { spec } = object as { spec?: unknown };
  return isRecord(spec) ? spec : {};
}

interface At {
  members: readonly string[];
  path: string;
}

function extraIn(schema: Schema, stored: unknown, desired: unknown, at: At): ExtraField[] {
  if (isMerged(schema, stored) && isMerged(schema, desired)) {
    const inEmpty = inEmptyOf(Object.keys(desired));
    return Object.entries(stored).flatMap(([name, found]) => {
      const member = memberSchema(schema, name);
      const below = { members: [...at.members, `f:${name}`], path: `${at.path}.${name}` };
      if (member === undefined || found === undefined) return [];
      if (Object.hasOwn(desired, name) && desired[name] !== undefined) return extraIn(member, found, desired[name], below);
      const byDefault = member['default'];
      if (byDefault === found || (byDefault !== undefined && canonical(byDefault) === canonical(found))) return [];
      return [{ ...below, found, byDefault, fields: fieldsOf(member, found), ...inEmpty }];
    });
  }
  const keys = keysOf(schema);
  if (keys === undefined || !Array.isArray(stored) || !Array.isArray(desired)) return [];
  const item = itemSchema(schema);
  const wanted = new Map(desired.map((each: unknown) => [keyMember(keys, each), each]));
  return stored.flatMap((found: unknown) => {
    const member = keyMember(keys, found);
    const named = keys.map((key) => `${key}=${isRecord(found) ? String(found[key]) : ''}`).join(',');
    const below = { members: [...at.members, member], path: `${at.path}[${named}]` };
    if (wanted.has(member)) return extraIn(item, found, wanted.get(member), below);
    return [{ ...below, found, byDefault: undefined, fields: fieldsOf(item, found), ...inEmptyOf(desired) }];
  });
}

const inEmptyOf = ({ length }: { length: number }): Pick<ExtraField, 'inEmpty'> => (length === 0 ? { inEmpty: true } : {});

/** Whether it is an object whose fields have owners of their own. */
export function isMerged(schema: Schema, value: unknown): value is Record<string, unknown> {
  return isRecord(value) && schema['x-kubernetes-map-type'] !== 'atomic';
}

/** Undefined where the schema has no such field. */
export function memberSchema(schema: Schema, name: string): Schema | undefined {
  const { properties, additionalProperties } = schema;
  if (isRecord(properties) && Object.hasOwn(properties, name)) {
    const found = properties[name];
    return isRecord(found) ? found : undefined;
  }
  if (isRecord(additionalProperties)) return additionalProperties;
  return schema['x-kubernetes-preserve-unknown-fields'] === true ? ANY : undefined;
}

export function itemSchema({ items }: Schema): Schema {
  return isRecord(items) ? items : {};
}

/** Of a list that merges by keys. */
export function keysOf(schema: Schema): string[] | undefined {
  const keys = schema['x-kubernetes-list-map-keys'];
  if (schema['x-kubernetes-list-type'] !== 'map' || !Array.isArray(keys)) return undefined;
  return keys.map(String).sort();
}

export function keyMember(keys: readonly string[], item: unknown): string {
  const entries = keys.map((key) => [key, isRecord(item) ? item[key] : undefined]);
  return `k:${escaped(JSON.stringify(Object.fromEntries(entries)))}`;
}

/** As the server writes JSON. */
const escaped = (json: string): string =>
  json.replaceAll(/[<>&\u2028\u2029]/g, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Each field with all below it, since an apply takes out what its manager's record names. */
function fieldsOf(schema: Schema, value: unknown): JsonObject {
  const below: [string, JsonObject][] = [];
  const keys = keysOf(schema);
  if (isMerged(schema, value)) {
    for (const [name, found] of Object.entries(value)) below.push([`f:${name}`, fieldsOf(memberSchema(schema, name) ?? ANY, found)]);
  } else if (keys !== undefined && Array.isArray(value)) {
    for (const item of value) below.push([keyMember(keys, item), fieldsOf(itemSchema(schema), item)]);
  }
  return below.length === 0 ? {} : { '.': {}, ...Object.fromEntries(below) };
}
