import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Machine, OperationStatus, RepairStatus } from '../../../api/machine.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Seen } from '../../../defender/guarded-write.ts';
import { actOf } from '../steps.ts';
import type { AskFacts } from '../facts.ts';
import { at, cordoned, facts, granted, idle, job, node, NOW, operation, repairOperation, repairReservation } from '../testing/objects.ts';
import type { Step } from '../view.ts';

const ledger = (epoch: number, ...reservations: LedgerReservation[]) => ({
  apiVersion: API_VERSION,
  kind: 'DisruptionLedger',
  metadata: { name: 'cell', uid: 'l', resourceVersion: '5', creationTimestamp: at(0) },
  spec: {},
  status: { epoch, reservations },
});
const pod = { namespace: 'web', name: 'p', uid: 'p', terminating: true };
const reservation = repairReservation();
const owners = [{ apiVersion: 'x', kind: 'MachineSet', name: 's', uid: 's', controller: true }];

function judged(step: Step, seen: Seen, known: Partial<AskFacts> & { jobs?: RemedyOperationJob[] } = {}) {
  const { jobs = [granted()], ...change } = known;
  const context = {
    epoch: 3,
    machine: { namespace: 'web', name: 'a' },
    node: 'a',
    facts: facts({ jobsOf: () => jobs, ...change }),
    newID: () => 'new',
  };
  const act = actOf(step, context);
  if (act === undefined) throw new Error(`${step.do} is no guarded write`);
  return act.judge({ machine: idle(), node: cordoned('a', 'r1'), ledger: ledger(3, reservation), ...seen });
}

const underWay = (
  action: string,
  repair: RepairStatus = { id: 'r1', state: 'Running', bootID: 'b', startedAt: at(-1), cutsPower: true },
): Stored<Machine> =>
  idle({
    spec: { operation: repairOperation({ action }) },
    status: { repair, nodeKeys: NOTED },
    metadata: { ownerReferences: owners },
  });

const NOTED = {
  nodeUID: 'node-a',
  nodeVersion: '',
  labels: [],
  taints: ['node.kubernetes.io/out-of-service=nodeshutdown:NoExecute'],
};

const steps: [string, Step][] = [
  ['MigratePods', { do: 'BeginRepair', reservation, bootID: 'b', why: '' }],
  ['MigratePods', { do: 'EndRepair', reservation, outcome: 'Succeeded', message: '', why: '' }],
  ['PowerCycle', { do: 'PowerCycle', reservation, providerID: 'fake://a', why: '' }],
  ['MigratePods', { do: 'StopInstance', reservation, providerID: 'fake://a', why: '' }],
  ['MigratePods', { do: 'MarkOutOfService', reservation, why: '' }],
  ['MigratePods', { do: 'ForceDelete', reservation, pods: [pod], providerID: 'fake://a', why: '' }],
  ['Replace', { do: 'DeleteMachine', reservation, why: '' }],
];

describe('D3: a leader that was deposed carries out no repair', () => {
  const deposed = expect.objectContaining({ code: 'Deposed' });
  test.each(steps)('%s: $do, by the ledger', (action, step) => {
    expect(() => judged(step, { machine: underWay(action), ledger: ledger(4, reservation) })).toThrow(deposed);
  });
  test.each(steps)('%s: $do, by the Machine', (action, step) => {
    const machine = underWay(action);
    machine.spec.operation = operation({ id: 'r2', epoch: 4 });
    expect(() => judged(step, { machine })).toThrow(deposed);
  });
  test.each(steps)('%s: $do stops where the ledger has another reservation, or another machine has the name', (action, step) => {
    expect(judged(step, { machine: underWay(action), ledger: ledger(3, repairReservation({ id: 'r2' })) })).toHaveProperty('stop');
    expect(judged(step, { machine: { ...underWay(action), metadata: { ...underWay(action).metadata, uid: 'x' } } })).toHaveProperty('stop');
  });
});

