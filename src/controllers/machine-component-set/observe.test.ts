import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { ComponentEntry, Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { leasesOf, observeSet, viewMachine, type Stores } from './observe.ts';

const NOW = Date.UTC(2026, 10, 21, 12);
const HOUR = 3_600_000;
const at = (ms: number): string => new Date(ms).toISOString();

function entry(name: string, change: Partial<ComponentEntry> = {}): ComponentEntry {
  return { name, action: 'Install', version: '1', setUID: 's', setRevision: 1, joinedRevision: 0, revision: 1, attempt: 1, ...change };
}

function machine(name: string, components: ComponentEntry[] = [], metadata: Partial<Machine['metadata']> = {}): Stored<Machine> {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      name,
      namespace: 'web',
      uid: `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: at(NOW - HOUR),
      labels: { rack: 'r1' },
      ...metadata,
    },
    spec: { components },
  };
}

function set(name: string, componentName: string, change: Partial<MachineComponentSet['spec']> = {}): Stored<MachineComponentSet> {
  return {
    apiVersion: API_VERSION,
    kind: 'MachineComponentSet',
    metadata: { name, uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: at(NOW) },
    spec: { componentName, version: '1', ...change },
  };
}

interface LeaseAge {
  unseenMs: number;
  fresh: boolean;
}

function stores(sets: Stored<MachineComponentSet>[] = [], ages: Record<string, LeaseAge> = {}, ageMs = 0): Stores {
  return {
    sets: { list: () => sets },
    components: { get: () => undefined },
    liveness: {
      isAlive: (key) => ages[keyOf(key)]?.fresh === true,
      unseenMs: (key) => ages[keyOf(key)]?.unseenMs,
      unansweredMs: () => ageMs,
    },
  };
}

describe('B6: how long a machine has been stale', () => {
  const found = machine('a');
  const view = (ages: Record<string, LeaseAge>, ageMs = 0, of = found) => viewMachine(of, 'kubelet', stores([], ages, ageMs).liveness, NOW);
  const agent = keyOf(leasesOf(found).agent);
  const kubelet = keyOf(leasesOf(found).kubelet);

  test('is since it was made where no Lease was ever renewed, except while the server did not answer', () => {
    expect(view({})).toMatchObject({ unseenMs: HOUR, agentUnseenMs: HOUR, agentFresh: false });
    expect(view({}, 60_000)).toMatchObject({ unseenMs: HOUR - 60_000, agentUnseenMs: HOUR - 60_000 });
  });
  test('is never less than nothing', () => {
    expect(view({}, 2 * HOUR)).toMatchObject({ unseenMs: 0, agentUnseenMs: 0 });
    expect(view({}, 0, machine('a', [], { creationTimestamp: at(NOW + HOUR) }))).toMatchObject({ unseenMs: 0, agentUnseenMs: 0 });
  });
  test('is as long as both are: the agent, and the kubelet', () => {
    const ages = { [agent]: { unseenMs: 50, fresh: true }, [kubelet]: { unseenMs: 20, fresh: true } };
    expect(view(ages)).toMatchObject({ unseenMs: 20, agentUnseenMs: 50, agentFresh: true });
    expect(view({ [agent]: { unseenMs: 10, fresh: false } })).toMatchObject({ unseenMs: 10, agentUnseenMs: 10, agentFresh: false });
    expect(view({ [kubelet]: { unseenMs: 30, fresh: true } })).toMatchObject({ unseenMs: 30, agentUnseenMs: HOUR, agentFresh: false });
  });
  test("is its Node's, which may have another name", () => {
    const named = { ...found, status: { nodeRef: { name: 'node-7', uid: 'n' } } };
    expect(leasesOf(named).kubelet).toEqual({ namespace: 'kube-node-lease', name: 'node-7' });
    expect(kubelet).toBe('kube-node-lease/a');
  });
});

describe('what the decision about one set needs', () => {
  const own = set('own', 'kubelet', { pools: ['web'], selector: { rack: 'r1' } });
  const mine = (change: Partial<ComponentEntry> = {}) => entry('kubelet', { setUID: 'uid-own', ...change });
  const names = (views: readonly { machine: Machine }[]) => views.map((each) => each.machine.metadata.name);
  const other = { labels: { rack: 'r2' } };
  const going = { deletionTimestamp: at(NOW) };

  test('are those that are selected, and those that still have its entry and are selected no more, or going', () => {
    const machines = [
      machine('a', [mine({ setRevision: 3 })]),
      machine('b'),
      machine('c', [mine({ setRevision: 7 })], other),
      machine('d', [mine()], going),
      machine('e', [entry('kubelet', { setUID: 'uid-another', setRevision: 9 })], other),
      machine('f', [], { namespace: 'db' }),
    ];
    const view = observeSet(own, machines, stores([own]), NOW);
    expect(names(view.machines)).toEqual(['a', 'b']);
    expect(names(view.former)).toEqual(['c', 'd']);
    expect(view.highestRevision).toBe(7);
    expect(observeSet(own, [machine('b')], stores([own]), NOW).highestRevision).toBe(0);
  });

  test('A6: is which sets of the same component select its machines', () => {
    const machines = [machine('a'), machine('b')];
    const conflicts = (...sets: Stored<MachineComponentSet>[]) => observeSet(own, machines, stores([own, ...sets]), NOW).conflicts;
    expect(conflicts()).toEqual([]);
    expect(conflicts(set('all', 'kubelet'))).toEqual([{ machine: 'web/a', set: 'all' }]);
    expect(conflicts(set('all', 'exporter'))).toEqual([]);
    expect(conflicts(set('db', 'kubelet', { pools: ['db'] }))).toEqual([]);
    const gone = set('all', 'kubelet');
    expect(conflicts({ ...gone, metadata: { ...gone.metadata, ...going } })).toEqual([]);
  });

  test('is what version of another component a machine has, or would be given', () => {
    const five = observeSet(own, [], stores([own, set('x', 'exporter', { version: '5' })]), NOW);
    expect(five.wanted(machine('a', [entry('exporter', { version: '4' })]), 'exporter')).toBe('4');
    expect(five.wanted(machine('a', [entry('exporter', { action: 'Remove' })]), 'exporter')).toBeUndefined();
    expect(five.wanted(machine('a'), 'exporter')).toBe('5');
    expect(five.wanted(machine('a'), 'proxy')).toBeUndefined();
    const removed = observeSet(own, [], stores([set('x', 'exporter', { action: 'Remove' })]), NOW);
    expect(removed.wanted(machine('a'), 'exporter')).toBeUndefined();
    const elsewhere = observeSet(own, [], stores([set('x', 'exporter', { pools: ['db'] })]), NOW);
    expect(elsewhere.wanted(machine('a'), 'exporter')).toBeUndefined();
  });

  test('is the entry, the report and the record of its own component', () => {
    const reported = { name: 'kubelet', revision: 1, running: 1, state: 'Healthy' as const, version: '1', content: '' };
    const record = { name: 'kubelet', version: '1', revision: 1, setUID: 's', bootID: 'b', since: at(NOW) };
    const both = {
      ...machine('a', [entry('exporter'), mine()]),
      status: {
        components: [{ ...reported, name: 'exporter' }, reported],
        verified: [{ ...record, name: 'exporter' }, record],
      },
    };
    const [view] = observeSet(own, [both], stores([own]), NOW).machines;
    expect(view).toMatchObject({ entry: { name: 'kubelet' }, reported: { name: 'kubelet' }, verified: [{ name: 'kubelet' }] });
    expect(view?.verified).toHaveLength(1);
  });
});
