import { describe, expect, test } from 'vitest';
import { newProgress } from './memory.ts';
import { backoffMs, stagesOf, strongerThan, transactionStep } from './decide.ts';
import type { ObservedNode } from '../engine/observed.ts';
import type { TransactionProgress } from './memory.ts';
import type { Transaction } from '../records/state.ts';
import { NOW, accepted, manifest, node, state, tx } from '../testing/observed.ts';

/* The stages of a transaction, and what follows each of its failures, as tables. */

const hook = { command: ['x'], timeoutSeconds: 1 };
const hooks = { preInstall: hook, postInstall: hook, preRemove: hook };
const back = { reason: 'ProbesFailed', message: 'it broke' };
const gone = { to: undefined as never };
const first = { from: undefined as never };
const reboot = { class: 'Reboot' as const };
const plain = new Map([
  ['d1.0.0', manifest('1.0.0')],
  ['d1.1.0', manifest('1.1.0')],
]);
const hooked = new Map([
  ['d1.0.0', manifest('1.0.0', { hooks })],
  ['d1.1.0', manifest('1.1.0', { hooks })],
]);

test.each<[string, Partial<Transaction>, typeof plain, string]>([
  ['a change', {}, plain, 'writeFiles switchLink startUnits probe writeReceipt'],
  ['a change with hooks', {}, hooked, 'preInstall writeFiles switchLink startUnits postInstall probe writeReceipt'],
  ['a first install', first, plain, 'writeFiles switchLink startUnits probe writeReceipt'],
  ['drift', { why: 'Drift' }, hooked, 'writeFiles switchLink startUnits probe'],
  ['a change by reboot', reboot, plain, 'writeFiles switchLink reboot startUnits probe writeReceipt'],
  ['a change by reboot, asked for', { ...reboot, rebootThere: 'b' }, hooked, 'reboot startUnits postInstall probe writeReceipt'],
  ['a change by reboot, after it', { ...reboot, rebootThere: 'a' }, hooked, 'startUnits postInstall probe writeReceipt'],
  ['a removal', gone, plain, 'stopUnits removeFiles removeLink removeReceipt'],
  ['a removal with hooks', gone, hooked, 'preRemove stopUnits removeFiles removeLink removeReceipt'],
  ['the way back', { back }, hooked, 'writeFiles switchLink startUnits probe'],
  ['the way back from a removal', { ...gone, back }, plain, 'writeFiles switchLink startUnits probe'],
  ['the way back from a first install', { ...first, back }, plain, 'stopUnits removeFiles removeLink'],
  ['the way back before a reboot', { ...reboot, back, rebootThere: 'b' }, plain, 'writeFiles switchLink startUnits probe'],
  ['the way back after a reboot', { ...reboot, back, rebootThere: 'a' }, plain, 'writeFiles switchLink reboot startUnits probe'],
  ['the way back, its reboot asked for', { ...reboot, back, rebootThere: 'a', rebootBack: 'b' }, plain, 'reboot startUnits probe'],
  ['the way back, after its reboot', { ...reboot, back, rebootThere: 'a', rebootBack: 'z' }, plain, 'startUnits probe'],
])('the stages of %s', (_what, transaction, manifests, expected) => {
  expect(stagesOf({ manifests, bootID: 'b' }, tx(transaction)).join(' ')).toBe(expected);
});

const error = { reason: 'ENOSPC', message: 'no space' };
const done = (...stages: string[]): TransactionProgress['done'] => new Set(stages) as TransactionProgress['done'];
const failing = (rest: Partial<TransactionProgress> = {}): TransactionProgress => ({
  ...newProgress(),
  failures: 1,
  error,
  giveUpMs: NOW + 60,
  ...rest,
});
const view = { passed: false, broken: false, hopeless: false, message: 'probe x: no answer' };
const probing = (rest: object = {}, deadlineMs = NOW): TransactionProgress => ({
  ...newProgress(),
  done: done('writeFiles', 'switchLink', 'startUnits'),
  probing: { view: { ...view, ...rest }, deadlineMs },
});

function next(transaction: Partial<Transaction>, rest: Partial<ObservedNode>): { step: ReturnType<typeof transactionStep>; due: number[] } {
  const open = tx(transaction);
  const due: number[] = [];
  const observed = node({ state: state(accepted('1.1.0', 2), { transaction: open }), ...rest });
  return { step: transactionStep(observed, open, (ms) => void due.push(ms)), due };
}

