import type { Json } from '@kubenode/api-machinery/wire';
import { ElementError, elementText, itemElement } from './element.ts';
import { typeText, valueSyntax, valueText } from './go-text.ts';
import { kindOf, treatment } from './kinds.ts';
import type { ListType, MapType, ScalarType, SchemaNode } from './schema.ts';
import { isObject } from './value.ts';

export interface SchemaError {
  path: string;
  message: string;
}

const none: SchemaError[] = [];

/** Every field whose value does not fit its schema, in the server's words. The first unknown field of a map hides its other errors. */
export function validate(schema: SchemaNode, value: Json, allowDuplicates: boolean): SchemaError[] {
  if (schema.any === true) return none;
  const kind = treatment(schema, kindOf(schema, value));
  if (value === null) return none;
  if (kind === 'map' && schema.map !== undefined) {
    return isObject(value)
      ? validateMap(schema.map, value, allowDuplicates)
      : [{ path: '', message: `expected map, got ${valueText(value)}` }];
  }
  if (kind === 'list' && schema.list !== undefined) {
    return Array.isArray(value)
      ? validateList(schema.list, value, allowDuplicates)
      : [{ path: '', message: `expected list, got ${valueText(value)}` }];
  }
  const message = scalarProblem(schema.scalar ?? 'untyped', value);
  return message === undefined ? none : [{ path: '', message }];
}

function scalarProblem(type: ScalarType, value: Json): string | undefined {
  switch (type) {
    case 'numeric':
      return typeof value === 'number' ? undefined : `expected numeric (int or float), got ${typeText(value)}`;
    case 'string':
      return typeof value === 'string' ? undefined : `expected string, got ${valueSyntax(value)}`;
    case 'boolean':
      return typeof value === 'boolean' ? undefined : `expected boolean, got ${valueText(value)}`;
    case 'untyped':
      return typeof value === 'object' ? `expected any scalar, got ${valueText(value)}` : undefined;
    default:
      return type satisfies never;
  }
}

function under(prefix: string, errors: SchemaError[], all: SchemaError[] | undefined): SchemaError[] | undefined {
  if (errors.length === 0) return all;
  const moved = errors.map(({ path, message }) => ({ path: prefix + path, message }));
  return all === undefined ? moved : [...all, ...moved];
}

function validateMap(type: MapType, value: { [key: string]: Json }, allowDuplicates: boolean): SchemaError[] {
  let all: SchemaError[] | undefined;
  for (const key of Object.keys(value)) {
    const field = type.fields.get(key) ?? type.element;
    if (field === undefined) return under(`.${key}`, [{ path: '', message: 'field not declared in schema' }], all) ?? none;
    const errors = validate(field, value[key] ?? null, allowDuplicates);
    if (errors.length > 0) all = under(`.${key}`, errors, all);
  }
  return all ?? none;
}

function validateList(type: ListType, value: Json[], allowDuplicates: boolean): SchemaError[] {
  let all: SchemaError[] | undefined;
  const seen = new Set<string>();
  for (let i = 0; i < value.length; i++) {
    const item = value[i] ?? null;
    let step = `[${i}]`;
    if (!type.atomic) {
      const element = itemElement(type, item);
      if (element instanceof ElementError) return [...(all ?? []), { path: '', message: `element ${i}: ${element.message}` }];
      if (seen.has(element) && !allowDuplicates) {
        all = under('', [{ path: '', message: `duplicate entries for key ${elementText(element)}` }], all);
      }
      seen.add(element);
      step = element;
    }
    const errors = validate(type.item, item, allowDuplicates);
    if (errors.length > 0) all = under(type.atomic ? step : elementText(step), errors, all);
  }
  return all ?? none;
}

export function errorText(errors: readonly SchemaError[]): string {
  const lines = errors.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
  return lines.length === 1 ? (lines[0] ?? '') : ['errors:', ...lines.map((line) => `  ${line}`)].join('\n');
}
