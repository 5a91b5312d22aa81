import { expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { announced, openOf, settlePatch, type Announced } from './writing.ts';

const machine = (name: string, resourceVersion: string): Stored<Machine> => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { namespace: 'web', name, uid: `uid-${name}`, resourceVersion, creationTimestamp: '2026-11-20T00:00:00Z' },
  spec: {},
});
const set = (status?: MachineComponentSet['status']): MachineComponentSet => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: 'kubelet' },
  spec: { componentName: 'kubelet', version: '1.0.0' },
  ...(status === undefined ? {} : { status }),
});

it('B9: an entry that was announced may arrive as long as its Machine is at the version that was announced', () => {
  const read = [machine('a', '7'), machine('b', '9'), machine('c', '7')];
  const writing: Announced[] = [announced(machine('a', '7')), announced(machine('b', '7')), announced(machine('gone', '7'))];
  expect(writing[0]).toEqual({ machine: 'web/a', resourceVersion: '7' });
  expect(openOf(set({ writing }), read).map(({ metadata }) => metadata.name)).toEqual(['a']);
  expect(openOf(set({ writing: [] }), read)).toEqual([]);
  expect(openOf(set(), read)).toEqual([]);
});

it('B9: what settles it is conditioned on that very version, and gives the Machine another one', () => {
  expect(settlePatch(machine('a', '7'))).toEqual({
    metadata: { resourceVersion: '7', annotations: { 'kubenode.io/entry-fence': '7' } },
  });
});
