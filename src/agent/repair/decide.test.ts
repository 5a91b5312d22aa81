import { describe, expect, test } from 'vitest';
import type { Operation } from '../../api/machine.ts';
import { repairStep, repairTodo } from './decide.ts';
import type { ObservedNode } from '../engine/observed.ts';
import type { OperationRecord, Task } from '../records/state.ts';
import { LATER, NOW, WALL, installed, machine, node, order } from '../testing/observed.ts';
import type { WantedState } from '../cell/wanted.ts';

/* What comes next of a Repair, as tables: it is begun only when the cell knows of it and still wants it, and it always ends. */

const restart: Task = { action: 'RestartComponent', component: 'app' };
const clean: Task = { action: 'CleanDisk', belowPercent: 80 };
const reboot: Task = { action: 'Reboot', fromBootID: 'b' };

const record = (task: Task, rest: Partial<OperationRecord> = {}): OperationRecord => ({
  id: 'op',
  epoch: 1,
  kind: 'Repair',
  startedAt: WALL,
  components: [],
  class: 'None',
  task,
  bootID: 'b',
  ...rest,
});

const ordered = (rest: Partial<Operation> = {}): Operation => order({ kind: 'Repair', ...rest });
const reported = (id: string, is: string): Pick<WantedState, 'reported'> => ({
  reported: { ...machine().reported, operation: { id, state: is } },
});
const announced = reported('op', 'Running');

/** The step, and the times at which it wants to be asked again. */
function next(observed: ObservedNode, operation: OperationRecord): { step: ReturnType<typeof repairStep>; due: number[] } {
  const due: number[] = [];
  if (operation.task === undefined) throw new Error('a Repair has a task');
  return { step: repairStep(observed, operation, operation.task, (ms) => void due.push(ms)), due };
}

