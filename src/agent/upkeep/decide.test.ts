import { describe, expect, test } from 'vitest';
import { newProgress } from '../transaction/memory.ts';
import { HOUR_MS, repairBudgetMs, upkeepStep } from './decide.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { LASTING_MS } from './memory.ts';
import { NOW, WALL, accepted, installed, justChecked, manifest, node, state, tx, unit } from '../testing/observed.ts';

/* What keeps a node as it is, as tables. */

function next(rest: Partial<ObservedNode>): { step: ReturnType<typeof upkeepStep>; due: number[] } {
  const due: number[] = [];
  return { step: upkeepStep(node(rest), (ms) => void due.push(ms)), due };
}

const CHECKS = [NOW + 60_000, NOW + 60_000];
const down = unit({ running: false });
const starts = (rest: object = {}): ObservedNode['starts'] =>
  new Map([['app', { failures: 0, lastMs: NOW - 5, notBeforeMs: NOW, ...rest }]]);
const finding = { kind: 'file' as const, path: '/x', what: 'is missing', repair: true };
const drifted = (rest: object = {}): ObservedNode['drift'] => new Map([['app', { ...justChecked, findings: [finding], ...rest }]]);
const repaired = (...ago: number[]): Pick<ObservedNode, 'state'> => ({
  state: state(accepted('1.0.0', 1, { repairs: ago.map((each) => WALL - each) })),
});
const damaged: Pick<ObservedNode, 'installed'> = { installed: new Map([['app', { ...installed('1.0.0', 1), manifest: undefined }]]) };
const stray = new Map([...unit(), ['stray', { name: 'stray', running: true, invocation: '', hash: '', generation: '' }]]);
const open = (rest: Parameters<typeof tx>[0] = {}): Pick<ObservedNode, 'state'> => ({
  state: state(accepted('1.1.0', 2), { transaction: tx(rest) }),
});
const view = { passed: false, broken: false, hopeless: false, message: undefined };
const probing = { ...newProgress(), probing: { view, deadlineMs: NOW } };
const two = new Map([
  ['d1.0.0', manifest('1.0.0')],
  ['d1.1.0', manifest('1.1.0', { units: [{ ...manifest('1.1.0').units[0], name: 'new' } as never] })],
]);

