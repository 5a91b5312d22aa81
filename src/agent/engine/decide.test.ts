import { expect, test } from 'vitest';
import type { Disruption } from '../../api/disruption.ts';
import type { Operation } from '../../api/machine.ts';
import { newProgress } from '../transaction/memory.ts';
import { decide } from './decide.ts';
import { inOrder } from '../operation/decide.ts';
import type { ObservedNode } from './observed.ts';
import type { ComponentState, ComponentFailure, JournalState, Transaction } from '../records/state.ts';
import {
  NOW,
  WALL,
  accepted,
  empty,
  healthy,
  installed,
  justChecked,
  machine,
  manifest,
  node,
  order,
  state,
  tx,
  unit,
  upgrade,
} from '../testing/observed.ts';
import { entry } from '../testing/world.ts';
import type { WantedState } from '../cell/wanted.ts';

/*
 * The decision as tables: what is observed, and the one step that follows. Each row has what is different on a node
 * on which app 1.0.0 runs, healthy, checked a moment ago, with nothing to do.
 */

/** The upgrade, ordered. */
function ordered(rest: Partial<ObservedNode> = {}, operation: Partial<Operation> = {}, wanted: Partial<WantedState> = {}): ObservedNode {
  const upgraded = upgrade('Restart');
  return { ...upgraded, wanted: { ...(upgraded.wanted ?? machine()), operation: order(operation), ...wanted }, ...rest };
}

/** What a deletion reports about what it could not take away. */
const stuck: ComponentFailure = { revision: 1, reason: 'RemoveFailed', message: 'it is busy', restored: false };

/** The upgrade under way. */
function switching(transaction: Partial<Transaction> = {}, rest: Partial<ObservedNode> = {}): ObservedNode {
  return node({
    state: state(accepted('1.1.0', 2), { transaction: tx(transaction) }),
    wanted: machine({ components: [{ ...entry('app', '1.1.0', 2), values: {} }] }),
    ...rest,
  });
}

const done = (...stages: string[]): ObservedNode['progress'] => ({
  ...newProgress(),
  done: new Set(stages) as ObservedNode['progress']['done'],
});
const view = { passed: false, broken: false, hopeless: false, message: 'probe x: no answer' };
const probing = (rest: object = {}, deadlineMs = NOW + 1000): ObservedNode['progress'] => ({
  ...done('writeFiles', 'switchLink', 'startUnits'),
  probing: { view: { ...view, ...rest }, deadlineMs },
});
const failing = (rest: Partial<ObservedNode['progress']> = {}): ObservedNode['progress'] => ({
  ...newProgress(),
  failures: 1,
  error: { reason: 'ENOSPC', message: 'no space' },
  ...rest,
});
const running = {
  id: 'op',
  epoch: 1,
  kind: 'Change',
  startedAt: WALL,
  components: [{ name: 'app', revision: 2 }],
  class: 'Restart' as const,
};

