import { describe, expect, it } from 'vitest';
import { fillDefaults } from './defaults.ts';
import type { Schema } from './schema.ts';

const schema: Schema = {
  type: 'object',
  properties: {
    a: { type: 'string', default: 'x' },
    n: { type: 'string', nullable: true, default: 'x' },
    nest: { type: 'object', default: {}, properties: { deep: { type: 'integer', default: 3 } } },
    omitted: { type: 'object', properties: { deep: { type: 'integer', default: 3 } } },
    list: { type: 'array', items: { type: 'object', properties: { count: { type: 'integer', default: 2 } } } },
    map: { type: 'object', additionalProperties: { type: 'object', properties: { count: { type: 'integer', default: 2 } } } },
  },
};

describe('defaulting', () => {
  it('fills what is absent, from the outside in', () => {
    const value = { list: [{}, { count: 5 }], map: { k: {} } };
    fillDefaults(value, schema);
    expect(value).toEqual({ a: 'x', n: 'x', nest: { deep: 3 }, list: [{ count: 2 }, { count: 5 }], map: { k: { count: 2 } } });
  });

  it('does not make an object to put a default into it', () => {
    const value = {};
    fillDefaults(value, schema);
    expect(value).not.toHaveProperty('omitted');
  });

  it('replaces null where null is not allowed', () => {
    const value = { a: null, n: null };
    fillDefaults(value, schema);
    expect(value).toMatchObject({ a: 'x', n: null });
  });

  it('gives every object a default of its own', () => {
    const [one, two] = [{}, {}] as { nest?: { deep: number } }[];
    fillDefaults(one ?? {}, schema);
    fillDefaults(two ?? {}, schema);
    expect(one?.nest).not.toBe(two?.nest);
  });
});
