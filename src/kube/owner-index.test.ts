import { expect, it } from 'vitest';
import type { JsonObject, ManagedFieldsEntry } from '../api/wire.ts';
import { ownerIndex } from './owner-index.ts';

const record = (manager: string, fieldsV1: JsonObject): ManagedFieldsEntry => ({
  manager,
  operation: 'Update',
  apiVersion: 'v1',
  fieldsType: 'FieldsV1',
  fieldsV1,
});

it('finds the first manager of a field, or of something in it', () => {
  const ownerOf = ownerIndex([
    record('a', { 'f:spec': { 'f:x': {} } }),
    record('b', { 'f:spec': { 'f:x': { 'f:y': {} }, 'f:z': {}, __proto__: {} } }),
    { operation: 'Update', fieldsV1: { 'f:status': {} } } as unknown as ManagedFieldsEntry,
  ]);
  expect(ownerOf(['f:spec'])?.manager).toBe('a');
  expect(ownerOf(['f:spec', 'f:x', 'f:y'])?.manager).toBe('b');
  expect(ownerOf(['f:spec', 'f:z'])?.manager).toBe('b');
  expect(ownerOf(['f:spec', 'f:w'])).toBeUndefined();
  expect(ownerOf(['f:spec', 'f:z', 'f:w'])).toBeUndefined();
  expect(ownerOf(['constructor'])).toBeUndefined();
  expect(ownerOf(['f:status'])).toEqual({ manager: undefined, fields: {} });
});

it('E16: reads each record once, however many fields are asked for', () => {
  let reads = 0;
  const fields = new Proxy<JsonObject>({ 'f:a': {} }, { ownKeys: (target) => ((reads += 1), Reflect.ownKeys(target)) });
  const ownerOf = ownerIndex([record('a', fields)]);
  for (let index = 0; index < 100; index += 1) expect(ownerOf([`f:${index}`])).toBeUndefined();
  expect(reads).toBe(1);
});
