/** How machines go: what stops a deletion, what can be taken back, and what needs no permission (docs/protocols.md#c8, #c8a, #d7, #d11). */
import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Seen } from '../../../defender/guarded-write.ts';
import { scopeUsage } from '../../../defender/scope-usage.ts';
import { createAvailabilityIndex } from '../../../defender/availability-index.ts';
import { stateOf } from '../../../defender/state.ts';
import { actOf } from '../steps.ts';
import { askOf } from '../reservation/ask.ts';
import { countedAs } from '../observe/counted.ts';
import { decide } from '../decide.ts';
import { wantsDrainToGo } from './deletion.ts';
import { drainDeadlineMs } from '../drain/drain.ts';
import type { MachineView, Step } from '../view.ts';
import { at, cordoned, entry, facts, machine, node, NOW, operation, reservation, view, waiting } from '../testing/objects.ts';

const unordered = ({ spec, ...rest }: Stored<Machine>): Stored<Machine> => {
  const { operation: _operation, ...others } = spec;
  return { ...rest, spec: others };
};
const steps = (change: Partial<MachineView>): string[] => decide(view(change)).steps.map((step) => step.do);
const deleted = { metadata: { deletionTimestamp: at(-60) } };
const FREEZE = [{ metadata: { name: 'night' }, spec: {} }];
const DELETE = reservation({ id: 'r2', kind: 'Delete', class: 'Change' });
const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false };
const drained = { claim: { state: 'Claimed' as const, node: cordoned('a', 'r2') }, pods: [] };
const closed = [
  {
    metadata: { name: 'p' },
    spec: {
      limits: [],
      windows: [{ name: 'w', schedule: '0 3 * * *', durationMinutes: 60, timeZone: 'UTC', classes: ['Delete' as const] }],
    },
  },
];
const noneADay = [
  { metadata: { name: 'p' }, spec: { limits: [{ name: 'r', scope: 'Cluster' as const, maxPerDay: 0, classes: ['Delete' as const] }] } },
];

test('D9: a Delete reservation without an order is given up for the way back, unless a client deletes the machine', () => {
  const spec = { retire: { epoch: 1 } };
  const back = { entries: [entry({ version: '1.0.0', lane: 'Restore' as const })], components: [waiting()] };
  const known = { reservation: DELETE, facts: facts({ epoch: 1 }) };
  expect(steps({ ...known, machine: unordered(machine({ spec, ...back })) })).toEqual(['WriteCancelled']);
  expect(steps({ ...known, machine: unordered(machine({ spec })) })).not.toContain('WriteCancelled');
  expect(steps({ ...known, machine: unordered(machine({ ...deleted, ...back })) })).not.toContain('WriteCancelled');
});