describe('C5, invariant 5: what is begun or over is never done again', () => {
  test.each(steps.slice(1))('%s: $do only while the repair runs', (action, step) => {
    expect(judged(step, { machine: underWay(action) })).not.toHaveProperty('stop');
    for (const repair of [
      { id: 'r1', state: 'Done' as const, outcome: 'Succeeded' as const },
      { id: 'r0', state: 'Running' as const },
    ])
      expect(judged(step, { machine: underWay(action, repair) })).toHaveProperty('stop');
    const released = underWay(action);
    released.spec.operation = operation({ kind: 'Cancelled' });
    expect(judged(step, { machine: released })).toHaveProperty('stop');
  });
  test('a beginning is written once, so that the boot it names is the one before', () => {
    const begin: Step = { do: 'BeginRepair', reservation, bootID: 'b', why: '' };
    expect(judged(begin, { machine: underWay('PowerCycle', { id: 'r0', state: 'Done' }) })).toMatchObject({
      write: 'machine',
      status: true,
      object: { metadata: { resourceVersion: '1' }, status: { repair: { id: 'r1', state: 'Running', bootID: 'b' } } },
    });
    expect(judged(begin, { machine: underWay('PowerCycle') })).toHaveProperty('stop');
    expect(judged(begin, { machine: underWay('Reboot', { id: 'r0', state: 'Done' }) })).toHaveProperty('stop');
  });
  test('a power cycle is asked for under the ID of its operation', () => {
    expect(judged({ do: 'PowerCycle', reservation, providerID: 'fake://a', why: '' }, { machine: underWay('PowerCycle') })).toEqual({
      effect: { do: 'PowerCycle', providerID: 'fake://a', operationID: 'r1' },
    });
  });
  test('power is cut under the ID of its operation, once the Machine records that it may be', () => {
    const cut: Step = { do: 'StopInstance', reservation, providerID: 'fake://a', why: '' };
    const note: Step = { do: 'NoteCut', reservation, why: '' };
    const unnoted = underWay('MigratePods', { id: 'r1', state: 'Running', bootID: 'b' });
    expect(judged(cut, { machine: unnoted })).toHaveProperty('stop');
    expect(judged(note, { machine: unnoted })).toMatchObject({
      write: 'machine',
      status: true,
      object: { metadata: { resourceVersion: '1' }, status: { repair: { id: 'r1', state: 'Running', bootID: 'b', cutsPower: true } } },
    });
    expect(judged(note, { machine: underWay('MigratePods') })).toHaveProperty('stop');
    expect(judged(cut, { machine: underWay('MigratePods') })).toEqual({
      effect: { do: 'StopInstance', providerID: 'fake://a', operationID: 'r1' },
    });
  });
  test.each(['MigratePods', 'PowerCycle'])('an operation that may ask for power is retired, also one that was taken back: %s', (action) => {
    const retire: Step = { do: 'RetirePower', reservation, providerID: 'fake://a', why: '' };
    const effect = { effect: { do: 'RetirePower', providerID: 'fake://a', operationID: 'r1' } };
    const released = underWay(action);
    released.spec.operation = repairOperation({ action, kind: 'Cancelled', reason: 'an operator' });
    expect(judged(retire, { machine: underWay(action) })).toEqual(effect);
    expect(judged(retire, { machine: released })).toEqual(effect);
    expect(judged(retire, { machine: underWay(action, { id: 'r1', state: 'Done', cutsPower: true }) })).toHaveProperty('stop');
    expect(judged(retire, { machine: underWay('Replace', { id: 'r1', state: 'Running' }) })).toHaveProperty('stop');
    expect(() => judged(retire, { machine: underWay(action), ledger: ledger(4, reservation) })).toThrow(
      expect.objectContaining({ code: 'Deposed' }),
    );
  });
  test('pods are taken by force, and the node is marked, only under a cordon that names the reservation', () => {
    for (const [action, step] of steps.filter(([, { do: what }]) => what === 'ForceDelete' || what === 'MarkOutOfService'))
      for (const other of [node(), cordoned('a', 'r2'), undefined])
        expect(judged(step, { machine: underWay(action), node: other })).toHaveProperty('stop');
  });
  test('C11: that the mark is to be ours is noted first, in the same circumstances; without the note nothing is marked', () => {
    const mark: Step = { do: 'MarkOutOfService', reservation, why: '' };
    const note: Step = { do: 'NoteOutOfService', reservation, why: '' };
    const unnoted = underWay('MigratePods');
    delete unnoted.status?.nodeKeys;
    expect(judged(mark, { machine: unnoted })).toHaveProperty('stop');
    expect(judged(note, { machine: unnoted })).toMatchObject({ write: 'machine', status: true, object: { status: { nodeKeys: NOTED } } });
    expect(judged(note, { machine: underWay('MigratePods') })).toHaveProperty('stop');
    for (const other of [node(), cordoned('a', 'r2'), undefined])
      expect(judged(note, { machine: unnoted, node: other })).toHaveProperty('stop');
    expect(judged(note, { machine: unnoted, ledger: ledger(3, repairReservation({ id: 'r2' })) })).toHaveProperty('stop');
    expect(() => judged(note, { machine: unnoted, ledger: ledger(4, reservation) })).toThrow(expect.objectContaining({ code: 'Deposed' }));
    const over = { ...unnoted, status: { ...unnoted.status, repair: { id: 'r1', state: 'Done' as const } } };
    expect(judged(note, { machine: over })).toHaveProperty('stop');
  });
  test('only a machine that is replaced is deleted, in the version that was read', () => {
    const remove: Step = { do: 'DeleteMachine', reservation, why: '' };
    expect(judged(remove, { machine: underWay('Replace') })).toMatchObject({
      effect: { do: 'DeleteMachine', machine: { metadata: { resourceVersion: '1' } } },
    });
    const single = underWay('Replace');
    delete single.metadata.ownerReferences;
    expect(judged(remove, { machine: single })).toHaveProperty('stop');
  });
});

