import { describe, expect, it } from 'vitest';
import type { Json } from '@kubenode/api-machinery/wire';
import { dropNulls, prune } from './prune.ts';
import type { Schema } from './schema.ts';

const schema: Schema = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        known: { type: 'string' },
        list: { type: 'array', items: { type: 'object', properties: { a: { type: 'string' } } } },
        map: { type: 'object', additionalProperties: { type: 'object', properties: { a: { type: 'string' } } } },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: { shut: { type: 'object', properties: {} } } },
        template: {
          type: 'object',
          'x-kubernetes-embedded-resource': true,
          properties: { spec: { type: 'object', properties: { a: { type: 'string' } } } },
        },
      },
    },
  },
};

function pruned(value: Json): { value: Json; unknown: string[] } {
  const unknown: string[] = [];
  prune(value, schema, '', unknown, true);
  return { value, unknown: unknown.sort() };
}

describe('pruning', () => {
  it('removes what the schema does not name, and reports its paths', () => {
    const object = {
      apiVersion: 'g/v1',
      kind: 'K',
      metadata: { name: 'a', anything: 1 },
      extra: 1,
      spec: { known: 'x', other: 1, list: [{ a: '1', b: '2' }, { c: 3 }], map: { k: { a: '1', b: '2' } } },
    };
    expect(pruned(object)).toEqual({
      value: {
        apiVersion: 'g/v1',
        kind: 'K',
        metadata: { name: 'a', anything: 1 },
        spec: { known: 'x', list: [{ a: '1' }, {}], map: { k: { a: '1' } } },
      },
      unknown: ['extra', 'spec.list[0].b', 'spec.list[1].c', 'spec.map.k.b', 'spec.other'],
    });
  });

  it('keeps everything under preserve-unknown-fields, save below what it names again', () => {
    expect(pruned({ spec: { free: { any: { deep: [1] }, shut: { gone: 1 } } } })).toEqual({
      value: { spec: { free: { any: { deep: [1] }, shut: {} } } },
      unknown: ['spec.free.shut.gone'],
    });
  });

  it('keeps type and metadata of an embedded resource', () => {
    expect(
      pruned({ spec: { template: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { a: '1', b: 2 }, status: {} } } }).value,
    ).toEqual({
      spec: { template: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { a: '1' } } },
    });
  });
});

describe('nulls', () => {
  it('are dropped unless the schema allows them or has a default for them', () => {
    const value = { a: null, b: null, c: null, d: null, list: [null] };
    dropNulls(value, {
      type: 'object',
      properties: {
        a: { type: 'string' },
        b: { type: 'string', nullable: true },
        c: { type: 'string', default: 'x' },
        list: { type: 'array', items: { type: 'string' } },
      },
    });
    expect(value).toEqual({ b: null, c: null, d: null, list: [null] });
  });
});
