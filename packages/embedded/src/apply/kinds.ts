import type { Json } from '@kubenode/api-machinery/wire';
import type { SchemaNode } from './schema.ts';

/** What a value is merged as. `open` is a value that fits none of the schema's types, null above all. */
export type ValueKind = 'scalar' | 'list' | 'map' | 'open';

/** Which of the types that a schema allows a value takes. */
export function kindOf(schema: SchemaNode, value: Json): ValueKind {
  if (value === null) return 'open';
  if (Array.isArray(value)) return schema.list === undefined ? 'open' : 'list';
  if (typeof value === 'object') return schema.map === undefined ? 'open' : 'map';
  return schema.scalar === undefined ? 'open' : 'scalar';
}

/** How a value that fits no type is treated: as the first of map, scalar, list that the schema allows. */
export function treatment(schema: SchemaNode, kind: ValueKind): 'scalar' | 'list' | 'map' {
  if (kind !== 'open') return kind;
  if (schema.map !== undefined) return 'map';
  return schema.scalar !== undefined ? 'scalar' : 'list';
}

/** Whether two values take the same of the allowed types. */
export function sameKind(schema: SchemaNode, a: ValueKind, b: ValueKind): boolean {
  if (a === b) return true;
  const only = (schema.scalar === undefined ? 0 : 1) + (schema.list === undefined ? 0 : 1) + (schema.map === undefined ? 0 : 1);
  return only === 1;
}