describe('C1: the order of a repair', () => {
  const order: Step = { do: 'Order', reservation, drained: true, why: '' };
  test('bears action and arguments of its job', () => {
    const jobs = [granted({ action: 'CleanDisk', args: { belowPercent: 80 } })];
    expect(judged(order, {}, { jobs })).toMatchObject({
      write: 'machine',
      object: {
        spec: {
          operation: {
            id: 'r1',
            epoch: 3,
            kind: 'Repair',
            action: 'CleanDisk',
            args: { belowPercent: 80 },
            notAfter: reservation.notAfter,
          },
        },
      },
    });
    expect(judged(order, {}, { agentAnswers: false })).toMatchObject({ object: { spec: { operation: { action: 'PowerCycle' } } } });
  });
  test.each<[string, RemedyOperationJob[]]>([
    ['proof 23: over', [granted({ status: { phase: 'Cancelled' } })]],
    ['gone', []],
    ['about to be cancelled', [granted({ status: { cancelling: { outcome: 'Cancelled', why: 'x' } } })]],
    ['still Pending', [job()]],
    ['granted another reservation', [granted({ status: { operationID: 'r9' } })]],
  ])('is not given for a job that is %s', (_, jobs) => {
    expect(judged(order, {}, { jobs })).toHaveProperty('stop');
  });
});

describe('a repair ends', () => {
  const due = [{ type: 'RepairNeeded', status: 'True' as const, reason: 'hung', message: '', lastTransitionTime: at(0) }];
  const settled = (action: string, outcome: NonNullable<OperationStatus['outcome']>, conditions = due) => {
    const report: OperationStatus = { id: 'r1', state: 'Done', outcome };
    const machine = idle({
      spec: { operation: repairOperation({ action }) },
      status: { conditions, ...(action === 'MigratePods' || action === 'PowerCycle' ? { repair: report } : { operation: report }) },
    });
    const move = judged({ do: 'Settle', reservation, why: '' }, { machine });
    return 'write' in move && move.write === 'node'
      ? (move.object.metadata.annotations?.['kubenode.io/cordon-owner'] ?? 'uncordoned')
      : move;
  };
  test.each([
    ['Reboot', 'Succeeded', 'Degraded'],
    ['MigratePods', 'Succeeded', 'Degraded'],
    ['PowerCycle', 'TransientFailure', 'Degraded'],
    ['RestartComponent', 'Succeeded', 'uncordoned'],
    ['RestartComponent', 'PermanentFailure', 'Degraded'],
  ] as const)('C4: after %s, %s, while its rule is due, the node is %s', (action, outcome, expected) => {
    expect(settled(action, outcome)).toBe(expected);
    expect(settled(action, outcome, [])).toBe('uncordoned');
  });

  test('D5: its reservation is released by the report, once the job is over', () => {
    const machine = idle({
      spec: { operation: repairOperation({ action: 'Reboot' }) },
      status: { operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } },
    });
    const release: Step = { do: 'Release', reservation, why: '' };
    expect(judged(release, { machine, node: node() }, { jobs: [job({ status: { phase: 'Verifying' } })] })).toHaveProperty('stop');
    expect(judged(release, { machine, node: node() }, { jobs: [] })).toMatchObject({
      write: 'ledger',
      object: { status: { reservations: [] } },
    });
  });
});

