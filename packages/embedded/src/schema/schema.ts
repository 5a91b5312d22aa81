import type { Json, JsonObject } from '@kubenode/api-machinery/wire';

/** An OpenAPI v3 structural schema with the Kubernetes extensions, as a CRD contains it. Built-in kinds are described the same way. */
export interface Schema {
  type?: string;
  format?: string;
  title?: string;
  description?: string;
  properties?: { [name: string]: Schema };
  additionalProperties?: Schema | boolean;
  items?: Schema;
  required?: string[];
  enum?: Json[];
  default?: Json;
  nullable?: boolean;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: boolean;
  exclusiveMaximum?: boolean;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minProperties?: number;
  maxProperties?: number;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  not?: Schema;
  'x-kubernetes-preserve-unknown-fields'?: boolean;
  'x-kubernetes-int-or-string'?: boolean;
  'x-kubernetes-embedded-resource'?: boolean;
  'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map';
  'x-kubernetes-list-map-keys'?: string[];
  'x-kubernetes-map-type'?: 'atomic' | 'granular';
  'x-kubernetes-patch-strategy'?: string;
  'x-kubernetes-patch-merge-key'?: string;
  'x-kubernetes-validations'?: Json;
}

/** As JSON; the types differ only in what TypeScript allows for an interface. */
export function schemaJson(schema: Schema): JsonObject {
  return JSON.parse(JSON.stringify(schema)) as JsonObject;
}

const names = new WeakMap<Schema, string>();

/** Gives a schema the name under which OpenAPI publishes it; it is then referred to and not repeated. */
export function named(name: string, schema: Schema): Schema {
  names.set(schema, name);
  return schema;
}

export function nameOf(schema: Schema): string | undefined {
  return names.get(schema);
}

type More = Omit<Schema, 'type' | 'properties' | 'items'>;
const described = (description: string | undefined) => (description === undefined ? {} : { description });

export const text = (description?: string, more: More = {}): Schema => ({ type: 'string', ...described(description), ...more });
export const whole = (description?: string, format: 'int32' | 'int64' = 'int64'): Schema => ({
  type: 'integer',
  format,
  ...described(description),
});
export const flag = (description?: string): Schema => ({ type: 'boolean', ...described(description) });
export const time = (description?: string): Schema => ({ type: 'string', format: 'date-time', ...described(description) });
/** A time in microseconds, always with six digits. */
export const microTime = (description?: string): Schema => ({ type: 'string', format: 'micro-time', ...described(description) });
export const bytes = (description?: string): Schema => ({ type: 'string', format: 'byte', ...described(description) });
export const quantity = (description?: string): Schema => ({ 'x-kubernetes-int-or-string': true, ...described(description) });
export const intOrString = (description?: string): Schema => ({ 'x-kubernetes-int-or-string': true, ...described(description) });

export const fields = (properties: { [name: string]: Schema }, description?: string, required?: string[]): Schema => ({
  type: 'object',
  properties,
  ...described(description),
  ...(required === undefined ? {} : { required }),
});

/** An object whose fields this server does not check. */
export const free = (description?: string): Schema => ({
  type: 'object',
  'x-kubernetes-preserve-unknown-fields': true,
  ...described(description),
});

export const mapOf = (item: Schema, description?: string): Schema => ({
  type: 'object',
  additionalProperties: item,
  ...described(description),
});

export const atomicList = (items: Schema, description?: string): Schema => ({
  type: 'array',
  items,
  'x-kubernetes-list-type': 'atomic',
  ...described(description),
});

export const setOf = (items: Schema, description?: string): Schema => ({
  type: 'array',
  items,
  'x-kubernetes-list-type': 'set',
  'x-kubernetes-patch-strategy': 'merge',
  ...described(description),
});

/** A list keyed by fields of its items. `strategy` and the first key also guide strategic merge patches. */
export const listMap = (items: Schema, keys: string[], description?: string, strategy = 'merge'): Schema => ({
  type: 'array',
  items,
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': keys,
  ...(keys[0] === undefined ? {} : { 'x-kubernetes-patch-merge-key': keys[0] }),
  'x-kubernetes-patch-strategy': strategy,
  ...described(description),
});
