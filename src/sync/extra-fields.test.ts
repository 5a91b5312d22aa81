import { expect, test } from 'vitest';
import { API_VERSION } from '../api/kind.ts';
import { kindNamed } from '../api/kinds.ts';
import { REHEARSAL_ANNOTATIONS } from '../api/rehearsal.ts';
import type { KubeObject } from '../api/wire.ts';
import { extraFields, reportedFields } from './extra-fields.ts';
import { REHEARSAL } from './rollout/rehearsal.ts';
import { GIVEN_KINDS, othersFields } from './spec-owners.ts';

const object = (kind: string, spec: object, annotations: Record<string, string> = {}): KubeObject =>
  ({ apiVersion: API_VERSION, kind, metadata: { name: 'a', annotations }, spec }) as KubeObject;
const extra = (kind: string, found: object, given: object): string[] =>
  extraFields(object(kind, found), object(kind, given)).map(({ path }) => path);

test.each<[string, string, object, object, string[]]>([
  ['a field', 'MachineComponentSet', { maxUnavailable: 3 }, {}, ['spec.maxUnavailable']],
  ['a field that has not its default', 'MachineComponentSet', { maxFailed: 2, soakSeconds: 60 }, {}, ['spec.maxFailed']],
  ['the defaults of what Git gives', 'MachineComponentSet', { offlinePolicy: { afterSeconds: 600 } }, { offlinePolicy: {} }, []],
  ['an object that Git does not give', 'MachineComponentSet', { offlinePolicy: { afterSeconds: 600 } }, {}, ['spec.offlinePolicy']],
  ['an empty object', 'MachineComponentSet', { selector: {} }, {}, ['spec.selector']],
  ['a key of a map', 'MachineComponentSet', { selector: { a: 'b', c: 'd' } }, { selector: { a: 'b' } }, ['spec.selector.c']],
  ['another value, which an apply corrects', 'MachineComponentSet', { maxFailed: 2, selector: 1 }, { maxFailed: 1, selector: {} }, []],
  ['a list that merges as a whole', 'MachineComponentSet', { batches: [1, 2] }, { batches: [1] }, []],
  ['a key below free values', 'MachineComponentSet', { values: { a: { b: [], c: 1 } } }, { values: { a: { c: 2 } } }, ['spec.values.a.b']],
  ['null below free values', 'MachineComponentSet', { values: { a: null } }, { values: {} }, ['spec.values.a']],
  [
    'an item with a key',
    'DefenderPolicy',
    { limits: [{ name: 'a' }, { name: 'b' }] },
    { limits: [{ name: 'b' }] },
    ['spec.limits[name=a]'],
  ],
  ['an item that merges as a whole', 'DefenderPolicy', { limits: [{ name: 'a', maxPerDay: 1 }] }, { limits: [{ name: 'a' }] }, []],
  [
    'an item with two keys',
    'MachineComponent',
    {
      platforms: [
        { os: 'linux', arch: 'any' },
        { arch: 'arm64', os: 'linux' },
      ],
    },
    { platforms: [{ arch: 'any', os: 'linux' }] },
    ['spec.platforms[arch=arm64,os=linux]'],
  ],
  ['a field that this hub does not know', 'MachineComponentSet', { ofALaterVersion: 1 }, {}, []],
  ['what is no object', 'MachineComponentSet', { selector: null, offlinePolicy: [] }, { selector: {}, offlinePolicy: {} }, []],
  ['what others write', 'MachineComponentSet', { ceiling: { nodes: 0 }, rolloutID: 'a', paused: true }, {}, []],
  ['what others write, below what Git gives', 'MachineComponentSet', { ceiling: { nodes: 0 } }, { ceiling: {} }, ['spec.ceiling.nodes']],
  ['the number and pause of a set', 'MachineSet', { replicas: 3, paused: false }, {}, []],
  ['what is another kind’s to leave out', 'NodeRemedier', { paused: true, mode: 'Enforce' }, {}, ['spec.mode']],
])('finds %s', (_what, kind, found, given, paths) => {
  expect(extra(kind, found, given)).toEqual(paths);
});

test('finds nothing in other kinds, and in annotations only what decides', () => {
  const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } };
  expect(extraFields({ ...map, spec: { a: 1 } } as KubeObject, map)).toEqual([]);
  expect(extra('Machine', { paused: true }, {})).toEqual([]);
  const annotations = { note: 'x', [REHEARSAL]: 'Enforce', [REHEARSAL_ANNOTATIONS.maxJobs]: '9' };
  const given = { [REHEARSAL_ANNOTATIONS.maxJobs]: '3' };
  expect(extraFields(object('NodeRemedier', {}, annotations), object('NodeRemedier', {}, given)).map(({ path }) => path)).toEqual([
    `metadata.annotations.${REHEARSAL}`,
  ]);
  expect(extraFields(object('MachineSet', {}, annotations), object('MachineSet', {}))).toEqual([]);
});

test('names all that is below a field as records in managedFields do', () => {
  const [policy] = extraFields(
    object('DefenderPolicy', { limits: [{ name: 'a<b' }], breaker: {} }),
    object('DefenderPolicy', { limits: [] }),
  );
  expect(policy).toMatchObject({ members: ['f:spec', 'f:limits', 'k:{"name":"a\\u003cb"}'], fields: {} });
  const [values] = extraFields(object('MachineComponentSet', { values: { a: { b: [1] }, c: {} } }), object('MachineComponentSet', {}));
  expect(values?.fields).toEqual({ '.': {}, 'f:a': { '.': {}, 'f:b': {} }, 'f:c': {} });
  const [limits] = extraFields(object('DefenderPolicy', { windows: [{ name: 'a', classes: [] }] }), object('DefenderPolicy', {}));
  expect(limits?.fields).toEqual({ '.': {}, 'k:{"name":"a"}': {} });
});

test('a pause is reported where Git does not give it, and nothing else is', () => {
  const set = (spec: object): KubeObject => object('MachineSet', spec);
  expect(reportedFields(set({ paused: true, replicas: 3 }), set({}))).toEqual(['spec.paused']);
  expect(reportedFields(set({ paused: true }), set({ paused: true }))).toEqual([]);
  expect(reportedFields(set({ paused: false }), set({}))).toEqual([]);
  expect(reportedFields(object('NodeRemedier', { paused: true }), object('NodeRemedier', {}))).toEqual([]);
});

test('only fields that a kind has are left to others', () => {
  for (const kind of GIVEN_KINDS)
    for (const field of othersFields(kind).keys()) expect(kindNamed(kind)?.specFields.has(field), `${kind} ${field}`).toBe(true);
});

test.each(['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__'])(
  'a key that JavaScript gives every object is drift as any other: %s',
  (name) => {
    const selector: unknown = JSON.parse(`{"pool":"a","${name}":"x"}`);
    expect(extra('MachineComponentSet', { selector }, { selector: { pool: 'a' } })).toEqual([`spec.selector.${name}`]);
  },
);
