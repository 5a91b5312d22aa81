import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { isObject, own } from './value.ts';
import { applyError } from './errors.ts';

export type ScalarType = 'numeric' | 'string' | 'boolean' | 'untyped';

export interface ListType {
  readonly atomic: boolean;
  /** Sorted key fields with their spelling in a path and their defaults; empty in a set. Only read when not atomic. */
  readonly keys: readonly { readonly name: string; readonly label: string; readonly default: Json | undefined }[];
  /** The keys in the order of the schema, for messages. */
  readonly keyNames: readonly string[];
  readonly item: SchemaNode;
}

export interface MapType {
  readonly atomic: boolean;
  readonly fields: ReadonlyMap<string, SchemaNode>;
  /** The type of fields that are not declared; undefined when none are allowed. */
  readonly element: SchemaNode | undefined;
}

/** What a value may be. More than one of the three is set where the schema leaves the type open. */
export interface SchemaNode {
  readonly scalar?: ScalarType;
  readonly list?: ListType;
  readonly map?: MapType;
  /** Every JSON value fits, at any depth. */
  readonly any?: true;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const noKeys = { keys: [], keyNames: [] };

/** Anything, owned whole. */
const untyped: SchemaNode = (() => {
  const node: Mutable<SchemaNode> = { scalar: 'untyped', any: true };
  node.list = { atomic: true, ...noKeys, item: node };
  node.map = { atomic: true, fields: new Map(), element: node };
  return node;
})();

/** Anything, its shape taken from the value: maps field by field, lists whole. */
export const deduced: SchemaNode = (() => {
  const node: Mutable<SchemaNode> = { scalar: 'untyped', any: true };
  node.list = { atomic: true, ...noKeys, item: untyped };
  node.map = { atomic: false, fields: new Map(), element: node };
  return node;
})();

/** How the fields of a kind merge; made by `schemaOf`, opaque to callers. */
export interface FieldSchema {
  readonly root: SchemaNode;
  /** What a new object contains before any field is set, without apiVersion and kind. */
  readonly empty: JsonObject;
}

function fail(message: string): never {
  throw applyError('InvalidSchema', message, { next: 'correct the schema; the API server refuses it too' });
}

function listType(schema: JsonObject, items: SchemaNode, itemSchema: Json | undefined, path: string): ListType {
  const atomic: ListType = { atomic: true, ...noKeys, item: items };
  const kind = schema['x-kubernetes-list-type'];
  if (kind === 'set') return { atomic: false, ...noKeys, item: items };
  if (kind === 'map') {
    const names = schema['x-kubernetes-list-map-keys'];
    if (!Array.isArray(names) || names.length === 0) {
      fail(`${path}: x-kubernetes-list-map-keys must name at least one field of a list of type map`);
    }
    return keyedList(names.map(String), items, itemSchema);
  }
  if (kind !== undefined && kind !== 'atomic')
    fail(`${path}: x-kubernetes-list-type must be atomic, set or map, not ${JSON.stringify(kind)}`);
  if (kind === undefined) {
    // Built-in kinds declare the same in the older words.
    const strategy = schema['x-kubernetes-patch-strategy'];
    if (strategy === 'merge' || strategy === 'merge,retainKeys') {
      const key = schema['x-kubernetes-patch-merge-key'];
      return typeof key === 'string' ? keyedList([key], items, itemSchema) : { atomic: false, ...noKeys, item: items };
    }
  }
  return atomic;
}

function keyedList(names: string[], item: SchemaNode, itemSchema: Json | undefined): ListType {
  const properties = isObject(itemSchema) ? itemSchema['properties'] : undefined;
  const keys = [...names].sort().map((name) => {
    const property = isObject(properties) ? own(properties, name) : undefined;
    return { name, label: `${JSON.stringify(name)}:`, default: isObject(property) ? (property['default'] ?? undefined) : undefined };
  });
  return { atomic: false, keys, keyNames: names, item };
}

function mapType(schema: JsonObject, preserve: boolean, path: string): MapType {
  const fields = new Map<string, SchemaNode>();
  const properties = schema['properties'];
  if (isObject(properties)) {
    for (const [name, property] of Object.entries(properties)) fields.set(name, nodeOf(property, preserve, `${path}.${name}`));
  }
  if (schema['x-kubernetes-embedded-resource'] === true) {
    fields.set('apiVersion', { scalar: 'string' }).set('kind', { scalar: 'string' }).set('metadata', metadata);
  }
  const kind = schema['x-kubernetes-map-type'];
  if (kind !== undefined && kind !== 'atomic' && kind !== 'granular') {
    fail(`${path}: x-kubernetes-map-type must be granular or atomic, not ${JSON.stringify(kind)}`);
  }
  const additional = schema['additionalProperties'];
  let element: SchemaNode | undefined;
  if (isObject(additional)) element = nodeOf(additional, preserve, `${path}.*`);
  else if (additional === true) element = deduced;
  // An object that declares no fields is free-form even where unknown fields are not preserved.
  else if (additional === undefined && (preserve || fields.size === 0)) element = deduced;
  return { atomic: kind === 'atomic', fields, element };
}

function scalarType(type: string, format: Json | undefined, path: string): ScalarType {
  if (type === 'integer' || type === 'number') return 'numeric';
  if (type === 'boolean') return 'boolean';
  if (type !== 'string')
    return fail(`${path}: type must be object, array, string, integer, number or boolean, not ${JSON.stringify(type)}`);
  // When the server merges, it does not check that strings with another format are strings.
  return format === undefined || format === '' || format === 'byte' ? 'string' : 'untyped';
}

function nodeOf(schema: Json | undefined, inherited: boolean, path: string): SchemaNode {
  if (!isObject(schema)) return deduced;
  const preserve = inherited || schema['x-kubernetes-preserve-unknown-fields'] === true;
  const type = schema['type'] ?? '';
  if (typeof type !== 'string') fail(`${path}: type must be one name`);
  const items = schema['items'];
  if (type === 'array') {
    if (items === undefined) fail(`${path}: items must be specified on arrays`);
    return { list: listType(schema, nodeOf(items, preserve, `${path}[]`), items, path) };
  }
  if (type === 'object') return { map: mapType(schema, preserve, path) };
  if (type !== '') return { scalar: scalarType(type, schema['format'], path) };
  // int-or-string, or anything at all.
  const item = items === undefined ? untyped : nodeOf(items, preserve, `${path}[]`);
  return { scalar: 'untyped', list: listType(schema, item, items, path), map: mapType(schema, preserve, path) };
}

const text = { type: 'string' };
const time = { type: 'string', format: 'date-time' };

/** metav1.ObjectMeta. A field that is not named here is refused in an apply, as the server does. */
const metadata: SchemaNode = (() => {
  const node = nodeOf(
    {
      type: 'object',
      properties: {
        annotations: { type: 'object', additionalProperties: text },
        creationTimestamp: time,
        deletionGracePeriodSeconds: { type: 'integer' },
        deletionTimestamp: time,
        finalizers: { type: 'array', 'x-kubernetes-list-type': 'set', items: text },
        generateName: text,
        generation: { type: 'integer' },
        labels: { type: 'object', additionalProperties: text },
        name: text,
        namespace: text,
        ownerReferences: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['uid'],
          items: {
            type: 'object',
            'x-kubernetes-map-type': 'atomic',
            properties: {
              apiVersion: text,
              blockOwnerDeletion: { type: 'boolean' },
              controller: { type: 'boolean' },
              kind: text,
              name: text,
              uid: text,
            },
          },
        },
        resourceVersion: text,
        selfLink: text,
        uid: text,
      },
    },
    false,
    '.metadata',
  );
  const map = node.map ?? fail('.metadata: not an object');
  // managedFields itself is never owned, so its inside does not matter here.
  return { map: { ...map, fields: new Map([...map.fields, ['managedFields', { list: { atomic: true, ...noKeys, item: untyped } }]]) } };
})();

/**
 * The merge rules of a kind, from its structural OpenAPI schema (`spec.versions[].schema.openAPIV3Schema` of a CRD, or the
 * like of a built-in kind with its references written out). `metadata` in it is replaced by ObjectMeta.
 *
 * `empty` is what Go's zero object of a built-in kind encodes to, such as `{spec: {}, status: {}}`: those fields are there
 * before a manager sets them, so no manager owns them by that. A custom resource starts empty.
 *
 * Throws a CodedError `InvalidSchema` for a list or map type that the server does not know.
 */
export function schemaOf(openAPIV3Schema: JsonObject, options: { empty?: JsonObject } = {}): FieldSchema {
  const properties = openAPIV3Schema['properties'];
  const { metadata: _, ...declared } = isObject(properties) ? properties : {};
  const node = nodeOf({ ...openAPIV3Schema, type: 'object', properties: { ...declared, apiVersion: text, kind: text } }, false, '');
  const map = node.map ?? fail('the schema of a kind must be an object');
  return { root: { map: { ...map, fields: new Map([...map.fields, ['metadata', metadata]]) } }, empty: options.empty ?? {} };
}
