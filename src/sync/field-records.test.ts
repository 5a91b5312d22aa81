import { expect, test } from 'vitest';
import { MANAGERS } from '../api/names.ts';
import type { JsonObject, ManagedFieldsEntry } from '../api/wire.ts';
import type { ExtraField } from './extra-fields.ts';
import { areSame, given, hasUpdates, taken, withoutUpdates, withUpdates } from './field-records.ts';

const record = (manager: string, operation: 'Apply' | 'Update', spec: JsonObject): ManagedFieldsEntry => ({
  manager,
  operation,
  apiVersion: 'kubenode.io/v1alpha1',
  fieldsType: 'FieldsV1',
  fieldsV1: { 'f:spec': spec },
});
const extra = (members: string[], fields: JsonObject = {}): ExtraField => ({
  members: ['f:spec', ...members],
  path: '',
  found: 1,
  byDefault: undefined,
  fields,
});
const fields = (records: readonly ManagedFieldsEntry[]): [string, string, JsonObject][] =>
  records.map(({ manager, operation, fieldsV1 }) => [manager, operation, fieldsV1]);

test('what is taken out is in the record of the apply alone', () => {
  const before = [
    record(MANAGERS.sync, 'Apply', { 'f:version': {}, 'f:selector': {} }),
    record(MANAGERS.sync, 'Update', { 'f:maxFailed': {} }),
    record('argo', 'Apply', { 'f:version': {}, 'f:selector': { '.': {}, 'f:a': {} }, 'f:maxFailed': {} }),
    record('kubectl', 'Update', { 'f:selector': { 'f:a': {} }, 'f:pools': {} }),
  ];
  const after = taken(before, [extra(['f:maxFailed']), extra(['f:selector', 'f:a'])]);
  expect(fields(after)).toEqual([
    [MANAGERS.sync, 'Apply', { 'f:spec': { 'f:version': {}, 'f:maxFailed': {}, 'f:selector': { '.': {}, 'f:a': {} } } }],
    ['argo', 'Apply', { 'f:spec': { 'f:version': {}, 'f:selector': {} } }],
    ['kubectl', 'Update', { 'f:spec': { 'f:pools': {} } }],
  ]);
  expect(areSame(before, after)).toBe(false);
  expect(areSame(after, taken(after, [extra(['f:maxFailed'])]))).toBe(true);
});

test('a record of the apply is made where there is none, and none where nothing is taken out', () => {
  const scaled = { ...record(MANAGERS.sync, 'Apply', { 'f:replicas': {} }), subresource: 'scale' };
  expect(fields(taken([scaled], [extra(['f:values'], { '.': {}, 'f:a': {} })]))).toEqual([
    [MANAGERS.sync, 'Apply', { 'f:spec': { 'f:replicas': {} } }],
    [MANAGERS.sync, 'Apply', { 'f:spec': { 'f:values': { '.': {}, 'f:a': {} } } }],
  ]);
  expect(taken([], [])).toEqual([]);
  expect(taken([scaled], [])).toEqual([scaled]);
});

test('what an apply must leave is in its record no more', () => {
  const records = [
    record(MANAGERS.sync, 'Apply', { 'f:version': {}, 'f:ceiling': { 'f:nodes': {} } }),
    record('argo', 'Apply', { 'f:ceiling': {} }),
  ];
  expect(fields(given(records, ['ceiling', 'rolloutID']))).toEqual([
    [MANAGERS.sync, 'Apply', { 'f:spec': { 'f:version': {} } }],
    ['argo', 'Apply', { 'f:spec': { 'f:ceiling': {} } }],
  ]);
});

test('as many fields as one object can have are taken out in one walk: a cell must not keep the hub busy with one of them', () => {
  const names = Array.from({ length: 40_000 }, (_, at) => `f:k${at}`);
  const before = [
    record(MANAGERS.sync, 'Apply', { 'f:selector': { 'f:pool': {} } }),
    record('kubectl', 'Update', { 'f:selector': Object.fromEntries(names.map((name) => [name, {}])) }),
  ];
  const after = taken(
    before,
    names.map((name) => extra(['f:selector', name])),
  );
  expect(after).toHaveLength(1);
  const selector = Object.fromEntries(['f:pool', ...names].map((name) => [name, {}]));
  expect(fields(after)).toEqual([[MANAGERS.sync, 'Apply', { 'f:spec': { 'f:selector': selector } }]]);
});

