import { describe, expect, test } from 'vitest';
import { MAX_ROWS, release, reserve, takeLeadership, takeOver } from './protocol.ts';
import type { LedgerState } from './state.ts';
import { reservation, T0 } from './testing/reservations.ts';

const state = (...reservations: LedgerState['reservations'][number][]): LedgerState => ({ epoch: 3, reservations });
const done = (id: string) => ({
  by: 'Report' as const,
  machineUID: 'uid-a',
  report: { id, state: 'Done' as const, outcome: 'Succeeded' as const },
  recorded: true,
});

describe('the ledger', () => {
  test('D1: has one reservation a machine', () => {
    expect(() => reserve(state(reservation('r1', 'a')), 3, [reservation('r2', 'a')])).toThrow(/machine web\/a already has reservation r1/);
    expect(() => reserve(state(), 3, [reservation('r1', 'a'), reservation('r2', 'a')])).toThrow(/already has reservation r1/);
  });

  test('D1: contains at most 500 reservations', () => {
    const full = state(...Array.from({ length: MAX_ROWS }, (_, index) => reservation(`r${index}`, `m${index}`)));
    expect(() => reserve(full, 3, [reservation('more', 'more')])).toThrow(/at most 500/);
  });

  test('D2: each term raises the epoch, also of the same process', () => {
    expect(takeLeadership(takeLeadership(state())).epoch).toBe(5);
    expect(takeLeadership(state(reservation('r1', 'a'))).reservations).toHaveLength(1);
  });

  test.each([
    ['reserve', (epoch: number) => reserve(state(), epoch, [reservation('r1', 'a')])],
    ['release', (epoch: number) => release(state(reservation('r1', 'a')), epoch, 'r1', done('r1'))],
    [
      'take over',
      (epoch: number) =>
        takeOver(state(reservation('r1', 'a')), epoch, 'r1', reservation('r2', 'a', { kind: 'Delete' }), { because: 'Deleting' }),
    ],
  ])('D2: %s is made only by who reads its own epoch', (_, write) => {
    expect(() => write(2)).toThrow(expect.objectContaining({ code: 'Deposed' }));
    expect(() => write(4)).toThrow(expect.objectContaining({ code: 'Deposed' }));
    expect(write(3).epoch).toBe(3);
  });

  test('D4: one write may carry several reservations', () => {
    expect(
      reserve(state(reservation('r1', 'a')), 3, [reservation('r2', 'b'), reservation('r3', 'c')]).reservations.map((each) => each.id),
    ).toEqual(['r1', 'r2', 'r3']);
  });
});

describe('D5: a reservation is released', () => {
  test("on the agent's terminal report of this very operation, once it is recorded", () => {
    expect(release(state(reservation('r1', 'a')), 3, 'r1', done('r1')).reservations).toEqual([]);
    const no = expect.objectContaining({ code: 'NoEvidence' });
    expect(() => release(state(reservation('r1', 'a')), 3, 'r1', done('r0'))).toThrow(no);
    expect(() => release(state(reservation('r1', 'a')), 3, 'r1', { ...done('r1'), recorded: false })).toThrow(no);
    expect(() => release(state(reservation('r1', 'a')), 3, 'r1', { ...done('r1'), machineUID: 'uid-of-its-successor' })).toThrow(no);
    expect(() => release(state(reservation('r1', 'a')), 3, 'r1', { ...done('r1'), report: { id: 'r1', state: 'Running' } })).toThrow(no);
  });

  test('on a cancellation of this very reservation, once the Node is fenced', () => {
    const cancelled = { by: 'Cancelled' as const, machineUID: 'uid-a', operationID: 'r1', fenced: true };
    expect(release(state(reservation('r1', 'a')), 3, 'r1', cancelled).reservations).toEqual([]);
    const no = expect.objectContaining({ code: 'NoEvidence' });
    expect(() => release(state(reservation('r1', 'a')), 3, 'r1', { ...cancelled, operationID: 'r0' })).toThrow(no);
    expect(() => release(state(reservation('r1', 'a')), 3, 'r1', { ...cancelled, fenced: false })).toThrow(no);
  });

  test('on the proof that no machine has its UID any more (C8)', () => {
    for (const presentUID of [undefined, 'uid-of-its-successor'])
      expect(release(state(reservation('r1', 'a')), 3, 'r1', { by: 'MachineGone', presentUID }).reservations).toEqual([]);
    expect(() => release(state(reservation('r1', 'a')), 3, 'r1', { by: 'MachineGone', presentUID: 'uid-a' })).toThrow(
      expect.objectContaining({ code: 'NoEvidence' }),
    );
  });

  test('once: what is not there cannot be released', () => {
    expect(() => release(state(), 3, 'r1', done('r1'))).toThrow(expect.objectContaining({ code: 'ReservationAbsent' }));
  });
});

