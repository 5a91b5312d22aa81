import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '@kubenode/api-machinery/wire';
import { ignoreTimestamps, managerOf, schemaOf, update } from './index.ts';
import { StoredObject, at, freeze } from './testing/object.ts';

const text = { type: 'string' };
const number = { type: 'integer' };
const properties = {
  spec: { type: 'object', properties: { replicas: number, image: text, labels: { type: 'object', additionalProperties: text } } },
  status: { type: 'object', properties: { phase: text } },
};
const thing = () => new StoredObject(properties);

describe('a create', () => {
  it('owns everything set, containers included, and nothing that the server writes', () => {
    const object = thing();
    object.update('kubectl-create', { spec: { replicas: 1 } }, { metadata: { labels: { a: 'b' }, creationTimestamp: null } });
    expect(object.entries).toEqual([
      {
        manager: 'kubectl-create',
        operation: 'Update',
        apiVersion: 'test/v1',
        time: at(0),
        fieldsType: 'FieldsV1',
        fieldsV1: { 'f:metadata': { 'f:labels': { '.': {}, 'f:a': {} } }, 'f:spec': { '.': {}, 'f:replicas': {} } },
      },
    ]);
  });

  it('of a kind whose empty object has a spec does not own the spec as such', () => {
    const object = new StoredObject(properties, { empty: { spec: {}, status: {} } });
    object.update('kubectl-create', { spec: { replicas: 1 }, status: {} });
    expect(object.owned('kubectl-create', 'Update')).toEqual({ 'f:spec': { 'f:replicas': {} } });
  });

  it('without a name is unknown', () => {
    const object = thing();
    object.update('', { spec: { replicas: 1 } });
    expect(object.entries[0]?.manager).toBe('unknown');
  });
});

describe('an update', () => {
  it('takes what it changes and adds, from appliers too, and never conflicts', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, labels: { a: '1' } } });
    object.update('kubectl-edit', { spec: { replicas: 2, labels: { a: '1', b: '2' } } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:labels': { 'f:a': {} } } });
    expect(object.owned('kubectl-edit', 'Update')).toEqual({ 'f:spec': { 'f:labels': { 'f:b': {} }, 'f:replicas': {} } });
    expect(object.entries.map(({ manager, time }) => [manager, time])).toEqual([
      ['sync', at(0)],
      ['kubectl-edit', at(1)],
    ]);
  });

  it('takes what it removes from everyone', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, image: 'a' } });
    object.update('other', { spec: { replicas: 1, image: 'a', labels: { x: '1' } } });
    object.update('kubectl-edit', { spec: { image: 'a' } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:image': {} } });
    expect(object.entries.map(({ manager }) => manager)).toEqual(['sync']);
  });

  it('that changes nothing leaves owners and times as they are', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1 } });
    const before = object.entries;
    object.update('kubectl-edit', { spec: { replicas: 1 } });
    expect(object.entries).toEqual(before);
  });

  it('adds to what its manager owned before, and renews the time', () => {
    const object = thing();
    object.update('controller', { spec: { replicas: 1 } });
    object.update('controller', { spec: { replicas: 1, image: 'a' } });
    object.update('controller', { spec: { replicas: 1, image: 'b' } });
    expect(object.owned('controller', 'Update')).toEqual({ 'f:spec': { '.': {}, 'f:image': {}, 'f:replicas': {} } });
    expect(object.entries[0]?.time).toBe(at(2));
  });

  it('through a subresource is an entry of its own, without the fields that it cannot change', () => {
    const object = thing();
    object.update('controller', { spec: { replicas: 1 } });
    object.update(
      'controller',
      { spec: { replicas: 5 }, status: { phase: 'Running' } },
      { subresource: 'status', resetFields: ['metadata', 'spec'] },
    );
    expect(object.owned('controller', 'Update')).toEqual({ 'f:spec': { '.': {}, 'f:replicas': {} } });
    expect(object.owned('controller', 'Update', 'status')).toEqual({ 'f:status': { '.': {}, 'f:phase': {} } });
  });

  it('keeps entries of another version of the API, which own fields like any other', () => {
    const older = {
      manager: 'old',
      operation: 'Update',
      apiVersion: 'test/v1alpha9',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:spec': { 'f:replicas': {} } },
    };
    const object = thing();
    object.update('x', { spec: { replicas: 1, image: 'a' } });
    object.update('x', { spec: { replicas: 1, image: 'a' } }, { metadata: { managedFields: [older] } });
    object.update('old', { spec: { replicas: 1, image: 'b' } });
    expect(object.entries.map(({ apiVersion, manager, fieldsV1 }) => [manager, apiVersion, fieldsV1])).toEqual([
      ['old', 'test/v1alpha9', { 'f:spec': { 'f:replicas': {} } }],
      ['old', 'test/v1', { 'f:spec': { 'f:image': {} } }],
    ]);
    expect(object.conflicts('sync', { spec: { replicas: 2 } })[0]?.message).toBe('conflict with "old" using test/v1alpha9');
  });

  it('of an object that does not fit its schema leaves the owners alone', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1 } });
    const before = object.entries;
    object.update('x', { spec: { replicas: 'many' } });
    expect(object.content()).toEqual({ spec: { replicas: 'many' } });
    expect(object.entries).toEqual(before);
  });
});