test('no record of an update of sync is left, save of the number that a removal wrote', () => {
  const apply = record(MANAGERS.sync, 'Apply', { 'f:values': {} });
  const theirs = record('kubectl', 'Update', { 'f:replicas': {} });
  const status = { ...record(MANAGERS.sync, 'Update', { 'f:x': {} }), subresource: 'status' };
  const update = record(MANAGERS.sync, 'Update', { 'f:values': {}, 'f:replicas': {} });
  const removal = record(MANAGERS.sync, 'Update', { 'f:replicas': {} });
  const records = [apply, theirs, status];
  expect(withoutUpdates([...records, update], { givesReplicas: true })).toEqual(records);
  expect(withoutUpdates([...records, update], { givesReplicas: false })).toEqual([...records, removal]);
  expect(areSame(withoutUpdates([removal], { givesReplicas: false }), [removal])).toBe(true);
});

test('what updates of sync wrote is on the record of its apply, but for the number that a removal wrote', () => {
  const records = [
    record(MANAGERS.sync, 'Apply', { 'f:version': {}, 'f:selector': {}, 'f:pools': { '.': {}, 'f:a': {} } }),
    record(MANAGERS.sync, 'Update', { 'f:paused': {}, 'f:selector': { 'f:b': {} }, 'f:pools': {}, 'f:replicas': {} }),
    record('kubectl', 'Update', { 'f:x': {} }),
  ];
  const theirs = ['kubectl', 'Update', { 'f:spec': { 'f:x': {} } }];
  const apply = { 'f:version': {}, 'f:selector': { '.': {}, 'f:b': {} }, 'f:pools': { '.': {}, 'f:a': {} }, 'f:paused': {} };
  expect(fields(withUpdates(records, { givesReplicas: false }))).toEqual([
    [MANAGERS.sync, 'Apply', { 'f:spec': apply }],
    [MANAGERS.sync, 'Update', { 'f:spec': { 'f:replicas': {} } }],
    theirs,
  ]);
  expect(fields(withUpdates(records, { givesReplicas: true }))).toEqual([
    [MANAGERS.sync, 'Apply', { 'f:spec': { ...apply, 'f:replicas': {} } }],
    theirs,
  ]);
  expect(fields(withUpdates(records.slice(1, 2), { givesReplicas: true }))[0]?.slice(0, 2)).toEqual([MANAGERS.sync, 'Apply']);
  expect(withUpdates(records.slice(2), { givesReplicas: true })).toEqual(records.slice(2));
});

test('a record of an update is a difference, but for the number that a removal wrote', () => {
  const removal = record(MANAGERS.sync, 'Update', { 'f:replicas': {} });
  expect(hasUpdates([removal], { givesReplicas: false })).toBe(false);
  expect(hasUpdates([removal], { givesReplicas: true })).toBe(true);
  expect(hasUpdates([record(MANAGERS.sync, 'Update', { 'f:paused': {} })], { givesReplicas: false })).toBe(true);
  expect(hasUpdates([record(MANAGERS.sync, 'Apply', {}), record('kubectl', 'Update', {})], { givesReplicas: true })).toBe(false);
});

/** Counts how often its members are listed. */
function counted(fieldsV1: JsonObject, count: () => void): JsonObject {
  return new Proxy(fieldsV1, {
    ownKeys: (target) => {
      count();
      return Reflect.ownKeys(target);
    },
  });
}

test('E16: a record is read as often for many fields as for one, and one record of the apply is made of many', () => {
  const readings = (extras: number): number => {
    let read = 0;
    const records = Array.from({ length: 20 }, () => ({
      ...record('kubectl', 'Update', {}),
      fieldsV1: counted({ 'f:spec': {} }, () => (read += 1)),
    }));
    taken(
      records,
      Array.from({ length: extras }, (_, index) => extra([`f:x${index}`])),
    );
    return read;
  };
  expect(readings(1000)).toBe(readings(1));
  const own = record(MANAGERS.sync, 'Apply', { 'f:b': {} });
  const twice = taken([own, own], [extra(['f:a'])]);
  expect(fields(twice)).toEqual([
    [MANAGERS.sync, 'Apply', { 'f:spec': { 'f:b': {}, 'f:a': {} } }],
    [MANAGERS.sync, 'Apply', { 'f:spec': { 'f:b': {} } }],
  ]);
});
