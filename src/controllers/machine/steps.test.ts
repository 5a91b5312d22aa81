import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Seen } from '../../defender/guarded-write.ts';
import type { MachineStatus } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import { actOf } from './steps.ts';
import { cordonedFor } from './cordon/cordon.ts';
import type { Step } from './view.ts';
import { freeVanished } from './reservation/steps.ts';
import { at, cordoned, entry, facts, machine, node, operation, reservation, waiting } from './testing/objects.ts';

const ledger = (epoch: number, ...reservations: LedgerReservation[]) => ({
  apiVersion: API_VERSION,
  kind: 'DisruptionLedger',
  metadata: { name: 'cell', uid: 'l', resourceVersion: '5', creationTimestamp: at(0) },
  spec: {},
  status: { epoch, reservations },
});
const context = { epoch: 3, machine: { namespace: 'web', name: 'a' }, node: 'a', facts: facts(), newID: () => 'new' };

function judged(step: Step, seen: Seen) {
  const act = actOf(step, context);
  if (act === undefined) throw new Error(`${step.do} is no guarded write`);
  const move = act.judge({ machine: machine(), node: node(), ledger: ledger(3, reservation()), ...seen });
  if ('stop' in move || 'effect' in move) return move;
  return { ...move, reads: act.reads };
}
const annotationsIn = (move: ReturnType<typeof judged>) =>
  ('write' in move && move.write === 'node' ? move.object.metadata.annotations : undefined) ?? {};
const condition = (type: string) => ({ type, status: 'True' as const, reason: 'x', message: '', lastTransitionTime: at(0) });
const order: Step = { do: 'Order', reservation: reservation(), drained: false, why: '' };
const guarded: Step[] = [
  { do: 'Cordon', reservation: reservation(), why: '' },
  order,
  { do: 'WriteCancelled', reservation: reservation(), cause: 'Expired', reason: 'x', why: '' },
  { do: 'FreeCancelled', reservation: reservation(), why: '' },
  { do: 'Release', reservation: reservation(), why: '' },
  { do: 'TakeOver', reservation: reservation(), why: '' },
  { do: 'DeleteInstance', reservation: reservation({ kind: 'Delete' }), providerID: 'x', why: '' },
];

describe('D3: a leader that meets the trace of a later term stops', () => {
  const deposed = expect.objectContaining({ code: 'Deposed' });
  test.each(guarded)('$do, in the ledger', (step) => {
    expect(() => judged(step, { ledger: ledger(4, reservation()) })).toThrow(deposed);
  });
  test.each(guarded)('$do, on the Machine', (step) => {
    expect(() => judged(step, { machine: machine({ spec: { operation: operation({ id: 'r0', epoch: 4 }) } }) })).toThrow(deposed);
  });
  const onNode: Step[] = [
    { do: 'LiftCordon', owner: 'r1', why: '' },
    { do: 'MarkDegraded', why: '' },
    { do: 'LiftDegraded', why: '' },
    { do: 'Evict', reservation: reservation(), pod: { namespace: 'web', name: 'p', uid: 'p', terminating: false }, why: '' },
  ];
  test.each([...guarded, ...onNode])('D1: $do, where the ledger is gone', (step) => {
    expect(() => judged(step, { node: cordoned('a', 'r1'), ledger: undefined })).toThrow(deposed);
  });
  test.each(guarded)('$do, where another machine has the name', (step) => {
    expect(judged(step, { machine: machine({ uid: 'another' }) })).toHaveProperty('stop');
  });
  test.each(guarded)('$do, where the ledger has another reservation of this machine', (step) => {
    expect(judged(step, { ledger: ledger(3, reservation({ id: 'r2' })) })).toHaveProperty('stop');
  });
});

