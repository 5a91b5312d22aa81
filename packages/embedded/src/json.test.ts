import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '@kubenode/api-machinery/wire';
import { copy, equal, shown } from './json.ts';

const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>;

describe('JSON', () => {
  it('is equal to its copy, which shares nothing with it', () => {
    fc.assert(
      fc.property(json, (value) => {
        const other = copy(value);
        expect(equal(value, other)).toBe(true);
        expect(JSON.stringify(other)).toBe(JSON.stringify(value));
        expect(other === value).toBe(typeof value !== 'object' || value === null);
      }),
    );
  });

  it('is compared without regard to the order of keys', () => {
    expect(equal({ a: 1, b: [1, { c: 2, d: 3 }] }, { b: [1, { d: 3, c: 2 }], a: 1 })).toBe(true);
  });

  it.each([
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: 1, b: 2 }, { a: 1 }],
    [
      [1, 2],
      [2, 1],
    ],
    [[], {}],
    [null, {}],
    ['1', 1],
    [{ a: null }, {}],
  ] satisfies [Json, Json][])('distinguishes %j from %j', (a, b) => {
    expect(equal(a, b)).toBe(false);
  });

  it('prints text as it is and the rest as JSON', () => {
    expect([shown('a'), shown(1), shown({ a: true }), shown(undefined)]).toEqual(['a', '1', '{"a":true}', '']);
  });
});