describe('safety 13, D11: a deletion does not pass what stops it because the machine has a reservation', () => {
  const running = machine({ ...deleted, spec: { operation: operation() } });
  const held = machine({ ...deleted, spec: { operation: operation(), hold: true } });
  const ofNode = machine({
    ...deleted,
    spec: { operation: operation() },
    status: { agent: { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64', hold: true } },
  });
  test.each<[string, Partial<MachineView>]>([
    ['a Freeze', { machine: running, facts: facts({ freezes: FREEZE }) }],
    ['hold', { machine: held }],
    ['hold on the node', { machine: ofNode }],
    ['a window that is closed', { machine: running, facts: facts({ policies: closed }) }],
    ['a rate that is used up', { machine: running, facts: facts({ policies: noneADay }) }],
  ])('%s: what runs goes on, and its reservation is not taken over', (_, change) => {
    expect(steps({ reservation: reservation(), ...change })).toEqual([]);
    const waiting = unordered(change.machine ?? running);
    // What has not begun gives way, so that the deletion can ask for itself.
    expect(steps({ ...change, machine: waiting, reservation: reservation() })).toEqual(['WriteCancelled']);
  });
  test('a Change that fails meanwhile is over once its entry records it', () => {
    const failed = { revision: 2, reason: 'ProbesFailed', message: '', restored: true };
    const ended = (change: object) =>
      machine({
        ...deleted,
        spec: { operation: operation(), hold: true },
        entries: [entry(change)],
        components: [waiting({ failed })],
        status: { operation: { id: 'r1', state: 'Done', outcome: 'PermanentFailure' } },
      });
    expect(steps({ machine: ended({}), reservation: reservation() })).toEqual([]);
    const mark = { setRevision: 2, attempt: 1, reason: 'ProbesFailed' };
    expect(steps({ machine: ended({ failed: mark }), reservation: reservation() })).toEqual(['Release']);
  });
  test('the hold of an agent that is gone blocks nothing', () => {
    expect(steps({ machine: ofNode, reservation: reservation(), facts: facts({ agentAnswers: false }) })).toEqual(['TakeOver']);
  });
  test('save where a repair replaces the machine: that was granted with it', () => {
    const replaced = machine({ ...deleted, spec: { operation: operation({ kind: 'Repair', action: 'Replace', id: 'r1' }), hold: true } });
    expect(
      steps({ reservation: reservation({ kind: 'Repair', class: 'Repair' }), machine: replaced, facts: facts({ freezes: FREEZE }) }),
    ).toEqual(['TakeOver']);
  });

  test.each([
    ['while it waits for its cordon', { claim: { state: 'Claimed' as const, node: node('a') } }],
    ['while it drains', { claim: { state: 'Claimed' as const, node: cordoned('a', 'r2') }, pods: [pod] }],
    ['when it is drained', drained],
  ])('its own reservation is given back %s', (_, change) => {
    const frozen = { ...change, reservation: DELETE, facts: facts({ freezes: FREEZE }) };
    expect(steps({ ...frozen, machine: machine(deleted) })).toEqual(['WriteCancelled']);
    expect(steps({ ...change, reservation: DELETE, machine: machine({ ...deleted, spec: { hold: true } }) })).toEqual(['WriteCancelled']);
    expect(steps({ ...frozen, reservation: { ...DELETE, class: 'Repair' }, machine: machine(deleted) })).not.toEqual(['WriteCancelled']);
    const ordered = machine({ ...deleted, spec: { operation: operation({ id: 'r2', kind: 'Delete' }) } });
    expect(steps({ ...frozen, machine: ordered, facts: facts({ freezes: FREEZE, agentAnswers: false }) })).toEqual(['DeleteInstance']);
  });
  test('the provider is asked for nothing before the order, which cannot be taken back', () => {
    expect(steps({ ...drained, reservation: DELETE, machine: machine(deleted), facts: facts({ agentAnswers: false }) })).toEqual(['Order']);
  });
  test('a reservation that was cancelled is fenced and freed, and the deletion asks again', () => {
    const cancelled = machine({ ...deleted, spec: { operation: operation({ id: 'r2', kind: 'Cancelled' }) } });
    expect(steps({ ...drained, reservation: DELETE, machine: cancelled })).toEqual(['Fence']);
    expect(steps({ claim: { state: 'None' }, reservation: DELETE, machine: cancelled })).toEqual(['FreeCancelled']);
    expect(askOf(cancelled, facts()).state).toBe('Asks');
  });
});

describe('safety 7, C8a: a mark of the MachineSet', () => {
  const marked = (epoch = 7, more: Parameters<typeof machine>[0] = {}) => machine({ ...more, spec: { retire: { epoch }, ...more.spec } });
  const inTerm = (change: Parameters<typeof facts>[0] = {}) => facts({ epoch: 7, ...change });
  const idle = { components: [] };
  const asks = (object: Machine, change: Parameters<typeof facts>[0] = {}) => {
    const ask = askOf(object, inTerm(change));
    return ask.state === 'Asks' ? `${ask.request.kind} ${ask.request.class}` : ask.state === 'Refused' ? ask.verdict.limit : ask.state;
  };

  test('asks for a reservation of class Change, which Freeze and hold refuse', () => {
    expect(asks(marked(7, idle))).toBe('Delete Change');
    expect(asks(marked(7, idle), { freezes: FREEZE })).toBe('Freeze/night');
    expect(asks(marked(7, { ...idle, spec: { hold: true } }))).toBe('Machine/hold');
  });
  test('of another term asks for nothing, and neither does one without a term', () => {
    expect(asks(marked(6, idle))).toBe('Nothing');
    expect(asks(marked(8, idle))).toBe('Nothing');
    expect(askOf(marked(7, idle), facts()).state).toBe('Nothing');
  });
  test('goes before what would only bring it forward', () => {
    expect(asks(machine({ status: { verified: [] } }))).toBe('Change Change');
    expect(asks(marked(7, { status: { verified: [] } }))).toBe('Delete Change');
  });
  test('after a drain that did not end waits until the time of that try is over', () => {
    const blocked = marked(7, {
      ...idle,
      spec: { operation: operation({ kind: 'Cancelled', cause: 'DrainTimeout', reason: 'DrainTimeout: x', notAfter: at(60) }) },
    });
    expect(asks(blocked)).toBe('Machine/retry');
    expect(asks(blocked, { nowMs: NOW + 61_000 })).toBe('Delete Change');
  });

  const going = (change: Partial<MachineView>) => steps({ reservation: DELETE, machine: marked(), facts: inTerm(), ...change });
  test('is cordoned, drained, and only then deleted', () => {
    expect(going({})).toEqual(['Cordon']);
    expect(going({ claim: drained.claim, pods: [pod] })).toEqual(['Evict']);
    expect(going({ claim: drained.claim })).toEqual([]);
    expect(going(drained)).toEqual(['Retire']);
    expect(going({ claim: { state: 'Lost', message: 'x' } })).toEqual(['Retire']);
  });
  test.each<[string, Partial<MachineView>]>([
    ['the mark is taken back', { machine: machine() }],
    ['another term has begun, and its leader has not confirmed it', { facts: facts({ epoch: 8 }) }],
    ['a Freeze begins', { facts: inTerm({ freezes: FREEZE }) }],
    ['it is held', { machine: marked(7, { spec: { hold: true } }) }],
    ['the limits have no room any more', { revoked: { allowed: false, limit: 'p/r' } }],
  ])('lives where %s before it is deleted, also when it is drained', (_, change) => {
    expect(going({ ...drained, ...change })).toEqual(['WriteCancelled']);
  });
  test('is not deleted over the budget of its pods; a node that cannot end them is not waited for for ever', () => {
    const late = { claim: drained.claim, pods: [pod], nowMs: NOW + 600_000 };
    expect(going(late)).toEqual(['WriteCancelled']);
    expect(going({ ...late, kubeletAnswers: false })).toEqual(['Retire']);
  });
  test('waits while its provider cannot be asked', () => {
    expect(going({ ...drained, instance: { state: 'Unknown', reason: 'x', message: 'x' } })).toEqual([]);
  });
  test('is not made while it bears one', () => {
    const unmade = { ...marked(6), status: {} };
    expect(steps({ machine: unmade, instance: { state: 'Absent' }, claim: { state: 'None' } })).toEqual([]);
  });

  describe('at the deletion itself', () => {
    const ledger = (reservations: LedgerReservation[], epoch = 7) =>
      ({ metadata: { name: 'cell' }, status: { epoch, reservations } }) as unknown as Seen['ledger'];
    const judged = (change: Partial<Seen>, given: LedgerReservation | undefined = DELETE, freezes: typeof FREEZE = []) => {
      const step: Step = { do: 'Retire', reservation: given, why: '' };
      const context = { epoch: 7, machine: { namespace: 'web', name: 'a' }, node: 'a', facts: inTerm({ freezes }), newID: () => 'n' };
      const seen: Seen = { machine: marked(), node: cordoned('a', 'r2'), ledger: ledger([DELETE]), ...change };
      const move = actOf(step, context)?.judge(seen);
      return move !== undefined && 'effect' in move ? move.effect.do : 'stop';
    };
    test('everything is read again', () => {
      expect(judged({})).toBe('DeleteMachine');
      expect(judged({ machine: machine() })).toBe('stop');
      expect(judged({ machine: marked(6) })).toBe('stop');
      expect(judged({ machine: marked(7, deleted) })).toBe('stop');
      expect(judged({ machine: marked(7, { spec: { hold: true } }) })).toBe('stop');
      expect(judged({ machine: marked(7, { spec: { operation: operation({ id: 'r2', kind: 'Cancelled' }) } }) })).toBe('stop');
      expect(judged({ machine: marked(7, { uid: 'another' }) })).toBe('stop');
      expect(judged({ node: node('a') })).toBe('stop');
      expect(judged({ ledger: ledger([]) })).toBe('stop');
      expect(judged({}, reservation({ id: 'r2' }))).toBe('stop');
      expect(judged({}, DELETE, FREEZE)).toBe('stop');
      expect(() => judged({ ledger: ledger([DELETE], 8) })).toThrow(expect.objectContaining({ code: 'Deposed' }));
      expect(stateOf({}).reservations).toEqual([]);
    });
  });
});

describe('safety 10, C8b: a machine for which nothing was made', () => {
  const unmade = (status: object = {}, more: Parameters<typeof machine>[0] = deleted): Stored<Machine> => ({ ...machine(more), status });
  const none = { claim: { state: 'None' as const } };
  const typo = { state: 'Unknown' as const, reason: 'UnknownProvider', message: 'this cell has no provider "fak"' };
  const bootstrap = { epoch: 1, accountUID: 'u', tokenUntil: at(0) };

  test('with a provider that the cell does not have can be deleted: by its record no provider was asked to make it', () => {
    expect(steps({ ...none, machine: unmade(), instance: typo })).toEqual(['Finalize']);
    expect(steps({ ...none, machine: unmade({ phase: 'Pending' }), instance: typo, facts: facts({ freezes: FREEZE }) })).toEqual([
      'Finalize',
    ]);
    expect(askOf(unmade(), facts()).state).toBe('Nothing');
  });
  test('with a provider that proves it can be deleted without a reservation, and is never made later', () => {
    expect(steps({ ...none, machine: unmade({ bootstrap }), instance: { state: 'Absent' } })).toEqual(['DeleteInstance', 'Finalize']);
  });
  test('that its set marked is deleted without a reservation', () => {
    const marked = unmade({}, { spec: { retire: { epoch: 7 } } });
    expect(steps({ ...none, machine: marked, instance: typo, facts: facts({ epoch: 7 }) })).toEqual(['Retire']);
    expect(steps({ ...none, machine: marked, instance: typo, facts: facts({ epoch: 8 }) })).toEqual([]);
  });
  test.each<[string, Partial<MachineView>]>([
    ['its instance is recorded', { machine: unmade({ providerID: 'x' }), instance: typo }],
    ['it had a Node', { machine: unmade({ nodeRef: { name: 'a', uid: 'n' } }), instance: { state: 'Absent' } }],
    ['it has a Node', { machine: unmade({ bootstrap }), claim: { state: 'Claimed', node: node('a') } }],
    ['an agent proves it', { machine: unmade({ agent: machine().status?.agent }), instance: { state: 'Absent' } }],
    ['it may be about to be made, and that is unknown', { machine: unmade({ bootstrap }), instance: typo }],
    ['it is there', { machine: unmade({ bootstrap }) }],
  ])('is distinguished from one where %s: that asks', (_, change) => {
    expect(steps({ ...none, ...change })).toEqual([]);
    expect(askOf(change.machine ?? machine(), facts()).state).toBe('Asks');
  });

  test('D7: what never was Ready is neither unavailable nor one of the total, and going costs nothing', () => {
    const machines = [
      machine({ name: 'a', status: { firstReadyAt: at(-60) } }),
      { ...machine({ name: 'b' }), status: { phase: 'Installing' as const } },
      { ...machine({ name: 'c' }), status: {} },
    ];
    const availabilityIndex = createAvailabilityIndex(
      machines.map((each) => countedAs(each, each.metadata.name === 'a' ? node('a') : undefined, true, new Map())),
    );
    const usage = scopeUsage(availabilityIndex, [reservation({ id: 'r3', machine: 'web/c', machineUID: 'uid-c' })]);
    expect([usage.total('cluster'), usage.slots('cluster').used]).toEqual([1, 0]);
    expect(['uid-a', 'uid-b', 'uid-c'].map((uid) => usage.counts('cluster', uid))).toEqual([false, true, true]);
  });
  test('D7: what was Ready once and is not now is unavailable', () => {
    const lost = countedAs(machine({ status: { firstReadyAt: at(-60) } }), undefined, false, new Map());
    expect([lost.unavailable, lost.isNew]).toEqual([true, undefined]);
  });
});

test('C8: of a machine that a client deleted the drain is waited for until its deadline, while its node is well', () => {
  const going = machine({ metadata: { deletionTimestamp: at(0) } });
  const deletion = reservation({ kind: 'Delete' });
  const deadline = drainDeadlineMs(deletion, going);
  const wants = (change: Partial<MachineView> = {}): boolean =>
    wantsDrainToGo(view({ machine: going, nowMs: deadline - 1, ...change }), deletion);
  expect(wants()).toBe(true);
  expect(wants({ nowMs: deadline })).toBe(false);
  expect(wants({ kubeletAnswers: false })).toBe(false);
  expect(wants({ claim: { state: 'None' } })).toBe(false);
  // One that its set marked is not deleted yet: its drain is given up elsewhere.
  expect(wants({ machine: machine(), nowMs: deadline, kubeletAnswers: false })).toBe(true);
});