describe('C1: an order', () => {
  test("is the reservation's id under the writer's epoch, with exactly what waits, conditioned on what was read", () => {
    expect(judged(order, {})).toMatchObject({
      write: 'machine',
      reads: ['machine', 'ledger'],
      object: { metadata: { resourceVersion: '1' }, spec: { operation: operation({ epoch: 3, notAfter: reservation().notAfter }) } },
    });
  });

  test('names no component that needs a drain which was not made', () => {
    const two = machine({
      entries: [entry(), entry({ name: 'containerd' })],
      components: [waiting(), waiting({ name: 'containerd', needs: 'Drain' })],
    });
    expect(judged(order, { machine: two })).toMatchObject({
      object: { spec: { operation: { components: [{ name: 'kubelet', revision: 2 }] } } },
    });
    const both = [
      { name: 'containerd', revision: 2 },
      { name: 'kubelet', revision: 2 },
    ];
    const components = both.map((each) => ({ ...each, class: 'Change' as const }));
    const drained = { ...order, reservation: reservation({ components }), drained: true };
    expect(judged(drained, { machine: two })).toMatchObject({ object: { spec: { operation: { components: both } } } });
  });

  test('names no component of a set whose limit was not asked', () => {
    const other = machine({ entries: [entry(), entry({ name: 'cni', setUID: 's2' })], components: [waiting(), waiting({ name: 'cni' })] });
    const sets = new Map([...context.facts.sets, ['s2', { name: 'cni', stopped: undefined }]] as const);
    const act = actOf(order, { ...context, facts: facts({ sets }) });
    expect(act?.judge({ machine: other, ledger: ledger(3, reservation()) })).toMatchObject({
      object: { spec: { operation: { components: [{ name: 'kubelet', revision: 2 }] } } },
    });
  });

  test.each<[string, Parameters<typeof entry>[0], Partial<LedgerReservation>]>([
    ['a revision that came after it was granted', { revision: 3 }, {}],
    ['what goes forward, in a row that was granted for the way back', {}, { class: 'Restore' }],
    ['anything, where the reservation does not name it', {}, { components: [] }],
  ])('safety 5, C3: names exactly what the reservation was granted for, and not %s', (_, change, granted) => {
    const now = machine({ entries: [entry(change)], components: [waiting({ revision: change?.revision ?? 2 })] });
    expect(judged({ ...order, reservation: reservation(granted) }, { machine: now })).toHaveProperty('stop');
  });

  test('safety 5, C3: of two that wait names the one that was there when the reservation was granted', () => {
    const joined = machine({ entries: [entry(), entry({ name: 'cni' })], components: [waiting(), waiting({ name: 'cni' })] });
    expect(judged(order, { machine: joined })).toMatchObject({
      object: { spec: { operation: { components: [{ name: 'kubelet', revision: 2 }] } } },
    });
  });

  test('is not given twice, nor after its cancellation, nor for a change of a machine that is being deleted', () => {
    for (const kind of ['Change', 'Cancelled'] as const)
      expect(judged(order, { machine: machine({ spec: { operation: operation({ kind }) } }) })).toHaveProperty('stop');
    expect(judged(order, { machine: machine({ metadata: { deletionTimestamp: at(0) } }) })).toHaveProperty('stop');
  });
});

describe('C4: on the Node', () => {
  test('a cordon reads the Node first and the ledger last', () => {
    expect(judged({ do: 'Cordon', reservation: reservation(), why: '' }, {})).toMatchObject({
      write: 'node',
      reads: ['node', 'machine', 'ledger'],
    });
  });
  test('a stray cordon is lifted only where the ledger, read after the Node, lacks its reservation', () => {
    const lift: Step = { do: 'LiftCordon', owner: 'r1', why: '' };
    expect(judged(lift, { node: cordoned('a', 'r1') })).toEqual({ stop: 'the ledger has the reservation' });
    expect(judged(lift, { node: cordoned('a', 'r1'), ledger: ledger(3) })).toMatchObject({
      write: 'node',
      reads: ['node', 'machine', 'ledger'],
    });
    expect(judged(lift, { node: cordoned('a', 'r2'), ledger: ledger(3) })).toHaveProperty('stop');
  });
  test('nor is the reservation of an operation whose end was not reported, though its reservation was taken away', () => {
    const lift: Step = { do: 'LiftCordon', owner: 'r1', why: '' };
    const seen = { node: cordoned('a', 'r1'), ledger: ledger(3) };
    const spec = { operation: operation() };
    expect(judged(lift, { ...seen, machine: machine({ spec }) })).toEqual({ stop: 'its operation has not ended' });
    const done = machine({ spec, status: { operation: { id: 'r1', state: 'Done' } } });
    expect(judged(lift, { ...seen, machine: done })).toMatchObject({ write: 'node' });
    expect(judged(lift, { ...seen, machine: undefined })).toMatchObject({ write: 'node' });
  });
  test('a pod is evicted only under a cordon that names the reservation', () => {
    const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: false };
    const evict: Step = { do: 'Evict', reservation: reservation(), pod, why: '' };
    expect(judged(evict, { node: cordoned('a', 'r1') })).toEqual({ effect: { do: 'Evict', pod } });
    for (const object of [node(), cordoned('a', 'r2'), cordoned('a', 'Degraded'), undefined])
      expect(judged(evict, { node: object })).toHaveProperty('stop');
    expect(judged(evict, { node: cordoned('a', 'r1'), ledger: ledger(3) })).toEqual({ stop: 'the ledger lacks the reservation' });
    expect(actOf(evict, context)?.reads).toEqual(['node', 'ledger']);
  });
  test('another Node of the same name is not touched', () => {
    const other = cordoned('a', 'r1');
    const stranger = { ...other, metadata: { ...other.metadata, uid: 'another' }, spec: { unschedulable: true, providerID: 'fake://b' } };
    const done = machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done' } } });
    expect(judged({ do: 'Settle', reservation: reservation(), why: '' }, { machine: done, node: stranger })).toHaveProperty('stop');
    expect(judged({ do: 'Cordon', reservation: reservation(), why: '' }, { node: stranger })).toHaveProperty('stop');
  });
});

