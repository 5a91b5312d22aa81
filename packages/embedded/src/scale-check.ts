/** What a custom object reports of its own scale: two numbers and, where its definition names one, a label selector. */
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { invalid, type FieldProblem } from './field-error.ts';
import { isObject } from './json.ts';
import type { ScalePaths } from './kinds/served.ts';

const MAX_INT32 = 2 ** 31 - 1;

function goType(value: Json): string {
  if (Array.isArray(value)) return '[]interface {}';
  if (isObject(value)) return 'map[string]interface {}';
  return typeof value === 'boolean' ? 'bool' : typeof value === 'number' ? 'float64' : value === null ? '<nil>' : 'string';
}

/** As Go's `%v` prints it. */
function printed(value: Json): string {
  if (value === null) return '<nil>';
  if (Array.isArray(value)) return `[${value.map(printed).join(' ')}]`;
  if (!isObject(value)) return String(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `map[${entries.map(([key, item]) => `${key}:${printed(item)}`).join(' ')}]`;
}

type Found = { readonly value: Json | undefined } | { readonly why: string };

const wrongType = (path: readonly string[], value: Json, expected: string): { why: string } => ({
  why: `.${path.join('.')} accessor error: ${printed(value)} is of the type ${goType(value)}, expected ${expected}`,
});

/** As Go's NestedFieldNoCopy: a null on the way is no value, and anything else that is no object is an error. */
function find(object: JsonObject, path: readonly string[]): Found {
  let value: Json = object;
  for (const [depth, key] of path.entries()) {
    if (value === null) return { value: undefined };
    if (!isObject(value)) return wrongType(path.slice(0, depth + 1), value, 'map[string]interface{}');
    const next: Json | undefined = value[key];
    if (next === undefined) return { value: undefined };
    value = next;
  }
  return { value };
}

function checkNumber(object: JsonObject, path: readonly string[]): FieldProblem[] {
  const field = `.${path.join('.')}`;
  const found = find(object, path);
  if ('why' in found) return [invalid(field, 0, found.why)];
  const { value } = found;
  if (value === undefined) return [];
  if (typeof value !== 'number' || !Number.isInteger(value)) return [invalid(field, 0, wrongType(path, value, 'int64').why)];
  if (value < 0) return [invalid(field, value, 'should be a non-negative integer')];
  return value <= MAX_INT32 ? [] : [invalid(field, value, `should be less than or equal to ${MAX_INT32}`)];
}

function checkText(object: JsonObject, path: readonly string[]): FieldProblem[] {
  const field = `.${path.join('.')}`;
  const found = find(object, path);
  if ('why' in found) return [invalid(field, '', found.why)];
  const { value } = found;
  return value === undefined || typeof value === 'string' ? [] : [invalid(field, '', wrongType(path, value, 'string').why)];
}

/** A write of the status cannot change the wanted number, and is not asked about it. */
export function checkScale(paths: ScalePaths, object: JsonObject, subresource: string): FieldProblem[] {
  return [
    ...(subresource === 'status' ? [] : checkNumber(object, paths.spec)),
    ...checkNumber(object, paths.status),
    ...(paths.selector === undefined ? [] : checkText(object, paths.selector)),
  ];
}
