import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mergePatch } from './testing/merge-patch.ts';
import { mergeDiff } from './merge-patch.ts';

describe('a merge patch', () => {
  it.each<[string, object | undefined, object, object | undefined]>([
    ['of nothing to nothing', undefined, {}, undefined],
    ['of nothing to something', undefined, { a: 1 }, { a: 1 }],
    ['of equals', { a: 1, b: { c: [1, { d: 2 }] } }, { b: { c: [1, { d: 2 }] }, a: 1 }, undefined],
    ['of another value', { a: 1, b: 2 }, { a: 1, b: 3 }, { b: 3 }],
    ['of a field that goes', { a: 1, b: 2 }, { a: 1 }, { b: null }],
    ['of a field that is undefined, as one that goes', { a: 1, b: 2 }, { a: 1, b: undefined }, { b: null }],
    ['of a field that was undefined, as one that was not there', { a: 1, b: undefined }, { a: 1 }, undefined],
    ['of one field deep inside', { a: { b: 1, c: { d: 1 } } }, { a: { b: 1, c: { d: 2 } } }, { a: { c: { d: 2 } } }],
    ['of a field that goes deep inside', { a: { b: 1, c: 1 } }, { a: { b: 1 } }, { a: { c: null } }],
    ['of a list, whole', { a: [1, 2] }, { a: [1, 3] }, { a: [1, 3] }],
    ['of a list that becomes an object', { a: [1] }, { a: { b: 1 } }, { a: { b: 1 } }],
    ['of an object that becomes a list', { a: { b: 1 } }, { a: [1] }, { a: [1] }],
    ['of keys that every object has', { toString: 1, a: 1 }, { a: 1, constructor: 'x' }, { toString: null, constructor: 'x' }],
    ['of null that becomes an object', { a: null }, { a: { b: 1 } }, { a: { b: 1 } }],
  ])('%s', (_what, from, to, patch) => {
    expect(mergeDiff(from, to)).toEqual(patch);
  });

  it('makes one value from any other, and is empty only for equals', () => {
    const value = fc.letrec((tie) => ({
      object: fc.dictionary(
        fc.constantFrom('a', 'b', 'c'),
        fc.oneof(
          { depthSize: 'small' },
          fc.integer({ min: 0, max: 2 }),
          fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 2 }),
          tie('object'),
        ),
        { noNullPrototype: true },
      ),
    })).object;
    fc.assert(
      fc.property(value, value, (from, to) => {
        const patch = mergeDiff(from, to);
        expect(mergePatch(from, patch ?? {})).toEqual(to);
      }),
    );
  });
});