test.each<[string, Partial<ObservedNode>, object | undefined, number[]]>([
  ['all is well', {}, undefined, CHECKS],
  ['a unit was just started for the first time', { starts: starts() }, undefined, CHECKS],
  ['a unit crashes in a loop, and runs just now', { starts: starts({ failures: 3 }) }, undefined, [...CHECKS, NOW - 5 + LASTING_MS]],
  ['a unit crashed, and has lasted since', { starts: starts({ failures: 3, lastMs: NOW - LASTING_MS }) }, undefined, CHECKS],
  ['a unit is down', { units: down, starts: starts() }, { do: 'startUnit', name: 'app', unit: 'app' }, CHECKS],
  ['a unit is down, and its start failed', { units: down, starts: starts({ notBeforeMs: NOW + 7 }) }, undefined, [...CHECKS, NOW + 7]],

  ['it was never checked', { drift: new Map() }, { do: 'check', name: 'app', full: false }, []],
  ['it is time to check', { drift: drifted({ nextMs: NOW }) }, { do: 'check', full: false }, []],
  ['it is time to check all', { drift: drifted({ nextMs: NOW, nextFullMs: NOW }) }, { do: 'check', full: true }, []],
  [
    'the next checks are at two times',
    { drift: new Map([['app', { ...justChecked, nextMs: NOW + 1, nextFullMs: NOW + 2 }]]) },
    undefined,
    [NOW + 1, NOW + 2],
  ],
  ['a file drifted', { drift: drifted() }, { do: 'repair', name: 'app' }, CHECKS],
  ['a file drifted that is only reported', { drift: drifted({ findings: [{ ...finding, repair: false }] }) }, undefined, CHECKS],
  [
    'of two that drifted one may be repaired',
    { drift: drifted({ findings: [{ ...finding, repair: false }, finding] }) },
    { do: 'repair', name: 'app' },
    CHECKS,
  ],
  ['a file drifted, after five repairs', { drift: drifted(), ...repaired(5, 4, 3, 2, 1) }, { do: 'repair' }, CHECKS],
  [
    'a file drifted, after six repairs',
    { drift: drifted(), ...repaired(600_000, 5, 4, 3, 2, 1) },
    undefined,
    [...CHECKS, NOW + HOUR_MS - 600_000],
  ],

  ['its generation is damaged', damaged, { do: 'prepare', name: 'app', rebuild: true }, []],
  ['its generation is being built again', { ...damaged, rebuilt: new Map([['app', { status: 'working', revision: 1 }]]) }, undefined, []],
  [
    'its generation could not be built a moment ago',
    { ...damaged, rebuilt: new Map([['app', { status: 'retry', revision: 1, atMs: NOW + 3, failures: 1, message: '' }]]) },
    undefined,
    [NOW + 3],
  ],
  [
    'its generation could not be built a while ago',
    { ...damaged, rebuilt: new Map([['app', { status: 'retry', revision: 1, atMs: NOW, failures: 1, message: '' }]]) },
    { do: 'prepare', rebuild: true },
    [],
  ],
  ['its generation is damaged, and a unit seems to belong to no component', { ...damaged, units: stray }, { do: 'prepare' }, []],
  [
    'its generation is being built again, and a unit seems to belong to no component',
    { ...damaged, units: stray, rebuilt: new Map([['app', { status: 'working', revision: 1 }]]) },
    undefined,
    [],
  ],

  ['a unit belongs to no component', { units: stray }, { do: 'stopUnit', unit: 'stray' }, CHECKS],
  [
    'a unit belongs to no component, and does not end',
    { units: stray, starts: new Map([['stray', { failures: 0, lastMs: NOW, notBeforeMs: NOW + 8 }]]) },
    undefined,
    [...CHECKS, NOW + 8],
  ],
  ['a unit belongs to no component, while something is changed', { units: stray, ...open({ name: 'other' }) }, undefined, CHECKS],
  [
    'the machine was cleaned up, and a unit is left',
    { units: unit(), installed: new Map(), state: state(accepted('1.0.0', 1), { cleared: true }) },
    { do: 'stopUnit', unit: 'app' },
    [],
  ],
  [
    'the machine was cleaned up, and what could not be taken away is down',
    { units: down, drift: new Map(), state: state(accepted('1.0.0', 1), { cleared: true }) },
    undefined,
    [],
  ],

  ['it is being changed', { ...open(), units: down, drift: new Map() }, undefined, []],
  ['it is being changed, and another is down', { ...open({ name: 'other' }), units: down }, { do: 'startUnit', unit: 'app' }, CHECKS],
  [
    'it is probed, and the new unit is down',
    { ...open(), progress: probing, manifests: two },
    { do: 'startUnit', name: 'app', unit: 'new' },
    [],
  ],
  [
    'what ran before is probed, and its unit is down',
    { ...open({ back: { reason: 'r', message: 'm' } }), progress: probing, manifests: two, units: down },
    { do: 'startUnit', name: 'app', unit: 'app' },
    [],
  ],
  [
    'what ran before is probed, and its unit runs',
    { ...open({ back: { reason: 'r', message: 'm' } }), progress: probing, manifests: two },
    undefined,
    [],
  ],
  ['it is not probed yet, and the new unit is down', { ...open(), manifests: two }, undefined, []],
])('%s', (_what, rest, expected, due) => {
  const found = next(rest);
  if (expected === undefined) expect(found.step).toBeUndefined();
  else expect(found.step).toMatchObject(expected);
  expect(found.due).toEqual(due);
});

test('what others require comes first', () => {
  const here = new Map([
    ['app', installed('1.0.0', 1, { requires: [{ componentName: 'base' }] })],
    ['base', installed('1.0.0', 1, { name: 'base', units: [] })],
  ]);
  expect(next({ installed: here, drift: new Map() }).step).toMatchObject({ do: 'check', name: 'base' });
});

describe('the budget of repairs', () => {
  const budget = (...ago: number[]): number => repairBudgetMs({ ...repaired(...ago), wallMs: WALL }, 'app');
  test.each<[string, number[], number]>([
    ['nothing was repaired', [], 0],
    ['five in the hour', [5, 4, 3, 2, 1], 0],
    ['six in the hour', [100, 5, 4, 3, 2, 1], HOUR_MS - 100],
    ['seven in the hour: two must be an hour ago', [200, 100, 5, 4, 3, 2, 1], HOUR_MS - 100],
    ['six, one of them an hour ago', [HOUR_MS, 5, 4, 3, 2, 1], 0],
    ['six, one of them in the future, by a clock that was set back', [5, 4, 3, 2, 1, -1], 0],
    ['six, one of them just now', [5, 4, 3, 2, 1, 0], HOUR_MS - 5],
  ])('%s', (_what, ago, expected) => {
    expect(budget(...ago)).toBe(expected);
  });
});
