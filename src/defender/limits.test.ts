import { describe, expect, test } from 'vitest';
import { limitsOf, type LimitSources } from './limits.ts';
import { conditionScope, machineSetScope, poolScope, setScope } from './scopes.ts';
import { policy, request } from './testing/reservations.ts';
import type { Request } from './request.ts';

const sources: LimitSources = {
  policies: [
    policy('p', { name: 'cell', scope: 'Cluster', maxUnavailable: 3 }, { name: 'web', scope: 'Pool', maxUnavailable: 1, pools: ['web'] }),
    policy('q', { name: 'each', scope: 'Pool', maxUnavailable: '20%' }, { name: 'sets', scope: 'Set', maxUnavailable: 2, pools: ['web'] }),
  ],
  sets: new Map([['s1', { name: 'kubelet', maxUnavailable: 4 }]]),
};
const on = (limits: LimitSources, scopes: string[], change: Partial<Request> = {}) =>
  limitsOf(limits).on(request('a', { scopes, ...change }));
const names = (scope: string, machine = 'web/a'): string[] => on(sources, [scope], { machine }).limits.map((limit) => limit.name);

test('all limits of all policies apply in their scopes', () => {
  expect(names('cluster')).toEqual(['p/cell']);
  expect(names(poolScope('web'))).toEqual(['p/web', 'q/each']);
  expect(names(poolScope('db'), 'db/a')).toEqual(['q/each']);
  expect(names(machineSetScope('web', 'x'))).toEqual(['q/sets']);
  expect(names(machineSetScope('db', 'x'), 'db/a')).toEqual([]);
  expect(on(sources, [setScope('s1')]).limits).toMatchObject([
    { name: 'MachineComponentSet/kubelet', scope: 'set/s1', measure: { of: 'Unavailable', max: 4 } },
  ]);
});

test('a set that is gone and a scope of a later build have no limit of their own', () => {
  expect(names(setScope('gone'))).toEqual([]);
  expect(names('galaxy/7')).toEqual([]);
  expect(names('zone/')).toEqual([]);
});

test('where no policy limits how many at once the built-in limit of the cell applies, and only there', () => {
  const builtin = { name: 'builtin/cluster', scope: 'cluster', measure: { of: 'Unavailable', max: '10%' } };
  const rate = policy('rates', { name: 'r', scope: 'Pool', maxPerHour: 3, minIntervalSeconds: 60 });
  for (const policies of [[], [policy('empty')], [rate]]) {
    expect(on({ policies, sets: new Map() }, ['cluster']).limits).toMatchObject([builtin]);
    expect(on({ policies, sets: new Map() }, [poolScope('web')]).limits.filter((limit) => limit.name === 'builtin/cluster')).toEqual([]);
  }
  // A policy that limits only pools does not limit the cell.
  for (const measure of [{ maxUnavailable: 1 }, { maxConcurrent: 5 }])
    expect(on({ policies: [policy('p', { name: 'web', scope: 'Pool', ...measure })], sets: new Map() }, ['cluster']).limits).toEqual([]);
});

describe('a limit applies', () => {
  const speaking = (scope: string, limit: object, change: Partial<Request>, pool = 'web'): boolean =>
    on(
      {
        policies: [policy('p', { name: 'l', scope: 'Cluster', maxUnavailable: 1 }, { name: 'x', scope: 'Cluster', ...limit })],
        sets: new Map(),
      },
      [scope],
      {
        machine: `${pool}/a`,
        ...change,
      },
    ).limits.some((each) => each.name === 'p/x');
  const repair = { kind: 'Repair', class: 'Repair' } as const;
  const restore = { class: 'Restore' } as const;
  const deletion = { kind: 'Delete', class: 'Change' } as const;

  test('of the classes it names; a deletion is Delete in any class', () => {
    expect([{}, repair, restore, deletion].map((change) => speaking('cluster', { maxConcurrent: 1, classes: ['Repair'] }, change))).toEqual(
      [false, true, false, false],
    );
    expect([{}, deletion].map((change) => speaking('cluster', { maxUnavailable: 1, classes: ['Delete'] }, change))).toEqual([false, true]);
  });

  test('of all where it names none, but rates and intervals of no Restore', () => {
    for (const [measure, ofRestore] of [
      [{ maxUnavailable: 1 }, true],
      [{ maxConcurrent: 1 }, true],
      [{ maxPerHour: 1 }, false],
      [{ maxPerDay: 1 }, false],
      [{ minIntervalSeconds: 1 }, false],
    ] as const) {
      expect(speaking('cluster', measure, repair)).toBe(true);
      expect(speaking('cluster', measure, restore)).toBe(ofRestore);
      expect(speaking('cluster', { ...measure, classes: ['Restore'] }, restore)).toBe(true);
    }
  });

  test('of the condition types it names, with any characters', () => {
    const hung = { scope: 'Condition', maxConcurrent: 1, conditions: ['example.com/Hung'] };
    expect(speaking(conditionScope('example.com/Hung'), hung, repair)).toBe(true);
    expect(speaking(conditionScope('KernelDeadlock'), hung, repair)).toBe(false);
    expect(speaking(conditionScope('KernelDeadlock'), { scope: 'Condition', maxConcurrent: 1 }, repair)).toBe(true);
  });

  test('D8: of machines in no zone or rack too: they lack what it needs', () => {
    const zoned = {
      policies: [policy('p', { name: 'z', scope: 'Zone', maxUnavailable: 1, pools: ['web'], classes: ['Change'] })],
      sets: new Map(),
    };
    expect(on(zoned, ['cluster']).placeless).toEqual([{ name: 'p/z', lacks: 'Zone' }]);
    expect(on(zoned, ['cluster', 'zone/a']).placeless).toEqual([]);
    expect(on(zoned, ['cluster'], repair).placeless).toEqual([]);
    expect(on(zoned, ['cluster'], { machine: 'db/a' }).placeless).toEqual([]);
    const racked = { policies: [policy('p', { name: 'r', scope: 'Rack', minIntervalSeconds: 9 })], sets: new Map() };
    expect(on(racked, ['zone/a']).placeless).toEqual([{ name: 'p/r', lacks: 'Rack' }]);
  });
});

test('what a rate limits is kept apart, since only that is counted', () => {
  const { rated } = limitsOf({
    policies: [
      policy('p', { name: 'cell', scope: 'Cluster', maxUnavailable: 3 }, { name: 'r', scope: 'Rack', maxPerDay: 1, classes: ['Repair'] }),
      policy('q', { name: 'c', scope: 'Condition', conditions: ['X'], maxPerHour: 1 }),
    ],
    sets: new Map(),
  });
  expect([rated('Repair', 'rack/1'), rated('Change', 'rack/1'), rated('Repair', 'cluster'), rated('Repair', 'set/s1')]).toEqual([
    true,
    false,
    false,
    false,
  ]);
  expect([rated('Repair', 'condition/X'), rated('Repair', 'condition/Y')]).toEqual([true, false]);
});
