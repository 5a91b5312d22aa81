import { describe, expect, it } from 'vitest';
import type { Machine, Operation, OperationStatus } from '../machine.ts';
import { endOf, isControllerOperation, isUnderWay, operationState, reportedEnd } from './operation-end.ts';

const ORDER: Operation = { id: 'r1', epoch: 1, kind: 'Change', notAfter: '2026-01-01T00:15:00Z' };
const done = (outcome: OperationStatus['outcome'], id = 'r1'): OperationStatus => ({
  id,
  state: 'Done',
  ...(outcome === undefined ? {} : { outcome }),
});

function machine(order: Partial<Operation> | undefined, status: { operation?: OperationStatus; repair?: OperationStatus } = {}): Machine {
  return {
    apiVersion: 'kubenode.io/v1',
    kind: 'Machine',
    metadata: { name: 'a', namespace: 'web' },
    spec: order === undefined ? {} : { operation: { ...ORDER, ...order } },
    status,
  };
}

describe('an operation', () => {
  it('is none without an order, and under way until its end is reported', () => {
    expect(operationState(machine(undefined, { operation: done('Succeeded') })).state).toBe('None');
    expect(operationState(machine({}))).toMatchObject({ state: 'UnderWay', report: undefined });
    expect(operationState(machine({}, { operation: done('Succeeded', 'r0') })).state).toBe('UnderWay');
    const running = { id: 'r1', state: 'Running' as const };
    expect(operationState(machine({}, { operation: running }))).toMatchObject({ state: 'UnderWay', report: running });
    expect([isUnderWay(machine({}), 'r1'), isUnderWay(machine({}), 'r0'), endOf(machine({}))]).toEqual([true, false, undefined]);
  });

  it('C7: ends by the outcome that is reported, and as PermanentFailure where the report names none', () => {
    const ended = machine({}, { operation: done('Superseded') });
    expect(operationState(ended)).toMatchObject({ state: 'Ended', outcome: 'Superseded' });
    expect([isUnderWay(ended, 'r1'), endOf(ended)?.outcome]).toEqual([false, 'Superseded']);
    expect(endOf(machine({}, { operation: done(undefined) }))?.outcome).toBe('PermanentFailure');
  });

  it('that was taken back is not ended by a report, which still names what was done', () => {
    const cancelled = machine({ kind: 'Cancelled' }, { operation: done('PermanentFailure') });
    expect([operationState(cancelled).state, endOf(cancelled), isUnderWay(cancelled, 'r1')]).toEqual(['Cancelled', undefined, false]);
    expect(reportedEnd(cancelled, 'r1')?.outcome).toBe('PermanentFailure');
  });
});

describe('a repair', () => {
  it.each([
    ['MigratePods', 'repair'],
    ['PowerCycle', 'repair'],
    ['Reboot', 'operation'],
  ] as const)('%s is reported in status.%s only', (action, field) => {
    const order = { kind: 'Repair' as const, action };
    const other = field === 'repair' ? 'operation' : 'repair';
    expect(isControllerOperation(action)).toBe(field === 'repair');
    expect(endOf(machine(order, { [field]: done('Succeeded') }))?.outcome).toBe('Succeeded');
    expect(endOf(machine(order, { [other]: done('Succeeded') }))).toBeUndefined();
  });

  it('whose order was replaced is known by the report of either', () => {
    expect(reportedEnd(machine({ id: 'r2' }, { repair: done('Succeeded') }), 'r1')?.outcome).toBe('Succeeded');
    expect(reportedEnd(machine(undefined, { operation: done('Succeeded') }), 'r1')?.outcome).toBe('Succeeded');
    expect(reportedEnd(machine({ id: 'r2' }, { operation: done('Succeeded', 'r2') }), 'r1')).toBeUndefined();
  });
});
