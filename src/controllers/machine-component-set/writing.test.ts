import { expect, it } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Stored } from '../../api/wire.ts';
import { isMet } from '../../defender/guarded-patch.ts';
import { announced, entriesPatch, openOf, settlePatch, type Announced } from './writing.ts';

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

const at = (name: string, generation: number, fence?: string, resourceVersion = '7'): Stored<Machine> => {
  const { metadata, ...rest } = machine(name, resourceVersion);
  const annotations = fence === undefined ? {} : { annotations: { 'kubenode.io/entry-fence': fence } };
  return { ...rest, metadata: { ...metadata, generation, ...annotations } };
};
const openIn = (writing: Announced[], read: Stored<Machine>[]): string[] =>
  openOf(set({ writing }), read).map(({ metadata }) => metadata.name);

it('B9: an entry that was announced may arrive as long as its Machine has the generation and the fence that were announced', () => {
  const writing = [at('a', 3), at('b', 3), at('c', 3), at('d', 3, '5'), at('gone', 3)].map(announced);
  expect(writing[0]).toEqual({ machine: 'web/a', resourceVersion: '7', generation: 3 });
  expect(writing[3]).toEqual({ machine: 'web/d', resourceVersion: '7', generation: 3, fence: '5' });
  // Also where its agent has written since.
  expect(openIn(writing, [at('a', 3, undefined, '99'), at('b', 4), at('c', 3, '9'), at('d', 3, '5'), at('other', 3)])).toEqual(['a', 'd']);
  expect(openIn([], [at('a', 3)])).toEqual([]);
  expect(openOf(set(), [at('a', 3)])).toEqual([]);
});

it('B9: one that an earlier version of KubeNode announced, by the version of its Machine', () => {
  const writing: Announced[] = [
    { machine: 'web/a', resourceVersion: '7' },
    { machine: 'web/b', resourceVersion: '7' },
  ];
  expect(openIn(writing, [at('a', 3), at('b', 3, undefined, '9')])).toEqual(['a']);
});

it('C4a: what settles it lets the entry lose, also where the agent writes, and loses itself against another', () => {
  const read: Stored<Machine> = { ...at('a', 3, '5'), status: {} };
  const entry: ComponentEntry = {
    name: 'kubelet',
    action: 'Install',
    version: '2.0.0',
    setUID: 'set',
    setRevision: 2,
    joinedRevision: 1,
    revision: 2,
    attempt: 1,
  };
  const given = entriesPatch(read, [entry], { known: false });
  const noisy = { ...at('a', 3, '5', '99'), status: { agent: { version: '1', apiLevel: 1, bootID: 'c', os: 'linux', arch: 'amd64' } } };
  expect([isMet(given, noisy), isMet(settlePatch(read), noisy)]).toEqual([true, true]);
  expect(settlePatch(read).at(-1)).toEqual({ op: 'add', path: '/metadata/annotations/kubenode.io~1entry-fence', value: '7' });
  const settled: Stored<Machine> = { ...at('a', 3, '7', '100'), status: {} };
  expect([isMet(given, settled), isMet(settlePatch(read), settled)]).toEqual([false, false]);
});

it.each<[string, Stored<Machine>]>([
  ['another spec', at('a', 4)],
  ['another Machine', { ...at('a', 3), metadata: { ...at('a', 3).metadata, uid: 'other' } }],
  ['a deletion', { ...at('a', 3), metadata: { ...at('a', 3).metadata, deletionTimestamp: '2026-11-20T00:00:00Z' } }],
  ['another selection', { ...at('a', 3), metadata: { ...at('a', 3).metadata, labels: { a: 'b' } } }],
  ['a machine that came into use', { ...at('a', 3), status: { firstReadyAt: '2026-11-20T00:00:00Z' } }],
  ['another phase', { ...at('a', 3), status: { phase: 'Running' } }],
  ['another record of what was verified', { ...at('a', 3), status: { verified: [] } }],
])('C4a: an entry loses against %s', (_, live) => {
  expect(isMet(entriesPatch(at('a', 3), [], { known: false }), live)).toBe(false);
});

it('C4a: an entry that was decided on the copy of a store takes effect on the newest alone', () => {
  expect(isMet(entriesPatch(at('a', 3), [], { known: true }), at('a', 3, undefined, '8'))).toBe(false);
});
