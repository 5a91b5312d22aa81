import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../../api/kind.ts';
import type { ComponentEntry } from '../../../api/machine.ts';
import type { MachineComponentSet } from '../../../api/machine-component-set.ts';
import type { Stored } from '../../../api/wire.ts';
import { at, entry, machine, operation, waiting } from '../testing/objects.ts';
import { cellSets } from './cell-sets.ts';

type Status = NonNullable<MachineComponentSet['status']>;
type Failure = NonNullable<Status['failures']>[number];
const revision = { number: 3, since: 2, action: 'Install' as const, version: '2.0.0', startedAt: at(-60) };
const set = (status: Partial<Status> = {}, spec: Partial<MachineComponentSet['spec']> = {}): Stored<MachineComponentSet> => ({
  apiVersion: API_VERSION,
  kind: 'MachineComponentSet',
  metadata: { name: 'kubelet', uid: 's1', resourceVersion: '1', creationTimestamp: at(-60) },
  spec: { componentName: 'kubelet', version: '2.0.0', ...spec },
  status: { revision, ...status },
});
const mark = { setRevision: 2, attempt: 1, reason: 'ProbesFailed' };
const failed = (change: Partial<ComponentEntry> = {}) => machine({ entries: [entry({ failed: mark, ...change })] });
const record = (change: Partial<Failure> = {}): Failure => ({
  machine: 'web/a',
  uid: 'uid-a',
  setRevision: 2,
  attempt: 1,
  reason: 'ProbesFailed',
  message: '',
  ...change,
});
const others = (count: number, change: Partial<Failure> = {}) =>
  Array.from({ length: count }, (_, at) => record({ uid: `${at}`, ...change }));

describe('B4: a failure of a machine that its set has not recorded', () => {
  const report = { revision: 2, reason: 'ProbesFailed', message: '', restored: true };
  test.each([
    ['its agent reports it', machine({ components: [waiting({ failed: report })] }), set()],
    [
      'its operation ended so, and the agent reports no cause',
      machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } } }),
      set(),
    ],
    ['its entry records it', failed(), set()],
    ['the set records those of other machines', failed(), set({ failures: others(99) })],
    ['the set records one of other content', failed(), set({ failures: [record({ setRevision: 1 })] })],
    ['the set records one of another rollout', failed(), set({ failures: [record({ rolloutID: 'before' })] })],
    ['the record is full of other content', failed(), set({ failures: others(100, { setRevision: 1 }) })],
    ['the store shows an older revision of the set', failed({ setRevision: 4, failed: { ...mark, setRevision: 4 } }), set()],
  ])('is waited for: %s', (_, of, its) => {
    expect(cellSets([its]).uncounted(of)).toEqual(['kubelet']);
  });

  test.each([
    ['it is recorded', failed(), [set({ failures: [record()] })]],
    ['nothing failed', machine(), [set()]],
    ['the record is full, and the set is halted', failed(), [set({ failures: others(100) })]],
    ['no such set is left', failed(), []],
    ['the set is being deleted', failed(), [{ ...set(), metadata: { ...set().metadata, deletionTimestamp: at(-1) } }]],
    ['the set has counted no content', failed(), [{ ...set(), status: {} }]],
    ['the set gives another component', failed(), [set({}, { componentName: 'containerd' })]],
    ['the set gives other content since', failed(), [set({ revision: { ...revision, number: 5, since: 5 } })]],
    ['a person has begun another rollout', failed(), [set({}, { rolloutID: 'again' })]],
    ['a number that no set ever gave', failed({ failed: { ...mark, setRevision: 9 } }), [set()]],
  ])('is not waited for where nothing would record it, or need it: %s', (_, of, sets) => {
    expect(cellSets(sets).uncounted(of)).toEqual([]);
  });
});
