import { defenderErrorCodes } from './errors.ts';
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { LedgerReservation, StartsBucket } from '../api/disruption-ledger.ts';
import { isCoded } from '../api/errors.ts';
import { release, reserve } from './protocol.ts';
import { countsOf, countStarts, countUnknown, giveBack } from './rates.ts';
import type { LedgerState } from './state.ts';
import { reservation, T0 } from './testing/reservations.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const rated = (): boolean => true;
const repair = (id: string, change: Partial<LedgerReservation> = {}): LedgerReservation =>
  reservation(id, id, { kind: 'Repair', class: 'Repair', ...change });
const count = (hours: readonly StartsBucket[], id: string, nowMs: number) => countStarts(hours, [repair(id)], nowMs, rated);
const within = (hours: readonly StartsBucket[], span: 'Hour' | 'Day', nowMs: number): number =>
  countsOf(hours, nowMs).within(span, ['Repair'], 'cluster');

describe('what rates count', () => {
  test('leaves the hour at most 5 minutes late and the day at most an hour late, never early', () => {
    const at = T0 + 7 * MINUTE;
    const { hours } = count([], 'a', at);
    expect([0, 59, 60, 63].map((minutes) => within(hours, 'Hour', at + minutes * MINUTE))).toEqual([1, 1, 1, 0]);
    // It is put into its hour by the next one that is counted.
    const later = count(hours, 'b', at + 2 * HOUR).hours;
    expect(later.map(({ minutes }) => minutes)).toEqual([60, 5]);
    expect([2, 23, 24, 25].map((each) => within(later, 'Day', at + each * HOUR))).toEqual([2, 2, 2, 1]);
  });

  test('is reported by class and scope, and when there is room again', () => {
    const reservations = [
      repair('a'),
      reservation('b', 'b', { kind: 'Delete' }),
      reservation('c', 'c', { scopes: ['cluster', 'pool/db'] }),
    ];
    const { hours, reservations: counted } = countStarts([], reservations, T0, (asked, scope) => scope !== 'pool/db' || asked === 'Repair');
    const counts = countsOf(hours, T0);
    expect(counts.within('Hour', ['Repair', 'Change', 'Delete'], 'cluster')).toBe(3);
    expect(counts.within('Hour', ['Delete'], 'pool/web')).toBe(1);
    expect(counts.within('Hour', ['Change'], 'pool/db')).toBe(0);
    expect(counted[2]?.counted).toEqual({ at: new Date(T0).toISOString(), class: 'Change', scopes: ['cluster'] });
    expect(counts.belowAt('Hour', ['Repair'], 'cluster', 1)).toBe(T0 + 65 * MINUTE);
  });

  test('is more than any rate allows where it is not known, until that is too old to count', () => {
    const hours = countUnknown(count([], 'a', T0).hours, T0 + 7 * MINUTE);
    const counts = countsOf(hours, T0 + 8 * MINUTE);
    expect(counts.within('Day', ['Change'], 'pool/db')).toBe(1_000_000_000);
    expect(counts.within('Day', ['Repair', 'Change'], 'cluster')).toBe(1_000_000_001);
    expect(counts.belowAt('Hour', ['Repair', 'Change'], 'cluster', 5)).toBe(T0 + 70 * MINUTE);
    expect(within(hours, 'Hour', T0 + 69 * MINUTE)).toBe(1_000_000_000);
    expect(within(hours, 'Hour', T0 + 70 * MINUTE)).toBe(0);
    const later = count(hours, 'b', T0 + 3 * HOUR).hours;
    expect(within(later, 'Day', T0 + 24 * HOUR)).toBe(1_000_000_002);
    expect(within(later, 'Day', T0 + 25 * HOUR)).toBe(1);
  });

  test('is empty where no rate limits it: neither bucket nor note', () => {
    const reservations = [repair('a')];
    expect(countStarts([], reservations, T0, () => false)).toEqual({ hours: [], reservations });
    expect(reserve({ epoch: 1, reservations: [] }, 1, reservations, { nowMs: T0, rated: () => false })).toEqual({ epoch: 1, reservations });
  });

  test('stays bounded: a day of buckets, under any load', () => {
    let hours: StartsBucket[] = [];
    for (let minute = 0; minute < 3 * 24 * 60; minute += 3) ({ hours } = count(hours, `m${minute}`, T0 + minute * MINUTE));
    expect(hours.length).toBeLessThan(45);
    expect(within(hours, 'Day', T0 + 3 * 24 * HOUR)).toBeGreaterThanOrEqual(24 * 20);
    expect(within(hours, 'Day', T0 + 3 * 24 * HOUR)).toBeLessThanOrEqual(25 * 20);
  });

  test('case 24: a leader whose clock is behind neither loses counts nor counts again', () => {
    const ahead = count(count([], 'a', T0).hours, 'b', T0 + 90 * MINUTE).hours;
    expect(within(ahead, 'Hour', T0 + 5 * MINUTE)).toBe(1);
    const behind = count(ahead, 'c', T0 + 5 * MINUTE);
    // By the time of the newest bucket, so that it leaves with that one and not before.
    expect(behind.reservations[0]?.counted?.at).toBe(new Date(T0 + 90 * MINUTE).toISOString());
    expect(within(behind.hours, 'Hour', T0 + 5 * MINUTE)).toBe(2);
    expect(within(behind.hours, 'Day', T0 + 5 * MINUTE)).toBe(3);
  });
});

