import { describe, expect, it } from 'vitest';
import { CodedError } from '@kubenode/api-machinery/errors';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { apply, conflictMessage, schemaOf } from './index.ts';
import { StoredObject, at } from './testing/object.ts';

const text = { type: 'string' };
const number = { type: 'integer' };
const properties = {
  spec: {
    type: 'object',
    properties: {
      replicas: number,
      image: text,
      labels: { type: 'object', additionalProperties: text },
      strategy: { type: 'object', properties: { kind: text, surge: { 'x-kubernetes-int-or-string': true } } },
      color: { type: 'object', 'x-kubernetes-map-type': 'atomic', properties: { r: number, g: number } },
      values: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    },
  },
  status: { type: 'object', properties: { phase: text, ready: number } },
};

const thing = () => new StoredObject(properties);

function refusal(action: () => unknown): CodedError {
  try {
    action();
  } catch (error) {
    if (error instanceof CodedError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

const refused = (content: JsonObject, metadata: JsonObject = {}) =>
  refusal(() => thing().apply('sync', content, { metadata: { namespace: 'web', ...metadata } }));

describe('a first apply', () => {
  it('creates the object and owns every field that it names', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, strategy: { kind: 'Rolling' } } }, { metadata: { labels: { app: 'web' } } });
    expect(object.content()).toEqual({ spec: { replicas: 1, strategy: { kind: 'Rolling' } } });
    expect(object.entries).toEqual([
      {
        manager: 'sync',
        operation: 'Apply',
        apiVersion: 'test/v1',
        time: at(0),
        fieldsType: 'FieldsV1',
        fieldsV1: {
          'f:metadata': { 'f:labels': { 'f:app': {} } },
          'f:spec': { 'f:replicas': {}, 'f:strategy': { 'f:kind': {} } },
        },
      },
    ]);
  });

  it('on an object without managers leaves what is there to before-first-apply, which conflicts like any other', () => {
    const object = thing();
    object.live = { ...object.body({ spec: { replicas: 1, image: 'a' } }), metadata: { name: 'thing', uid: 'u1' } };
    expect(object.conflicts('sync', { spec: { replicas: 2 } })).toEqual([
      { manager: 'before-first-apply', field: '.spec.replicas', message: 'conflict with "before-first-apply" using test/v1' },
    ]);
    object.apply('sync', { spec: { replicas: 2 } }, { force: true });
    expect(object.owned('before-first-apply', 'Update')).toEqual({ 'f:spec': { '.': {}, 'f:image': {} } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:replicas': {} } });
  });

  it('never owns what identifies the object or the server writes', () => {
    const object = thing();
    const metadata = {
      namespace: 'web',
      uid: 'u1',
      resourceVersion: '7',
      generation: 3,
      creationTimestamp: null,
      selfLink: '/x',
      finalizers: ['a/b'],
    };
    object.apply('sync', { spec: { replicas: 1 } }, { metadata });
    expect(object.owned('sync')).toEqual({ 'f:metadata': { 'f:finalizers': { 'v:"a/b"': {} } }, 'f:spec': { 'f:replicas': {} } });
  });

  it('without a manager name is unknown', () => {
    const object = thing();
    object.apply('', { spec: { replicas: 1 } });
    expect(object.entries.map(({ manager }) => manager)).toEqual(['unknown']);
  });
});

describe('an apply that changes nothing', () => {
  it('gives back the live object itself, times and all', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, image: 'a' } });
    const before = object.live;
    object.apply('sync', { spec: { image: 'a', replicas: 1 } });
    expect(object.live).toBe(before);
  });

  it('by someone else shares the fields; the new entry has no time, as on the server', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, image: 'a' } });
    object.apply('hub', { spec: { replicas: 1 } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:image': {}, 'f:replicas': {} } });
    expect(object.owned('hub')).toEqual({ 'f:spec': { 'f:replicas': {} } });
    expect(object.entries.map(({ manager, time }) => [manager, time])).toEqual([
      ['hub', undefined],
      ['sync', at(0)],
    ]);
  });

  it('but gives up a field that another one owns keeps its time', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, image: 'a' } });
    object.apply('hub', { spec: { replicas: 1 } });
    object.apply('sync', { spec: { image: 'a' } });
    expect(object.content()).toEqual({ spec: { replicas: 1, image: 'a' } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:image': {} } });
    expect(object.entries.find(({ manager }) => manager === 'sync')?.time).toBe(at(0));
  });
});

