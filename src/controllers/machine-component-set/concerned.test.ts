import { expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineComponent } from '../../api/machine-component.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { setsAbout, setsNaming, setsOfComponent } from './concerned.ts';

const metadata = (name: string) => ({ name, uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: '2026-11-21T00:00:00Z' });
const set = (name: string, componentName: string, change: Partial<MachineComponentSet['spec']> = {}): Stored<MachineComponentSet> => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: metadata(name),
  spec: { componentName, version: '1', ...change },
});
const storeOf = (...sets: Stored<MachineComponentSet>[]) => ({ list: () => sets });

test('a Machine leads to the sets that select it, and to those that wrote an entry of it', () => {
  const sets = storeOf(
    set('selects', 'kubelet', { pools: ['web'] }),
    set('wrote', 'kubelet', { pools: ['db'] }),
    set('neither', 'kubelet', { pools: ['db'] }),
    set('both', 'kubelet'),
  );
  const entry = (setUID: string) => ({
    name: 'kubelet',
    action: 'Install' as const,
    version: '1',
    setUID,
    setRevision: 1,
    joinedRevision: 0,
    revision: 1,
    attempt: 1,
  });
  const machine = (components?: NonNullable<Machine['spec']['components']>): Stored<Machine> => ({
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { ...metadata('a'), namespace: 'web' },
    spec: components === undefined ? {} : { components },
  });
  expect(setsAbout(sets, machine([entry('uid-wrote'), entry('uid-both')]))).toEqual(['selects', 'wrote', 'both']);
  expect(setsAbout(sets, machine())).toEqual(['selects', 'both']);
});

test('A6: a set leads to all sets of its component, also where it is gone', () => {
  const [a, b, c] = [set('a', 'kubelet'), set('b', 'kubelet'), set('c', 'exporter')];
  expect(setsOfComponent(storeOf(a, b, c), b)).toEqual(['b', 'a']);
  expect(setsOfComponent(storeOf(a, c), b)).toEqual(['b', 'a']);
});

test('a MachineComponent leads to the sets of its component, and to those that name it', () => {
  const sets = storeOf(
    set('a', 'kubelet'),
    set('b', 'exporter', { version: '7' }),
    set('c', 'exporter', { canary: { selector: {}, version: '7' } }),
    set('d', 'exporter', { version: '8' }),
  );
  const component = (name: string, componentName: string) =>
    ({ metadata: metadata(name), spec: { componentName } }) as Stored<MachineComponent>;
  expect(setsNaming(sets, component('exporter-7', 'kubelet'))).toEqual(['a', 'b', 'c']);
  expect(setsNaming(sets, component('kubelet-9', 'kubelet'))).toEqual(['a']);
});
