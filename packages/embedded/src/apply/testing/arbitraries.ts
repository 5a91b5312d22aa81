/** Random schemas, objects that (mostly) fit them, and scenarios of applies and updates, for tests. */
import * as fc from 'fast-check';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { fieldsOf } from '../fields.ts';
import { encodeFields } from '../fields-v1.ts';
import { schemaOf } from '../schema.ts';

export interface Step {
  op: 'apply' | 'update';
  manager: string;
  subresource: string;
  force: boolean;
  /** Of an update: the managedFields that the user sends. */
  owners: 'live' | 'none' | 'reset' | 'resetItem' | 'given';
  /** With owners `given`. */
  managedFields?: Json[];
  now: string;
  object: JsonObject;
}

export interface Scenario {
  schema: JsonObject;
  reset: Record<string, string[]>;
  /** Another schema from this step on. */
  later?: { schema: JsonObject; at: number };
  steps: Step[];
}

const names = ['a', 'b', 'c'];

const scalar: fc.Arbitrary<JsonObject> = fc.constantFrom<JsonObject>(
  { type: 'string' },
  { type: 'integer' },
  { type: 'boolean' },
  { type: 'string', format: 'date-time' },
  { 'x-kubernetes-int-or-string': true },
);

function struct(fields: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> {
  return fc.dictionary(fc.constantFrom(...names), fields, { minKeys: 1, maxKeys: 3, noNullPrototype: true });
}

/** The schema of one field, nested at most `depth` deep. */
function fieldSchema(depth: number): fc.Arbitrary<JsonObject> {
  if (depth === 0) return scalar;
  const child = fc.oneof(scalar, fieldSchema(depth - 1));
  const object = struct(child);
  return fc.oneof(
    scalar,
    object.map((properties): JsonObject => ({ type: 'object', properties })),
    object.map((properties): JsonObject => ({ type: 'object', properties })),
    object.map((properties): JsonObject => ({ type: 'object', properties, 'x-kubernetes-map-type': 'atomic' })),
    object.map((properties): JsonObject => ({ type: 'object', properties, 'x-kubernetes-preserve-unknown-fields': true })),
    child.map((additionalProperties): JsonObject => ({ type: 'object', additionalProperties })),
    fc.constant<JsonObject>({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true }),
    fc.constant<JsonObject>({ 'x-kubernetes-preserve-unknown-fields': true }),
    child.map((items): JsonObject => ({ type: 'array', items })),
    fc
      .constantFrom<JsonObject>({ type: 'string' }, { type: 'integer' })
      .map((items): JsonObject => ({ type: 'array', items, 'x-kubernetes-list-type': 'set' })),
    fc.tuple(object, fc.constantFrom(1, 2), fc.option(fc.constantFrom('x', 'y'), { nil: undefined }), fc.boolean()).map(keyed),
    fc.tuple(object, fc.constantFrom(1, 2), fc.option(fc.constantFrom('x', 'y'), { nil: undefined }), fc.boolean()).map(keyed),
  );
}

function keyed([properties, keys, fallback, atomic]: [JsonObject, number, string | undefined, boolean]): JsonObject {
  return {
    type: 'array',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': keys === 1 ? ['name'] : ['name', 'kind'],
    items: {
      type: 'object',
      ...(atomic ? { 'x-kubernetes-map-type': 'atomic' } : {}),
      properties: {
        ...properties,
        name: { type: 'string' },
        kind: { type: 'string', ...(fallback === undefined ? {} : { default: fallback }) },
      },
    },
  };
}

/** A kind with a spec and a status. */
const kindSchema: fc.Arbitrary<JsonObject> = fc.tuple(struct(fieldSchema(3)), struct(fieldSchema(2))).map(([spec, status]) => ({
  type: 'object',
  properties: { spec: { type: 'object', properties: spec }, status: { type: 'object', properties: status } },
}));

interface Noise {
  /** Explicit nulls. */
  nulls: boolean;
  /** Items that stand twice in a set or keyed list. */
  duplicates: boolean;
  /** Values of a wrong type and unknown fields. */
  misfits: boolean;
}

export const plain: Noise = { nulls: false, duplicates: false, misfits: false };

const free: fc.Arbitrary<Json> = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<Json>(1, 2, 'x', true),
    fc.dictionary(fc.constantFrom(...names), tie('value'), { maxKeys: 2, noNullPrototype: true }),
    fc.array(tie('value'), { maxLength: 2 }),
  ),
})).value;

function is(schema: Json | undefined): schema is JsonObject {
  return schema !== undefined && schema !== null && typeof schema === 'object' && !Array.isArray(schema);
}