describe('C9: one write gives the reservation of a stale agent to a repair by the provider', () => {
  const late = { agentAnswers: false, nowMs: NOW + 900_000 };
  const step: Step = { do: 'TakeOverForRepair', reservation, job: 'uid-j2', why: '' };
  const machine = idle({ spec: { operation: repairOperation({ action: 'Reboot' }) } });
  test('under a new ID, in the name of the job', () => {
    expect(judged(step, { machine }, { jobs: [job({ name: 'j2' })], ...late })).toMatchObject({
      write: 'ledger',
      object: {
        status: {
          reservations: [{ id: 'new', kind: 'Repair', class: 'Repair', machineUID: 'uid-a', requesterUID: 'uid-j2', succeeds: 'r1' }],
        },
      },
    });
  });
  test('where the reservation before it was: its zone may be known of its Node only', () => {
    const zoned = ledger(3, { ...reservation, scopes: [...reservation.scopes, 'zone/h'] });
    const taken = judged(
      { ...step, reservation: { ...reservation, scopes: [...reservation.scopes, 'zone/h'] } },
      { machine, ledger: zoned },
      { jobs: [job({ name: 'j2' })], ...late },
    );
    expect('write' in taken && taken.write === 'ledger' && taken.object.status?.reservations?.[0]?.scopes).toContain('zone/h');
  });
  test('D1: counted by the rates of policies, and not past them', () => {
    const limits = [{ name: 'few', scope: 'Cluster' as const, classes: ['Repair' as const], maxPerHour: 1 }];
    const policies = [{ metadata: { name: 'p' }, spec: { limits } }];
    const first = judged(step, { machine }, { jobs: [job({ name: 'j2' })], ...late, policies });
    const hours = [{ minutes: 5, starts: { 'Repair cluster': 1 } }];
    expect(first).toMatchObject({
      write: 'ledger',
      object: { status: { hours, reservations: [{ counted: { class: 'Repair', scopes: ['cluster'] } }] } },
    });
    const full = ledger(3, reservation);
    const before = { ...full, status: { ...full.status, hours: [{ from: at(800), minutes: 5, starts: { 'Repair cluster': 1 } }] } };
    expect(judged(step, { machine, ledger: before }, { jobs: [job({ name: 'j2' })], ...late, policies })).toEqual({
      stop: 'p/few has no room',
    });
  });
  test('D5: what took over is not cancelled while the order before it may go on', () => {
    const successor = { ...reservation, id: 'r2', succeeds: 'r1' };
    const cancel: Step = { do: 'WriteCancelled', reservation: successor, cause: 'Expired', reason: 'x', why: '' };
    const seen = { machine, ledger: ledger(3, successor) };
    expect(judged(cancel, seen)).toEqual({ stop: 'what the reservation took over may still go on' });
    const reported = { ...machine, status: { ...machine.status, operation: { id: 'r1', state: 'Done' as const } } };
    expect(judged(cancel, { ...seen, machine: reported })).toMatchObject({ write: 'machine' });
  });
  describe('from a reservation that took over, and has no order', () => {
    const second = { ...reservation, id: 'r2', succeeds: 'r1', requesterUID: 'uid-j1' };
    const exchange: Step = { do: 'TakeOverForRepair', reservation: second, job: 'uid-j2', why: '' };
    const fence: Step = { do: 'FenceOrder', reservation: second, job: 'uid-j2', why: '' };
    const third = { jobs: [job({ name: 'j2' })], ...late };
    const bearing = (annotations: Record<string, string>, of = machine): Stored<Machine> => ({
      ...of,
      metadata: { ...of.metadata, annotations },
    });
    const fenced = bearing({ [ANNOTATIONS.orderFence]: 'r2' });
    const by = (step: Step, of: Stored<Machine>, facts: Parameters<typeof judged>[2] = third) =>
      judged(step, { machine: of, ledger: ledger(3, second) }, facts);
    test('only once the Machine records that it gets none', () => {
      expect(by(exchange, machine)).toEqual({ stop: 'an order of the reservation may still arrive' });
      expect(by(exchange, bearing({ [ANNOTATIONS.orderFence]: 'r1' }))).toEqual({ stop: 'an order of the reservation may still arrive' });
      expect(by(exchange, fenced)).toMatchObject({
        write: 'ledger',
        object: { status: { reservations: [{ id: 'new', succeeds: 'r1' }] } },
      });
    });
    test('which is written beside its other annotations', () => {
      expect(by(fence, bearing({ other: 'kept', [ANNOTATIONS.orderFence]: 'r0' }))).toEqual({
        write: 'machine',
        object: bearing({ other: 'kept', [ANNOTATIONS.orderFence]: 'r2' }),
      });
    });
    test('and not twice, nor where no repair may take over', () => {
      expect(by(fence, fenced)).toEqual({ stop: 'the reservation is fenced already' });
      expect(judged(fence, { machine, ledger: ledger(3, reservation) }, third)).toEqual({ stop: 'the ledger lacks the reservation' });
      expect(() => judged(fence, { machine, ledger: ledger(4, second) }, third)).toThrow(expect.objectContaining({ code: 'Deposed' }));
      expect(by(fence, { ...machine, metadata: { ...machine.metadata, deletionTimestamp: at(1) } })).toEqual({
        stop: 'the machine is gone, or going',
      });
      expect(by(fence, { ...machine, metadata: { ...machine.metadata, uid: 'another' } })).toEqual({
        stop: 'the machine is gone, or going',
      });
      const reported = { ...machine, status: { ...machine.status, operation: { id: 'r1', state: 'Done' as const } } };
      const orderedNow = idle({ spec: { operation: repairOperation({ id: 'r2', action: 'PowerCycle' }) } });
      for (const over of [reported, orderedNow])
        expect(by(fence, over)).toEqual({ stop: 'the reservation has its order, or what it took over has ended' });
      for (const facts of [
        { ...third, agentAnswers: true },
        { ...third, jobs: [] },
        { ...third, jobs: [job({ name: 'j3' })] },
      ])
        expect(by(fence, machine, facts)).toEqual({ stop: 'another repair is asked for, or none' });
    });
    test('then no leader orders it', () => {
      const order: Step = { do: 'Order', reservation: second, drained: true, why: '' };
      const granted = {
        jobs: [job({ name: 'j1', status: { phase: 'Granted', operationID: 'r2', before: { bootID: '', conditions: [] } } })],
      };
      expect(by(order, machine, { ...granted, ...late })).toMatchObject({
        write: 'machine',
        object: { spec: { operation: { id: 'r2' } } },
      });
      expect(by(order, fenced, { ...granted, ...late })).toEqual({ stop: 'another repair takes the reservation over' });
    });
  });
  test('not once it has reported, or answers again, or the job is another', () => {
    const reported = { ...machine, status: { ...machine.status, operation: { id: 'r1', state: 'Done' as const } } };
    expect(judged(step, { machine: reported }, { jobs: [job({ name: 'j2' })], ...late })).toHaveProperty('stop');
    expect(judged(step, { machine }, { jobs: [job({ name: 'j2' })], ...late, agentAnswers: true })).toHaveProperty('stop');
    expect(judged(step, { machine }, { jobs: [job({ name: 'j3' })], ...late })).toHaveProperty('stop');
  });
});
