import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { duplicateFields } from './duplicates.ts';

describe('fields that are given twice', () => {
  it.each([
    ['{"a":1,"a":2,"a":3}', ['a']],
    ['{"a":{"b":1,"b":1},"c":[{"d":1},{"d":1,"d":2}]}', ['a.b', 'c[1].d']],
    ['[{"a":1,"a":2},"a",{"x":["a","a"]}]', ['[0].a'.slice(1)]],
    [String.raw`{"a\"":1,"a":2,"\u0061":3,"b\\":1,"b":"a\\"}`, ['a']],
    ['{"a":"{\\"a\\":1,\\"a\\":2}","b":"a,b:c"}', []],
    ['{}', []],
    ['"a"', []],
  ])('of %s are %s', (text, paths) => {
    expect(duplicateFields(text)).toEqual(paths);
  });

  it('are none in what JSON.stringify writes', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(0, 2), (value, indent) => {
        expect(duplicateFields(JSON.stringify(value, null, indent))).toEqual([]);
      }),
    );
  });
});
