import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import { ANNOTATIONS } from '../../api/names.ts';
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
  machines: machines.map((each) => (each.spec.retire?.epoch === 7 ? annotated(each, spec.replicas ?? 0) : each)),
  now: NOW,
});
/** What this term marked bears the number that is wanted. */
function annotated(of: Stored<Machine>, number: number): Stored<Machine> {
  return { ...of, metadata: { ...of.metadata, annotations: { [ANNOTATIONS.retireFor]: String(number), ...of.metadata.annotations } } };
}
const marks = (of: MachineSetView, unsettled: string[] = []): Record<string, string> => {
  const { takeBack, settle, confirm, retire } = decideMarks(of, 7, new Set(unsettled.map((name) => `uid-${name}`)));
  const names = (machines: Stored<Machine>[]): string => machines.map(({ metadata }) => metadata.name).join('');
  return { takeBack: names(takeBack), settle: names(settle), confirm: names(confirm), retire: names(retire) };
};
const none = { takeBack: '', settle: '', confirm: '', retire: '' };
const mine = { retire: { epoch: 7 } };
const other = { retire: { epoch: 6 } };

describe('safety 6, C8a: one line in Git does not doom a set', () => {
  test('replicas left out marks no machine, and takes back what is marked', () => {
    expect(marks(view({}, many(20)))).toEqual(none);
    expect(marks(view({}, [...many(3), machine('x', mine)], { keptReplicas: 2 }))).toEqual({ ...none, takeBack: 'x' });
  });
  test('and keeps what was there: what goes is made again', () => {
    const left = view({ maxInFlight: 9 }, many(3), { keptReplicas: 5 });
    expect(decideMachineSet(left).create).toHaveLength(2);
    expect(decideMachineSet(view({}, many(3))).create).toHaveLength(0);
    expect(statusOf(left, undefined).status).toMatchObject({ keptReplicas: 5, retiringReplicas: 0 });
    const given = view({ replicas: 3 }, many(3), { keptReplicas: 5 });
    expect(statusOf(given, undefined).status.keptReplicas).toBeUndefined();
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
  test('of this term stay, those of another are confirmed, and no other is chosen meanwhile', () => {
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
  test('of this term leave as many others to be chosen as the pace allows, whichever machines bear them', () => {
    for (const bearer of ['a', 'b', 'c']) {
      const machines = ['a', 'b', 'c'].map((name) => machine(name, name === bearer ? mine : {}));
      const { retire = '', ...rest } = marks(view({ replicas: 1, maxRetiring: 2 }, machines));
      expect([retire, rest]).toEqual([bearer === 'c' ? 'b' : 'c', { takeBack: '', settle: '', confirm: '' }]);
    }
  });
  test('a pace that fell takes no mark back', () => {
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

const condition = (of: MachineSetView, type: string): string => {
  const found = statusOf(of, undefined).status.conditions?.find((each) => each.type === type);
  return `${found?.status}/${found?.reason} ${found?.message}`;
};
const undrained = (name: string, notAfterSeconds: number, spec: Machine['spec'] = {}): Stored<Machine> => {
  const retry = { of: ['Delete'], tries: 1, at: at(0) };
  const operation = {
    id: 'r',
    epoch: 1,
    kind: 'Cancelled',
    notAfter: at(notAfterSeconds),
    cause: 'DrainTimeout',
    reason: 'DrainTimeout: pods were left',
    retry,
  } as const;
  return machine(name, { ...spec, operation });
};
const markedFor = (name: string, number: number, spec: Machine['spec'] = {}): Stored<Machine> => annotated(machine(name, spec), number);

describe('C8a: a machine that cannot go does not stop the others', () => {
  test('one that is held gives its slot to one that may go', () => {
    const machines = [machine('a'), machine('b'), markedFor('c', 2, { ...mine, hold: true })];
    expect(marks(view({ replicas: 2 }, machines))).toEqual({ ...none, takeBack: 'c', retire: 'b' });
    expect(
      marks(
        view({ replicas: 2 }, [machine('a', { hold: true }), machine('b', { hold: true }), markedFor('c', 2, { ...mine, hold: true })]),
      ),
    ).toEqual(none);
  });
  test('so does one whose drain did not end in time', () => {
    expect(marks(view({ replicas: 1 }, [machine('a'), undrained('b', 9, mine), machine('c')]))).toEqual({
      ...none,
      takeBack: 'b',
      retire: 'c',
    });
  });
  test('a drain that ended for a change, and not for a deletion, makes no machine wait', () => {
    const changed = undrained('c', 9);
    const operation = {
      id: 'r',
      epoch: 1,
      kind: 'Cancelled' as const,
      notAfter: at(9),
      cause: 'DrainTimeout' as const,
      reason: 'DrainTimeout: pods were left',
      retry: { of: ['Change x@1'], tries: 1, at: at(0) },
    };
    expect(marks(view({ replicas: 1 }, [machine('a'), { ...changed, spec: { operation } }])).retire).toBe('c');
  });
  test('where no other may go those whose drain did not end take turns, the one first that was tried longest ago', () => {
    expect(marks(view({ replicas: 1 }, [undrained('a', 5), undrained('b', 9, mine), undrained('c', 7)]))).toEqual({
      ...none,
      takeBack: 'b',
      retire: 'a',
    });
    const kept = markedFor('b', 1, { ...undrained('b', 5).spec, ...mine });
    expect(marks(view({ replicas: 1 }, [undrained('a', 6), kept, undrained('c', 7)]))).toEqual(none);
  });
  test('no more are marked than the pace allows, however many are blocked', () => {
    const held = ['x', 'y', 'z'].map((name) => markedFor(name, 0, { ...mine, hold: true }));
    const some = marks(view({ replicas: 0, maxRetiring: 1 }, [...many(3), ...held]));
    expect(some.retire).toBe('c');
    expect(some.takeBack).toHaveLength(1);
  });
});

describe('C8a: a person who takes a mark back saves the machine', () => {
  test('it is not marked again for that number, also where no other may go', () => {
    expect(marks(view({ replicas: 2 }, [machine('a'), machine('b'), markedFor('c', 2)]))).toEqual({ ...none, retire: 'b' });
    expect(marks(view({ replicas: 0, maxRetiring: 9 }, [markedFor('a', 0), markedFor('c', 0)]))).toEqual(none);
    expect(marks(view({ replicas: 1 }, [machine('a'), machine('b'), markedFor('c', 2)])).retire).toBe('c');
  });
  test('a mark that stays is for the number that is wanted now', () => {
    expect(marks(view({ replicas: 2 }, [machine('a'), machine('b'), markedFor('c', 2, mine)]))).toEqual(none);
    expect(marks(view({ replicas: 1 }, [machine('a'), machine('b'), markedFor('c', 2, mine)]))).toEqual({ ...none, confirm: 'c' });
  });
  test('one that is spared and may still be marked is made void, and stays spared then', () => {
    expect(
      marks(view({ replicas: 2 }, [machine('a', { hold: true }), machine('b', { hold: true }), markedFor('c', 2)]), ['c']).settle,
    ).toBe('c');
    const voided = markedFor('c', 2, { retire: { epoch: 0 } });
    expect(marks(view({ replicas: 2 }, [machine('a'), machine('b'), voided]))).toEqual({ ...none, takeBack: 'c', retire: 'b' });
  });
  test('a human takes the mark back: another one goes; the set itself takes it back: that spares no machine', async () => {
    const world = createSetWorld();
    world.set({ replicas: 3, maxInFlight: 100 });
    await world.settle();
    for (const { metadata } of world.alive()) world.ready(metadata.name, true);
    const pass = async (): Promise<string[]> => {
      for (let run = 0; run < 3; run++) {
        world.relist();
        await world.run();
      }
      return world
        .alive()
        .filter(({ spec }) => spec.retire !== undefined)
        .map(({ metadata }) => metadata.name);
    };
    world.set({ replicas: 2 });
    const [first = ''] = await pass();
    world.edit(first, ({ spec }) => void delete spec.retire);
    const [second = ''] = await pass();
    expect([second === '', second === first]).toEqual([false, false]);
    world.set({ replicas: 3 });
    expect(await pass()).toEqual([]);
    world.set({ replicas: 2 });
    expect(await pass()).toEqual([second]);
    for (let [name] = await pass(); name !== undefined; [name] = await pass()) world.edit(name, ({ spec }) => void delete spec.retire);
    expect(await pass()).toEqual([]);
    expect(world.condition('Progressing')).toBe('False/ScaleDownBlocked');
    world.set({ replicas: 1 });
    expect(await pass()).toHaveLength(1);
  });
});

describe('C8a: a scale-down that cannot end is reported', () => {
  test('how many, who and why', () => {
    const machines = [machine('a', { hold: true }), markedFor('b', 0), undrained('c', 9, mine), machine('d', mine)];
    const some = view({ replicas: 0 }, machines);
    expect(condition(some, 'Progressing')).toContain('True/ScalingDown');
    expect(condition(some, 'ScaleDownBlocked')).toBe(
      'True/MachinesStay 3 of 4 machines too many cannot go now: held or paused: a; not drained in time: c; a person took their mark for 0 back: b',
    );
    expect(condition(view({ replicas: 0 }, machines.slice(0, 3)), 'Progressing')).toContain('False/ScaleDownBlocked 3 of 3');
    expect(condition(view({ replicas: 3 }, machines), 'ScaleDownBlocked')).toBe('False/NotBlocked ');
    expect(condition(view({ replicas: 4 }, machines), 'ScaleDownBlocked')).toBe('False/NotBlocked ');
    expect(condition(view({ replicas: 1 }, [machine('a', { hold: true }), machine('b', { hold: true })]), 'ScaleDownBlocked')).toBe(
      'True/MachinesStay 1 of 1 machines too many cannot go now: held or paused: a, b',
    );
  });
  test('what is being deleted already frees none of the others', () => {
    const machines = [machine('a', { hold: true }), machine('b', { hold: true }), machine('c', {}, { deleting: true })];
    expect(condition(view({ replicas: 1 }, machines), 'ScaleDownBlocked')).toContain('True/MachinesStay 1 of 1');
  });
});

test('a machine that has a Node, or was Ready without one, is not being made: it takes no slot of maxInFlight', () => {
  const made = (status: NonNullable<Machine['status']>): number =>
    decideMachineSet(view({ replicas: 2, maxInFlight: 1 }, [machine('a', {}, { status })])).create.length;
  const ready = { type: 'Ready', status: 'True', reason: 'x', message: '', lastTransitionTime: at(-9) } as const;
  const firstReadyAt = at(-9);
  expect(made({ firstReadyAt, nodeRef: { name: 'a', uid: 'n' }, conditions: [{ ...ready, status: 'False' }] })).toBe(1);
  expect(made({ firstReadyAt, conditions: [ready] })).toBe(1);
  expect(made({ firstReadyAt, conditions: [{ ...ready, status: 'False' }] })).toBe(0);
});

describe('D7: machines that never were Ready', () => {
  const failed = (name: string, ageSeconds: number): Stored<Machine> => {
    const made = machine(name, {}, { status: { phase: 'Installing' } });
    return { ...made, metadata: { ...made.metadata, creationTimestamp: at(-ageSeconds) } };
  };
  const reason = (of: MachineSetView): string | undefined =>
    statusOf(of, undefined).status.conditions?.find(({ type }) => type === 'Progressing')?.reason;

  test('count against maxFailed of their MachineSet, which makes no more', () => {
    const spec = { replicas: 9, readyWithinSeconds: 60, maxFailed: 2, maxInFlight: 9 };
    const one = view(spec, [machine('a'), failed('b', 61), failed('c', 60)]);
    expect([decideMachineSet(one).create.length, reason(one)]).toEqual([6, 'ScalingUp']);
    const two = view(spec, [machine('a'), failed('b', 61), failed('c', 61)]);
    expect([decideMachineSet(two).create.length, reason(two)]).toEqual([0, 'TooManyFailed']);
  });
  test('three of half an hour where the set declares nothing', () => {
    const three = ['a', 'b', 'c'].map((name) => failed(name, 1801));
    expect(decideMachineSet(view({ replicas: 9 }, three)).create).toHaveLength(0);
    expect(decideMachineSet(view({ replicas: 9 }, three.slice(1))).create).toHaveLength(7);
  });
  test('take no slot of maxInFlight, so that maxFailed is reached and reported', () => {
    const spec = { replicas: 9, readyWithinSeconds: 60, maxFailed: 2, maxInFlight: 1 };
    const one = view(spec, [machine('a'), failed('b', 61)]);
    expect([decideMachineSet(one).create.length, reason(one)]).toEqual([1, 'ScalingUp']);
    expect(decideMachineSet(view(spec, [machine('a'), failed('b', 61), failed('c', 60)])).create).toHaveLength(0);
    const two = view(spec, [machine('a'), failed('b', 61), failed('c', 61)]);
    expect([decideMachineSet(two).create.length, reason(two)]).toEqual([0, 'TooManyFailed']);
  });
  test('are not those that run, though no record shows when they were Ready first', () => {
    const made = failed('b', 61);
    const runs: Stored<Machine> = { ...made, status: { phase: 'Running' } };
    const spec = { replicas: 2, readyWithinSeconds: 60 };
    expect([reason(view(spec, [machine('a'), runs])), reason(view(spec, [machine('a'), made]))]).toEqual(['Complete', 'MachinesFailed']);
  });
  test('keep a set that has them all from being Complete', () => {
    const spec = { replicas: 2, readyWithinSeconds: 60, maxFailed: 2 };
    expect(reason(view(spec, [machine('a'), failed('b', 60)]))).toBe('Complete');
    expect(reason(view(spec, [machine('a'), failed('b', 61)]))).toBe('MachinesFailed');
    expect(reason(view(spec, [failed('a', 61), failed('b', 61)]))).toBe('TooManyFailed');
    expect(reason(view({ readyWithinSeconds: 60 }, [machine('a'), failed('b', 61)]))).toBe('MachinesFailed');
  });
  test('are reconciled when their time is over, and not before', () => {
    const again = (of: MachineSetView): number | undefined => statusOf(of, undefined).again;
    expect(again(view({ replicas: 3, readyWithinSeconds: 60 }, [machine('a'), failed('b', 20), failed('c', 50)]))).toBe(10_001);
    expect(again(view({ replicas: 2, readyWithinSeconds: 60 }, [machine('a'), failed('b', 61)]))).toBeUndefined();
  });
});
