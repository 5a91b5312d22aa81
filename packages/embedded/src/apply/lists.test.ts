import { describe, expect, it } from 'vitest';
import { CodedError } from '@kubenode/api-machinery/errors';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { StoredObject } from './testing/object.ts';

const text = { type: 'string' };
const number = { type: 'integer' };
const ports = {
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['port', 'protocol'],
  items: { type: 'object', properties: { port: number, protocol: { type: 'string', default: 'TCP' }, name: text } },
};
const conditions = {
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['type'],
  items: { type: 'object', properties: { type: text, status: text, message: text } },
};
const whole = {
  type: 'array',
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': ['name'],
  items: { type: 'object', 'x-kubernetes-map-type': 'atomic', properties: { name: text, version: text } },
};
const properties = {
  ports,
  conditions,
  whole,
  tags: { type: 'array', 'x-kubernetes-list-type': 'set', items: text },
  numbers: { type: 'array', 'x-kubernetes-list-type': 'set', items: number },
  steps: { type: 'array', items: text },
};

const thing = () => new StoredObject(properties);

const named = (...types: string[]) => types.map((type) => ({ type }));

const owner = (uid: string, name: string) => ({ apiVersion: 'v1', kind: 'Node', name, uid });

const ready = (status: string, more: JsonObject = {}) => ({ type: 'Ready', status, ...more });

describe('a keyed list', () => {
  it('is owned item by item, each item also as such', () => {
    const object = thing();
    object.apply('agent', { conditions: [ready('True')] });
    object.apply('doctor', { conditions: [{ type: 'Disk', status: 'False' }] });
    expect(object.owned('agent')).toEqual({ 'f:conditions': { 'k:{"type":"Ready"}': { '.': {}, 'f:status': {}, 'f:type': {} } } });
    expect(object.content()).toEqual({ conditions: [ready('True'), { type: 'Disk', status: 'False' }] });
  });

  it('names its items by their keys in a conflict', () => {
    const object = thing();
    object.apply('agent', { conditions: [ready('True')] });
    expect(object.conflicts('doctor', { conditions: [ready('False')] }).map(({ field }) => field)).toEqual([
      '.conditions[type="Ready"].status',
    ]);
  });

  it('loses the item that its only applier drops, and keeps what others wrote into a shared one', () => {
    const object = thing();
    object.apply('agent', { conditions: [ready('True'), { type: 'Disk', status: 'True' }] });
    object.apply('doctor', { conditions: [{ type: 'Disk', message: 'seen' }] });
    object.apply('agent', { conditions: [] });
    expect(object.content()).toEqual({ conditions: [{ type: 'Disk', message: 'seen' }] });
    object.apply('doctor', {});
    expect(object.content()).toEqual({});
  });

  it('takes a key that is left out as its default', () => {
    const object = thing();
    object.apply('sync', { ports: [{ port: 80 }] });
    object.apply('hub', {
      ports: [
        { port: 80, protocol: 'TCP', name: 'web' },
        { port: 80, protocol: 'UDP' },
      ],
    });
    expect(object.content()).toEqual({
      ports: [
        { port: 80, protocol: 'TCP', name: 'web' },
        { port: 80, protocol: 'UDP' },
      ],
    });
    expect(Object.keys(object.owned('sync')?.['f:ports'] ?? {})).toEqual(['k:{"port":80,"protocol":"TCP"}']);
  });

  it('of atomic items owns and replaces each item whole', () => {
    const object = thing();
    object.apply('sync', { whole: [{ name: 'kubelet', version: '1' }] });
    expect(object.owned('sync')).toEqual({ 'f:whole': { 'k:{"name":"kubelet"}': {} } });
    object.apply('hub', { whole: [{ name: 'kubelet' }] }, { force: true });
    expect(object.content()).toEqual({ whole: [{ name: 'kubelet' }] });
    expect(object.owned('sync')).toBeUndefined();
  });

  it('keeps the order that the applied list asks for, and the position of what it does not name', () => {
    const object = thing();
    object.apply('agent', { conditions: named('a', 'b', 'c', 'd') });
    object.apply('doctor', { conditions: named('d', 'x', 'b') });
    expect(object.content()).toEqual({ conditions: named('a', 'c', 'd', 'x', 'b') });
  });
});

