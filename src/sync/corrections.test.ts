import { expect, test } from 'vitest';
import { MachineSets } from '../api/machine-set.ts';
import { plainText } from '../api/plain-text.ts';
import { ConfigMaps, Secrets } from '../api/builtin.ts';
import type { KubeObject, ManagedFieldsEntry, Stored } from '../api/wire.ts';
import { correctionsOf } from './corrections.ts';

const by = (manager: string, fieldsV1: ManagedFieldsEntry['fieldsV1']): ManagedFieldsEntry => ({
  manager,
  operation: 'Update',
  apiVersion: 'v1',
  time: '2026-11-20T00:00:00Z',
  fieldsType: 'FieldsV1',
  fieldsV1,
});
const set = (spec: object, labels: Record<string, string> = {}): KubeObject =>
  ({ apiVersion: 'kubenode.io/v1alpha1', kind: MachineSets.kind, metadata: { namespace: 'web', name: 'a', labels }, spec }) as KubeObject;
const stored = (object: KubeObject, ...managedFields: ManagedFieldsEntry[]): Stored<KubeObject> => ({
  ...object,
  metadata: { ...object.metadata, uid: 'u', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z', managedFields },
});
const scaled = by('kubectl', { 'f:spec': { 'f:replicas': {} } });

test('a field that a user set is reported with who, what it was, and to what it is put back', () => {
  expect(correctionsOf(stored(set({ replicas: 5 }), scaled), set({ replicas: 3 }))).toEqual(['spec.replicas from 5 to 3, set by kubectl']);
  expect(correctionsOf(stored(set({}), scaled), set({ replicas: 3 }))).toEqual(['spec.replicas from nothing to 3, removed by kubectl']);
  expect(correctionsOf(stored(set({})), set({ replicas: 3 }))).toEqual(['spec.replicas from nothing to 3']);
  expect(correctionsOf(stored(set({}, { tier: 'x' })), set({}, { tier: 'web' }))).toEqual([
    'metadata.labels.tier from "x" to "web", set by an unknown manager',
  ]);
});

test('what sync itself set last, and what Git does not report, is no correction', () => {
  const own = by('kubenode-sync', { 'f:spec': { 'f:replicas': {} } });
  expect(correctionsOf(stored(set({ replicas: 5 }), own), set({ replicas: 3 }))).toEqual([]);
  expect(correctionsOf(stored(set({ replicas: 3, paused: true }, { theirs: 'x' }), scaled), set({ replicas: 3 }))).toEqual([]);
});

test('a list is one value; long ones are cut, and no more is reported than people read', () => {
  const taints = [{ key: 'a'.repeat(100), effect: 'NoSchedule' }];
  const [text] = correctionsOf(stored(set({ taints }), by('k9s', { 'f:spec': { 'f:taints': {} } })), set({ taints: [] }));
  expect(text).toMatch(/^spec\.taints from \[\{"key":"a{40,60}… to \[\], set by k9s$/);
  const many = Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`f${index}`, index]));
  const found = correctionsOf(stored(set({})), set(many));
  expect(found).toHaveLength(4);
  expect(found.at(-1)).toBe('2 more');
});

test('who and what is made plain, and what a Secret holds is not reported', () => {
  const map = (data: object): KubeObject => ({ apiVersion: 'v1', kind: ConfigMaps.kind, metadata: { name: 'a' }, data }) as KubeObject;
  const [text] = correctionsOf(stored(map({ a: 'x\u001b[2J\ny' }), by('ev\u001bil', { 'f:data': { 'f:a': {} } })), map({ a: 'z' }));
  expect(text).toBe(plainText(text ?? ''));
  expect(text).not.toContain('\u001b');
  const secret = (data: object): KubeObject => ({ apiVersion: 'v1', kind: Secrets.kind, metadata: { name: 'a' }, data }) as KubeObject;
  expect(correctionsOf(stored(secret({ key: 'hidden1' })), secret({ key: 'hidden2' }))).toEqual(['data.key, set by an unknown manager']);
});

test('what Git does not give is reported with who set it and what is there by default, but for what sync was about to take out', () => {
  const maxFailed = { 'f:spec': { 'f:maxFailed': {} } };
  const found = (...records: ManagedFieldsEntry[]) =>
    correctionsOf(stored(set({ replicas: 3, maxFailed: 50 }), ...records), set({ replicas: 3 }));
  expect(found(by('kubectl', maxFailed))).toEqual(['spec.maxFailed from 50 to 3, set by kubectl']);
  expect(found()).toEqual(['spec.maxFailed from 50 to 3, set by an unknown manager']);
  // An admission webhook may write in the name of sync.
  expect(found(by('kubenode-sync', maxFailed))).toEqual(['spec.maxFailed from 50 to 3, set by an unknown manager']);
  const applied = { ...by('kubenode-sync', maxFailed), operation: 'Apply' } as const;
  expect(found(applied)).toEqual([]);
  expect(found(applied, by('argo', maxFailed))).toEqual(['spec.maxFailed from 50 to 3, set by argo']);
});