test.each<[string, ObservedNode, object]>([
  // What is kept
  ['no difference', node(), { do: 'wait' }],
  ['the hold file is there', upgrade('None', { holdFile: true, units: new Map() }), { do: 'wait', why: 'held by /etc/kubenode/hold' }],
  ['the disk is another machine’s', node({ foreign: true }), { do: 'startOver' }],
  ['the disk is another machine’s, and held', node({ foreign: true, holdFile: true }), { do: 'wait' }],
  ['a unit is down', node({ units: unit({ running: false }) }), { do: 'startUnit', unit: 'app' }],
  ['a unit is gone', node({ units: new Map() }), { do: 'startUnit', unit: 'app' }],
  [
    'a unit is down and was just started',
    node({ units: new Map(), starts: new Map([['app', { failures: 1, lastMs: NOW, notBeforeMs: NOW + 5 }]]) }),
    { do: 'wait', untilMs: NOW + 5 },
  ],
  ['a unit is down before its files were checked', node({ units: new Map(), drift: new Map() }), { do: 'check', full: false }],
  ['it is time to check', node({ drift: new Map([['app', { ...justChecked, nextMs: NOW }]]) }), { do: 'check', full: false }],
  ['it is time to hash', node({ drift: new Map([['app', { ...justChecked, nextFullMs: NOW }]]) }), { do: 'check', full: true }],
  ['a file drifted', node({ drift: drifted(true) }), { do: 'repair', name: 'app' }],
  ['a file drifted that is only reported', node({ drift: drifted(false) }), { do: 'wait' }],
  [
    'a file drifted too often',
    node({ drift: drifted(true), state: state(accepted('1.0.0', 1, { repairs: Array.from({ length: 6 }, () => WALL - 1000) })) }),
    { do: 'wait' },
  ],
  [
    'a file drifted often, but before',
    node({ drift: drifted(true), state: state(accepted('1.0.0', 1, { repairs: Array.from({ length: 6 }, () => WALL - 3_600_001) })) }),
    { do: 'repair' },
  ],
  [
    'a unit belongs to no component',
    node({ units: new Map([...unit(), ['stray', { name: 'stray', running: true, invocation: '', hash: '', generation: '' }]]) }),
    { do: 'stopUnit', unit: 'stray' },
  ],
  [
    'its generation is damaged',
    node({ installed: new Map([['app', { ...installed('1.0.0', 1), manifest: undefined }]]) }),
    { do: 'prepare', rebuild: true },
  ],
  ['something may be swept', node({ sweep: true }), { do: 'sweep' }],

  [
    'something may be swept, and something is being made ready',
    upgrade('None', { sweep: true, prepared: new Map([['app', { status: 'working', revision: 2 }]]) }),
    { do: 'wait' },
  ],
  [
    'something may be swept, and a generation is being built again',
    node({ sweep: true, rebuilt: new Map([['app', { status: 'working', revision: 1 }]]) }),
    { do: 'wait' },
  ],

  // What is asked for
  [
    'the cell has verified contents',
    node({ wanted: machine({ verified: { app: ['c'] } }) }),
    { do: 'note', held: false, verified: { app: ['c'] } },
  ],
  [
    'the cell carries out a repair itself, of a higher epoch',
    node({ wanted: machine({ operation: order({ kind: 'Repair', action: 'Replace', epoch: 7 }) }) }),
    { do: 'note', held: false, epoch: 7 },
  ],
  [
    'the cell carries out a repair itself, of the epoch that is known',
    node({
      wanted: machine({ operation: order({ kind: 'Repair', action: 'Replace', epoch: 7 }) }),
      state: state(accepted('1.0.0', 1), { epoch: 7 }),
    }),
    { do: 'wait' },
  ],
  [
    'an entry is gone whose first install is under way',
    node({
      wanted: machine({ components: [] }),
      installed: new Map(),
      units: new Map(),
      state: state(accepted('1.1.0', 2), { transaction: tx({ from: undefined as never }) }),
    }),
    { do: 'stage', stage: 'writeFiles' },
  ],
  [
    'the machine was cleaned up, and an entry is new',
    node({
      wanted: machine({ components: [entry('app', '1.1.0', 2)] }),
      installed: new Map(),
      units: new Map(),
      state: state(accepted('1.0.0', 1), { cleared: true }),
    }),
    { do: 'wait' },
  ],
  [
    'it can never be made ready, and what runs is not healthy',
    upgrade('None', {
      prepared: new Map([['app', { status: 'failed', revision: 2, reason: 'NoPlatform', message: 'm' }]]),
      health: new Map([['app', { ...healthy, state: 'Unhealthy' }]]),
    }),
    { do: 'refuse', failed: { restored: false } },
  ],
  [
    'it can never be made ready, and nothing runs',
    upgrade('None', {
      prepared: new Map([['app', { status: 'failed', revision: 2, reason: 'NoPlatform', message: 'm' }]]),
      installed: new Map(),
      units: new Map(),
    }),
    { do: 'refuse', failed: { restored: false } },
  ],
  [
    'it was to be made ready again by now',
    upgrade('None', { prepared: new Map([['app', { status: 'retry', revision: 2, atMs: NOW, failures: 1, message: '' }]]) }),
    { do: 'prepare', name: 'app', rebuild: false },
  ],
  ['the Machine is held', node({ wanted: machine({ held: true }) }), { do: 'note', held: true }],
  ['the Machine is being deleted', node({ wanted: machine({ deleting: true }) }), { do: 'note', held: true }],
  [
    'an entry has a higher revision',
    node({ wanted: machine({ components: [entry('app', '1.1.0', 2)] }) }),
    { do: 'accept', accepted: { version: '1.1.0', revision: 2 } },
  ],
  [
    'an entry has a higher revision, and the Machine is being deleted',
    node({
      wanted: machine({ deleting: true, components: [entry('app', '1.1.0', 2)] }),
      state: state(accepted('1.0.0', 1), { held: true }),
    }),
    { do: 'wait' },
  ],
  [
    'an entry has a lower revision',
    node({
      wanted: machine({ components: [entry('app', '0.9.0', 1)] }),
      state: state(accepted('1.0.0', 2)),
      installed: new Map([['app', installed('1.0.0', 2)]]),
    }),
    { do: 'wait' },
  ],
  ['an entry is gone, what it installed is here', node({ wanted: machine({ components: [] }) }), { do: 'wait' }],
  [
    'an entry is gone, and no component is here',
    node({ wanted: machine({ components: [] }), installed: new Map(), units: new Map() }),
    { do: 'forget', name: 'app' },
  ],
  ['the Machine was not read yet', node({ wanted: undefined, state: state(accepted('1.1.0', 2)) }), { do: 'prepare', rebuild: false }],
  [
    'a receipt is there that the journal does not know',
    node({ state: empty }),
    { do: 'accept', accepted: { version: '1.0.0', revision: 1 } },
  ],
  [
    'a receipt is there that the journal does not know, and something else is wanted',
    node({ state: empty, wanted: machine({ components: [entry('app', '1.1.0', 2)] }) }),
    { do: 'accept', accepted: { action: 'Install', version: '1.0.0', revision: 1 } },
  ],
  [
    'the machine was cleaned up, and its entries are still there',
    node({
      wanted: machine({ components: [{ ...entry('app', '1.1.0', 2), values: {} }] }),
      installed: new Map(),
      units: new Map(),
      state: state(accepted('1.1.0', 2), { cleared: true }),
    }),
    { do: 'wait', untilMs: NOW + 600_000 },
  ],
  ['the content is the same', node({ state: state(accepted('1.0.0', 1, { revision: 3 })) }), { do: 'advance', name: 'app' }],
  [
    'no component is to be removed',
    node({ state: state(accepted('1.0.0', 2, { action: 'Remove' })), installed: new Map(), units: new Map() }),
    { do: 'removed' },
  ],
  ['what is wanted is not ready', upgrade('None', { prepared: new Map() }), { do: 'prepare', name: 'app', rebuild: false }],
  ['what is ready is of an older revision', upgrade('None', { state: state(accepted('1.2.0', 3)), wanted: undefined }), { do: 'prepare' }],
  [
    'what is wanted is being made ready',
    upgrade('None', { prepared: new Map([['app', { status: 'working', revision: 2 }]]) }),
    { do: 'wait' },
  ],
  [
    'making it ready failed a moment ago',
    upgrade('None', { prepared: new Map([['app', { status: 'retry', revision: 2, atMs: NOW + 7, failures: 1, message: '' }]]) }),
    { do: 'wait', untilMs: NOW + 7 },
  ],
  [
    'it can never be made ready',
    upgrade('None', { prepared: new Map([['app', { status: 'failed', revision: 2, reason: 'NoPlatform', message: 'm' }]]) }),
    { do: 'refuse', failed: { revision: 2, reason: 'NoPlatform', restored: true } },
  ],
  [
    'it failed at this revision',
    upgrade('None', { state: state(accepted('1.1.0', 2, { failed: { revision: 2, reason: 'r', message: '', restored: true } })) }),
    { do: 'wait' },
  ],

  // What needs no order, and what does
  [
    'it disrupts nothing',
    upgrade('None'),
    { do: 'begin', transaction: { revision: 2, class: 'None', from: 'd1.0.0', to: 'd1.1.0' }, operation: undefined },
  ],
  ['it reloads', upgrade('Reload'), { do: 'begin', transaction: { class: 'Reload' } }],
  [
    'it reloads, and the Machine is held',
    upgrade('Reload', { state: state(accepted('1.1.0', 2), { held: true }), wanted: undefined }),
    { do: 'wait' },
  ],
  ['it restarts', upgrade('Restart'), { do: 'wait' }],
  ['it drains', upgrade('Drain'), { do: 'wait' }],
  ['it is removed', node({ state: state(accepted('1.0.0', 2, { action: 'Remove' })) }), { do: 'wait' }],
  ['it requires what is not there', upgrade('None', { prepared: requiring('web') }), { do: 'wait' }],

  // Orders
  ['an order came', ordered(), { do: 'reread', operation: 'op' }],
  [
    'it was just read again',
    ordered({ reread: 'op' }),
    { do: 'begin', transaction: { operation: 'op', revision: 2 }, operation: { id: 'op', epoch: 1, class: 'Restart' } },
  ],
  ['another one was just read', ordered({ reread: 'another' }), { do: 'reread', operation: 'op' }],
  ['reading failed a moment ago', ordered({ rereadNotBeforeMs: NOW + 9 }), { do: 'wait', untilMs: NOW + 9 }],
  ['it is late by the server’s clock', ordered({ reread: 'op', serverMs: WALL + 60_000 }), { do: 'finish', outcome: 'Cancelled' }],
  ['it seems late, and was not read again', ordered({ serverMs: WALL + 60_000 }), { do: 'reread' }],
  [
    'it is late and what it orders is not ready',
    ordered({ serverMs: WALL + 60_000, prepared: new Map([['app', { status: 'working', revision: 2 }]]) }),
    { do: 'reread' },
  ],
  [
    'what it orders is not ready yet',
    ordered({ prepared: new Map([['app', { status: 'working', revision: 2 }]]) }),
    { do: 'wait', untilMs: NOW + 60_000 },
  ],
  ['its notAfter cannot be read', ordered({ reread: 'op' }, { notAfter: 'tomorrow' }), { do: 'finish', outcome: 'Cancelled' }],
  [
    'the Machine is held',
    ordered({ reread: 'op', state: state(accepted('1.1.0', 2), { held: true }) }, {}, { held: true }),
    { do: 'wait' },
  ],
  [
    'its epoch was passed',
    ordered({ state: state(accepted('1.1.0', 2), { epoch: 2 }) }),
    { do: 'finish', outcome: 'Cancelled', message: expect.stringContaining('epoch 1 is below 2') },
  ],
  [
    'it was done before',
    ordered({ state: state(accepted('1.1.0', 2), { operations: [{ ...running, outcome: 'PermanentFailure' }] }) }),
    { do: 'wait' },
  ],
  [
    'the status knows it as done',
    ordered(
      {},
      {},
      { reported: { components: [], operation: { id: 'op', state: 'Done', outcome: 'Succeeded' }, ready: undefined, leaving: false } },
    ),
    { do: 'finish', outcome: 'Succeeded' },
  ],
  [
    'the status knows it as running',
    ordered({}, {}, { reported: { components: [], operation: { id: 'op', state: 'Running' }, ready: undefined, leaving: false } }),
    { do: 'finish', outcome: 'PermanentFailure' },
  ],
  ['it names an older revision', ordered({}, { components: [{ name: 'app', revision: 1 }] }), { do: 'finish', outcome: 'Superseded' }],
  ['it names nothing', ordered({}, { components: [] }), { do: 'finish', outcome: 'Superseded' }],
  ['it was cancelled', ordered({}, { kind: 'Cancelled' }), { do: 'finish', outcome: 'Cancelled' }],
  [
    'it is a repair',
    ordered({}, { kind: 'Repair', action: 'Dance' }),
    { do: 'finish', outcome: 'PermanentFailure', message: 'this agent knows no Repair Dance' },
  ],
  ['it deletes', ordered({ reread: 'op' }, { kind: 'Delete' }), { do: 'begin', transaction: { why: 'Delete', from: 'd1.0.0' } }],
  [
    'it deletes, and no component is here',
    ordered({ reread: 'op', installed: new Map(), units: new Map() }, { kind: 'Delete' }),
    { do: 'finish', outcome: 'Succeeded', cleared: true },
  ],
  [
    'a unit drifted, and that was ordered',
    node({
      units: unit({ hash: 'other' }),
      wanted: machine({ operation: order({ components: [{ name: 'app', revision: 1 }] }) }),
      reread: 'op',
    }),
    { do: 'begin', transaction: { why: 'Drift', from: 'd1.0.0', to: 'd1.0.0' } },
  ],

  // An operation under way, between its transactions
  [
    'its component is done',
    node({ state: state(accepted('1.0.0', 1), { operations: [{ ...running, components: [{ name: 'app', revision: 1 }] }] }) }),
    { do: 'finish', outcome: 'Succeeded' },
  ],
  [
    'its component failed',
    upgrade('Restart', {
      state: state(accepted('1.1.0', 2, { failed: { revision: 2, reason: 'r', message: 'm', restored: true } }), { operations: [running] }),
    }),
    { do: 'finish', outcome: 'PermanentFailure', message: 'app: r: m' },
  ],
  [
    'its component has its turn',
    upgrade('Restart', { state: state(accepted('1.1.0', 2), { operations: [running] }) }),
    { do: 'begin', transaction: { operation: 'op' } },
  ],
  [
    'its component is not ready',
    upgrade('Restart', {
      prepared: new Map([['app', { status: 'working', revision: 2 }]]),
      state: state(accepted('1.1.0', 2), { operations: [running] }),
    }),
    { do: 'finish', outcome: 'TransientFailure' },
  ],
  [
    'C6: a newer revision is no stronger, but not the one that it names',
    upgrade('Restart', {
      state: state(accepted('1.1.0', 2), { operations: [{ ...running, components: [{ name: 'app', revision: 1 }] }] }),
    }),
    { do: 'finish', outcome: 'Superseded' },
  ],
  [
    'a newer revision is stronger',
    upgrade('Drain', { state: state(accepted('1.1.0', 2), { operations: [{ ...running, components: [{ name: 'app', revision: 1 }] }] }) }),
    { do: 'finish', outcome: 'Superseded' },
  ],

  [
    'its component is to be removed, which is blocked',
    node({
      state: state(accepted('1.0.0', 2, { action: 'Remove' }), { operations: [running] }),
      installed: new Map([['app', { ...installed('1.0.0', 1), manifest: undefined }]]),
    }),
    { do: 'finish', outcome: 'TransientFailure', message: 'not ready when its turn came: app' },
  ],
  [
    'its component was removed',
    node({
      state: state(accepted('1.0.0', 2, { action: 'Remove', removed: true }), { operations: [running] }),
      installed: new Map(),
      units: new Map(),
    }),
    { do: 'finish', outcome: 'Succeeded' },
  ],
  [
    'its restart did not put the unit right',
    node({
      units: unit({ hash: 'other' }),
      state: state(accepted('1.0.0', 1, { driftFailed: 'd1.0.0' }), {
        operations: [{ ...running, components: [{ name: 'app', revision: 1 }] }],
      }),
    }),
    { do: 'finish', outcome: 'PermanentFailure', message: 'app: a restart did not put it right' },
  ],
  [
    'a restart of an earlier generation did not put the unit right',
    node({
      state: state(accepted('1.0.0', 1, { driftFailed: 'd0.9.0' }), {
        operations: [{ ...running, components: [{ name: 'app', revision: 1 }] }],
      }),
    }),
    { do: 'finish', outcome: 'Succeeded' },
  ],
  [
    'a newer revision is not ready, and the one that it names did not fail',
    upgrade('Restart', {
      state: state(accepted('1.1.0', 2), { operations: [{ ...running, components: [{ name: 'app', revision: 1 }] }] }),
      prepared: new Map([['app', { status: 'working', revision: 2 }]]),
    }),
    { do: 'finish', outcome: 'Succeeded' },
  ],

  // A machine that is deleted
  [
    'what others require goes last',
    node({
      ...withBase(),
      state: both({ operations: [{ ...running, kind: 'Delete', components: [] }] }),
    }),
    { do: 'begin', transaction: { name: 'app', why: 'Delete', from: 'd1.0.0', revision: 1, operation: 'op' } },
  ],
  [
    'one could not be taken away: the others are',
    node({
      ...withBase(),
      state: both({ operations: [{ ...running, kind: 'Delete', components: [] }] }, { failed: stuck }),
    }),
    { do: 'begin', transaction: { name: 'base', why: 'Delete' } },
  ],
  [
    'one had failed before the deletion: it is taken away like any other',
    node({
      ...withBase(),
      state: both({ operations: [{ ...running, kind: 'Delete', components: [] }] }, { failed: { ...stuck, reason: 'ProbesFailed' } }),
    }),
    { do: 'begin', transaction: { name: 'app', why: 'Delete' } },
  ],
  [
    'one could not be taken away, and no other is left',
    node({
      state: state(accepted('1.0.0', 1, { failed: stuck }), { operations: [{ ...running, kind: 'Delete', components: [] }] }),
    }),
    { do: 'finish', outcome: 'PermanentFailure', message: 'not taken away: app: it is busy', cleared: true },
  ],

  // A transaction, forward
  ['it begins', switching(), { do: 'stage', stage: 'writeFiles' }],
  [
    'it has a hook',
    switching(
      {},
      { manifests: new Map([['d1.1.0', manifest('1.1.0', { hooks: { preInstall: { command: ['x'], timeoutSeconds: 1 } } })]]) },
    ),
    { do: 'stage', stage: 'preInstall' },
  ],
  ['files are written', switching({}, { progress: done('writeFiles') }), { do: 'stage', stage: 'switchLink' }],
  ['the link is switched', switching({}, { progress: done('writeFiles', 'switchLink') }), { do: 'stage', stage: 'startUnits' }],
  [
    'the link is switched, and it reboots',
    switching({ class: 'Reboot' }, { progress: done('writeFiles', 'switchLink') }),
    { do: 'stage', stage: 'reboot' },
  ],
  [
    'the reboot was asked for',
    switching({ class: 'Reboot', rebootThere: 'b' }, { progress: { ...newProgress(), notBeforeMs: NOW + 5 } }),
    { do: 'wait', untilMs: NOW + 5 },
  ],
  ['it rebooted', switching({ class: 'Reboot', rebootThere: 'before' }), { do: 'stage', stage: 'startUnits' }],
  ['units are started', switching({}, { progress: done('writeFiles', 'switchLink', 'startUnits') }), { do: 'stage', stage: 'probe' }],
  ['it is probed', switching({}, { progress: probing() }), { do: 'wait', untilMs: NOW + 1000 }],
  [
    'a probe cannot pass any more',
    switching({}, { progress: probing({ hopeless: true }) }),
    { do: 'turnBack', reason: 'ProbesFailed', message: view.message },
  ],
  ['the deadline is passed', switching({}, { progress: probing({}, NOW) }), { do: 'turnBack', reason: 'ProbesFailed' }],
  ['the probes pass', switching({}, { progress: probing({ passed: true }) }), { do: 'stage', stage: 'probe' }],
  [
    'the probes passed',
    switching({}, { progress: done('writeFiles', 'switchLink', 'startUnits', 'probe') }),
    { do: 'stage', stage: 'writeReceipt' },
  ],
  [
    'the receipt is written',
    switching({}, { progress: done('writeFiles', 'switchLink', 'startUnits', 'probe', 'writeReceipt') }),
    { do: 'commit' },
  ],
  ['a stage failed', switching({}, { progress: failing() }), { do: 'turnBack', reason: 'ENOSPC', message: 'no space' }],
  [
    'the receipt could not be written',
    switching({}, { progress: failing({ done: done('writeFiles', 'switchLink', 'startUnits', 'probe').done, notBeforeMs: NOW + 3 }) }),
    { do: 'wait', untilMs: NOW + 3 },
  ],
  ['it is a removal', switching({ to: undefined as never }), { do: 'stage', stage: 'stopUnits' }],

  // A transaction, back
  ['it turned back', switching({ back: { reason: 'r', message: 'm' } }), { do: 'stage', stage: 'writeFiles' }],
  [
    'what ran before passes its probes',
    switching({ back: { reason: 'r', message: 'm' } }, { progress: done('writeFiles', 'switchLink', 'startUnits', 'probe') }),
    { do: 'fail', failed: { revision: 2, reason: 'r', message: 'm', restored: true } },
  ],
  [
    'what ran before fails',
    switching({ back: { reason: 'r', message: 'm' } }, { progress: probing({}, NOW) }),
    { do: 'fail', failed: { restored: false } },
  ],
  [
    'going back fails for now',
    switching({ back: { reason: 'r', message: 'm' } }, { progress: failing({ notBeforeMs: NOW + 4, giveUpMs: NOW + 60 }) }),
    { do: 'wait', untilMs: NOW + 4 },
  ],
  [
    'going back fails for too long',
    switching({ back: { reason: 'r', message: 'm' } }, { progress: failing({ giveUpMs: NOW }) }),
    { do: 'fail', failed: { restored: false, message: 'm; going back fails too: writeFiles: no space' } },
  ],
  [
    'nothing was there before',
    switching(
      { from: undefined as never, back: { reason: 'r', message: 'm' } },
      { progress: done('stopUnits', 'removeFiles', 'removeLink') },
    ),
    { do: 'fail', failed: { restored: false } },
  ],
  [
    'it had rebooted',
    switching(
      { class: 'Reboot', rebootThere: 'before', back: { reason: 'r', message: 'm' } },
      { progress: done('writeFiles', 'switchLink') },
    ),
    { do: 'stage', stage: 'reboot' },
  ],
  [
    'it had not rebooted yet',
    switching({ class: 'Reboot', back: { reason: 'r', message: 'm' } }, { progress: done('writeFiles', 'switchLink') }),
    { do: 'stage', stage: 'startUnits' },
  ],

  // A newer revision on the way
  [
    'a newer revision is ready',
    newer('Restart'),
    { do: 'begin', transaction: { revision: 3, to: 'd1.2.0', from: 'd1.0.0', touched: ['d1.1.0'] } },
  ],
  ['a newer revision is ready and stronger', newer('Drain'), { do: 'wait' }],
  ['C6: a newer revision is ready, under an order', newer('Restart', { operation: 'op' }), { do: 'wait' }],
  [
    'a newer revision is ready, and the reboot is under way',
    newer('Restart', { class: 'Reboot', rebootThere: 'b' }),
    { do: 'stage', stage: 'reboot' },
  ],
  ['a newer revision is ready, on the way back', newer('Restart', { back: { reason: 'r', message: 'm' } }), { do: 'wait' }],
])('%s', (_what, observed, expected) => {
  expect(decide(observed)).toMatchObject(expected);
});