describe('a Repair that is not begun', () => {
  test.each<[string, Partial<ObservedNode>, object | undefined, number[]]>([
    ['the Machine was not read', { wanted: undefined }, undefined, []],
    ['the Machine orders nothing any more', { wanted: machine() }, undefined, []],
    ['the cell does not know that it is under way', { wanted: machine({ operation: ordered() }) }, undefined, [NOW + 60_000]],
    [
      'the cell knows of another',
      { wanted: machine({ operation: ordered(), ...reported('other', 'Running') }) },
      undefined,
      [NOW + 60_000],
    ],
    ['the cell takes it for done', { wanted: machine({ operation: ordered(), ...reported('op', 'Done') }) }, undefined, [NOW + 60_000]],
    ['the cell knows', { wanted: machine({ operation: ordered(), ...announced }) }, { do: 'reread', operation: 'op' }, []],
    [
      'the cell knows, and could not be read a moment ago',
      { wanted: machine({ operation: ordered(), ...announced }), rereadNotBeforeMs: NOW + 9 },
      undefined,
      [NOW + 9],
    ],
    ['the Machine is held', { wanted: machine({ held: true, operation: ordered(), ...announced }) }, undefined, [NOW + 60_000]],
    [
      'the Machine is held, and no clock of the server is known',
      { wanted: machine({ held: true, operation: ordered(), ...announced }), serverMs: undefined },
      undefined,
      [],
    ],
    ['it seems late', { wanted: machine({ operation: ordered() }), serverMs: WALL + 60_000 }, { do: 'reread' }, []],
    ['it seems late, and held', { wanted: machine({ held: true, operation: ordered() }), serverMs: WALL + 60_000 }, { do: 'reread' }, []],
    [
      'it was just read, and is still wanted',
      { wanted: machine({ operation: ordered(), ...announced }), reread: 'op' },
      { do: 'clean', belowPercent: 80 },
      [],
    ],
    [
      'it was just read, and is held now',
      { wanted: machine({ held: true, operation: ordered(), ...announced }), reread: 'op' },
      undefined,
      [NOW + 60_000],
    ],
    [
      'it was just read, and the cell does not know of it',
      { wanted: machine({ operation: ordered() }), reread: 'op' },
      undefined,
      [NOW + 60_000],
    ],
    [
      'it was just read, and is late',
      { wanted: machine({ operation: ordered(), ...announced }), reread: 'op', serverMs: WALL + 60_000 },
      { do: 'finish', outcome: 'Cancelled', message: `not begun by ${LATER}` },
      [],
    ],
    [
      'it was just read, without a clock',
      { wanted: machine({ operation: ordered(), ...announced }), reread: 'op', serverMs: undefined },
      { do: 'finish', outcome: 'Cancelled', message: `not begun by ${LATER}` },
      [],
    ],
    [
      'another one was just read',
      { wanted: machine({ operation: ordered(), ...announced }), reread: 'other' },
      { do: 'reread', operation: 'op' },
      [],
    ],
    [
      'it was cancelled',
      { wanted: machine({ operation: ordered({ kind: 'Cancelled', reason: 'frozen' }) }) },
      { do: 'finish', outcome: 'Cancelled', message: 'frozen' },
      [],
    ],
    [
      'it was cancelled without a reason',
      { wanted: machine({ operation: ordered({ kind: 'Cancelled' }) }) },
      { do: 'finish', outcome: 'Cancelled', message: 'the order became one of kind Cancelled' },
      [],
    ],
    [
      'another order replaced it',
      { wanted: machine({ operation: ordered({ id: 'next' }) }) },
      { do: 'finish', outcome: 'Cancelled', message: 'another order replaced it: next' },
      [],
    ],
  ])('%s', (_what, rest, expected, due) => {
    const found = next(node(rest), record(clean));
    if (expected === undefined) expect(found.step).toBeUndefined();
    else expect(found.step).toMatchObject(expected);
    expect(found.due).toEqual(due);
  });

  test.each([
    [restart, { do: 'restartUnits', component: 'app' }],
    [clean, { do: 'clean', belowPercent: 80 }],
    [reboot, { do: 'reboot' }],
  ])('%o is done as what it is', (task, expected) => {
    const wanted = machine({ operation: ordered(), ...announced });
    expect(next(node({ wanted, reread: 'op' }), record(task)).step).toMatchObject(expected);
  });

  test('a reboot that came by itself is the one that was asked for', () => {
    const expected = { do: 'finish', outcome: 'Succeeded', message: 'this node is in boot c, it was in b' };
    expect(next(node({ bootID: 'c' }), record(reboot)).step).toMatchObject(expected);
    expect(next(node({ bootID: 'c' }), record(reboot, { acting: { at: WALL } })).step).toMatchObject(expected);
  });
});

const acting = { acting: { at: WALL } };
const view = { passed: false, broken: false, hopeless: false, message: 'probe x: no answer' };
const repairing = (rest: Partial<ObservedNode['repairing']>): ObservedNode['repairing'] => ({ ...node().repairing, ...rest });

