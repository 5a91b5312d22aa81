import { expect, test } from 'vitest';
import { Machines as ApiMachines } from '../../api/machine.ts';
import { contentOf } from '../../api/machine/values.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { fakeClock } from '../../kube/testing/clock.ts';
import { entry } from '../testing/world.ts';
import { Machines, createNewest, wantedOf } from './wanted.ts';

const operation = { id: 'op', epoch: 1, kind: 'Change', components: [{ name: 'app', revision: 2 }], notAfter: '2026-11-20T00:00:00Z' };

function machine(spec: object): object {
  return {
    apiVersion: 'kubenode.io/v1alpha1',
    kind: 'Machine',
    metadata: { name: 'a', namespace: 'web', uid: 'u', resourceVersion: '1', generation: 3 },
    spec,
  };
}

test('what the API takes is read', () => {
  const object = machine({ labels: { a: 'b' }, components: [entry('app', '1', 1)], operation, hold: true });
  expect(() => ApiMachines.parse(object)).not.toThrow();
  expect(Machines.parse(object)).toBe(object);
  expect(Machines.parse(machine({}))).toBeDefined();
});

test.each([
  [{ components: [{ ...entry('app', '1', 1), name: '../escape' }] }, 'Machine.spec.components[0].name'],
  [{ components: [{ ...entry('app', '1', 1), revision: 0 }] }, 'Machine.spec.components[0].revision'],
  [{ components: [{ ...entry('app', '1', 1), revision: 1.5 }] }, 'Machine.spec.components[0].revision'],
  [{ components: [entry('app', '1', 1), { ...entry('web', '1', 1), action: 'Explode' }] }, 'Machine.spec.components[1].action'],
  [{ components: [{ ...entry('app', '1', 1), version: 7 }] }, 'Machine.spec.components[0].version'],
  [{ components: [{ ...entry('app', '1', 1), values: 'x' }] }, 'Machine.spec.components[0].values'],
  [{ components: {} }, 'Machine.spec.components'],
  [{ labels: { a: 1 } }, 'Machine.spec.labels.a'],
  [{ operation: { ...operation, id: '' } }, 'Machine.spec.operation.id'],
  [{ operation: { ...operation, epoch: '1' } }, 'Machine.spec.operation.epoch'],
  [{ operation: { ...operation, components: [{ name: 'app' }] } }, 'Machine.spec.operation.components[0].revision'],
])('%j is refused, with its path', (spec, path) => {
  expect(() => Machines.parse(machine(spec))).toThrow(
    expect.objectContaining({ code: 'InvalidObject', message: expect.stringContaining(`\`${path}\``) }),
  );
});

test('what is no Machine is refused', () => {
  for (const value of [
    undefined,
    'text',
    {},
    { ...machine({}), kind: 'Node' },
    { apiVersion: 'kubenode.io/v1alpha1', kind: 'Machine', metadata: { name: 'a' } },
  ]) {
    expect(() => Machines.parse(value)).toThrow(expect.objectContaining({ code: 'InvalidObject' }));
  }
});

test('what was verified is identified by content', () => {
  const status = {
    verified: [
      { name: 'app', version: '2', values: { a: 1 }, revision: 2, setUID: 's', bootID: 'b', since: '' },
      { name: 'constructor', version: '1', revision: 1, setUID: 's', bootID: 'b', since: '' },
      { name: 'app', version: '1', revision: 1, setUID: 's', bootID: 'b', since: '' },
    ],
  };
  const wanted = wantedOf({ ...(machine({}) as Stored<Machine>), status });
  expect(wanted.verified['app']).toEqual([
    contentOf({ action: 'Install', version: '2', values: { a: 1 } }),
    contentOf({ action: 'Install', version: '1' }),
  ]);
  expect(wanted.verified['constructor']).toHaveLength(1);
});

test.each([
  [{}, false],
  [{ hold: true }, true],
  [{ paused: true }, true],
])('%j: held is %s', (spec, held) => {
  expect(wantedOf(machine(spec) as Stored<Machine>).held).toBe(held);
});

test('what is older than what was seen is no news, for a while, unless it is read again', () => {
  const clock = fakeClock();
  const isNews = createNewest(clock);
  expect([isNews('9'), isNews('10'), isNews('9'), isNews('10')]).toEqual([true, true, false, true]);
  expect([isNews('5', true), isNews('6')]).toEqual([true, true]);
  clock.pause(60_000);
  expect([isNews('2'), isNews('1')]).toEqual([true, false]);
  expect([isNews('not-a-number'), isNews('1')]).toEqual([true, true]);
});
