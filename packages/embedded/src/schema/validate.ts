import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { duplicate, invalid, required, tooLong, tooMany, typeInvalid, unsupported, type FieldProblem } from '../field-error.ts';
import { equal, isObject } from '../json.ts';
import { matches } from '../regexp.ts';
import { isBytes, isMicroTime, isTime, satisfies } from './formats.ts';
import type { Schema } from './schema.ts';

type Path = string;

const child = (path: Path, key: string): Path => (path === '' ? key : `${path}.${key}`);

function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}

function hasType(value: Json, type: string): boolean {
  const actual = typeOf(value);
  return actual === type || (type === 'number' && actual === 'integer');
}

function checkNumber(value: number, schema: Schema, path: Path, out: FieldProblem[]): void {
  const { minimum, maximum, multipleOf } = schema;
  if (minimum !== undefined && (schema.exclusiveMinimum === true ? value <= minimum : value < minimum)) {
    out.push(
      invalid(path, value, `${path} in body should be greater than ${schema.exclusiveMinimum === true ? '' : 'or equal to '}${minimum}`),
    );
  }
  if (maximum !== undefined && (schema.exclusiveMaximum === true ? value >= maximum : value > maximum)) {
    out.push(
      invalid(path, value, `${path} in body should be less than ${schema.exclusiveMaximum === true ? '' : 'or equal to '}${maximum}`),
    );
  }
  if (multipleOf !== undefined && !Number.isInteger(value / multipleOf)) {
    out.push(invalid(path, value, `${path} in body should be a multiple of ${multipleOf}`));
  }
}

function checkString(value: string, schema: Schema, path: Path, out: FieldProblem[]): void {
  const length = schema.maxLength === undefined && schema.minLength === undefined ? 0 : Array.from(value).length;
  // Of these, upstream reports the first.
  if (schema.maxLength !== undefined && length > schema.maxLength) out.push(tooLong(path, schema.maxLength));
  else if (schema.minLength !== undefined && length < schema.minLength) {
    out.push(invalid(path, value, `${path} in body should be at least ${schema.minLength} chars long`));
  } else if (schema.pattern !== undefined && !matches(schema.pattern, value)) {
    out.push(invalid(path, value, `${path} in body should match '${schema.pattern}'`));
  }
  if (schema.format !== undefined && !satisfies(schema.format, value)) {
    out.push(typeInvalid(path, value, `${path} in body must be of type ${schema.format}: ${JSON.stringify(value)}`));
  }
}

function checkList(value: Json[], old: Json | undefined, schema: Schema, path: Path, out: FieldProblem[]): void {
  if (schema.items !== undefined) {
    const correlate = correlator(schema, old);
    for (const [index, item] of value.entries()) check(item, correlate(item), schema.items, `${path}[${index}]`, out);
  }
  if (schema.maxItems !== undefined && value.length > schema.maxItems) out.push(tooMany(path, value.length, schema.maxItems));
  if (schema.minItems !== undefined && value.length < schema.minItems) {
    out.push(invalid(path, value.length, `${path} in body should have at least ${schema.minItems} items`));
  }
}

/** Finds the old item that a new one succeeds; only items of list-maps have one. */
function correlator(schema: Schema, old: Json | undefined): (item: Json) => Json | undefined {
  if (schema['x-kubernetes-list-type'] !== 'map' || !Array.isArray(old)) return () => undefined;
  const byKey = new Map<string, Json>();
  for (const item of old) byKey.set(keyOf(item, schema), item);
  return (item) => byKey.get(keyOf(item, schema));
}

function keyOf(item: Json, schema: Schema): string {
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  return JSON.stringify(keys.map((key) => (isObject(item) ? (item[key] ?? null) : null)));
}

function checkObject(value: JsonObject, old: Json | undefined, schema: Schema, path: Path, out: FieldProblem[]): void {
  const keys = Object.keys(value);
  if (schema.maxProperties !== undefined && keys.length > schema.maxProperties) out.push(tooMany(path, keys.length, schema.maxProperties));
  if (schema.minProperties !== undefined && keys.length < schema.minProperties) {
    out.push(invalid(path, keys.length, `${path} in body should have at least ${schema.minProperties} properties`));
  }
  for (const name of schema.required ?? []) if (value[name] === undefined) out.push(required(child(path, name)));
  const before = isObject(old) ? old : {};
  const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
  for (const key of keys) {
    const known = schema.properties?.[key] ?? rest;
    if (known !== undefined) check(value[key] ?? null, before[key], known, child(path, key), out);
  }
}

function passes(value: Json, schema: Schema, path: Path): FieldProblem[] {
  const found: FieldProblem[] = [];
  check(value, undefined, schema, path, found);
  return found;
}

function checkLogic(value: Json, schema: Schema, path: Path, out: FieldProblem[]): void {
  const where = JSON.stringify(path);
  if (schema.anyOf !== undefined) {
    const tries = schema.anyOf.map((option) => passes(value, option, path));
    if (!tries.some((problems) => problems.length === 0)) {
      out.push(invalid('', '', `${where} must validate at least one schema (anyOf)`), ...closest(tries));
    }
  }
  if (schema.oneOf !== undefined) {
    const tries = schema.oneOf.map((option) => passes(value, option, path));
    const valid = tries.filter((problems) => problems.length === 0).length;
    if (valid !== 1) {
      const found = valid === 0 ? 'Found none valid' : `Found ${valid} valid alternatives`;
      out.push(invalid('', '', `${where} must validate one and only one schema (oneOf). ${found}`), ...(valid === 0 ? closest(tries) : []));
    }
  }
  if (schema.allOf !== undefined) {
    const problems = schema.allOf.flatMap((option) => passes(value, option, path));
    if (problems.length > 0) out.push(...problems, invalid('', '', `${where} must validate all the schemas (allOf)`));
  }
  if (schema.not !== undefined && passes(value, schema.not, path).length === 0) {
    out.push(invalid('', '', `${where} must not validate the schema (not)`));
  }
}

