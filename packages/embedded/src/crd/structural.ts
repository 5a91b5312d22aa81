import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { forbidden, invalid, required, unsupported, type FieldProblem } from '../field-error.ts';
import { compileRules } from '../cel/rules.ts';
import { equal, isObject, stringsAt } from '../json.ts';
import { compiles } from '../regexp.ts';
import { satisfies } from '../schema/formats.ts';
import type { Schema } from '../schema/schema.ts';
import { validate } from '../schema/validate.ts';

const TYPES = ['array', 'boolean', 'integer', 'number', 'object', 'string'];

/** What a schema may have besides its shape; a wrong type of one of these makes the CRD unreadable. */
const KEYWORDS: Record<string, (value: Json) => boolean> = {
  type: (value) => typeof value === 'string',
  format: (value) => typeof value === 'string',
  title: (value) => typeof value === 'string',
  description: (value) => typeof value === 'string',
  pattern: (value) => typeof value === 'string' && compiles(value),
  nullable: (value) => typeof value === 'boolean',
  exclusiveMinimum: (value) => typeof value === 'boolean',
  exclusiveMaximum: (value) => typeof value === 'boolean',
  uniqueItems: (value) => value === false,
  minimum: (value) => typeof value === 'number',
  maximum: (value) => typeof value === 'number',
  multipleOf: (value) => typeof value === 'number' && value > 0,
  ...Object.fromEntries(
    ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'].map((name) => [
      name,
      (value: Json) => typeof value === 'number' && Number.isInteger(value) && value >= 0,
    ]),
  ),
  required: (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
  enum: Array.isArray,
  default: () => true,
  example: () => true,
  externalDocs: isObject,
  'x-kubernetes-preserve-unknown-fields': (value) => value === true,
  'x-kubernetes-embedded-resource': (value) => typeof value === 'boolean',
  'x-kubernetes-int-or-string': (value) => typeof value === 'boolean',
  'x-kubernetes-list-type': (value) => value === 'atomic' || value === 'set' || value === 'map',
  'x-kubernetes-list-map-keys': (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
  'x-kubernetes-map-type': (value) => value === 'atomic' || value === 'granular',
  'x-kubernetes-validations': Array.isArray,
};

const SHAPE = new Set(['properties', 'additionalProperties', 'items', 'allOf', 'anyOf', 'oneOf', 'not']);

/** Keywords that would change an object's shape and so may not hide inside a logical junctor. */
const NOT_IN_JUNCTORS = [
  'x-kubernetes-validations',
  'type',
  'default',
  'title',
  'description',
  'nullable',
  'additionalProperties',
  'x-kubernetes-preserve-unknown-fields',
  'x-kubernetes-int-or-string',
];

/** The only form in which anyOf may contain types: `x-kubernetes-int-or-string` spelt out. */
const INT_OR_STRING: Json = [{ type: 'integer' }, { type: 'string' }];

class Check {
  readonly problems: FieldProblem[] = [];

  keywords(schema: JsonObject, path: string): void {
    for (const [name, value] of Object.entries(schema)) {
      if (SHAPE.has(name)) continue;
      const test = KEYWORDS[name];
      if (test === undefined) {
        if (!name.startsWith('x-')) this.problems.push(forbidden(`${path}.${name}`, 'is not supported in a structural schema'));
      } else if (!test(value)) {
        this.problems.push(invalid(`${path}.${name}`, value, 'is not a valid value of this keyword'));
      }
    }
  }

  /** A schema that gives a value its shape. */
  shape(schema: Json | undefined, path: string, what: string): void {
    if (!isObject(schema)) {
      this.problems.push(invalid(path, schema, 'must be a schema'));
      return;
    }
    this.keywords(schema, path);
    const { type } = schema;
    const open = schema['x-kubernetes-preserve-unknown-fields'] === true;
    const either = schema['x-kubernetes-int-or-string'] === true;
    if (either && type !== undefined)
      this.problems.push(invalid(`${path}.type`, type, 'must be empty if x-kubernetes-int-or-string is true'));
    else if (type === undefined && !either && !open) this.problems.push(required(`${path}.type`, `must not be empty ${what}`));
    else if (typeof type === 'string' && !TYPES.includes(type)) this.problems.push(unsupported(`${path}.type`, type, TYPES));
    this.children(schema, path);
    this.lists(schema, path);
    this.junctors(schema, path, either);
    this.defaults(schema, path);
  }

  children(schema: JsonObject, path: string): void {
    const { properties, additionalProperties: rest, items } = schema;
    if (properties !== undefined && rest !== undefined) {
      this.problems.push(forbidden(`${path}.additionalProperties`, 'additionalProperties and properties are mutual exclusive'));
    }
    if (isObject(properties)) {
      for (const [name, child] of Object.entries(properties))
        this.shape(child, `${path}.properties[${name}]`, 'for specified object fields');
    } else if (properties !== undefined) this.problems.push(invalid(`${path}.properties`, properties, 'must be an object'));
    if (isObject(rest)) this.shape(rest, `${path}.additionalProperties`, 'for specified object fields');
    else if (rest === false) this.problems.push(forbidden(`${path}.additionalProperties`, 'additionalProperties cannot be set to false'));
    if (items !== undefined) this.shape(items, `${path}.items`, 'for specified array items');
    if (schema['type'] === 'array' && items === undefined) this.problems.push(required(`${path}.items`, 'must be specified'));
  }

  lists(schema: JsonObject, path: string): void {
    const type = schema['x-kubernetes-list-type'];
    const keys = stringsAt(schema, 'x-kubernetes-list-map-keys');
    if (type !== undefined && schema['type'] !== 'array') {
      this.problems.push(invalid(`${path}.type`, schema['type'] ?? '', 'must be array if x-kubernetes-list-type is specified'));
    }
    if (type === 'map' && keys.length === 0) {
      this.problems.push(required(`${path}.x-kubernetes-list-map-keys`, 'must not be empty if x-kubernetes-list-type is map'));
    }
    if (type !== 'map' && keys.length > 0) {
      this.problems.push(forbidden(`${path}.x-kubernetes-list-map-keys`, 'is only allowed if x-kubernetes-list-type is map'));
    }
    const { items } = schema;
    if (type !== 'map' || !isObject(items)) return;
    const properties = isObject(items['properties']) ? items['properties'] : {};
    const needed = stringsAt(items, 'required');
    for (const key of keys) {
      const property = properties[key];
      const where = `${path}.items.properties[${key}]`;
      if (!isObject(property)) {
        this.problems.push(invalid(`${path}.x-kubernetes-list-map-keys`, keys, 'entries have to be defined as properties of the items'));
      } else if (property['default'] === undefined && !needed.includes(key)) {
        this.problems.push(
          required(
            `${where}.default`,
            'this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property',
          ),
        );
      } else if (property['type'] === 'object' || property['type'] === 'array') {
        this.problems.push(invalid(`${where}.type`, property['type'], 'must be a scalar type if parent array has type map'));
      }
    }
  }

  junctors(schema: JsonObject, path: string, either: boolean): void {
    for (const name of ['allOf', 'anyOf', 'oneOf']) {
      const list = schema[name];
      if (list === undefined) continue;
      if (!Array.isArray(list)) {
        this.problems.push(invalid(`${path}.${name}`, list, 'must be an array'));
        continue;
      }
      if (either && name === 'anyOf' && equal(list, INT_OR_STRING)) continue;
      for (const [index, child] of list.entries()) {
        if (either && name === 'allOf' && index === 0 && isObject(child) && equal(child, { anyOf: INT_OR_STRING })) continue;
        this.inside(child, `${path}.${name}[${index}]`);
      }
    }
    if (schema['not'] !== undefined) this.inside(schema['not'], `${path}.not`);
  }

  /** A schema that only restricts values. */
  inside(schema: Json, path: string): void {
    if (!isObject(schema)) {
      this.problems.push(invalid(path, schema, 'must be a schema'));
      return;
    }
    this.keywords(schema, path);
    for (const name of NOT_IN_JUNCTORS) {
      if (schema[name] !== undefined) this.problems.push(forbidden(`${path}.${name}`, 'must be empty to be structural'));
    }
    const { properties, items } = schema;
    if (isObject(properties)) for (const [name, child] of Object.entries(properties)) this.inside(child, `${path}.properties[${name}]`);
    if (isObject(items)) this.inside(items, `${path}.items`);
    this.junctors(schema, path, false);
  }

  defaults(schema: JsonObject, path: string): void {
    const value = schema['default'];
    if (value === undefined) return;
    const problems = validate(value, schema, 'default');
    for (const problem of problems.slice(0, 1)) this.problems.push(invalid(`${path}.default`, value, `must be valid: ${problem.message}`));
    if (schema['format'] === 'date-time' && typeof value === 'string' && !satisfies('date-time', value)) {
      this.problems.push(invalid(`${path}.default`, value, 'must be a date-time'));
    }
  }
}

/**
 * Everything that keeps `schema` from being a structural schema, in the words of the real server where it has them. A CRD
 * that passes is safe to serve: prune, default and validate read nothing that was not checked here.
 */
export function checkStructural(schema: Json | undefined, path: string): FieldProblem[] {
  const check = new Check();
  check.shape(schema, path, 'at the root');
  if (isObject(schema) && schema['type'] !== undefined && schema['type'] !== 'object') {
    check.problems.push(invalid(`${path}.type`, schema['type'], 'must be object at the root'));
  }
  if (check.problems.length === 0) check.problems.push(...compileRules(schema as Schema, path).problems);
  return check.problems;
}
