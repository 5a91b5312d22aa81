import { describe, expect, it } from 'vitest';
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine, MachineStatus } from '../../api/machine.ts';
import type { RemedyOperationJob, RemedyOperationJobStatus } from '../../api/remedy-operation-job.ts';
import { job as jobOf } from '../machine/testing/objects.ts';
import { createClockPauses, isPaused, type ClockInput } from './clock-pauses.ts';

const NOW = Date.parse('2026-01-01T01:00:00Z');
const iso = (seconds: number): string => new Date(NOW + seconds * 1000).toISOString();

const reservation = (kind: LedgerReservation['kind'], requesterUID = 'uid-j1'): LedgerReservation => ({
  id: 'reservation',
  machineUID: 'uid-a',
  machine: 'web/a',
  kind,
  class: 'Repair',
  requesterUID,
  requester: '',
  scopes: [],
  since: iso(-100),
  notAfter: iso(900),
});
const machine = (status: MachineStatus = {}, spec: Machine['spec'] = {}): Machine => ({
  apiVersion: API_VERSION,
  kind: 'Machine',
  metadata: { name: 'a', uid: 'uid-a' },
  spec,
  status,
});
const job = (status: RemedyOperationJobStatus): RemedyOperationJob => jobOf({ status });
const input = (given: Partial<ClockInput>): ClockInput => ({ machine: machine(), reservation: undefined, jobs: [], ...given });
const ordered = { operation: { id: 'reservation', epoch: 1, kind: 'Repair' as const, notAfter: iso(900) } };

describe('F2: a reservation stops the clocks of a machine', () => {
  it.each([
    ['not where there is none', {}, false],
    ['of a Change, from its first step', { reservation: reservation('Change', 'set') }, true],
    ['not of a deletion: nothing is repaired there', { reservation: reservation('Delete', 'uid-a') }, false],
    [
      'not of a job before its order: a stronger rule may still replace it',
      { reservation: reservation('Repair'), jobs: [job({ phase: 'Granted' })] },
      false,
    ],
    [
      'of a job that runs, though nothing records since when',
      { reservation: reservation('Repair'), jobs: [job({ phase: 'Running' })] },
      true,
    ],
    ['of a job that is being verified', { reservation: reservation('Repair'), jobs: [job({ phase: 'Verifying' })] }, true],
    [
      'of a job that was ordered, also in an earlier phase',
      { reservation: reservation('Repair'), jobs: [job({ orderedAt: iso(-1) })] },
      true,
    ],
    [
      'not of a job whose order was taken back before it was recorded',
      {
        reservation: reservation('Repair'),
        jobs: [job({ phase: 'Granted' })],
        machine: machine({}, { operation: { ...ordered.operation, kind: 'Cancelled' } }),
      },
      false,
    ],
    [
      'not of a job for which another order stands',
      {
        reservation: reservation('Repair'),
        jobs: [job({ phase: 'Granted' })],
        machine: machine({}, { operation: { ...ordered.operation, id: 'other' } }),
      },
      false,
    ],
    ['of a job with its order', { reservation: reservation('Repair'), jobs: [job({ phase: 'Running', orderedAt: iso(-1) })] }, true],
    [
      'of a job whose order it has not recorded yet',
      { reservation: reservation('Repair'), jobs: [job({ phase: 'Granted' })], machine: machine({}, ordered) },
      true,
    ],
    [
      'not of a job that has ended: only the next rung can take it over',
      { reservation: reservation('Repair'), jobs: [job({ phase: 'Failed' })] },
      false,
    ],
    ['not of a job that is gone', { reservation: reservation('Repair') }, false],
  ])('%s', (_name, given, expected) => expect(isPaused(input(given))).toBe(expected));
});

describe('clocks begin again', () => {
  const of = (given: Partial<ClockInput>) => createClockPauses().of('m', input(given), NOW).releasedAtMs;

  it('after the last disruption, not the end of the reservation that is still there', () => {
    expect(of({ machine: machine({ lastDisruption: iso(-500) }) })).toBe(NOW - 500_000);
    expect(of({ machine: machine({ lastDisruption: iso(-100) }), reservation: reservation('Repair') })).toBeUndefined();
  });

  it('after the end of the last job that had a reservation', () => {
    expect(of({ jobs: [job({ phase: 'Failed', operationID: 'reservation', finishedAt: iso(-5) })] })).toBe(NOW - 5000);
    expect(of({ jobs: [job({ phase: 'Cancelled', finishedAt: iso(-5) })] })).toBeUndefined();
    expect(of({ jobs: [job({ phase: 'Shadow', finishedAt: iso(-5) })] })).toBeUndefined();
  });

  it('after the latest of them', () => {
    const jobs = [
      job({ phase: 'Failed', operationID: 'reservation', finishedAt: iso(-50) }),
      job({ phase: 'Failed', operationID: 'reservation', finishedAt: iso(-5) }),
      job({ phase: 'Failed', operationID: 'reservation', finishedAt: iso(-500) }),
      job({ phase: 'Running', operationID: 'reservation' }),
    ];
    expect(of({ jobs })).toBe(NOW - 5000);
    expect(of({ jobs, machine: machine({ lastDisruption: iso(-2) }) })).toBe(NOW - 2000);
    expect(of({ jobs, machine: machine({ lastDisruption: iso(-200) }), reservation: reservation('Repair') })).toBe(NOW - 5000);
  });

  it('not by what an older object shows later, and from the start where a machine is forgotten', () => {
    const pauses = createClockPauses();
    pauses.of('m', input({ reservation: reservation('Change', 'set') }), NOW);
    expect(pauses.of('m', input({}), NOW + 7).releasedAtMs).toBe(NOW + 7);
    const old = input({ jobs: [job({ phase: 'Failed', operationID: 'reservation', finishedAt: iso(-5) })] });
    expect(pauses.of('m', old, NOW + 99).releasedAtMs).toBe(NOW + 7);
    expect(pauses.of('other', old, NOW + 99).releasedAtMs).toBe(NOW - 5000);
    pauses.forget('m');
    expect(pauses.of('m', input({}), NOW + 100)).toEqual({ paused: false, releasedAtMs: undefined });
  });

  it('when a hold is seen to end, also where objects show something else', () => {
    const pauses = createClockPauses();
    expect(pauses.of('m', input({ reservation: reservation('Change', 'set') }), NOW)).toEqual({ paused: true, releasedAtMs: undefined });
    expect(pauses.of('m', input({}), NOW + 7)).toEqual({ paused: false, releasedAtMs: NOW + 7 });
    expect(pauses.of('m', input({}), NOW + 99)).toEqual({ paused: false, releasedAtMs: NOW + 7 });
  });

  it('at once, where a clock that was ahead wrote the end: ours does not wait until it has caught up', () => {
    const pauses = createClockPauses();
    const ahead = input({ jobs: [job({ phase: 'Failed', operationID: 'reservation', finishedAt: iso(3600) })] });
    expect(pauses.of('m', ahead, NOW).releasedAtMs).toBe(NOW);
    expect(pauses.of('m', ahead, NOW + 60_000).releasedAtMs).toBe(NOW);
  });
});
