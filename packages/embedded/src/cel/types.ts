/** The CEL types of a structural schema, as Kubernetes derives them; and JSON values as values of these types. */
import { Duration } from '@marcbachmann/cel-js/evaluator';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { isObject } from '../json.ts';
import type { Schema } from '../schema/schema.ts';

/** Why an expression has no value for these objects, in upstream's words. */
export class EvaluationFault extends Error {}

/** What one field, item or entry is in an expression. */
export interface CelType {
  /** As the checker names it: `int`, `list<string>`, `selfType.spec`. */
  readonly name: string;
  /** Throws on a value that the schema would not let in. */
  readonly value: (json: Json) => unknown;
  /** For an object: its fields by their names in expressions. */
  readonly object?: CelObjectType;
  /** For a list its items, for a map its entries. */
  readonly item?: CelType;
  /** For a list whose order does not count, since its items have keys. */
  readonly keyed?: Schema;
}

export interface CelObjectType {
  readonly name: string;
  readonly schema: Schema;
  readonly fields: ReadonlyMap<string, Field>;
  readonly message: new (raw: JsonObject, fields: ReadonlyMap<string, Field>) => Message;
}

interface Field {
  readonly property: string;
  readonly type: CelType;
}

/** An object in an expression; its fields are converted when they are first read, since most never are. */
export class Message extends Map<string, unknown> {
  readonly raw: JsonObject;
  readonly #fields: ReadonlyMap<string, Field>;

  constructor(raw: JsonObject, fields: ReadonlyMap<string, Field>) {
    super();
    this.raw = raw;
    this.#fields = fields;
  }

  override get(key: string): unknown {
    const known = super.get(key);
    if (known !== undefined) return known;
    const field = this.#fields.get(key);
    const json = field === undefined ? undefined : this.raw[field.property];
    if (field === undefined || json === undefined) return undefined;
    const value = field.type.value(json);
    this.set(key, value);
    return value;
  }
}

const KEYWORDS = new Set(
  'true false null in as break const continue else for function if import let loop package namespace return var void while'.split(' '),
);
const ESCAPES: Record<string, string> = { __: '__underscores__', '.': '__dot__', '-': '__dash__', '/': '__slash__' };

/** The name of a property in expressions; undefined for one that they cannot name. */
export function escaped(property: string): string | undefined {
  if (KEYWORDS.has(property)) return `__${property}__`;
  if (!/^[A-Za-z_./-][\w./-]*$/.test(property)) return undefined;
  return property.replaceAll(/__|[./-]/g, (found) => ESCAPES[found] ?? found);
}

const mismatch = (json: Json, wanted: string): never => {
  throw new EvaluationFault(`${JSON.stringify(json)} is no ${wanted}`);
};

const text = (json: Json): string => (typeof json === 'string' ? json : mismatch(json, 'string'));
const whole = (json: Json): bigint => (typeof json === 'number' && Number.isInteger(json) ? BigInt(json) : mismatch(json, 'integer'));

function timestamp(json: Json): Date {
  const date = new Date(text(json));
  return Number.isNaN(date.getTime()) ? mismatch(json, 'time') : date;
}

const UNIT_NANOSECONDS: Record<string, number> = { h: 3.6e12, m: 6e10, s: 1e9, ms: 1e6, us: 1e3, µs: 1e3, ns: 1 };

function duration(json: Json): Duration {
  const match = /^([-+]?)((?:\d+(?:\.\d*)?(?:h|ms|m|s|us|µs|ns))+)$/.exec(text(json));
  if (match === null) return mismatch(json, 'duration');
  let nanoseconds = 0;
  for (const [, amount, unit] of (match[2] ?? '').matchAll(/(\d+(?:\.\d*)?)(h|ms|m|s|us|µs|ns)/g))
    nanoseconds += Number(amount) * (UNIT_NANOSECONDS[unit ?? ''] ?? 0);
  const signed = BigInt(Math.round(match[1] === '-' ? -nanoseconds : nanoseconds));
  return new Duration(signed / 1_000_000_000n, Number(signed % 1_000_000_000n));
}

