/** Random histories of one object, written by several managers in every way there is. */
import * as fc from 'fast-check';
import type { Json, JsonObject } from '../../src/api/wire.ts';

const text: JsonObject = { type: 'string' };

/** A kind with every sort of list and map that an owner can share or own alone. */
export const SHARES: JsonObject = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'shares.random.io' },
  spec: {
    group: 'random.io',
    scope: 'Namespaced',
    names: { plural: 'shares', singular: 'share', kind: 'Share', listKind: 'ShareList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                properties: {
                  word: text,
                  number: { type: 'integer', default: 1 },
                  nested: {
                    type: 'object',
                    properties: { a: text, b: { type: 'object', properties: { c: text, d: { type: 'integer' } } } },
                  },
                  labels: { type: 'object', additionalProperties: text },
                  whole: { type: 'object', 'x-kubernetes-map-type': 'atomic', properties: { a: text, b: text } },
                  list: { type: 'array', items: text },
                  set: { type: 'array', 'x-kubernetes-list-type': 'set', items: text },
                  ports: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['port', 'protocol'],
                    items: {
                      type: 'object',
                      required: ['port'],
                      properties: {
                        port: { type: 'integer' },
                        protocol: { type: 'string', default: 'TCP' },
                        name: text,
                        tags: { type: 'array', items: text },
                      },
                    },
                  },
                  items: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['name'],
                    items: {
                      type: 'object',
                      'x-kubernetes-map-type': 'atomic',
                      required: ['name'],
                      properties: { name: text, value: text },
                    },
                  },
                  free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
                },
              },
              status: {
                type: 'object',
                properties: {
                  phase: text,
                  conditions: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['type'],
                    items: { type: 'object', required: ['type'], properties: { type: text, status: text, reason: text } },
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};

export interface RandomWrite {
  readonly how: 'apply' | 'force' | 'put' | 'merge' | 'json' | 'status apply' | 'status force' | 'status put' | 'status merge';
  readonly manager: string;
  readonly body: JsonObject;
  readonly pointer: string;
  readonly value: Json;
}

const word = fc.constantFrom('x', 'y');
const some = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<JsonObject> =>
  fc.record(fields, { requiredKeys: [], noNullPrototype: true }) as fc.Arbitrary<JsonObject>;

/** Items with different keys, each with more or less in it. */
function keyed(keys: readonly JsonObject[], more: fc.Arbitrary<JsonObject>): fc.Arbitrary<Json[]> {
  return fc
    .tuple(fc.shuffledSubarray([...keys]), fc.array(more, { minLength: keys.length, maxLength: keys.length }))
    .map(([chosen, rest]) => chosen.map((key, i) => ({ ...rest[i], ...key })));
}

const ports = keyed(
  [{ port: 80 }, { port: 80, protocol: 'UDP' }, { port: 443, protocol: 'TCP' }],
  some({ name: word, tags: fc.array(word, { maxLength: 2 }) }),
);

const spec = some({
  word,
  number: fc.nat(2),
  nested: some({ a: word, b: some({ c: word, d: fc.nat(1) }) }),
  labels: fc.dictionary(fc.constantFrom('a', 'b', 'c'), word, { maxKeys: 2, noNullPrototype: true }),
  whole: some({ a: word, b: word }),
  list: fc.array(word, { maxLength: 2 }),
  set: fc.uniqueArray(fc.constantFrom('p', 'q', 'r'), { maxLength: 3 }),
  ports,
  items: keyed([{ name: 'm' }, { name: 'n' }], some({ value: word })),
  free: some({ a: word, b: some({ c: word }), l: fc.array(word, { maxLength: 2 }) }),
});

const status = some({
  phase: word,
  conditions: keyed([{ type: 'Ready' }, { type: 'Other' }], some({ status: word, reason: word })),
});

// Not empty: the real server keeps an empty map of metadata until the next write, which then changes what no client can see.
const metadata = some({
  labels: fc.dictionary(fc.constantFrom('app', 'tier'), word, { minKeys: 1, maxKeys: 2, noNullPrototype: true }),
  annotations: fc.dictionary(fc.constantFrom('note', 'n.io/x'), word, { minKeys: 1, maxKeys: 2, noNullPrototype: true }),
  finalizers: fc.uniqueArray(fc.constantFrom('f.io/a', 'f.io/b'), { minLength: 1, maxLength: 2 }),
});

const body = fc
  .record({ metadata, spec, status, bare: fc.nat(9) })
  .map(({ bare, ...parts }): JsonObject => (bare === 0 ? { metadata: {} } : parts));

const write: fc.Arbitrary<RandomWrite> = fc.record({
  how: fc.constantFrom<RandomWrite['how']>(
    'apply',
    'apply',
    'apply',
    'force',
    'put',
    'merge',
    'json',
    'status apply',
    'status force',
    'status put',
    'status merge',
  ),
  manager: fc.constantFrom('alpha', 'beta', 'gamma'),
  body,
  pointer: fc.constantFrom('/spec/word', '/spec/nested', '/spec/set', '/spec/ports', '/spec/labels', '/metadata/labels'),
  value: fc.constantFrom<Json>(null, null),
});

export const history: fc.Arbitrary<RandomWrite[]> = fc.array(write, { minLength: 2, maxLength: 7 });