describe('a reservation is taken over', () => {
  const unrated = (): boolean => false;
  const late = T0 + 901_000;

  test('C8: by a deletion, at once, under a new ID, of its own class, keeping the machine reserved', () => {
    const before = state(reservation('r1', 'a', { class: 'Restore' }), reservation('r9', 'b'));
    const after = takeOver(before, 3, 'r1', reservation('r2', 'a', { kind: 'Delete' }), { because: 'Deleting' });
    expect(after.reservations.map(({ id, kind, class: asked }) => [id, kind, asked])).toEqual([
      ['r2', 'Delete', 'Change'],
      ['r9', 'Change', 'Change'],
    ]);
  });

  test.each([
    ['another machine', reservation('r2', 'b', { kind: 'Delete' }), { because: 'Deleting' }],
    ['the same ID', reservation('r1', 'a', { kind: 'Delete' }), { because: 'Deleting' }],
    ['something that is no deletion', reservation('r2', 'a'), { because: 'Deleting' }],
    [
      'a repair while the agent answers',
      reservation('r2', 'a', { kind: 'Repair' }),
      { because: 'ProviderRepair', agentStale: false, nowMs: late, rated: unrated },
    ],
    [
      'a repair before notAfter',
      reservation('r2', 'a', { kind: 'Repair' }),
      { because: 'ProviderRepair', agentStale: true, nowMs: T0, rated: unrated },
    ],
  ] as const)('but not by %s', (_, successor, why) => {
    expect(() => takeOver(state(reservation('r1', 'a')), 3, 'r1', successor, why)).toThrow(expect.objectContaining({ code: 'NoEvidence' }));
  });

  const byProvider = { because: 'ProviderRepair', agentStale: true, nowMs: late, rated: unrated } as const;
  test('C9: by a repair of its provider, once the agent is stale and the order can no longer begin', () => {
    expect(takeOver(state(reservation('r1', 'a')), 3, 'r1', reservation('r2', 'a', { kind: 'Repair' }), byProvider).reservations).toEqual([
      reservation('r2', 'a', { kind: 'Repair', succeeds: 'r1' }),
    ]);
  });
  test('C9: and again, with what may have begun passed on', () => {
    const taken = state(reservation('r2', 'a', { kind: 'Repair', succeeds: 'r1' }));
    expect(takeOver(taken, 3, 'r2', reservation('r3', 'a', { kind: 'Repair' }), byProvider).reservations[0]).toMatchObject({
      id: 'r3',
      succeeds: 'r1',
    });
  });
  test('D1: a repair and a deletion are one more start for rates, the deletion that ends a replacement is not', () => {
    const repair = reservation('r2', 'a', { kind: 'Repair', class: 'Repair' });
    const rated = (asked: string, scope: string): boolean => asked === 'Repair' && scope === 'cluster';
    const after = takeOver(state(reservation('r1', 'a')), 3, 'r1', repair, { ...byProvider, rated });
    expect(after.hours?.map(({ starts }) => starts)).toEqual([{ 'Repair cluster': 1 }]);
    expect(after.reservations[0]?.counted).toMatchObject({ class: 'Repair', scopes: ['cluster'] });
    const deletion = reservation('r3', 'a', { kind: 'Delete' });
    expect(takeOver(after, 3, 'r2', deletion, { because: 'Deleting' }).hours).toEqual(after.hours);
    const counted = { nowMs: late, rated: (asked: string, scope: string): boolean => asked === 'Delete' && scope === 'cluster' };
    const both = takeOver(after, 3, 'r2', deletion, { because: 'Deleting', counted });
    expect(both.hours?.map(({ starts }) => starts)).toEqual([{ 'Repair cluster': 1, 'Delete cluster': 1 }]);
    expect(both.reservations[0]?.counted).toMatchObject({ class: 'Delete', scopes: ['cluster'] });
  });

  test('not once it is gone', () => {
    expect(() => takeOver(state(), 3, 'r1', reservation('r2', 'a', { kind: 'Delete' }), { because: 'Deleting' })).toThrow(
      expect.objectContaining({ code: 'ReservationAbsent' }),
    );
  });

  test('and a Delete reservation by nothing', () => {
    const deleting = state(reservation('r1', 'a', { kind: 'Delete' }));
    for (const why of [{ because: 'Deleting' }, { because: 'ProviderRepair', agentStale: true, nowMs: late, rated: unrated }] as const)
      for (const kind of ['Delete', 'Repair'] as const)
        expect(() => takeOver(deleting, 3, 'r1', reservation('r2', 'a', { kind }), why)).toThrow(
          expect.objectContaining({ code: 'NoEvidence' }),
        );
  });
});