describe('a restart that was begun', () => {
  test.each<[string, Partial<ObservedNode>, object | undefined, number[]]>([
    ['its units were not restarted yet', {}, { do: 'restartUnits', component: 'app' }, []],
    ['one did not start a moment ago', { repairing: repairing({ notBeforeMs: NOW + 5, deadlineMs: NOW + 9 }) }, undefined, [NOW + 5]],
    [
      'one does not start in time',
      { repairing: repairing({ deadlineMs: NOW, error: 'no such file' }) },
      { do: 'finish', outcome: 'PermanentFailure', message: 'no such file' },
      [],
    ],
    [
      'one does not start in time, without words',
      { repairing: repairing({ deadlineMs: NOW }) },
      { outcome: 'PermanentFailure', message: 'component app was not restarted in time' },
      [],
    ],
    ['it is probed', { repairing: repairing({ probing: view, deadlineMs: NOW + 1 }) }, undefined, [NOW + 1]],
    [
      'the probes pass',
      { repairing: repairing({ probing: { ...view, passed: true }, deadlineMs: NOW }) },
      { outcome: 'Succeeded', message: 'restarted app; all probes pass' },
      [],
    ],
    [
      'a probe cannot pass any more',
      { repairing: repairing({ probing: { ...view, hopeless: true }, deadlineMs: NOW + 1 }) },
      { outcome: 'PermanentFailure', message: 'restarted app: probe x: no answer' },
      [],
    ],
    [
      'the probes do not pass in time, without words',
      { repairing: repairing({ probing: { ...view, message: undefined }, deadlineMs: NOW }) },
      { outcome: 'PermanentFailure', message: 'restarted app: the probes did not pass in time' },
      [],
    ],
    [
      'the component was taken away',
      { installed: new Map() },
      { outcome: 'PermanentFailure', message: 'component app is not installed on this node' },
      [],
    ],
    [
      'the component has no units any more',
      { installed: new Map([['app', installed('1.0.0', 1, { units: [] })]]) },
      { outcome: 'PermanentFailure', message: 'component app has no units to restart' },
      [],
    ],
    [
      'its generation is damaged',
      { installed: new Map([['app', { ...installed('1.0.0', 1), manifest: undefined }]]) },
      { outcome: 'PermanentFailure', message: 'the generation of app is damaged' },
      [],
    ],
  ])('%s', (_what, rest, expected, due) => {
    const found = next(node(rest), record(restart, acting));
    if (expected === undefined) expect(found.step).toBeUndefined();
    else expect(found.step).toMatchObject(expected);
    expect(found.due).toEqual(due);
  });
});

describe('a cleaning that was begun', () => {
  const freed = { acting: { at: WALL, freed: { files: 2, bytes: 300 } } };
  test.each<[string, Partial<ObservedNode>, Partial<OperationRecord>, object]>([
    ['nothing was checked yet', {}, acting, { do: 'clean', belowPercent: 80 }],
    ['it is under way', { repairing: repairing({ cleaning: { end: undefined, notes: '' }, deadlineMs: NOW + 1 }) }, freed, { do: 'clean' }],
    [
      'enough is free',
      { repairing: repairing({ cleaning: { end: 'enough', notes: '' }, percent: 79.9 }) },
      freed,
      { outcome: 'Succeeded', message: 'at 79.9 %, below 80 %; freed 300 bytes in 2 files' },
    ],
    [
      'no file is left',
      { repairing: repairing({ cleaning: { end: 'nothing', notes: '' }, percent: 91 }) },
      acting,
      { outcome: 'TransientFailure', message: 'still at 91 %, nothing left that may go; freed 0 bytes in 0 files' },
    ],
    [
      'no file is left that may go, and some are left alone',
      { repairing: repairing({ cleaning: { end: 'nothing', notes: '/x is a link' }, percent: 91 }) },
      freed,
      { outcome: 'TransientFailure', message: 'still at 91 %, nothing left that may go; freed 300 bytes in 2 files; /x is a link' },
    ],
    [
      'it takes too long',
      { repairing: repairing({ cleaning: { end: undefined, notes: '' }, percent: 91, deadlineMs: NOW }) },
      freed,
      { outcome: 'TransientFailure', message: 'still at 91 % after 10 minutes; freed 300 bytes in 2 files' },
    ],
    [
      'the order was replaced',
      { wanted: machine({ operation: ordered({ id: 'next' }) }) },
      freed,
      { outcome: 'Cancelled', message: 'another order replaced it: next; freed 300 bytes in 2 files' },
    ],
  ])('%s', (_what, rest, operation, expected) => {
    expect(next(node(rest), record(clean, operation)).step).toMatchObject(expected);
  });
});