const STRING: CelType = { name: 'string', value: text };
const FORMATS: Record<string, CelType> = {
  byte: { name: 'bytes', value: (json) => new Uint8Array(Buffer.from(text(json), 'base64')) },
  date: { name: 'google.protobuf.Timestamp', value: timestamp },
  'date-time': { name: 'google.protobuf.Timestamp', value: timestamp },
  duration: { name: 'google.protobuf.Duration', value: duration },
};
const SCALARS: Record<string, CelType> = {
  boolean: { name: 'bool', value: (json) => (typeof json === 'boolean' ? json : mismatch(json, 'boolean')) },
  integer: { name: 'int', value: whole },
  number: { name: 'double', value: (json) => (typeof json === 'number' ? json : mismatch(json, 'number')) },
};
/** Checked when it is evaluated: a rule asks `type(x) == int` first. */
const INT_OR_STRING: CelType = { name: 'dyn', value: (json) => (typeof json === 'number' ? whole(json) : text(json)) };

const RESOURCE: Record<string, Schema> = {
  apiVersion: { type: 'string' },
  kind: { type: 'string' },
  metadata: { type: 'object', properties: { name: { type: 'string' }, generateName: { type: 'string' } } },
};

/** A whole object as rules see it: of metadata they may read the names only. */
export const asResource = (schema: Schema): Schema => ({ ...schema, properties: { ...schema.properties, ...RESOURCE } });

/** The type of a value; undefined where expressions have no access, because the schema does not declare what is there. */
export function typeOf(schema: Schema, name: string): CelType | undefined {
  const type = shapeOf(schema, name);
  if (type === undefined || schema.nullable !== true) return type;
  return { ...type, name: 'dyn', value: (json) => (json === null ? null : type.value(json)) };
}

function shapeOf(given: Schema, name: string): CelType | undefined {
  if (given['x-kubernetes-int-or-string'] === true) return INT_OR_STRING;
  const schema = given['x-kubernetes-embedded-resource'] === true ? asResource(given) : given;
  switch (schema.type ?? '') {
    case 'array':
      return listOf(schema, name);
    case 'object':
      return typeof schema.additionalProperties === 'object' ? mapOf(schema.additionalProperties, name) : objectOf(schema, name);
    case 'string':
      return FORMATS[schema.format ?? ''] ?? STRING;
    default:
      return SCALARS[schema.type ?? ''];
  }
}

function listOf(schema: Schema, name: string): CelType | undefined {
  const item = schema.items === undefined ? undefined : typeOf(schema.items, `${name}.idx`);
  if (item === undefined) return undefined;
  const kind = schema['x-kubernetes-list-type'];
  return {
    name: `list<${item.name}>`,
    value(json) {
      const values = (Array.isArray(json) ? json : mismatch(json, 'list')).map(item.value);
      // The evaluator compares sets in any order.
      return kind === 'set' ? new Set(values) : values;
    },
    item,
    ...(kind === 'map' ? { keyed: schema } : {}),
  };
}

function mapOf(entries: Schema, name: string): CelType | undefined {
  const entry = typeOf(entries, `${name}.elem`);
  if (entry === undefined) return undefined;
  return {
    name: `map<string, ${entry.name}>`,
    value: (json) => new Map(Object.entries(isObject(json) ? json : mismatch(json, 'map')).map(([key, item]) => [key, entry.value(item)])),
    item: entry,
  };
}

function objectOf(schema: Schema, name: string): CelType {
  const fields = new Map<string, Field>();
  for (const [property, child] of Object.entries(schema.properties ?? {})) {
    const field = escaped(property);
    const type = field === undefined ? undefined : typeOf(child, `${name}.${field}`);
    if (field !== undefined && type !== undefined) fields.set(field, { property, type });
  }
  // The checker knows the type of a value by its class.
  const message = class extends Message {};
  return {
    name,
    value: (json) => new message(isObject(json) ? json : mismatch(json, 'object'), fields),
    object: { name, schema, fields, message },
  };
}