/** A second component, which app requires. */
function withBase(): Pick<ObservedNode, 'installed' | 'units' | 'health' | 'drift' | 'wanted'> {
  const base = installed('1.0.0', 1, { name: 'base', digest: 'dbase', units: [] });
  return {
    installed: new Map([
      ['app', installed('1.0.0', 1, { requires: [{ componentName: 'base' }] })],
      ['base', base],
    ]),
    units: unit(),
    health: new Map([
      ['app', healthy],
      ['base', healthy],
    ]),
    drift: new Map([
      ['app', justChecked],
      ['base', justChecked],
    ]),
    wanted: undefined,
  };
}

function both(rest: Partial<JournalState>, app: Partial<ComponentState> = {}): JournalState {
  return { ...empty, components: { app: accepted('1.0.0', 1, app), base: { ...accepted('1.0.0', 1), name: 'base' } }, ...rest };
}

function drifted(repair: boolean): ObservedNode['drift'] {
  return new Map([['app', { ...justChecked, findings: [{ kind: 'file', path: '/x', what: 'is missing', repair }] }]]);
}

function requiring(componentName: string): ObservedNode['prepared'] {
  return new Map([
    [
      'app',
      { status: 'ready', revision: 2, manifest: manifest('1.1.0', { disruption: { minor: 'None' }, requires: [{ componentName }] }) },
    ],
  ]);
}

