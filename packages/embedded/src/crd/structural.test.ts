import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { checkStructural } from './structural.ts';

const property = (schema: Json): JsonObject => ({ type: 'object', properties: { a: schema } });
const complaints = (schema: Json) => checkStructural(schema, 's').map(({ field, message }) => `${field}: ${message}`);

describe('a structural schema', () => {
  it.each([
    [{ type: 'object' }],
    [{ type: 'object', 'x-kubernetes-preserve-unknown-fields': true }],
    [property({ 'x-kubernetes-int-or-string': true })],
    [property({ 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, { type: 'string' }], pattern: '^x$', minimum: 0 })],
    [property({ 'x-kubernetes-int-or-string': true, allOf: [{ anyOf: [{ type: 'integer' }, { type: 'string' }] }, { minimum: 1 }] })],
    [property({ type: 'integer', anyOf: [{ minimum: 1 }, { maximum: 0 }], default: 3 })],
    [
      property({
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['n'],
        items: { type: 'object', required: ['n'], properties: { n: { type: 'string' } } },
      }),
    ],
    [property({ type: 'object', additionalProperties: { type: 'string' } })],
    [property({ 'x-kubernetes-preserve-unknown-fields': true })],
  ] as [Json][])('may be %j', (schema) => {
    expect(complaints(schema)).toEqual([]);
  });

  it.each([
    [{}, 's.type: Required value: must not be empty at the root'],
    [{ type: 'array', items: { type: 'string' } }, 'must be object at the root'],
    [property({}), 's.properties[a].type: Required value: must not be empty for specified object fields'],
    [property({ type: 'array', items: {} }), 's.properties[a].items.type: Required value: must not be empty for specified array items'],
    [property({ type: 'array' }), 's.properties[a].items: Required value'],
    [property({ type: 'text' }), 's.properties[a].type: Unsupported value: "text"'],
    [property({ 'x-kubernetes-int-or-string': true, type: 'integer' }), 'must be empty if x-kubernetes-int-or-string is true'],
    [
      property({ 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer', minimum: 0 }, { type: 'string' }] }),
      's.properties[a].anyOf[0].type: Forbidden: must be empty to be structural',
    ],
    [property({ type: 'string', $ref: '#/x' }), 's.properties[a].$ref: Forbidden'],
    [property({ type: 'string', pattern: '(' }), 's.properties[a].pattern: Invalid value'],
    [property({ type: 'array', items: { type: 'string' }, uniqueItems: true }), 's.properties[a].uniqueItems: Invalid value'],
    [property({ type: 'object', properties: {}, additionalProperties: { type: 'string' } }), 'mutual exclusive'],
    [property({ type: 'object', additionalProperties: false }), 's.properties[a].additionalProperties: Forbidden'],
    [
      property({ type: 'array', 'x-kubernetes-list-type': 'map', items: { type: 'object' } }),
      'must not be empty if x-kubernetes-list-type is map',
    ],
    [
      property({
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['n'],
        items: { type: 'object', properties: { n: { type: 'string' } } },
      }),
      'must have a default or be a required property',
    ],
    [property({ type: 'integer', default: 'x' }), 's.properties[a].default: Invalid value: "x": must be valid'],
    [property({ type: 'integer', minimum: '1' }), 's.properties[a].minimum: Invalid value'],
    [property('x'), 's.properties[a]: Invalid value: "x": must be a schema'],
  ] as [Json, string][])('may not be %j', (schema, complaint) => {
    expect(complaints(schema).join('\n')).toContain(complaint);
  });
});
