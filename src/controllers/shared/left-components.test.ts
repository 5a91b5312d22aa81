import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { leftComponents, leftText } from './left-components.ts';

const entry = (name: string, setUID: string, change: Partial<ComponentEntry> = {}): ComponentEntry => ({
  name,
  action: 'Install',
  version: '1.0.0',
  setUID,
  setRevision: 1,
  joinedRevision: 0,
  revision: 1,
  attempt: 1,
  ...change,
});

const machine = (components: ComponentEntry[], deletionTimestamp?: string): Machine => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { name: 'a', namespace: 'web', labels: { zone: 'x' }, ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }) },
  spec: { components },
});

const set = (uid: string, componentName: string, spec: Partial<MachineComponentSet['spec']> = {}): Stored<MachineComponentSet> => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: uid, uid, resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
  spec: { componentName, version: '1.0.0', ...spec },
});

describe('what is left of a set that is gone', () => {
  const left = machine([entry('hello', 'gone'), entry('runtime', 'here')]);

  test('is each entry whose set is gone, and no other', () => {
    expect(leftComponents(left, [set('here', 'runtime')])).toEqual([{ name: 'hello', version: '1.0.0' }]);
    expect(leftComponents(left, [set('here', 'runtime'), set('gone', 'hello')])).toEqual([]);
  });

  test('is nothing that a set removed before it was deleted, nor of a machine that goes', () => {
    expect(leftComponents(machine([entry('hello', 'gone', { action: 'Remove' })]), [])).toEqual([]);
    expect(leftComponents(machine([entry('hello', 'gone')], '2026-11-20T00:00:00Z'), [])).toEqual([]);
  });

  test('is nothing that another set of the component selects, which takes it over in its batches', () => {
    const other = (spec: Partial<MachineComponentSet['spec']>) =>
      leftComponents(machine([entry('hello', 'gone')]), [set('new', 'hello', spec)]);
    expect(other({})).toEqual([]);
    expect(other({ pools: ['web'], selector: { zone: 'x' } })).toEqual([]);
    expect(other({ pools: ['db'] })).toHaveLength(1);
    expect(other({ selector: { zone: 'y' } })).toHaveLength(1);
  });

  test('is one sentence of many machines, within the size that a Cluster can contain', () => {
    expect(leftText([left, left], [set('here', 'runtime')])).toBe(
      '2 machines still run hello 1.0.0, which no set owns; to remove it declare it with action Remove',
    );
    expect(leftText([left], [set('here', 'runtime'), set('gone', 'hello')])).toBeUndefined();
    const many = machine(['d', 'c', 'b', 'a'].map((name) => entry(name.repeat(30), 'gone')));
    const text = leftText([many, machine([entry('b'.repeat(30), 'gone')])], []) ?? '';
    expect(text).toBe(
      `1 machine still runs ${'a'.repeat(30)} 1.0.0, 2 machines still run ${'b'.repeat(30)} 1.0.0 and 2 more components, which no set owns; to remove it declare it with action Remove`,
    );
    expect(text.length).toBeLessThanOrEqual(256);
  });
});
