import { describe, expect, it } from 'vitest';
import { CodedError } from '@kubenode/api-machinery/errors';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { schemaOf } from './index.ts';
import { StoredObject } from './testing/object.ts';

/** What an applier owns of `value` in a field of this schema. */
function owned(field: JsonObject, value: JsonObject[string]): unknown {
  const object = new StoredObject({ field });
  object.apply('a', { field: value });
  return object.owned('a')?.['f:field'];
}

const text = { type: 'string' };

describe('a schema', () => {
  it.each<[string, JsonObject, JsonObject[string], unknown]>([
    ['an object with declared fields', { type: 'object', properties: { a: text } }, { a: 'x' }, { 'f:a': {} }],
    ['an object that declares nothing, free-form', { type: 'object' }, { a: { b: 1 } }, { 'f:a': { '.': {}, 'f:b': {} } }],
    ['a map', { type: 'object', additionalProperties: { type: 'array', items: text } }, { a: ['x'] }, { 'f:a': {} }],
    ['a map of anything', { type: 'object', additionalProperties: true }, { a: [1] }, { 'f:a': {} }],
    ['a granular map', { type: 'object', additionalProperties: text, 'x-kubernetes-map-type': 'granular' }, { a: 'x' }, { 'f:a': {} }],
    ['an atomic map', { type: 'object', additionalProperties: text, 'x-kubernetes-map-type': 'atomic' }, { a: 'x' }, {}],
    ['int-or-string', { 'x-kubernetes-int-or-string': true }, '10%', {}],
    ['anything at all, as a map', { 'x-kubernetes-preserve-unknown-fields': true }, { a: { b: [1] } }, { 'f:a': { '.': {}, 'f:b': {} } }],
    ['anything at all, as a list', { 'x-kubernetes-preserve-unknown-fields': true }, [{ a: 1 }], {}],
    [
      'declared fields beside unknown ones, at any depth below',
      { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: { a: { type: 'object', properties: { b: text } } } },
      { a: { b: 'x', c: 1 }, d: 2 },
      { 'f:a': { 'f:b': {}, 'f:c': {} }, 'f:d': {} },
    ],
    ['a list', { type: 'array', items: { type: 'object' } }, [{ a: 1 }], {}],
    [
      'a list of built-in words',
      {
        type: 'array',
        items: { type: 'object', properties: { name: text } },
        'x-kubernetes-patch-strategy': 'merge',
        'x-kubernetes-patch-merge-key': 'name',
      },
      [{ name: 'x' }],
      { 'k:{"name":"x"}': { '.': {}, 'f:name': {} } },
    ],
    ['a set of built-in words', { type: 'array', items: text, 'x-kubernetes-patch-strategy': 'merge' }, ['x'], { 'v:"x"': {} }],
    [
      'an embedded object',
      { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
      { apiVersion: 'v1', metadata: { finalizers: ['x'] } },
      { 'f:apiVersion': {}, 'f:metadata': { 'f:finalizers': { 'v:"x"': {} } } },
    ],
  ])('knows %s', (_, field, value, fields) => {
    expect(owned(field, value)).toEqual(fields);
  });

  it('at its root may allow unknown fields, but not in metadata', () => {
    const object = new StoredObject({});
    expect(() => object.apply('a', { extra: 1 })).toThrow('.extra: field not declared in schema');
    const schema = schemaOf({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true });
    expect(schema.root.map?.element).toBeDefined();
    expect(schema.root.map?.fields.get('metadata')?.map?.element).toBeUndefined();
  });

  it('checks no type of strings with a format, as the server does', () => {
    expect(owned({ type: 'string', format: 'date-time' }, 5)).toEqual({});
    expect(() => owned({ type: 'string', format: 'byte' }, 5)).toThrow('expected string');
  });

  it('may change: what became atomic is owned whole by each manager that owned part of it', () => {
    const map = { type: 'object', additionalProperties: text };
    const list = { type: 'array', items: text, 'x-kubernetes-list-type': 'set' };
    const object = new StoredObject({ map, list });
    object.apply('a', { map: { x: '1' }, list: ['x'] });
    object.apply('b', { map: { y: '2' } });
    const later = new StoredObject({
      map: { ...map, 'x-kubernetes-map-type': 'atomic' },
      list: { ...list, 'x-kubernetes-list-type': 'atomic' },
    });
    later.live = object.live;
    expect(later.conflicts('c', { map: { z: '3' } }).map(({ manager, field }) => [manager, field])).toEqual([
      ['a', '.map'],
      ['b', '.map'],
    ]);
    later.apply('c', { list: ['x'] });
    expect(later.owned('a')).toEqual({ 'f:list': {}, 'f:map': {} });
  });

  it('may change the other way: each manager that owned the whole still owns it as such', () => {
    const map = { type: 'object', additionalProperties: text };
    const object = new StoredObject({ map: { ...map, 'x-kubernetes-map-type': 'atomic' } });
    object.apply('a', { map: { x: '1' } });
    const later = new StoredObject({ map });
    later.live = object.live;
    later.apply('b', { map: { x: '2' } });
    expect(later.owned('a')).toEqual({ 'f:map': {} });
    expect(later.content()).toEqual({ map: { x: '2' } });
  });

  it.each<[JsonObject, string]>([
    [
      { type: 'array', items: text, 'x-kubernetes-list-type': 'bag' },
      '.field: x-kubernetes-list-type must be atomic, set or map, not "bag"',
    ],
    [
      { type: 'array', items: text, 'x-kubernetes-list-type': 'map' },
      '.field: x-kubernetes-list-map-keys must name at least one field of a list of type map',
    ],
    [{ type: 'object', 'x-kubernetes-map-type': 'loose' }, '.field: x-kubernetes-map-type must be granular or atomic, not "loose"'],
    [{ type: 'array' }, '.field: items must be specified on arrays'],
    [{ type: 'file' }, '.field: type must be object, array, string, integer, number or boolean, not "file"'],
    [{ type: ['string'] }, '.field: type must be one name'],
  ])('%j is refused', (field, message) => {
    const make = () => schemaOf({ type: 'object', properties: { field } });
    expect(make).toThrow(CodedError);
    expect(make).toThrow(message);
  });
});
