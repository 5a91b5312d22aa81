import { describe, expect, test } from 'vitest';
import type { DefenderPolicySpec, LimitSpec } from '../api/defender-policy.ts';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import { scopeUsage } from './scope-usage.ts';
import { createAvailabilityIndex, type IndexedMachine } from './availability-index.ts';
import { countStarts } from './rates.ts';
import { revocations } from './recheck.ts';
import { counted, policy, request, reservation, T0 } from './testing/reservations.ts';

const young = (seconds: number): string => new Date(T0 + seconds * 1000).toISOString();
const nameIn = (each: LedgerReservation): string => each.machine.slice(4);
const dead = { unavailable: true, persistently: true, symptoms: ['NotReady'] };
/** As our own cordon makes it. */
const cordoned = { unavailable: true, persistently: false };

interface World {
  limits?: LimitSpec[];
  more?: Partial<DefenderPolicySpec>;
  machines: IndexedMachine[];
  /** With an order. */
  ordered?: LedgerReservation[];
  /** Without. */
  waiting: LedgerReservation[];
  /** IDs of those that must keep their slots. */
  keeping?: string[];
  nowMs?: number;
  lastDisruptionMs?: number;
  hours?: { reserved: LedgerReservation[] };
}

function revoked({ limits = [], more = {}, machines, ordered = [], waiting, keeping = [], nowMs = T0, lastDisruptionMs, hours }: World) {
  const counting =
    hours === undefined ? { hours: [], reservations: waiting } : countStarts([], [...ordered, ...waiting], nowMs, () => true);
  const reservations = [...ordered, ...waiting].map((each) => counting.reservations.find(({ id }) => id === each.id) ?? each);
  const usage = scopeUsage(createAvailabilityIndex(machines), reservations, {
    hours: counting.hours,
    nowMs,
    ordered: new Set(ordered.map((each) => each.machineUID)),
  });
  const sources = { policies: [{ ...policy('p', ...limits), spec: { limits, ...more } }], sets: new Map() };
  const unordered = reservations
    .filter((each) => waiting.some(({ id }) => id === each.id))
    .map((each) => ({
      reservation: each,
      subject: { ...request(nameIn(each), { ...each, since: 0, lastDisruptionMs }), scopes: each.scopes },
      keepsSlots: keeping.includes(each.id),
    }));
  return revocations(unordered, usage, sources, nowMs);
}
const ids = (world: World): string[] => [...revoked(world).keys()].toSorted();
const cell = (maxUnavailable: number | string): LimitSpec[] => [{ name: 'cell', scope: 'Cluster', maxUnavailable }];
const but = (free: string): IndexedMachine[] => ['a', 'b', 'c', 'd', 'e'].map((name) => counted(name, name === free ? {} : cordoned));
const five = but('e');

describe('case 25: a limit is lowered below what is in use', () => {
  const waiting = [
    reservation('old', 'b', { since: young(1) }),
    reservation('mid', 'c', { since: young(2) }),
    reservation('new', 'd', { since: young(3) }),
  ];
  const ordered = [reservation('r', 'a', { since: young(9) })];

  test('the youngest reservations without an order go, as many as needed; one with an order stays', () => {
    expect(ids({ limits: cell(4), machines: five, ordered, waiting })).toEqual([]);
    expect(ids({ limits: cell(3), machines: five, ordered, waiting })).toEqual(['new']);
    expect(ids({ limits: cell(2), machines: five, ordered, waiting })).toEqual(['mid', 'new']);
    expect(ids({ limits: cell(0), machines: five, ordered, waiting })).toEqual(['mid', 'new', 'old']);
  });

  test('C9: what may still run keeps its slot, so that another goes beside it', () => {
    expect(ids({ limits: cell(3), machines: five, ordered, waiting, keeping: ['new'] })).toEqual(['mid', 'new']);
    expect(ids({ limits: cell(3), machines: five, ordered, waiting, keeping: ['old'] })).toEqual(['new']);
    expect(ids({ limits: cell(2), machines: five, ordered, waiting, keeping: ['new'] })).toEqual(['mid', 'new', 'old']);
  });

  test('Change and Delete go before Repair; Restore, and the deletion that replaces a machine, not at all', () => {
    const mixed = [
      reservation('change', 'b', { since: young(1) }),
      reservation('repair', 'c', { since: young(5), kind: 'Repair', class: 'Repair' }),
      reservation('restore', 'd', { since: young(9), class: 'Restore' }),
      reservation('delete', 'e', { since: young(9), kind: 'Delete' }),
      reservation('replaced', 'a', { since: young(9), kind: 'Delete', class: 'Repair' }),
    ];
    expect(ids({ limits: cell(4), machines: but('none'), waiting: mixed })).toEqual(['delete']);
    expect(ids({ limits: cell(3), machines: but('none'), waiting: mixed })).toEqual(['change', 'delete']);
    expect(ids({ limits: cell(0), machines: but('none'), waiting: mixed })).toEqual(['change', 'delete', 'repair']);
  });

  test('names which, how full, and by whom', () => {
    expect(revoked({ limits: cell(3), machines: five, ordered, waiting }).get('new')).toEqual({
      allowed: false,
      limit: 'p/cell',
      used: 4,
      of: 3,
      holders: ['web/a', 'web/b', 'web/c', 'web/d'],
      wouldPassWhen: 'at most 3 of the 5 machines of cluster are unavailable or reserved, this one with them',
    });
  });

  test('the same is true for operations at once, and for rates, which get their tokens back', () => {
    expect(ids({ limits: [{ name: 'c', scope: 'Pool', maxConcurrent: 2 }], machines: five, ordered, waiting })).toEqual(['mid', 'new']);
    const rate: LimitSpec = { name: 'r', scope: 'Cluster', maxPerHour: 3 };
    expect(ids({ limits: [...cell(9), rate], machines: five, ordered, waiting, hours: { reserved: ordered } })).toEqual(['new']);
    expect(
      ids({ limits: [...cell(9), { ...rate, classes: ['Repair'] }], machines: five, ordered, waiting, hours: { reserved: ordered } }),
    ).toEqual([]);
  });

  test('a rate reports in which time too much began', () => {
    const verdict = (rate: LimitSpec): unknown =>
      revoked({ limits: [...cell(9), rate], machines: five, ordered, waiting, hours: { reserved: ordered } }).get('new');
    const lowered = { allowed: false, limit: 'p/r', used: 4, of: 3 };
    expect(verdict({ name: 'r', scope: 'Cluster', maxPerHour: 3 })).toEqual({
      ...lowered,
      wouldPassWhen: 'at most 3 disruptions (Change, Repair, Delete) began in cluster within an hour',
    });
    expect(verdict({ name: 'r', scope: 'Cluster', maxPerDay: 3 })).toEqual({
      ...lowered,
      wouldPassWhen: 'at most 3 disruptions (Change, Repair, Delete) began in cluster within a day',
    });
  });

  test('a policy that is deleted leaves the built-in limit', () => {
    const machines = Array.from({ length: 20 }, (_, index) => counted(`m${index}`));
    const reservations = [1, 2, 3].map((index) => reservation(`r${index}`, `m${index}`, { since: young(index) }));
    expect(ids({ limits: [], machines, waiting: reservations })).toEqual(['r3']);
  });
});