describe('C4: a cordon by Degraded', () => {
  const broken = machine({
    components: [waiting({ state: 'Failed', failed: { revision: 2, reason: 'x', message: '', restored: false } })],
  });
  const whole = machine({ components: [waiting({ state: 'Healthy', running: 2 })] });
  test.each<[Step['do'], Step, Seen]>([
    ['MarkDegraded', { do: 'MarkDegraded', why: '' }, { machine: broken, node: node() }],
    ['LiftDegraded', { do: 'LiftDegraded', why: '' }, { machine: whole, node: cordoned('a', 'Degraded') }],
  ])('%s is written where the machine has no reservation, and never where it has one: its end settles the cordon', (_, step, seen) => {
    expect(judged(step, { ...seen, ledger: ledger(3) })).toHaveProperty('write', 'node');
    expect(
      judged(step, { ...seen, ledger: ledger(3, reservation({ id: 'other', machineUID: 'uid-b', machine: 'web/b' })) }),
    ).toHaveProperty('write');
    expect(judged(step, { ...seen, ledger: ledger(3, reservation()) })).toHaveProperty('stop');
  });
});

test('C4: a Change that took its cordon over from Degraded leaves it so while a repair is needed, and lifts it otherwise', () => {
  const conditions = [{ type: 'RepairNeeded', status: 'True' as const, reason: 'hung', message: '', lastTransitionTime: at(0) }];
  const ended = (conditions: MachineStatus['conditions'] = []) =>
    machine({ spec: { operation: operation() }, status: { conditions, operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } } });
  const settle: Step = { do: 'Settle', reservation: reservation(), why: '' };
  const taken = cordonedFor(cordoned('a', 'Degraded'), 'r1') ?? node();
  expect(judged(settle, { machine: ended(conditions), node: taken })).toMatchObject({
    object: { metadata: { annotations: { 'kubenode.io/cordon-owner': 'Degraded' } }, spec: { unschedulable: true } },
  });
  expect(judged(settle, { machine: ended(), node: taken })).toMatchObject({ object: { metadata: { annotations: {} }, spec: {} } });
  expect(judged(settle, { machine: ended(conditions), node: cordoned('a', 'r1') })).toMatchObject({ object: { spec: {} } });
});