test('D1: no 60 minutes and no 24 hours ever see more starts than the rate, however they come', () => {
  const stepArb = fc.record({
    minutes: fc.oneof(fc.nat(9), fc.nat(70), fc.nat(400)),
    asks: fc.integer({ min: 1, max: 4 }),
    cancels: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 9 }),
      fc.array(stepArb, { maxLength: 60 }),
      (perHour, perDay, steps) => {
        let hours: StartsBucket[] = [];
        let now = T0 + 13 * MINUTE;
        let serial = 0;
        let last: LedgerReservation | undefined;
        let begun: number[] = [];
        for (const { minutes, asks, cancels } of steps) {
          now += minutes * MINUTE;
          if (cancels && last !== undefined) {
            hours = giveBack(hours, last);
            begun = begun.slice(0, -1);
            last = undefined;
          }
          for (let each = 0; each < asks; each++) {
            if (within(hours, 'Hour', now) >= perHour || within(hours, 'Day', now) >= perDay) break;
            const counted = count(hours, `r${serial++}`, now);
            ({ hours } = counted);
            [last] = counted.reservations;
            begun.push(now);
          }
          for (const from of begun) {
            expect(begun.filter((at) => at >= from && at < from + HOUR).length).toBeLessThanOrEqual(perHour);
            expect(begun.filter((at) => at >= from && at < from + 24 * HOUR).length).toBeLessThanOrEqual(perDay);
          }
        }
      },
    ),
    { numRuns: 200 },
  );
});

describe('case 26: a token', () => {
  const state: LedgerState = { epoch: 3, reservations: [] };
  const cancelled = (id: string, unordered: boolean) => ({
    by: 'Cancelled' as const,
    machineUID: `uid-${id}`,
    operationID: id,
    fenced: true,
    unordered,
  });
  const reserved = (): LedgerState => reserve(state, 3, [repair('a')], { nowMs: T0, rated });

  test('of a reservation that died between reservation and order comes back once, under the leader of that time', () => {
    const next = { ...reserved(), epoch: 4 };
    expect(within(next.hours ?? [], 'Hour', T0)).toBe(1);
    const after = release(next, 4, 'a', cancelled('a', true));
    expect(within(after.hours ?? [], 'Hour', T0 + MINUTE)).toBe(0);
    expect(() => release(after, 4, 'a', cancelled('a', true))).toThrow(expect.objectContaining({ code: 'ReservationAbsent' }));
  });

  test('of a disruption that began stays spent: after a report, an operator, or a machine that is gone', () => {
    const report = { id: 'a', state: 'Done' as const, outcome: 'Cancelled' as const };
    for (const evidence of [
      { by: 'Report' as const, machineUID: 'uid-a', report, recorded: true },
      cancelled('a', false),
      { by: 'MachineGone' as const, presentUID: undefined },
    ])
      expect(within(release(reserved(), 3, 'a', evidence).hours ?? [], 'Hour', T0)).toBe(1);
  });

  test('comes back also after its bucket was put into its hour, and is gone with its bucket', () => {
    const [first] = count([], 'a', T0).reservations;
    const coarse = count(count([], 'a', T0).hours, 'b', T0 + 2 * HOUR).hours;
    expect(within(giveBack(coarse, first ?? repair('a')), 'Day', T0 + 2 * HOUR)).toBe(1);
    const dayLater = count(coarse, 'c', T0 + 30 * HOUR).hours;
    expect(giveBack(dayLater, first ?? repair('a'))).toEqual(dayLater);
  });

  test('is never lost and never doubled, with any crash, lost answer or retry', () => {
    const stepArb = fc.record({
      act: fc.constantFrom('reserve', 'cancel', 'report', 'term'),
      machine: fc.constantFrom('a', 'b', 'c', 'd'),
      // The write is lost; its answer is; all is well.
      fate: fc.constantFrom('lost', 'unanswered', 'fine'),
      minutes: fc.nat(40),
      skewMinutes: fc.integer({ min: -60, max: 60 }),
    });
    fc.assert(
      fc.property(fc.array(stepArb, { maxLength: 20 }), (steps) => {
        let ledger: LedgerState = { epoch: 1, reservations: [] };
        let now = T0;
        /** What the ledger must contain: starts that were written and not given back. */
        const spent = new Map<string, number>();
        for (const { act, machine, fate, minutes, skewMinutes } of steps) {
          now += minutes * MINUTE;
          const clock = now + skewMinutes * MINUTE;
          const attempt = (): LedgerState => {
            if (act === 'term') return { ...ledger, epoch: ledger.epoch + 1 };
            if (act === 'reserve') return reserve(ledger, ledger.epoch, [repair(machine)], { nowMs: clock, rated });
            const report = { id: machine, state: 'Done' as const };
            const evidence =
              act === 'cancel' ? cancelled(machine, true) : { by: 'Report' as const, machineUID: `uid-${machine}`, report, recorded: true };
            return release(ledger, ledger.epoch, machine, evidence);
          };
          // An answer that was lost is answered by trying again.
          for (let tries = 0; tries < (fate === 'unanswered' ? 2 : 1); tries++)
            try {
              const next = attempt();
              if (fate === 'lost') continue;
              ledger = next;
              if (act === 'reserve') spent.set(machine, (spent.get(machine) ?? 0) + 1);
              if (act === 'cancel') spent.set(machine, (spent.get(machine) ?? 0) - 1);
            } catch (error) {
              if (!isCoded(error, defenderErrorCodes, 'ReservationExists', 'ReservationAbsent')) throw error;
            }
          const total = [...spent.values()].reduce((sum, each) => sum + each, 0);
          const recorded = (ledger.hours ?? []).reduce((sum, bucket) => sum + (bucket.starts['Repair cluster'] ?? 0), 0);
          expect(recorded).toBe(total);
        }
      }),
      { numRuns: 300 },
    );
  });
});
