import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machineset.ts';
import type { Stored } from '../../api/wire.ts';
import { decideMachineSet, type MachineSetView } from './decide.ts';
import { decideMarks } from './retire.ts';
import { statusOf } from './report.ts';
import { createSetWorld } from './testing/world.ts';

const NOW = Date.UTC(2026, 10, 20);
const at = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

/** `spec` of one machine by its letter: lower case is healthy. */
function machine(
  name: string,
  spec: Machine['spec'] = {},
  change: { status?: Machine['status']; deleting?: boolean } = {},
): Stored<Machine> {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      name,
      namespace: 'web',
      uid: `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: at(-100_000 + name.charCodeAt(0)),
      ...(change.deleting === true ? { deletionTimestamp: at(-1) } : {}),
    },
    spec,
    status: change.status ?? {
      firstReadyAt: at(-99_000),
      conditions: [{ type: 'Ready', status: 'True', reason: 'Ready', message: '', lastTransitionTime: at(-99_000) }],
    },
  };
}
const set = (spec: Partial<MachineSet['spec']>, status: MachineSet['status'] = {}): Stored<MachineSet> => ({
  apiVersion: API_VERSION,
  kind: 'MachineSet',
  metadata: { name: 'web-a', namespace: 'web', uid: 'set', resourceVersion: '1', creationTimestamp: at(-100_000), generation: 1 },
  spec: { provider: { name: 'fake' }, ...spec },
  status,
});
const many = (count: number): Stored<Machine>[] => Array.from({ length: count }, (_, index) => machine(String.fromCharCode(97 + index)));
const view = (spec: Partial<MachineSet['spec']>, machines: Stored<Machine>[], status?: MachineSet['status']): MachineSetView => ({
  set: set(spec, status),
  machines,
  now: NOW,
});
const marks = (of: MachineSetView, unsettled: string[] = []): Record<string, string> => {
  const { takeBack, settle, confirm, retire } = decideMarks(of, 7, new Set(unsettled.map((name) => `uid-${name}`)));
  const names = (machines: Stored<Machine>[]): string => machines.map(({ metadata }) => metadata.name).join('');
  return { takeBack: names(takeBack), settle: names(settle), confirm: names(confirm), retire: names(retire) };
};
const none = { takeBack: '', settle: '', confirm: '', retire: '' };
const mine = { retire: { epoch: 7 } };
const other = { retire: { epoch: 6 } };

describe('C8a: one line in Git does not doom a set', () => {
  test('replicas left out marks nobody, and takes back what is marked', () => {
    expect(marks(view({}, many(20)))).toEqual(none);
    expect(marks(view({}, [...many(3), machine('x', mine)], { keptReplicas: 2 }))).toEqual({ ...none, takeBack: 'x' });
  });
  test('and keeps what was there: what goes is made again', () => {
    const left = view({ maxInFlight: 9 }, many(3), { keptReplicas: 5 });
    expect(decideMachineSet(left).create).toHaveLength(2);
    expect(decideMachineSet(view({}, many(3))).create).toHaveLength(0);
    expect(statusOf(left, decideMachineSet(left), undefined).status).toMatchObject({ keptReplicas: 5, retiringReplicas: 0 });
    const given = view({ replicas: 3 }, many(3), { keptReplicas: 5 });
    expect(statusOf(given, decideMachineSet(given), undefined).status.keptReplicas).toBeUndefined();
  });
  test('a tenth goes at a time, one at least; what is being deleted counts', () => {
    expect(marks(view({ replicas: 1 }, many(20))).retire).toHaveLength(2);
    expect(marks(view({ replicas: 1 }, many(5))).retire).toHaveLength(1);
    expect(marks(view({ replicas: 1, maxRetiring: 3 }, many(20))).retire).toHaveLength(3);
    expect(marks(view({ replicas: 1, maxRetiring: 0 }, many(20)))).toEqual(none);
    const going = [machine('y', {}, { deleting: true }), machine('z', {}, { deleting: true })];
    expect(marks(view({ replicas: 1, maxRetiring: 3 }, [...many(20), ...going])).retire).toHaveLength(1);
    expect(marks(view({ replicas: 1, maxRetiring: 2 }, [...many(20), ...going]))).toEqual(none);
  });
  test('a revert takes back every mark that is not carried out', async () => {
    const world = createSetWorld();
    world.set({ replicas: 40, maxInFlight: 100 });
    await world.settle();
    for (const { metadata } of world.alive()) world.ready(metadata.name, true);
    world.set({ replicas: 1 });
    world.relist();
    await world.run();
    world.relist();
    await world.run();
    expect([world.alive().length, world.alive().filter(({ spec }) => spec.retire !== undefined).length]).toEqual([40, 4]);
    world.set({ replicas: 40 });
    world.relist();
    await world.run();
    world.retire();
    expect([world.alive().length, world.alive().filter(({ spec }) => spec.retire !== undefined).length]).toEqual([40, 0]);
  });
});

describe('C8a: marks', () => {
  test('of this term stay, those of another are confirmed, and nobody else is chosen meanwhile', () => {
    expect(marks(view({ replicas: 2 }, [machine('a'), machine('b', mine), machine('c')]))).toEqual(none);
    expect(marks(view({ replicas: 2 }, [machine('a'), machine('b', other), machine('c')]))).toEqual({ ...none, confirm: 'b' });
    expect(marks(view({ replicas: 1, maxRetiring: 2 }, [machine('a'), machine('b', mine), machine('c')]))).toEqual({
      ...none,
      retire: 'c',
    });
  });
  test('that are too many are taken back, those first whose drain has not begun', () => {
    const draining = machine('b', mine, {
      status: { conditions: [{ type: 'Drained', status: 'False', reason: 'Draining', message: '', lastTransitionTime: at(0) }] },
    });
    expect(marks(view({ replicas: 2 }, [machine('a'), draining, machine('c', mine)]))).toEqual({ ...none, takeBack: 'c' });
    expect(marks(view({ replicas: 3 }, [machine('a'), draining, machine('c', other)]))).toEqual({ ...none, takeBack: 'bc' });
  });
  test('a pace that fell takes nobody back', () => {
    expect(marks(view({ replicas: 0, maxRetiring: 1 }, [machine('a', mine), machine('b', mine)]))).toEqual(none);
  });
  test('while the set is paused are taken back', () => {
    expect(marks(view({ replicas: 0, paused: true }, [machine('a', mine), machine('b')]))).toEqual({ ...none, takeBack: 'a' });
  });
  test('whose answer was lost are written before anything else is decided; one that is not wanted any more is made void, never given', () => {
    expect(marks(view({ replicas: 1 }, [machine('a'), machine('b')]), ['a'])).toEqual({ ...none, confirm: 'a' });
    expect(marks(view({ replicas: 2 }, [machine('a'), machine('b')]), ['a'])).toEqual({ ...none, settle: 'a' });
    expect(marks(view({ replicas: 2 }, [machine('a', mine), machine('b')]), ['a'])).toEqual({ ...none, takeBack: 'a' });
  });
  test('what is held goes last', () => {
    const machines = [machine('a'), machine('b', { hold: true }), machine('c', { paused: true })];
    expect(marks(view({ replicas: 2 }, machines)).retire).toBe('a');
    expect(marks(view({ replicas: 1, maxRetiring: 2 }, machines)).retire).toBe('ac');
  });
});

describe('D7: machines that never were Ready', () => {
  const failed = (name: string, ageSeconds: number): Stored<Machine> => {
    const made = machine(name, {}, { status: { phase: 'Installing' } });
    return { ...made, metadata: { ...made.metadata, creationTimestamp: at(-ageSeconds) } };
  };
  const reason = (of: MachineSetView): string | undefined =>
    statusOf(of, decideMachineSet(of), undefined).status.conditions?.find(({ type }) => type === 'Progressing')?.reason;

  test('count against maxFailed of their MachineSet, which makes no more', () => {
    const spec = { replicas: 9, readyWithinSeconds: 60, maxFailed: 2, maxInFlight: 9 };
    const one = view(spec, [machine('a'), failed('b', 61), failed('c', 60)]);
    expect([decideMachineSet(one).create.length, reason(one)]).toEqual([6, 'ScalingUp']);
    const two = view(spec, [machine('a'), failed('b', 61), failed('c', 61)]);
    expect([decideMachineSet(two).create.length, reason(two)]).toEqual([0, 'TooManyFailed']);
  });
  test('three of half an hour where nothing is said', () => {
    const three = ['a', 'b', 'c'].map((name) => failed(name, 1801));
    expect(decideMachineSet(view({ replicas: 9 }, three)).create).toHaveLength(0);
    expect(decideMachineSet(view({ replicas: 9 }, three.slice(1))).create).toHaveLength(7);
  });
});