describe('C13: on a Node that registered again during an operation', () => {
  const uid = 'another';
  const again = (object = node()) => ({ ...object, metadata: { ...object.metadata, uid } });
  const spec = { operation: operation() };
  const running = machine({ spec });
  const ended = machine({ spec, status: { operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } } });
  const fenced = again(node('a', { annotations: { [ANNOTATIONS.cordonFence]: 'r1' } }));
  const cordon: Step = { do: 'Cordon', reservation: reservation(), why: '' };

  test('the cordon of an ordered reservation is put again, while its operation goes on and is not cancelled', () => {
    expect(judged(cordon, { machine: running, node: node() })).toHaveProperty('stop');
    expect(judged(cordon, { machine: running, node: again() })).toMatchObject({
      write: 'node',
      object: { metadata: { uid, annotations: { [ANNOTATIONS.cordonOwner]: 'r1' } }, spec: { unschedulable: true } },
    });
    expect(judged(cordon, { machine: ended, node: again() })).toHaveProperty('stop');
    expect(judged(cordon, { machine: running, node: fenced })).toHaveProperty('stop');
    expect(judged(cordon, { machine: machine({ spec: { operation: operation({ kind: 'Cancelled' }) } }), node: again() })).toHaveProperty(
      'stop',
    );
  });

  test('and keeps pods away after the operation too, while a repair is due', () => {
    const due = machine({ spec, status: { conditions: [condition('RepairNeeded')] } });
    const { [ANNOTATIONS.cordonDegraded]: kept } = annotationsIn(judged(cordon, { machine: due, node: again() }));
    expect(kept).toBe('true');
    expect(annotationsIn(judged(cordon, { machine: running, node: again() }))).not.toHaveProperty(ANNOTATIONS.cordonDegraded);
  });

  test('the reservation is released only after its fence, which no late cordon passes', () => {
    const released: Step = { do: 'Release', reservation: reservation(), why: '' };
    const fence: Step = { do: 'Fence', reservation: reservation(), why: '' };
    expect(judged(released, { machine: ended, node: again() })).toHaveProperty('stop');
    expect(judged(fence, { machine: running, node: again() })).toHaveProperty('stop');
    expect(judged(fence, { machine: ended, node: node() })).toHaveProperty('stop');
    expect(judged(fence, { machine: ended, node: again(cordoned('a', 'r1')) })).toHaveProperty('stop');
    expect(annotationsIn(judged(fence, { machine: ended, node: again() }))).toEqual({ [ANNOTATIONS.cordonFence]: 'r1' });
    expect(judged(released, { machine: ended, node: fenced })).toMatchObject({ write: 'ledger' });
  });

  test('what its last repair left as Degraded is Degraded again, and a reservation that takes it over gives it back', () => {
    const repaired = { operation: operation({ kind: 'Repair', action: 'Reboot' }) };
    const status = {
      conditions: [condition('RepairNeeded')],
      operation: { id: 'r1', state: 'Done' as const, outcome: 'PermanentFailure' as const },
    };
    const components = [waiting({ state: 'Healthy', running: 2 })];
    const unhealed = machine({ components, spec: repaired, status });
    const mark: Step = { do: 'MarkDegraded', why: '' };
    const none = ledger(3);
    expect(annotationsIn(judged(mark, { machine: unhealed, node: again(), ledger: none }))).toEqual({
      [ANNOTATIONS.cordonOwner]: 'Degraded',
    });
    expect(judged(mark, { machine: unhealed, node: node(), ledger: none })).toHaveProperty('stop');
    expect(
      judged(mark, {
        machine: machine({ components, spec: repaired, status: { operation: status.operation } }),
        node: again(),
        ledger: none,
      }),
    ).toHaveProperty('stop');
    const next = reservation({ id: 'r2' });
    expect(annotationsIn(judged({ ...cordon, reservation: next }, { machine: unhealed, node: again(), ledger: ledger(3, next) }))).toEqual({
      [ANNOTATIONS.cordonOwner]: 'r2',
      [ANNOTATIONS.cordonDegraded]: 'true',
    });
  });
});

describe('a release', () => {
  const done = machine({ spec: { operation: operation() }, status: { operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } } });
  const released: Step = { do: 'Release', reservation: reservation(), why: '' };
  test('D4: carries the versions by which its evidence was read', () => {
    expect(judged(released, { machine: done })).toMatchObject({
      write: 'ledger',
      object: { status: { epoch: 3, reservations: [] } },
      releases: { machine: { uid: 'uid-a', resourceVersion: '1' }, node: { name: 'a', resourceVersion: '1' } },
    });
    expect(judged(released, { machine: done, node: undefined })).toMatchObject({ releases: { node: { name: 'a', goneUID: 'node-a' } } });
  });
  test('C3: waits for the uncordon', () => {
    expect(judged(released, { machine: done, node: cordoned('a', 'r1') })).toHaveProperty('stop');
    expect(judged(released, { machine: done, node: cordoned('a', 'Degraded') })).toHaveProperty('write');
  });
  test('D5: of a reservation without a report, or without its record, does not happen', () => {
    expect(judged(released, { machine: machine({ spec: { operation: operation() } }) })).toHaveProperty('stop');
    const failed = waiting({ state: 'Failed', failed: { revision: 2, reason: 'x', message: '', restored: true } });
    const status = { operation: { id: 'r1', state: 'Done' as const, outcome: 'PermanentFailure' as const } };
    expect(judged(released, { machine: machine({ components: [failed], spec: { operation: operation() }, status }) })).toHaveProperty(
      'stop',
    );
  });
  test('C8: of a machine that is gone needs no more than that, and blocks no reservation by a Node that has its name', () => {
    const act = freeVanished(reservation(), 3);
    const move = act.judge({ machine: undefined, node: node(), ledger: ledger(3, reservation()) });
    expect(move).toMatchObject({ write: 'ledger', object: { status: { reservations: [] } }, releases: { node: undefined } });
    expect(act.judge({ machine: machine(), node: node(), ledger: ledger(3, reservation()) })).toHaveProperty('stop');
    expect(act.judge({ machine: machine({ uid: 'its-successor' }), node: node(), ledger: ledger(3, reservation()) })).toHaveProperty(
      'write',
    );
  });
});