function newer(minor: Disruption, transaction: Partial<Transaction> = {}): ObservedNode {
  return switching(transaction, {
    state: state(accepted('1.2.0', 3), { transaction: tx(transaction) }),
    wanted: undefined,
    prepared: new Map([['app', { status: 'ready', revision: 3, manifest: manifest('1.2.0', { disruption: { minor } }) }]]),
    progress: probing(),
  });
}

test('the same observation leads to the same step', () => {
  expect(decide(ordered())).toEqual(decide(ordered()));
});

test.each([
  ['a circle, by name', { a: ['b'], b: ['a'], c: [] }, ['a', 'b', 'c'], ['b', 'a', 'c']],
  ['two that require one', { a: ['z'], b: ['z'], z: [] }, ['b', 'z', 'a'], ['z', 'a', 'b']],
  ['over one that is not asked for', { a: ['m'], m: ['z'], z: [] }, ['a', 'z'], ['z', 'a']],
  ['over one that is not here', { a: ['gone'], b: [] }, ['b', 'a'], ['a', 'b']],
])('components are taken in the order in which they require each other: %s', (_what, requires, names, expected) => {
  const here = Object.entries(requires).map(
    ([name, others]) => [name, installed('1.0.0', 1, { name, requires: others.map((componentName) => ({ componentName })) })] as const,
  );
  expect(inOrder({ installed: new Map(here), prepared: new Map() }, names)).toEqual(expected);
});

test('what is ready is ordered by what it will require, not by what it required', () => {
  const here = ['a', 'b'].map((name) => [name, installed('1.0.0', 1, { name })] as const);
  const prepared = new Map([
    ['a', { status: 'ready' as const, revision: 2, manifest: manifest('1.1.0', { name: 'a', requires: [{ componentName: 'b' }] }) }],
  ]);
  expect(inOrder({ installed: new Map(here), prepared }, ['a', 'b'])).toEqual(['b', 'a']);
});

test('while the hold file is there, it is read again within seconds, since its removal does not wake the agent', () => {
  const held = node({ holdFile: true });
  expect(decide(held)).toMatchObject({ do: 'wait', untilMs: held.nowMs + 5_000 });
});