describe('managedFields that the user sends', () => {
  it.each([{ given: [] }, { given: [{}] }])('as $given forget all owners, and updates stay untracked until the next apply', ({ given }) => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1 } });
    object.update('admin', { spec: { replicas: 1 } }, { metadata: { managedFields: given } });
    expect(object.entries).toEqual([]);
    object.update('kubectl-edit', { spec: { replicas: 2 } });
    expect(object.entries).toEqual([]);
    object.apply('sync', { spec: { replicas: 2 } });
    expect(object.entries.map(({ manager }) => manager).sort()).toEqual(['before-first-apply', 'sync']);
  });

  it('replace those that stand, in the server’s spelling', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, image: 'a' } });
    const given = {
      manager: 'admin',
      operation: 'Apply',
      apiVersion: 'test/v1',
      subresource: '',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'x:later': {}, 'f:spec': { 'f:replicas': { '.': {} }, 'f:image': {} } },
    };
    object.update('admin', { spec: { replicas: 1, image: 'a' } }, { metadata: { managedFields: [given] } });
    expect(JSON.stringify(object.entries)).toBe(
      '[{"manager":"admin","operation":"Apply","apiVersion":"test/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:image":{},"f:replicas":{}}}}]',
    );
  });

  const entry = { manager: 'a', operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: {} };
  it.each<{ given: Json; because: string }>([
    { given: 'nonsense', because: 'they are no list' },
    { given: ['nonsense'], because: 'an entry is no object' },
    { given: [{ ...entry, fieldsType: 'FieldsV2' }], because: 'their format is unknown' },
    { given: [{ ...entry, apiVersion: '' }], because: 'a version is missing' },
    { given: [{ ...entry, fieldsV1: { 'k:{': {} } }], because: 'a path is broken' },
    { given: [{ ...entry, fieldsV1: { f: {} } }], because: 'a path is too short' },
    { given: [{ ...entry, fieldsV1: { 'f:a': 1 } }], because: 'below a path there is no object' },
    { given: [{ ...entry, fieldsV1: 'f:a' }], because: 'fields are no object' },
    { given: [{ ...entry, time: 'now' }], because: 'a time is broken' },
    { given: [{ ...entry, manager: 1 }], because: 'a manager has no name' },
  ])('count for nothing when $because', ({ given }) => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1 } });
    const before = object.entries;
    object.update('admin', { spec: { replicas: 1 } }, { metadata: { managedFields: given } });
    expect(object.entries).toEqual(before);
  });

  it('count for nothing through a subresource', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1 } });
    const before = object.entries;
    object.update('admin', { spec: { replicas: 1 } }, { subresource: 'status', metadata: { managedFields: [] } });
    expect(object.entries).toEqual(before);
  });
});

describe('updaters beyond ten', () => {
  it('are folded, the oldest first, into ancient-changes', () => {
    const object = thing();
    const labels: Record<string, string> = {};
    for (let i = 0; i < 12; i++) {
      labels[`l${i}`] = 'x';
      object.update(`m${i}`, { spec: { labels: { ...labels } } });
    }
    expect(object.entries.map(({ manager }) => manager)).toEqual(['ancient-changes', ...Array.from({ length: 9 }, (_, i) => `m${i + 3}`)]);
    expect(object.owned('ancient-changes', 'Update')).toEqual({
      'f:spec': { '.': {}, 'f:labels': { '.': {}, 'f:l0': {}, 'f:l1': {}, 'f:l2': {} } },
    });
    expect(object.entries[0]?.time).toBe(at(2));
  });

  it('do not count appliers', () => {
    const object = thing();
    for (let i = 0; i < 12; i++) object.apply(`m${i}`, { spec: { labels: { [`l${i}`]: 'x' } } });
    expect(object.entries).toHaveLength(12);
  });
});

describe('times', () => {
  const before = freeze({ metadata: { name: 'a', managedFields: [{ manager: 'm', time: at(0) }] }, spec: { a: [1] } });

  it('alone do not make another object', () => {
    const after = freeze({ metadata: { name: 'a', managedFields: [{ manager: 'm', time: at(1) }] }, spec: { a: [1] } });
    expect(ignoreTimestamps(before, after)).toBe(before);
  });

  it.each([
    { metadata: { name: 'a', managedFields: [{ manager: 'm', time: at(1) }] }, spec: { a: [2] } },
    { metadata: { name: 'a', managedFields: [{ manager: 'n', time: at(1) }] }, spec: { a: [1] } },
    { metadata: { name: 'a', managedFields: [{ manager: 'm', time: at(1) }, { manager: 'n' }] }, spec: { a: [1] } },
    { metadata: { name: 'a', labels: {}, managedFields: [{ manager: 'm', time: at(1) }] }, spec: { a: [1] } },
    { metadata: { name: 'a' }, spec: { a: [1] } },
  ])('count with any other change', (after) => {
    expect(ignoreTimestamps(before, freeze(after))).toBe(after);
  });
});

describe('the manager of a request', () => {
  it.each([
    ['sync', 'kubectl/v1.34', 'sync'],
    [undefined, 'kubectl/v1.34 (linux/amd64)', 'kubectl'],
    ['', 'Mozilla', 'Mozilla'],
    [undefined, undefined, ''],
    [undefined, 'a\u0000b\u200bc', 'abc'],
    [undefined, 'é'.repeat(100), 'é'.repeat(64)],
  ])('%j with the agent %j is %j', (name, agent, manager) => {
    expect(managerOf(name, agent)).toBe(manager);
  });
});

describe('what is handed in', () => {
  it('is shared with the result where nothing changed', () => {
    const schema = schemaOf({ type: 'object', properties });
    const updated: JsonObject = freeze({ apiVersion: 'test/v1', kind: 'Thing', metadata: { name: 'a' }, spec: { labels: { a: 'b' } } });
    const object = update({ live: undefined, updated, manager: 'x', schema, now: at(0) });
    expect(object['spec']).toBe(updated['spec']);
  });
});
