import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { decideMachineSet } from './decide.ts';
import { obstacleOf } from './obstacle.ts';
import { decideMarks } from './retire.ts';
import { chooseVictims } from './victims.ts';

interface Of {
  second?: number;
  domain?: string;
  first?: boolean;
  drained?: 'True' | 'False';
  unready?: boolean;
  spec?: Machine['spec'];
  hold?: boolean;
}
const machine = (name: string, { second = 0, domain, first, drained, unready, spec, hold }: Of = {}): Stored<Machine> => {
  const condition = (type: string, status: 'True' | 'False') => ({
    type,
    status,
    reason: 'x',
    message: '',
    lastTransitionTime: '2026-11-20T00:00:00Z',
  });
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      name,
      namespace: 'web',
      uid: name,
      resourceVersion: '1',
      creationTimestamp: `2026-11-20T00:00:0${second}Z`,
      ...(first === true ? { annotations: { [ANNOTATIONS.deleteFirst]: '' } } : {}),
    },
    spec: { ...(domain === undefined ? {} : { failureDomain: domain }), ...spec },
    status: {
      firstReadyAt: '2026-11-20T00:00:00Z',
      conditions: [
        condition('Ready', unready === true ? 'False' : 'True'),
        ...(drained === undefined ? [] : [condition('Drained', drained)]),
      ],
      ...(hold === undefined ? {} : { agent: { hold } }),
    } as NonNullable<Machine['status']>,
  };
};
const chosen = (machines: Stored<Machine>[], count: number): string =>
  chooseVictims(machines, count)
    .map(({ metadata }) => metadata.name)
    .join('');

describe('who goes first', () => {
  test('what is drained or being drained, then what is marked to go first, then what is not Ready, then the newest', () => {
    const machines = [
      machine('a', { second: 9 }),
      machine('b', { unready: true, second: 1 }),
      machine('c', { first: true, second: 3 }),
      machine('d', { drained: 'False', second: 2 }),
    ];
    expect(chosen(machines, 4)).toBe('dcba');
    expect(chosen([machine('a', { first: true, second: 9 }), machine('b', { drained: 'True', second: 1 })], 1)).toBe('b');
    expect(chosen([machine('a', { unready: true, second: 9 }), machine('b', { first: true, second: 1 })], 1)).toBe('b');
  });

  test('among equals the one whose name comes first, in each order', () => {
    expect(chosen([machine('b'), machine('a'), machine('c')], 2)).toBe('ab');
    expect(chosen([machine('a'), machine('b'), machine('c')], 2)).toBe('ab');
  });

  test('a name decides among equals alone', () => {
    expect(chosen([machine('b', { drained: 'True' }), machine('a')], 1)).toBe('b');
    expect(chosen([machine('a'), machine('b', { drained: 'True' })], 1)).toBe('b');
  });

  test('as many as are asked for, or as there are', () => {
    expect(chosen([machine('a')], 0)).toBe('');
    expect(chosen([machine('a'), machine('b')], 9)).toBe('ab');
  });

  test('machines of no failure domain are together, as if it were one', () => {
    expect(chosen([machine('a', { domain: 'h', second: 9 }), machine('b', { second: 1 }), machine('c', { second: 2 })], 1)).toBe('c');
    expect(
      chosen([machine('a', { domain: 'h', second: 1 }), machine('b', { domain: 'h', second: 2 }), machine('c', { second: 9 })], 1),
    ).toBe('b');
  });
});

const set = (spec: Partial<MachineSet['spec']>): Stored<MachineSet> => ({
  apiVersion: API_VERSION,
  kind: 'MachineSet',
  metadata: { name: 'web-a', namespace: 'web', uid: 'set', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' },
  spec: { provider: { name: 'fake' }, ...spec },
});

test('a machine is held by a human, on the hub or on the node, or where it is paused', () => {
  const obstacle = (of: Of): unknown => obstacleOf(machine('a', of), 3);
  expect([
    obstacle({}),
    obstacle({ spec: { hold: true } }),
    obstacle({ spec: { paused: true } }),
    obstacle({ hold: true }),
    obstacle({ hold: false }),
  ]).toEqual([undefined, 'Held', 'Held', 'Held', undefined]);
});

test('C8a: of those whose drain did not end at the same time the one goes first whose name does', () => {
  const operation: NonNullable<Machine['spec']['operation']> = {
    id: 'r',
    epoch: 1,
    kind: 'Cancelled',
    notAfter: '2026-11-20T00:00:09Z',
    cause: 'DrainTimeout',
    reason: 'x',
    retry: { of: ['Delete'], tries: 1, at: '2026-11-20T00:00:00Z' },
  };
  const undrained = (name: string): Stored<Machine> => machine(name, { spec: { operation } });
  for (const order of [
    ['a', 'b', 'c'],
    ['c', 'b', 'a'],
  ]) {
    const { retire } = decideMarks({ set: set({ replicas: 1, maxRetiring: 1 }), machines: order.map(undrained), now: 0 }, 7);
    expect(retire.map(({ metadata }) => metadata.name)).toEqual(['a']);
  }
});

test('a new machine goes where the fewest are; those of no domain, or of one that is not named, count nowhere', () => {
  const made = (machines: Stored<Machine>[], failureDomains: string[], replicas: number): unknown =>
    decideMachineSet({ set: set({ replicas, failureDomains }), machines, now: Date.UTC(2026, 10, 20) }).create;
  expect(made([machine('a', { domain: 'h' }), machine('b'), machine('c', { domain: 'z' })], ['h', 'i'], 6)).toEqual(['i', 'h', 'i']);
  expect(made([], ['h', 'i'], 3)).toEqual(['h', 'i', 'h']);
  expect(made([], [], 2)).toEqual([undefined, undefined]);
});