describe('a conflict', () => {
  it('names manager, field and kind of write, and changes nothing', () => {
    const object = thing();
    object.update('kubectl-edit', { spec: { replicas: 3, strategy: { kind: 'Recreate' } } });
    const before = object.live;
    const conflicts = object.conflicts('sync', { spec: { replicas: 1, strategy: { kind: 'Rolling' } } });
    expect(conflicts).toEqual([
      { manager: 'kubectl-edit', field: '.spec.replicas', message: 'conflict with "kubectl-edit" using test/v1' },
      { manager: 'kubectl-edit', field: '.spec.strategy.kind', message: 'conflict with "kubectl-edit" using test/v1' },
    ]);
    expect(object.live).toBe(before);
  });

  it('does not arise for a value that is the same', () => {
    const object = thing();
    object.update('kubectl-edit', { spec: { replicas: 3 } });
    object.apply('sync', { spec: { replicas: 3 } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:replicas': {} } });
    expect(object.owned('kubectl-edit', 'Update')).toEqual({ 'f:spec': { '.': {}, 'f:replicas': {} } });
  });

  it('arises between an apply and an update of one name', () => {
    const object = thing();
    object.update('sync', { spec: { replicas: 3 } });
    expect(object.conflicts('sync', { spec: { replicas: 1 } })).toHaveLength(1);
  });

  it('with force goes to the applier; the others keep the rest', () => {
    const object = thing();
    object.apply('hub', { spec: { replicas: 1, image: 'a' } });
    object.apply('sync', { spec: { replicas: 2 } }, { force: true });
    expect(object.content()).toEqual({ spec: { replicas: 2, image: 'a' } });
    expect(object.owned('hub')).toEqual({ 'f:spec': { 'f:image': {} } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:replicas': {} } });
  });

  it('with force forgets a manager that has nothing left', () => {
    const object = thing();
    object.apply('hub', { spec: { replicas: 1 } });
    object.apply('sync', { spec: { replicas: 2 } }, { force: true });
    expect(object.entries.map(({ manager }) => manager)).toEqual(['sync']);
  });

  it('reads as one line, or as a list by manager', () => {
    const object = thing();
    object.apply('a"b', { spec: { replicas: 1 } });
    expect(conflictMessage(object.conflicts('sync', { spec: { replicas: 2 } }))).toBe(
      'Apply failed with 1 conflict: conflict with "a\\"b": .spec.replicas',
    );
    object.update('agent', { spec: { replicas: 1, image: 'a' } }, { subresource: 'scale' });
    expect(conflictMessage(object.conflicts('sync', { spec: { replicas: 2, image: 'b' } }))).toBe(
      'Apply failed with 2 conflicts: conflicts with "a\\"b":\n- .spec.replicas\n' +
        'conflicts with "agent" with subresource "scale" using test/v1:\n- .spec.image',
    );
  });
});

describe('giving up a field', () => {
  it('removes it when no other manager owns it', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, image: 'a' } });
    object.apply('sync', { spec: { image: 'a' } });
    expect(object.content()).toEqual({ spec: { image: 'a' } });
    expect(object.entries[0]?.time).toBe(at(1));
  });

  it('leaves it when another applier or an updater owns it', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, image: 'a', labels: { x: '1' } } });
    object.apply('hub', { spec: { replicas: 1 } });
    object.update('kubectl-edit', { spec: { replicas: 1, image: 'b', labels: { x: '1' } } });
    object.apply('sync', { spec: {} });
    expect(object.content()).toEqual({ spec: { replicas: 1, image: 'b' } });
  });

  it('removes the container with its last field, but not one that others own or no manager applied', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, labels: { a: '1' }, strategy: { kind: 'Rolling' } } });
    object.update('defaulting', { spec: { replicas: 1, labels: { a: '1' }, strategy: { kind: 'Rolling', surge: '10%' } } });
    object.apply('sync', { spec: { replicas: 1 } });
    expect(object.content()).toEqual({ spec: { replicas: 1, strategy: { surge: '10%' } } });
  });

  it('keeps what was put beside it without an owner', () => {
    const object = thing();
    object.apply('sync', { spec: { labels: { a: '1', b: '2' } } });
    // As the server stores a default: no manager owns it.
    object.live = { ...object.live, spec: { labels: { a: '1', b: '2', c: '3' } } };
    object.apply('sync', { spec: { labels: { a: '1' } } });
    expect(object.content()).toEqual({ spec: { labels: { a: '1', c: '3' } } });
  });

  it('takes fields without an owner along when the container goes, as on the server', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1, strategy: { kind: 'Rolling' } } });
    object.live = { ...object.live, spec: { replicas: 1, strategy: { kind: 'Rolling', surge: 1 } } };
    object.apply('sync', { spec: { replicas: 1 } });
    expect(object.content()).toEqual({ spec: { replicas: 1 } });
  });

  it('leaves null where the container itself is still applied, empty, as on the server', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1 } });
    object.apply('sync', { spec: {} });
    expect(object.content()).toEqual({ spec: null });
  });

  it('of everything forgets the applier', () => {
    const object = thing();
    object.apply('sync', { spec: { replicas: 1 } });
    object.apply('sync', {});
    expect(object.content()).toEqual({});
    expect(object.entries).toEqual([]);
  });
});