/** A value for a schema; few distinct ones, so that managers meet. */
export function valueOf(schema: JsonObject, noise: Noise): fc.Arbitrary<Json> {
  const sound = soundValue(schema, noise);
  if (!noise.nulls && !noise.misfits) return sound;
  return fc.oneof(
    { weight: 30, arbitrary: sound },
    { weight: noise.nulls ? 2 : 0, arbitrary: fc.constant<Json>(null) },
    { weight: noise.misfits ? 1 : 0, arbitrary: fc.constantFrom<Json>('x', 5, 1.5, true, { zz: 1 }, [], ['a', 1]) },
  );
}

function soundValue(schema: JsonObject, noise: Noise): fc.Arbitrary<Json> {
  const { type, items, properties, additionalProperties } = schema;
  if (type === 'integer') return fc.constantFrom<Json>(1, 2, 3);
  if (type === 'boolean') return fc.boolean();
  if (type === 'string') return fc.constantFrom<Json>('x', 'y', 'z', 'a"b<&>\n');
  if (schema['x-kubernetes-int-or-string'] === true) return fc.constantFrom<Json>(1, '10%', 'x');
  if (type === 'array' && is(items)) {
    const list = schema['x-kubernetes-list-type'];
    const item = valueOf(items, noise);
    if (list === undefined) return fc.array(item, { maxLength: 3 });
    const keys = schema['x-kubernetes-list-map-keys'];
    const fields = is(items['properties']) ? items['properties'] : {};
    const key = (value: Json): string => {
      if (!is(value) || !Array.isArray(keys)) return JSON.stringify(value);
      return JSON.stringify((keys as string[]).map((name) => value[name] ?? (fields[name] as JsonObject)['default']));
    };
    const named =
      list === 'map'
        ? fc
            .tuple(soundValue(items, noise), fc.constantFrom('p', 'q', 'r'))
            .map(([value, name]): Json => (is(value) ? { ...value, name } : value))
        : item.filter((value) => value !== null && typeof value !== 'object');
    const unique = fc.uniqueArray(named, { maxLength: 3, selector: key });
    return noise.duplicates
      ? fc.oneof({ weight: 4, arbitrary: unique }, { weight: 1, arbitrary: fc.array(named, { maxLength: 4 }) })
      : unique;
  }
  if (type === 'object') {
    const fields: Record<string, fc.Arbitrary<Json>> = {};
    if (is(properties)) for (const [name, field] of Object.entries(properties)) if (is(field)) fields[name] = valueOf(field, noise);
    const declared = fc.record(fields, { requiredKeys: [], noNullPrototype: true }).map((value) => value as JsonObject);
    const extra = is(additionalProperties)
      ? valueOf(additionalProperties, noise)
      : schema['x-kubernetes-preserve-unknown-fields'] === true
        ? free
        : undefined;
    if (extra === undefined) return declared;
    const others = fc.dictionary(fc.constantFrom('k', 'l', 'm'), extra, { maxKeys: 3, noNullPrototype: true });
    return fc.tuple(declared, others).map(([a, b]) => ({ ...b, ...a }));
  }
  return free;
}

const metadata: fc.Arbitrary<JsonObject> = fc
  .record(
    {
      labels: fc.dictionary(fc.constantFrom('app', 'tier'), fc.constantFrom('x', 'y'), { noNullPrototype: true }),
      annotations: fc.dictionary(fc.constantFrom('n.io/x', 'note'), fc.constantFrom('x', 'y'), { noNullPrototype: true }),
      finalizers: fc.uniqueArray(fc.constantFrom('f.io/a', 'f.io/b'), { maxLength: 2 }),
      ownerReferences: fc.uniqueArray(
        fc.record(
          { apiVersion: fc.constant('v1'), kind: fc.constant('Node'), name: fc.constantFrom('n', 'm'), uid: fc.constantFrom('1', '2') },
          { noNullPrototype: true },
        ),
        { maxLength: 2, selector: (owner) => owner.uid },
      ),
      creationTimestamp: fc.constantFrom<Json>(null, '2020-01-01T00:00:00Z'),
    },
    { requiredKeys: [], noNullPrototype: true },
  )
  .map((more): JsonObject => ({ name: 'thing', namespace: 'web', ...(more as JsonObject) }));

/** A whole object of a kind. */
function objectOf(schema: JsonObject, noise: Noise): fc.Arbitrary<JsonObject> {
  return fc.tuple(metadata, soundValue(schema, noise)).map(([meta, body]) => ({
    apiVersion: 'test.kubenode.io/v1',
    kind: 'Thing',
    metadata: meta,
    ...(is(body) ? body : {}),
  }));
}