describe('when a stage fails', () => {
  test.each<[string, Partial<Transaction>, TransactionProgress, object | undefined, number[]]>([
    ['a change goes back', {}, failing(), { do: 'turnBack', ...error }, []],
    [
      'a repair of drift is given up',
      { why: 'Drift' },
      failing(),
      { do: 'fail', failed: { revision: 2, reason: 'ENOSPC', message: 'writeFiles: no space', restored: false } },
      [],
    ],
    ['a deletion is tried again', { why: 'Delete', ...gone }, failing({ failures: 2 }), { do: 'stage', stage: 'stopUnits' }, []],
    ['a deletion is tried again later', { why: 'Delete', ...gone }, failing({ failures: 2, notBeforeMs: NOW + 5 }), undefined, [NOW + 5]],
    [
      'a deletion is given up after three times',
      { why: 'Delete', ...gone },
      failing({ failures: 3 }),
      { do: 'fail', failed: { reason: 'RemoveFailed', message: 'ENOSPC: stopUnits: no space', restored: false } },
      [],
    ],
    [
      'a receipt is taken away in any case',
      { why: 'Delete', ...gone },
      failing({ failures: 9, done: done('stopUnits', 'removeFiles', 'removeLink') }),
      { do: 'stage', stage: 'removeReceipt' },
      [],
    ],
    [
      'a receipt is written in any case',
      {},
      failing({ failures: 9, giveUpMs: NOW, done: done('writeFiles', 'switchLink', 'startUnits', 'probe') }),
      { do: 'stage', stage: 'writeReceipt' },
      [],
    ],
    ['the way back is tried again', { back }, failing(), { do: 'stage', stage: 'writeFiles' }, []],
    ['the way back is tried again later', { back }, failing({ notBeforeMs: NOW + 5 }), undefined, [NOW + 5]],
    [
      'the way back is given up in the end, and reports from what',
      { back },
      failing({ giveUpMs: NOW }),
      { do: 'fail', failed: { reason: 'ProbesFailed', message: 'it broke; going back fails too: writeFiles: no space', restored: false } },
      [],
    ],
    ['the way back of a repair of drift is tried again', { why: 'Drift', back }, failing(), { do: 'stage', stage: 'writeFiles' }, []],
  ])('%s', (_what, transaction, progress, expected, due) => {
    const found = next(transaction, { progress });
    if (expected === undefined) expect(found.step).toBeUndefined();
    else expect(found.step).toMatchObject(expected);
    expect(found.due).toEqual(due);
  });
});

describe('when probes do not pass', () => {
  test.each<[string, Partial<Transaction>, TransactionProgress, object]>([
    ['a change goes back', {}, probing(), { do: 'turnBack', reason: 'ProbesFailed', message: 'probe x: no answer' }],
    ['a change goes back, without words', {}, probing({ message: undefined }), { message: 'the probes did not pass in time' }],
    [
      'a repair of drift failed',
      { why: 'Drift' },
      probing(),
      { do: 'fail', failed: { reason: 'ProbesFailed', message: 'after the repair of drift: probe x: no answer', restored: false } },
    ],
    [
      'it restores nothing',
      { back },
      probing(),
      { do: 'fail', failed: { message: 'it broke; what ran before fails too: probe x: no answer', restored: false } },
    ],
  ])('%s', (_what, transaction, progress, expected) => {
    expect(next(transaction, { progress }).step).toMatchObject(expected);
  });

  test('they have until their deadline, unless one cannot pass any more', () => {
    expect(next({}, { progress: probing({}, NOW + 1) })).toEqual({ step: undefined, due: [NOW + 1] });
    expect(next({}, { progress: probing({ hopeless: true }, NOW + 1) }).step).toMatchObject({ do: 'turnBack' });
    expect(next({}, { progress: probing({ passed: true }) }).step).toEqual({ do: 'stage', stage: 'probe' });
  });
});

test('a reboot is asked for again when it does not come', () => {
  const progress = { ...newProgress(), notBeforeMs: NOW };
  expect(next({ ...reboot, rebootThere: 'b' }, { progress }).step).toEqual({ do: 'stage', stage: 'reboot' });
  const asked = { ...newProgress(), notBeforeMs: NOW + 1 };
  expect(next({ ...reboot, rebootThere: 'b' }, { progress: asked })).toEqual({ step: undefined, due: [NOW + 1] });
  // Only a reboot is waited for like that.
  expect(next({}, { progress: asked }).step).toEqual({ do: 'stage', stage: 'writeFiles' });
});