describe('D7: a machine that was reserved while it was unavailable and has come back', () => {
  const repair = reservation('repair', 'a', { kind: 'Repair', class: 'Repair', since: young(1) });
  const change = reservation('change', 'b', { since: young(2) });

  test('costs a slot again: what does not fit beside it any more is taken back', () => {
    const machines = [counted('a', dead), counted('b', cordoned), counted('c')];
    expect(ids({ limits: cell(1), machines, waiting: [repair] })).toEqual([]);
    // While it was dead it took the only slot; the other one came by a limit of before.
    expect(ids({ limits: cell(1), machines: [counted('a'), counted('b', dead), counted('c')], waiting: [repair] })).toEqual(['repair']);
    expect(ids({ limits: cell(1), machines: [counted('a'), counted('b', cordoned), counted('c')], waiting: [repair, change] })).toEqual([
      'change',
    ]);
  });

  test('case 19: and one that is unhealthy by itself is left alone, since taking it back would free nothing', () => {
    expect(ids({ limits: cell(0), machines: [counted('a', dead), counted('b')], waiting: [repair] })).toEqual([]);
  });
});

describe('judged again before its order', () => {
  const window = { name: 'w', timeZone: 'UTC', schedule: '0 0 * * *', durationMinutes: 60 };
  const machines = [counted('a'), counted('b')];
  const repair = reservation('repair', 'a', { kind: 'Repair', class: 'Repair', action: 'Reboot', since: young(0) });
  const restore = reservation('restore', 'b', { class: 'Restore' });

  test('a reservation whose window has closed meanwhile is taken back', () => {
    const world = { limits: cell('100%'), machines, waiting: [repair, restore], more: { windows: [window] } };
    expect(ids({ ...world, nowMs: T0 + 59 * 60_000 })).toEqual([]);
    expect(ids({ ...world, nowMs: T0 + 60 * 60_000 })).toEqual(['repair']);
  });

  test('so is one whose action is not allowed any more, and one in a rack that a breaker closed', () => {
    const more = { actions: [{ selector: { gpu: 'true' }, allowed: [] }] };
    expect(ids({ limits: cell('100%'), machines, waiting: [repair], more })).toEqual([]);
    const tripped = { breaker: { scope: 'Cluster' as const, unavailableAbove: 1 } };
    const ill = [counted('a'), counted('x', dead), counted('y', dead)];
    expect(ids({ limits: cell('100%'), machines: ill, waiting: [repair], more: tripped })).toEqual(['repair']);
  });

  test('a longer interval counts from disruptions before its own, which began with its cordon', () => {
    const limits: LimitSpec[] = [...cell('100%'), { name: 'rest', scope: 'Cluster', minIntervalSeconds: 3600 }];
    const world = { limits, machines, waiting: [repair], nowMs: T0 + 60_000 };
    expect(ids({ ...world, lastDisruptionMs: T0 })).toEqual([]);
    expect(ids({ ...world, lastDisruptionMs: T0 - 60_000 })).toEqual(['repair']);
    expect(ids({ ...world, lastDisruptionMs: T0 - 3_600_000 })).toEqual([]);
  });
});