/** The same schema with some lists and maps atomic that were not, and the other way round. */
function reshaped(schema: Json): fc.Arbitrary<Json> {
  if (Array.isArray(schema)) return fc.constant(schema);
  if (!is(schema)) return fc.constant(schema);
  const entries = Object.entries(schema);
  return fc.tuple(fc.nat(3), ...entries.map(([, child]) => reshaped(child))).map(([dice, ...children]) => {
    const copy: JsonObject = Object.fromEntries(entries.map(([key], i) => [key, children[i] ?? null]));
    if (dice > 0) return copy;
    if (copy['type'] === 'object')
      return { ...copy, 'x-kubernetes-map-type': schema['x-kubernetes-map-type'] === 'atomic' ? 'granular' : 'atomic' };
    if (copy['x-kubernetes-list-type'] !== undefined) return { ...copy, 'x-kubernetes-list-type': 'atomic' };
    if (copy['type'] === 'array' && is(copy['items']) && copy['items']['type'] === 'string')
      return { ...copy, 'x-kubernetes-list-type': 'set' };
    return copy;
  });
}

/** managedFields as a user might write them by hand, some of them beyond reading. */
function handWritten(schema: JsonObject, versions: string[]): fc.Arbitrary<Json[]> {
  const fields = soundValue(schema, plain).chain((value) => {
    const set = encodeFields(fieldsOf(schemaOf(schema).root, value));
    return fc.constantFrom<Json>(
      set,
      Object.fromEntries(Object.entries(set).toReversed()),
      { ...set, '.': {}, 'z:later': {}, 'f:metadata': { 'f:labels': { '.': {}, 'f:app': { '.': {} } }, 'f:annotations': { 'z:x': {} } } },
      {},
    );
  });
  const entry = fc.record(
    {
      manager: fc.constantFrom('alpha', 'beta', 'delta', ''),
      operation: fc.constantFrom('Apply', 'Update', 'Update'),
      apiVersion: fc.constantFrom(...versions),
      time: fc.constantFrom('2023-05-05T05:05:05Z', '2023-05-05T05:05:06Z'),
      fieldsType: fc.constant('FieldsV1'),
      fieldsV1: fields,
      subresource: fc.constantFrom('status', ''),
    },
    { requiredKeys: ['operation', 'apiVersion', 'fieldsType', 'fieldsV1'], noNullPrototype: true },
  );
  const broken = fc.constantFrom<Json>(
    { operation: 'Patch', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: {} },
    { operation: 'Update', fieldsType: 'FieldsV1', fieldsV1: {} },
    { operation: 'Update', apiVersion: 'v1', fieldsV1: {} },
    { operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: { x: {} } },
    { operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: { 'k:nonsense': {} } },
    { operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: { 'f:a': 1 } },
    { operation: 7, apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: {} },
    { operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: {}, time: 'yesterday' },
    'x',
  );
  return fc.array(fc.oneof({ weight: 12, arbitrary: entry }, { weight: 1, arbitrary: broken }), { minLength: 1, maxLength: 4 });
}

/** What `kubectl apply` without --server-side does: it notes in an annotation what it applied. */
function clientSide(object: JsonObject): JsonObject {
  const meta = is(object['metadata']) ? object['metadata'] : {};
  const annotations = is(meta['annotations']) ? meta['annotations'] : {};
  const noted = { ...annotations, 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(object) };
  return { ...object, metadata: { ...meta, annotations: noted } };
}

export function scenario(noise: Noise): fc.Arbitrary<Scenario> {
  const length = 6;
  return fc.tuple(kindSchema, fc.nat(2 * length)).chain(([schema, at]) => {
    const changes = at > 0 && at < length;
    // The server refuses to convert objects with items that stand twice to another version; here there is no conversion.
    const versions = noise.duplicates || changes ? ['test.kubenode.io/v1'] : ['test.kubenode.io/v1', 'test.kubenode.io/v2'];
    const step = fc.record({
      op: fc.constantFrom<Step['op']>('apply', 'apply', 'update'),
      manager: fc.constantFrom('alpha', 'beta', 'gamma', 'kubectl'),
      subresource: fc.constantFrom('', '', '', 'status'),
      force: fc.boolean(),
      owners: fc.constantFrom<Step['owners']>('live', 'live', 'live', 'live', 'none', 'none', 'reset', 'resetItem', 'given'),
      managedFields: handWritten(schema, versions),
      object: objectOf(schema, noise),
      clientSide: fc.nat(3),
    });
    return fc
      .tuple(fc.array(step, { minLength: 2, maxLength: length }), reshaped(schema['properties'] ?? {}))
      .map(([steps, properties]) => ({
        schema,
        reset: { '': ['status'], status: ['metadata', 'spec'] },
        ...(changes ? { later: { schema: { ...schema, properties }, at } } : {}),
        steps: steps.map(({ managedFields, clientSide: noted, ...one }, i) => ({
          ...one,
          object: noted === 0 ? clientSide(one.object) : one.object,
          ...(one.op === 'update' && one.owners === 'given' ? { managedFields } : {}),
          now: new Date(Date.UTC(2024, 0, 1, 0, 0, i)).toISOString().replace('.000', ''),
        })),
      }));
  });
}