describe('the end', () => {
  const all = done(
    'writeFiles',
    'switchLink',
    'startUnits',
    'probe',
    'writeReceipt',
    'stopUnits',
    'removeFiles',
    'removeLink',
    'removeReceipt',
  );
  test.each<[string, Partial<Transaction>, object]>([
    ['of a change', {}, { do: 'commit' }],
    ['of a removal', gone, { do: 'commit' }],
    ['of the way back', { back }, { do: 'fail', failed: { ...back, revision: 2, restored: true } }],
    ['of the way back from a first install', { ...first, back }, { do: 'fail', failed: { ...back, restored: false } }],
    [
      'of the way back from a deletion',
      { why: 'Delete', back },
      { do: 'fail', failed: { reason: 'RemoveFailed', message: 'ProbesFailed: it broke' } },
    ],
  ])('%s', (_what, transaction, expected) => {
    expect(next(transaction, { progress: { ...newProgress(), done: all } }).step).toMatchObject(expected);
  });
});

describe('C6: a newer revision on the way', () => {
  const wants = (
    version: string,
    transaction: Partial<Transaction>,
    rest: Partial<ObservedNode> = {},
    action: 'Install' | 'Remove' = 'Install',
  ) =>
    next(transaction, {
      state: state(accepted(version, 3, { action }), { transaction: tx(transaction) }),
      progress: probing({}, NOW + 1),
      ...rest,
    }).step;

  test('that wants what ran before goes back to it, also under an order, without a failure', () => {
    expect(wants('1.0.0', { operation: 'op', touched: ['d0'] })).toEqual({
      do: 'begin',
      transaction: { ...tx({ operation: 'op' }), revision: 3, to: 'd1.0.0', touched: ['d0', 'd1.1.0'] },
      operation: undefined,
    });
  });

  test('counts what was begun once', () => {
    expect(wants('1.0.0', { touched: ['d1.1.0'] })).toMatchObject({ transaction: { touched: ['d1.1.0'] } });
    expect(wants('1.0.0', gone)).toMatchObject({ transaction: { touched: [], to: 'd1.0.0' } });
  });

  test('leaves a reboot behind that is over', () => {
    const step = wants('1.0.0', { ...reboot, rebootThere: 'a' });
    expect(step).toMatchObject({ do: 'begin' });
    expect(step?.do === 'begin' && step.transaction.rebootThere).toBeUndefined();
  });

  test.each<[string, Partial<Transaction>]>([
    ['the way back', { back }],
    ['a repair of drift', { why: 'Drift' }],
    ['a reboot that is under way', { ...reboot, rebootThere: 'b' }],
    ['the revision that is wanted', { revision: 3 }],
  ])('leaves %s as it is', (_what, transaction) => {
    expect(wants('1.0.0', transaction)?.do).not.toBe('begin');
  });

  test('that removes is not taken for what ran before', () => {
    expect(wants('1.0.0', { operation: 'op' }, {}, 'Remove')).toBeUndefined();
  });

  test('that removes is taken where nothing more is disrupted by it', () => {
    expect(wants('1.0.0', {}, {}, 'Remove')).toMatchObject({ do: 'begin', transaction: { revision: 3, touched: ['d1.1.0'] } });
    const step = wants('1.0.0', {}, {}, 'Remove');
    expect(step?.do === 'begin' && 'to' in step.transaction).toBe(false);
    expect(wants('1.0.0', { class: 'None' }, {}, 'Remove')).toBeUndefined();
  });

  test('that is not ready is waited for', () => {
    expect(wants('1.2.0', {}, { prepared: new Map([['app', { status: 'working', revision: 3 }]]) })).toBeUndefined();
  });
});

test('the pauses between tries grow to half a minute', () => {
  expect([1, 2, 3, 4, 5, 6, 99].map(backoffMs)).toEqual([1_000, 2_000, 5_000, 10_000, 30_000, 30_000, 30_000]);
});

test('a class is stronger than those before it, and not than itself', () => {
  expect(strongerThan('Restart', 'Reload')).toBe(true);
  expect(strongerThan('Restart', 'Restart')).toBe(false);
  expect(strongerThan('None', 'Reboot')).toBe(false);
});