describe('a set', () => {
  it('is owned value by value', () => {
    const object = thing();
    object.apply('sync', { tags: ['a', 'b'], numbers: [10, 9] });
    object.apply('hub', { tags: ['b', 'c'] });
    expect(object.content()).toEqual({ tags: ['a', 'b', 'c'], numbers: [10, 9] });
    object.apply('sync', { tags: ['a'], numbers: [10, 9] });
    expect(object.content()).toEqual({ tags: ['a', 'b', 'c'], numbers: [10, 9] });
    object.apply('hub', {});
    expect(object.content()).toEqual({ tags: ['a'], numbers: [10, 9] });
    expect(JSON.stringify(object.owned('sync'))).toBe('{"f:numbers":{"v:9":{},"v:10":{}},"f:tags":{"v:\\"a\\"":{}}}');
  });

  it('that is applied empty owns nothing', () => {
    const object = thing();
    object.apply('sync', { tags: [] });
    expect(object.content()).toEqual({ tags: [] });
    expect(object.entries).toEqual([]);
  });
});

describe('a list without a type', () => {
  it('is owned and replaced whole', () => {
    const object = thing();
    object.apply('sync', { steps: ['a', 'b'] });
    expect(object.owned('sync')).toEqual({ 'f:steps': {} });
    expect(object.conflicts('hub', { steps: ['a'] }).map(({ field }) => field)).toEqual(['.steps']);
    object.apply('hub', { steps: [] }, { force: true });
    expect(object.content()).toEqual({ steps: [] });
    expect(object.owned('hub')).toEqual({ 'f:steps': {} });
  });
});

describe('items that stand twice', () => {
  it.each<[JsonObject, string]>([
    [{ conditions: [ready('True'), ready('False')] }, '.conditions: duplicate entries for key [type="Ready"]'],
    [{ ports: [{ port: 80 }, { port: 80, protocol: 'TCP' }] }, '.ports: duplicate entries for key [port=80,protocol="TCP"]'],
    [{ tags: ['a', 'a'] }, '.tags: duplicate entries for key [="a"]'],
  ])('are refused in %j', (content, words) => {
    const apply = () => thing().apply('sync', content);
    expect(apply).toThrow(CodedError);
    expect(apply).toThrow(`failed to create typed patch object (/thing; test/v1, Kind=Thing): ${words}`);
  });

  it('may stand in the live object, owned as one; what is applied to them replaces them', () => {
    const object = thing();
    object.update('old', { conditions: [ready('True'), ready('False')], tags: ['a', 'a'] });
    expect(object.owned('old', 'Update')).toEqual({
      'f:conditions': { '.': {}, 'k:{"type":"Ready"}': {} },
      'f:tags': { '.': {}, 'v:"a"': {} },
    });
    object.apply('sync', { conditions: [ready('Unknown')] }, { force: true });
    expect(object.content()).toEqual({ conditions: [ready('Unknown')], tags: ['a', 'a'] });
  });
});

describe('items without a position', () => {
  it.each<[JsonObject, string]>([
    [
      { conditions: [{ status: 'True' }] },
      `.conditions: element 0: associative list with keys has an element that omits all key fields ["type"] (and doesn't have default values for any key fields)`,
    ],
    [{ conditions: [null] }, '.conditions: element 0: associative list with keys may not have a null element'],
    [{ conditions: ['Ready'] }, '.conditions: element 0: associative list with keys may not have non-map elements'],
    [{ tags: [null] }, `.tags: element 0: associative list without keys has an element that's an explicit null`],
    [{ tags: [{}] }, `.tags: element 0: associative list without keys has an element that's a map type`],
    [{ tags: [[]] }, '.tags: element 0: not supported: associative list with lists as elements'],
    [{ steps: [1] }, '.steps[0]: expected string, got &value.valueUnstructured{Value:1}'],
  ])('are refused in %j', (content, words) => {
    expect(() => thing().apply('sync', content)).toThrow(`failed to create typed patch object (/thing; test/v1, Kind=Thing): ${words}`);
  });
});

describe('metadata', () => {
  it('has finalizers as a set and owners by uid, each owner whole', () => {
    const object = thing();
    object.apply('sync', {}, { metadata: { finalizers: ['a/a'], ownerReferences: [owner('1', 'n')] } });
    object.apply('hub', {}, { metadata: { finalizers: ['b/b'], ownerReferences: [owner('2', 'm')] } });
    expect(object.live?.['metadata']).toMatchObject({ finalizers: ['a/a', 'b/b'], ownerReferences: [owner('1', 'n'), owner('2', 'm')] });
    expect(object.owned('sync')).toEqual({
      'f:metadata': { 'f:finalizers': { 'v:"a/a"': {} }, 'f:ownerReferences': { 'k:{"uid":"1"}': {} } },
    });
  });
});
