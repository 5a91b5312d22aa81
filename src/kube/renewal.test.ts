import { expect, test } from 'vitest';
import type { Lease } from '../api/builtin.ts';
import type { JsonObject, ManagedFieldsEntry, Stored } from '../api/wire.ts';
import { noteRenewal, renewalMs } from './renewal.ts';

const at = (second: number): string => `2026-01-01T00:00:0${second}Z`;
const ms = (second: number): number => Date.parse(at(second));
const wrote = (time: string | undefined, fields: JsonObject): ManagedFieldsEntry => ({
  manager: 'm',
  operation: 'Update',
  apiVersion: 'coordination.k8s.io/v1',
  fieldsType: 'FieldsV1',
  ...(time === undefined ? {} : { time }),
  fieldsV1: { 'f:spec': fields },
});
const lease = (managedFields?: ManagedFieldsEntry[], renewTime = '2031-01-01T00:00:00.000000Z'): Stored<Lease> => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: {
    name: 'a',
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: at(0),
    ...(managedFields === undefined ? {} : { managedFields }),
  },
  spec: { renewTime },
});
const renewal = { 'f:renewTime': {} };

test('H5: a Lease was renewed when the server last saw its renewTime written, not at the time of its holder', () => {
  const fields = [wrote(at(1), renewal), wrote(at(3), renewal), wrote(at(2), renewal), wrote(at(9), { 'f:holderIdentity': {} })];
  expect(renewalMs(noteRenewal(lease(fields)))).toBe(ms(3));
});

test.each([
  ['the server notes nothing', undefined],
  ['no manager wrote the renewal', [wrote(at(1), { 'f:holderIdentity': {} })]],
  ['the server notes no time', [wrote(undefined, renewal)]],
  ['what it notes is none', [wrote('soon', renewal)]],
  ['what was written is of another form', [{ ...wrote(at(1), {}), fieldsV1: { 'f:spec': null } }]],
])('where %s it is the time of the holder', (_, fields) => {
  expect(renewalMs(noteRenewal(lease(fields, at(5))))).toBe(ms(5));
});

test('a Lease that was never renewed is not known to have been', () => {
  const { spec: _, ...bare } = lease();
  expect(renewalMs(noteRenewal(bare))).toBeNaN();
});