describe('maps', () => {
  it('are owned key by key', () => {
    const object = thing();
    object.apply('sync', { spec: { labels: { a: '1' } } });
    object.apply('hub', { spec: { labels: { b: '2' } } });
    object.apply('sync', { spec: { labels: { c: '3' } } });
    expect(object.content()).toEqual({ spec: { labels: { b: '2', c: '3' } } });
  });

  it('that are atomic are replaced whole and owned by one', () => {
    const object = thing();
    object.apply('sync', { spec: { color: { r: 1, g: 2 } } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:color': {} } });
    expect(object.conflicts('hub', { spec: { color: { r: 1 } } }).map(({ field }) => field)).toEqual(['.spec.color']);
    object.apply('hub', { spec: { color: { r: 1 } } }, { force: true });
    expect(object.content()).toEqual({ spec: { color: { r: 1 } } });
  });

  it('of free form take their shape from the value: maps by key, lists whole', () => {
    const object = thing();
    object.apply('sync', { spec: { values: { a: { b: 1 }, list: [1, 2] } } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:values': { 'f:a': { '.': {}, 'f:b': {} }, 'f:list': {} } } });
    object.apply('hub', { spec: { values: { a: { c: 2 } } } });
    expect(object.content()).toEqual({ spec: { values: { a: { b: 1, c: 2 }, list: [1, 2] } } });
  });

  it('that are empty are owned as such', () => {
    const object = thing();
    object.apply('sync', { spec: { labels: {} } });
    expect(object.content()).toEqual({ spec: { labels: {} } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:labels': {} } });
  });

  it('do not take inherited names for fields', () => {
    const object = thing();
    object.apply('sync', JSON.parse('{"spec":{"labels":{"constructor":"a","__proto__":"b"}}}'));
    object.apply('sync', JSON.parse('{"spec":{"labels":{"__proto__":"c"}}}'));
    expect(JSON.stringify(object.content())).toBe('{"spec":{"labels":{"__proto__":"c"}}}');
    expect(Object.keys(object.owned('sync')?.['f:spec'] ?? {})).toEqual(['f:labels']);
  });
});

describe('an explicit null', () => {
  it('is a value of its own in a field', () => {
    const object = thing();
    object.apply('hub', { spec: { replicas: 1 } });
    expect(object.conflicts('sync', { spec: { replicas: null } }).map(({ field }) => field)).toEqual(['.spec.replicas']);
    object.apply('sync', { spec: { replicas: null } }, { force: true });
    expect(object.content()).toEqual({ spec: { replicas: null } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:replicas': {} } });
  });

  it('leaves a granular map that has something in it alone', () => {
    const object = thing();
    object.apply('hub', { spec: { labels: { a: '1' } } });
    object.apply('sync', { spec: { labels: null } });
    expect(object.content()).toEqual({ spec: { labels: { a: '1' } } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:labels': {} } });
  });
});

describe('subresources', () => {
  const resetMain = { resetFields: ['status'] };
  const resetStatus = { resetFields: ['metadata', 'spec'], subresource: 'status' };

  it('part one manager into two, and neither owns what it cannot change', () => {
    const object = thing();
    object.apply('agent', { spec: { replicas: 1 }, status: { phase: 'x' } }, resetMain);
    object.apply('agent', { spec: { replicas: 1 }, status: { phase: 'Running' } }, resetStatus);
    expect(object.owned('agent')).toEqual({ 'f:spec': { 'f:replicas': {} } });
    expect(object.owned('agent', 'Apply', 'status')).toEqual({ 'f:status': { 'f:phase': {} } });
  });

  it('do not conflict over what they cannot change', () => {
    const object = thing();
    object.apply('agent', { status: { phase: 'Running' } }, resetStatus);
    object.apply('sync', { spec: { replicas: 1 }, status: { phase: 'Lost' } }, resetMain);
    expect(object.owned('agent', 'Apply', 'status')).toEqual({ 'f:status': { 'f:phase': {} } });
    expect(object.owned('sync')).toEqual({ 'f:spec': { 'f:replicas': {} } });
  });

  it('default to the subresources of a custom resource with a status', () => {
    const input = { live: undefined, manager: 'a', force: false, schema: schemaOf({ type: 'object', properties }), now: at(0) };
    const applied = {
      apiVersion: 'test/v1',
      kind: 'Thing',
      metadata: { name: 'thing', labels: { a: 'b' } },
      spec: { replicas: 1 },
      status: { phase: 'x' },
    };
    const owned = (subresource?: string) => {
      const result = apply({ ...input, applied, ...(subresource === undefined ? {} : { subresource }) });
      const metadata = result.ok ? (result.object['metadata'] as { managedFields: { fieldsV1: object }[] }) : undefined;
      return Object.keys(metadata?.managedFields[0]?.fieldsV1 ?? {});
    };
    expect(owned()).toEqual(['f:metadata', 'f:spec']);
    expect(owned('status')).toEqual(['f:metadata', 'f:status']);
    expect(owned('scale')).toEqual(['f:metadata', 'f:spec', 'f:status']);
  });
});

describe('an apply that does not fit', () => {
  it.each([
    [{ spec: { size: 1 } }, '.spec.size: field not declared in schema'],
    [{ spec: { replicas: 'many' } }, '.spec.replicas: expected numeric (int or float), got string'],
    [{ spec: { image: 5 } }, '.spec.image: expected string, got &value.valueUnstructured{Value:5}'],
    [{ spec: { labels: ['a'] } }, '.spec.labels: expected map, got &{[a]}'],
    [{ spec: { strategy: { surge: 1, kind: true } } }, '.spec.strategy.kind: expected string, got &value.valueUnstructured{Value:true}'],
  ])('%j is refused in the words of the server', (content, words) => {
    const error = refused(content);
    expect(error.code).toBe('InvalidApply');
    expect(error.message).toBe(`failed to create typed patch object (web/thing; test/v1, Kind=Thing): ${words}`);
  });

  it('lists more errors than one', () => {
    expect(refused({ spec: { replicas: 'x', image: 1 } }).message).toMatch(/: errors:\n {2}\.spec\.replicas: .*\n {2}\.spec\.image: /);
  });

  it('is refused for an unknown field of metadata', () => {
    expect(refused({}, { owner: 'me' }).message).toMatch(/: \.metadata\.owner: field not declared in schema$/);
  });

  it('is refused when it brings managedFields, or is of another kind', () => {
    const bad = refused({}, { managedFields: [] });
    expect([bad.code, bad.message]).toEqual(['BadRequest', 'metadata.managedFields must be nil']);
    const object = thing();
    object.apply('sync', {});
    const other = refusal(() => object.apply('sync', { apiVersion: 'v2' }));
    expect([other.code, other.message]).toEqual(['BadRequest', 'invalid object type: /v2, Kind=Thing']);
  });

  it('is refused when the stored object does not fit its schema', () => {
    const object = thing();
    object.live = { ...object.body({ spec: { gone: 1 } }) };
    expect(refusal(() => object.apply('sync', {})).message).toBe(
      'failed to create manager for existing fields: failed to convert new object (/thing; test/v1, Kind=Thing) to smd typed: .spec.gone: field not declared in schema',
    );
  });

  it('is refused when the stored managedFields cannot be read', () => {
    const object = thing();
    object.live = object.body(
      {},
      { managedFields: [{ manager: 'a', operation: 'Patch', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: {} }] },
    );
    const error = refusal(() => object.apply('sync', {}));
    expect([error.code, error.message]).toEqual([
      'InvalidManagedFields',
      'failed to decode managed fields: operation must be `Apply` or `Update`',
    ]);
  });
});