describe('a reboot that was begun', () => {
  test.each<[string, Partial<ObservedNode>, object | undefined, number[]]>([
    ['by a process before this one', {}, { do: 'reboot' }, []],
    ['it was asked for', { repairing: repairing({ deadlineMs: NOW + 90, notBeforeMs: NOW + 60 }) }, undefined, [NOW + 60]],
    [
      'it was asked for, and its end is near',
      { repairing: repairing({ deadlineMs: NOW + 9, notBeforeMs: NOW + 60 }) },
      undefined,
      [NOW + 9],
    ],
    ['it was asked for a while ago', { repairing: repairing({ deadlineMs: NOW + 90, notBeforeMs: NOW }) }, { do: 'reboot' }, []],
    [
      'it does not come',
      { repairing: repairing({ deadlineMs: NOW, notBeforeMs: NOW + 60 }) },
      { do: 'withdraw', finish: { outcome: 'PermanentFailure', message: 'this node is still in boot b 300 s after it was to reboot' } },
      [],
    ],
    [
      'it could not be asked for',
      { repairing: repairing({ deadlineMs: NOW, error: 'refused' }) },
      { do: 'withdraw', finish: { message: 'this node is still in boot b 300 s after it was to reboot: refused' } },
      [],
    ],
    [
      'the order was cancelled',
      { wanted: machine({ operation: ordered({ kind: 'Cancelled', reason: 'frozen' }) }) },
      { do: 'withdraw', finish: { outcome: 'Cancelled', message: 'frozen' } },
      [],
    ],
  ])('%s', (_what, rest, expected, due) => {
    const found = next(node(rest), record(reboot, acting));
    if (expected === undefined) expect(found.step).toBeUndefined();
    else expect(found.step).toMatchObject(expected);
    expect(found.due).toEqual(due);
  });
});

describe('an order of kind Repair', () => {
  const todo = (rest: Partial<Operation>, observed = node()) => repairTodo(observed, ordered(rest));

  test('is written down with what it is to do here, by the server’s clock', () => {
    expect(todo({ action: 'Reboot' }, node({ serverMs: WALL + 5 }))).toEqual({
      kind: 'ready',
      step: { do: 'operate', operation: { ...record(reboot), class: 'Reboot', startedAt: WALL + 5 } },
    });
    expect(todo({ action: 'CleanDisk', args: { belowPercent: 80 } }, node({ serverMs: undefined, wallMs: WALL + 7 }))).toMatchObject({
      step: { operation: { class: 'None', task: clean, startedAt: WALL + 7 } },
    });
  });

  test('waits for a generation that is built again', () => {
    const damaged = node({ installed: new Map([['app', { ...installed('1.0.0', 1), manifest: undefined }]]) });
    expect(todo({ action: 'RestartComponent', args: { component: 'app' } }, damaged)).toEqual({ kind: 'waiting' });
  });

  test.each([
    [{ action: 'RestartComponent', args: { component: 'web' } }, 'component web is not installed on this node'],
    [{ action: 'Dance' }, 'this agent knows no Repair Dance'],
    [{}, 'this agent knows no Repair without an action'],
    [{ action: 'Reboot', args: [] as never }, 'Reboot: args must be an object'],
    [{ action: 'CleanDisk', args: { belowPercent: 100 } }, 'CleanDisk: args.belowPercent must be a whole number from 1 to 99, got 100'],
    [{ action: 'CleanDisk', args: { belowPercent: 50.5 } }, 'CleanDisk: args.belowPercent must be a whole number from 1 to 99, got 50.5'],
    [{ action: 'CleanDisk', args: { belowPercent: '50' } }, 'CleanDisk: args.belowPercent must be a whole number from 1 to 99, got "50"'],
    [{ action: 'RestartComponent', args: { component: '' } }, 'RestartComponent: args.component must be the name of a component, got ""'],
    [{ action: 'RestartComponent', args: { component: 'app', now: 1 } }, 'RestartComponent: args.now is not known'],
  ])('%o cannot be carried out', (rest, message) => {
    expect(todo(rest)).toMatchObject({ kind: 'finish', step: { outcome: 'PermanentFailure', message } });
  });

  test.each([1, 99])('a mark of %i is one', (belowPercent) => {
    expect(todo({ action: 'CleanDisk', args: { belowPercent } })).toMatchObject({ kind: 'ready' });
  });
});
