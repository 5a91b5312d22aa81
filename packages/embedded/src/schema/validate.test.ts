import { describe, expect, it } from 'vitest';
import type { Json } from '@kubenode/api-machinery/wire';
import type { Schema } from './schema.ts';
import { typeMismatch, validate, validateLists } from './validate.ts';

const lines = (value: Json, schema: Schema, old?: Json) =>
  validate(value, schema, 'spec.x', old).map(({ field, message }) => `${field}: ${message}`);

describe('validation', () => {
  it.each<[Json, Schema, string[]]>([
    ['a', { type: 'integer' }, ['spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"']],
    [1.5, { type: 'integer' }, ['spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"']],
    [1, { type: 'number' }, []],
    [null, { type: 'string' }, ['spec.x: Invalid value: "null": spec.x in body must be of type string: "null"']],
    [null, { type: 'string', nullable: true }, []],
    [
      true,
      { 'x-kubernetes-int-or-string': true },
      ['spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"'],
    ],
    ['10%', { 'x-kubernetes-int-or-string': true, pattern: '^[0-9]+%$', minimum: 0 }, []],
    [
      -1,
      { 'x-kubernetes-int-or-string': true, pattern: '^[0-9]+%$', minimum: 0 },
      ['spec.x: Invalid value: -1: spec.x in body should be greater than or equal to 0'],
    ],
    ['c', { type: 'string', enum: ['a', 'b'] }, ['spec.x: Unsupported value: "c": supported values: "a", "b"']],
    [0, { type: 'integer', minimum: 0, exclusiveMinimum: true }, ['spec.x: Invalid value: 0: spec.x in body should be greater than 0']],
    [11, { type: 'integer', maximum: 10 }, ['spec.x: Invalid value: 11: spec.x in body should be less than or equal to 10']],
    [5, { type: 'integer', multipleOf: 2 }, ['spec.x: Invalid value: 5: spec.x in body should be a multiple of 2']],
    ['', { type: 'string', minLength: 1, pattern: '^a' }, ['spec.x: Invalid value: "": spec.x in body should be at least 1 chars long']],
    ['abcdef', { type: 'string', maxLength: 5 }, ['spec.x: Too long: may not be more than 5 bytes']],
    ['😀😀', { type: 'string', maxLength: 2 }, []],
    ['B', { type: 'string', pattern: '^[a-z]+$' }, ['spec.x: Invalid value: "B": spec.x in body should match \'^[a-z]+$\'']],
    ['now', { type: 'string', format: 'date-time' }, ['spec.x: Invalid value: "now": spec.x in body must be of type date-time: "now"']],
    ['2026-11-20T12:00:00.5Z', { type: 'string', format: 'date-time' }, []],
    ['x', { type: 'string', format: 'strange' }, []],
    [[1, 2, 3], { type: 'array', maxItems: 2 }, ['spec.x: Too many: 3: must have at most 2 items']],
    [[], { type: 'array', minItems: 1 }, ['spec.x: Invalid value: 0: spec.x in body should have at least 1 items']],
    [{}, { type: 'object', required: ['a'] }, ['spec.x.a: Required value']],
    [{ a: 1, b: 2 }, { type: 'object', maxProperties: 1 }, ['spec.x: Too many: 2: must have at most 1 item']],
    [{}, { type: 'object', minProperties: 1 }, ['spec.x: Invalid value: 0: spec.x in body should have at least 1 properties']],
    [
      [{ a: 1 }],
      { type: 'array', items: { type: 'object', properties: { a: { type: 'string' } } } },
      ['spec.x[0].a: Invalid value: "integer": spec.x[0].a in body must be of type string: "integer"'],
    ],
    [
      { k: 1 },
      { type: 'object', additionalProperties: { type: 'string' } },
      ['spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer"'],
    ],
    [
      5,
      { type: 'integer', anyOf: [{ minimum: 10 }, { maximum: 0 }] },
      [
        ': Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
        'spec.x: Invalid value: 5: spec.x in body should be greater than or equal to 10',
      ],
    ],
    [
      5,
      { type: 'integer', oneOf: [{ minimum: 1 }, { minimum: 2 }] },
      [': Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
    ],
    [
      5,
      { type: 'integer', allOf: [{ maximum: 3 }] },
      [
        'spec.x: Invalid value: 5: spec.x in body should be less than or equal to 3',
        ': Invalid value: "": "spec.x" must validate all the schemas (allOf)',
      ],
    ],
    [5, { type: 'integer', not: { minimum: 1 } }, [': Invalid value: "": "spec.x" must not validate the schema (not)']],
  ])('of %j against %j reports %j', (value, schema, expected) => {
    expect(lines(value, schema)).toEqual(expected);
  });

  it('does not refuse an update for what was there before', () => {
    const schema: Schema = { type: 'object', properties: { a: { type: 'integer', maximum: 3 }, b: { type: 'integer' } } };
    expect(lines({ a: 9, b: 2 }, schema, { a: 9, b: 1 })).toEqual([]);
    expect(lines({ a: 8, b: 2 }, schema, { a: 9, b: 1 })).toHaveLength(1);
  });

  it('follows items of a list-map by their key, and checks items of other lists again', () => {
    const items: Schema = { type: 'object', properties: { name: { type: 'string' }, n: { type: 'integer', maximum: 3 } } };
    const map: Schema = { type: 'array', 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'], items };
    const old = [{ name: 'a', n: 9 }];
    const now = [
      { name: 'b', n: 1 },
      { name: 'a', n: 9 },
    ];
    expect(lines(now, map, old)).toEqual([]);
    expect(lines(now, { type: 'array', items }, old)).toHaveLength(1);
  });
});

describe('lists', () => {
  it('that are sets contain a value once', () => {
    const schema: Schema = { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } };
    expect(validateLists(['a', 'b', 'a', 'a'], schema, 'tags').map((it) => `${it.field} ${it.message}`)).toEqual([
      'tags[2] Duplicate value: "a"',
    ]);
  });

  it('that are maps contain a key once, also of several fields and wherever they lie', () => {
    const ports: Schema = {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['port', 'protocol'],
      items: { type: 'object' },
    };
    const schema: Schema = { type: 'object', additionalProperties: { type: 'array', items: { type: 'object', properties: { ports } } } };
    const value = { k: [{ ports: [{ port: 1 }, { port: 1, protocol: 'UDP' }, { port: 1 }] }] };
    expect(validateLists(value, schema).map((it) => `${it.field} ${it.message}`)).toEqual(['k[0].ports[2] Duplicate value: {"port":1}']);
    expect(validateLists([1], ports, 'p').map((it) => it.message)).toEqual([
      'Invalid value: 1: must be an object for an array of list-type map',
    ]);
  });
});

describe('types that a struct could not contain', () => {
  it('are named by the field that Go would name', () => {
    const schema: Schema = {
      type: 'object',
      properties: {
        data: { type: 'object', additionalProperties: { type: 'string' } },
        n: { type: 'array', items: { type: 'object', properties: { i: { type: 'integer' } } } },
      },
    };
    expect(typeMismatch({ data: { a: 1 } }, schema)).toEqual({ path: 'data', got: 'number', want: 'string' });
    expect(typeMismatch({ n: [{ i: 'x' }] }, schema)).toMatchObject({ path: 'n.i', want: 'integer' });
    expect(typeMismatch({ data: { a: 'x' }, n: null }, schema)).toBeUndefined();
  });
});
