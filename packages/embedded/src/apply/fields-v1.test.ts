import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { compareElements, elementText, parseElement } from './element.ts';
import { setOf } from './field-set.ts';
import { decodeFields, encodeFields } from './fields-v1.ts';
import { goJson, quote } from './go-text.ts';
import { compareStrings, compareValues } from './value.ts';

describe('FieldsV1', () => {
  it('sorts fields, then items by keys, then set items by value, then positions', () => {
    const set = setOf([
      ['i:10'],
      ['i:9'],
      ['v:"b"'],
      ['v:10'],
      ['v:9'],
      ['v:true'],
      ['k:{"name":"b"}'],
      ['k:{"name":"a","x":1}'],
      ['k:{"name":"a"}'],
      ['f:b'],
      ['f:B'],
      ['f:a'],
    ]);
    expect(Object.keys(encodeFields(set))).toEqual([
      'f:B',
      'f:a',
      'f:b',
      'k:{"name":"a"}',
      'k:{"name":"a","x":1}',
      'k:{"name":"b"}',
      'v:9',
      'v:10',
      'v:"b"',
      'v:true',
      'i:9',
      'i:10',
    ]);
  });

  it('marks a field with others below as owned itself by a dot in front', () => {
    expect(JSON.stringify(encodeFields(setOf([['f:a', 'f:b'], ['f:a'], ['f:c', 'f:d']])))).toBe(
      '{"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}}}',
    );
  });

  it('reads keys in any spelling', () => {
    expect(parseElement('k:{ "b": 1.0, "a": "\\u0078" }')).toBe('k:{"a":"x","b":1}');
    expect(parseElement('v: "x" ')).toBe('v:"x"');
    expect(parseElement('f:{"')).toBe('f:{"');
    expect(parseElement('i:007')).toBe('i:7');
    expect(parseElement('q:x')).toBeUndefined();
  });

  it.each(['', 'f', 'fx', 'k:[1]', 'k:{', 'v:', 'i:x'])('refuses the path %j', (text) => {
    expect(() => parseElement(text)).toThrow(SyntaxError);
  });

  it.each<[JsonObject, boolean]>([
    [{ 'f:a': { 'f:b': {} }, 'k:{"n":1}': {}, 'v:"x"': {} }, true],
    [{ 'f:b': {}, 'f:a': {} }, false],
    [{ 'f:a': { '.': {} } }, false],
    [{ 'f:a': { 'f:b': {}, '.': {} } }, false],
    [{ '.': {}, 'f:a': {} }, false],
    [{ 'f:a': {}, 'z:x': {} }, false],
    [{ 'v: 1': {} }, false],
  ])('of %j is canonical: %j', (fields, canonical) => {
    const decoded = decodeFields(fields);
    expect(decoded.canonical).toBe(canonical);
    expect(JSON.stringify(encodeFields(decoded.set)) === JSON.stringify(fields)).toBe(canonical);
  });

  const scalar = fc.oneof(fc.string(), fc.integer(), fc.boolean());
  const element = fc.oneof(
    fc.string().map((name) => `f:${name}`),
    fc
      .dictionary(
        fc.string({ unit: 'grapheme-ascii', minLength: 1 }).filter((name) => !/^\d+$/.test(name)),
        scalar,
        { minKeys: 1, maxKeys: 3 },
      )
      .map((keys) => parseElement(`k:${goJson({ ...keys })}`) ?? ''),
    scalar.map((value) => `v:${goJson(value)}`),
    fc.nat().map((index) => `i:${index}`),
  );

  it('survives being written and read', () => {
    fc.assert(
      fc.property(fc.array(fc.array(element, { minLength: 1, maxLength: 4 }), { maxLength: 12 }), (paths) => {
        const set = setOf(paths);
        const { set: again, canonical } = decodeFields(JSON.parse(JSON.stringify(encodeFields(set))) as JsonObject);
        expect(again).toEqual(set);
        expect(canonical).toBe(true);
      }),
    );
  });

  const plain = fc.stringMatching(/^[\w.-]{0,4}$/);

  it('has one order of steps, wherever sorting starts', () => {
    const step = fc.oneof(
      element,
      plain.map((name) => `k:{"name":"${name}"}`),
      plain.map((name) => `v:"${name}"`),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 6 }), (steps) => {
        const sorted = steps.toSorted(compareElements);
        expect(steps.toReversed().toSorted(compareElements)).toEqual(sorted);
        expect(sorted.toSorted(compareElements)).toEqual(sorted);
      }),
    );
  });

  it('orders set items by their values', () => {
    const value = fc.oneof(scalar, plain, fc.integer({ min: 8, max: 12 }));
    fc.assert(
      fc.property(value, value, (a, b) => {
        const steps = Math.sign(compareElements(`v:${goJson(a)}`, `v:${goJson(b)}`));
        expect(steps).toBe(Math.sign(compareValues(a, b)));
      }),
    );
  });
});

describe('text as Go writes it', () => {
  it('escapes what HTML would read, in JSON', () => {
    expect(goJson({ b: '<&>\u2028', a: ['"\\\n\b\f'] })).toBe('{"a":["\\"\\\\\\n\\u0008\\u000c"],"b":"\\u003c\\u0026\\u003e\\u2028"}');
  });

  it('quotes with its own escapes', () => {
    expect(quote('a"\\\n\t\u0007\u0001\u007fé')).toBe('"a\\"\\\\\\n\\t\\a\\x01\\x7fé"');
  });

  it('orders strings by their bytes', () => {
    const strings = ['a', '\u{1F600}', '\uFFFD', 'Z', 'é', '', 'ab'];
    expect(strings.toSorted(compareStrings)).toEqual(strings.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))));
  });

  it.each([
    ['f:a', '.a'],
    ['k:{"name":"x","port":80}', '[name="x",port=80]'],
    ['v:"x\\n"', '[="x\\n"]'],
    ['v:true', '[=true]'],
    ['i:3', '[3]'],
  ])('shows the step %s as %s', (step, shown) => {
    expect(elementText(step)).toBe(shown);
  });
});