/** The alternative that came nearest is the one whose complaints help. */
function closest(tries: FieldProblem[][]): FieldProblem[] {
  return tries.reduce((best, problems) => (problems.length < best.length ? problems : best), tries[0] ?? []);
}

function checkEnum(value: Json, schema: Schema, path: Path, out: FieldProblem[]): void {
  if (schema.enum === undefined || schema.enum.some((allowed) => equal(allowed, value))) return;
  const allowed = schema.enum.map((item) => (typeof item === 'string' ? item : JSON.stringify(item)));
  out.push(unsupported(path, value, allowed));
}

function check(value: Json, old: Json | undefined, schema: Schema, path: Path, out: FieldProblem[]): void {
  // Ratcheting: what was stored like this before is accepted in an update (CRDValidationRatcheting, GA in 1.33).
  if (old !== undefined && equal(value, old)) return;
  if (value === null && schema.nullable === true) return;
  if (schema['x-kubernetes-int-or-string'] === true) {
    if (typeof value !== 'string' && !(typeof value === 'number' && Number.isInteger(value))) {
      out.push(typeInvalid(path, typeOf(value), `${path} in body must be of type integer,string: ${JSON.stringify(typeOf(value))}`));
      return;
    }
  } else if (schema.type !== undefined && !hasType(value, schema.type)) {
    out.push(typeInvalid(path, typeOf(value), `${path} in body must be of type ${schema.type}: ${JSON.stringify(typeOf(value))}`));
    checkEnum(value, schema, path, out);
    return;
  }
  checkEnum(value, schema, path, out);
  if (typeof value === 'number') checkNumber(value, schema, path, out);
  else if (typeof value === 'string') checkString(value, schema, path, out);
  else if (Array.isArray(value)) checkList(value, old, schema, path, out);
  else if (isObject(value)) checkObject(value, old, schema, path, out);
  checkLogic(value, schema, path, out);
}

/**
 * All validation errors of a value against a structural schema, with the API server's paths and words. With `old`, fields that
 * did not change are not checked.
 */
export function validate(value: Json, schema: Schema, path = '', old?: Json): FieldProblem[] {
  const out: FieldProblem[] = [];
  check(value, old, schema, path, out);
  return out;
}

function duplicatesOf(value: Json[], schema: Schema, path: Path): FieldProblem[] {
  const type = schema['x-kubernetes-list-type'];
  if (type !== 'set' && type !== 'map') return [];
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  const seen = new Map<string, number>();
  const out: FieldProblem[] = [];
  for (const [index, item] of value.entries()) {
    if (type === 'map' && item !== null && !isObject(item)) {
      return [invalid(`${path}[${index}]`, item, 'must be an object for an array of list-type map')];
    }
    const key = type === 'map' ? keyOf(item, schema) : JSON.stringify(item);
    const times = (seen.get(key) ?? 0) + 1;
    seen.set(key, times);
    if (times !== 2) continue;
    const shown: JsonObject = {};
    if (isObject(item)) for (const name of keys) if (item[name] !== undefined) shown[name] = item[name];
    out.push(duplicate(`${path}[${index}]`, type === 'map' ? shown : item));
  }
  return out;
}

/** Duplicate items of sets and list-maps. */
export function validateLists(value: Json, schema: Schema | undefined, path = ''): FieldProblem[] {
  if (schema === undefined) return [];
  if (Array.isArray(value)) {
    return [
      ...duplicatesOf(value, schema, path),
      ...value.flatMap((item, index) => validateLists(item, schema.items, `${path}[${index}]`)),
    ];
  }
  if (!isObject(value)) return [];
  const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
  return Object.entries(value).flatMap(([key, item]) => validateLists(item, schema.properties?.[key] ?? rest, child(path, key)));
}

/** The first value whose JSON type is not the schema's; for kinds whose objects are decoded into structs by the real server. */
export function typeMismatch(value: Json, schema: Schema, path = ''): { path: string; got: string; want: string } | undefined {
  if (value === null) return undefined;
  if (schema['x-kubernetes-int-or-string'] === true) {
    return typeof value === 'string' || typeof value === 'number' ? undefined : { path, got: typeOf(value), want: 'string' };
  }
  if (schema.type !== undefined && !hasType(value, schema.type)) {
    const got = typeof value === 'boolean' ? 'bool' : typeof value === 'number' ? 'number' : typeOf(value);
    return { path, got, want: schema.type };
  }
  if (schema.format === 'byte' && typeof value === 'string' && !isBytes(value)) return { path, got: 'string', want: 'base64' };
  if (schema.format === 'date-time' || schema.format === 'micro-time') {
    const reads = schema.format === 'date-time' ? isTime : isMicroTime;
    if (typeof value === 'string' && value !== '' && !reads(value)) return { path, got: JSON.stringify(value), want: schema.format };
  }
  if (Array.isArray(value)) {
    for (const item of value) {
      const found = schema.items === undefined ? undefined : typeMismatch(item, schema.items, path);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const rest = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
  for (const [key, item] of Object.entries(value)) {
    const known = schema.properties?.[key] ?? rest;
    // Go names the field that is a map, not the key in it.
    const where = schema.properties?.[key] === undefined ? path : child(path, key);
    const found = known === undefined ? undefined : typeMismatch(item, known, where);
    if (found !== undefined) return found;
  }
  return undefined;
}
