import { describe, expect, test } from 'vitest';
import type { LimitSpec } from '../api/defender-policy.ts';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import { scopeUsage } from './scope-usage.ts';
import { createAvailabilityIndex, type IndexedMachine } from './availability-index.ts';
import { judge, refusalByRates } from './judge.ts';
import { countStarts } from './rates.ts';
import type { Request, Verdict } from './request.ts';
import { counted, policy, request, reservation, T0 } from './testing/reservations.ts';

const MINUTE = 60_000;
const roomy: LimitSpec = { name: 'roomy', scope: 'Cluster', maxUnavailable: '100%' };
const rated = (): boolean => true;

interface World {
  limits: LimitSpec[];
  machines?: IndexedMachine[];
  reservations?: LedgerReservation[];
  /** Reservations that began so many minutes ago. */
  begun?: [LedgerReservation, number][];
}

function ask(requests: Request[], { limits, machines, reservations = [], begun = [] }: World) {
  const hours = begun.reduce(
    (sum, [each, minutes]) => countStarts(sum, [each], T0 - minutes * MINUTE, rated).hours,
    countStarts([], [], T0, rated).hours,
  );
  const all =
    machines ??
    requests.map((each) => counted(each.machine.slice(4), { scopes: each.scopes.filter((scope) => !scope.startsWith('condition/')) }));
  const sources = { policies: [policy('p', roomy, ...limits)], sets: new Map() };
  const { granted, verdicts } = judge(requests, scopeUsage(createAvailabilityIndex(all), reservations, { hours, nowMs: T0 }), sources, {
    reservations: reservations.length,
    nowMs: T0,
  });
  return { granted: granted.map((each) => each.machine.slice(4)), of: (name: string): Verdict | undefined => verdicts.get(`uid-${name}`) };
}
const repair = (name: string, change: Partial<Request> = {}): Request =>
  request(name, { kind: 'Repair', class: 'Repair', action: 'Reboot', ...change });
const restore = (name: string, change: Partial<Request> = {}): Request => request(name, { class: 'Restore', ...change });
const dead = { unavailable: true, persistently: true };

describe('maxConcurrent', () => {
  const one: LimitSpec = { name: 'one', scope: 'Cluster', maxConcurrent: 1 };

  test('D7: counts reservations; a machine that is unavailable already still adds one', () => {
    const machines = [counted('a', dead), counted('b', dead), counted('c')];
    expect(ask([repair('a'), repair('b')], { limits: [one], machines }).granted).toEqual(['a']);
    expect(ask([repair('b')], { limits: [one], machines, reservations: [reservation('r1', 'a')] }).of('b')).toEqual({
      allowed: false,
      limit: 'p/one',
      used: 1,
      of: 1,
      holders: ['web/a'],
      wouldPassWhen: 'fewer than 1 operations (Change, Repair, Restore, Delete) are under way in cluster',
    });
    // Unavailable machines without an operation take no slot.
    expect(ask([request('c')], { limits: [one], machines }).granted).toEqual(['c']);
  });

  test('counts only reservations of the classes it names, and limits only those', () => {
    const repairs: LimitSpec = { ...one, classes: ['Repair'] };
    const machines = ['a', 'b', 'c', 'd'].map((name) => counted(name));
    expect(
      ask([repair('a'), repair('b'), request('c')], { limits: [repairs], machines, reservations: [reservation('r1', 'd')] }).granted,
    ).toEqual(['a', 'c']);
  });

  test('0 means none', () => {
    expect(ask([repair('a')], { limits: [{ ...one, maxConcurrent: 0 }] }).of('a')?.wouldPassWhen).toBe(
      'p/one allows more than 0 operations at once in cluster',
    );
  });
});

test('D9: who waits for an operation that will end keeps its slot; who waits for one on a dead node keeps none', () => {
  const limits: LimitSpec[] = [
    { name: 'one', scope: 'Cluster', maxConcurrent: 1, classes: ['Change'] },
    { name: 'two', scope: 'Cluster', maxUnavailable: 2 },
  ];
  const older = request('a', { since: 1 });
  const behind = (x: IndexedMachine): string[] =>
    ask([older, request('b', { since: 2, kind: 'Delete' })], {
      limits,
      machines: [counted('a'), counted('b'), x],
      reservations: [reservation('r', 'x')],
    }).granted;
  expect(behind(counted('x', dead))).toEqual(['b']);
  expect(behind(counted('x'))).toEqual([]);
});

describe('zones, racks and conditions', () => {
  const at = (name: string, zone: string, rack: string): IndexedMachine =>
    counted(name, { scopes: ['cluster', 'pool/web', `zone/${zone}`, `rack/${rack}`] });
  const machines = [at('a', 'h', '1'), at('b', 'h', '2'), at('c', 'i', '3'), at('d', 'i', '3')];
  const from = (name: string) => request(name, { scopes: [...(machines.find((each) => each.uid === `uid-${name}`)?.scopes ?? [])] });

  test('D8: each zone and each rack has a budget of its own', () => {
    const all = ['a', 'b', 'c', 'd'].map(from);
    expect(ask(all, { machines, limits: [{ name: 'z', scope: 'Zone', maxUnavailable: 1 }] }).granted).toEqual(['a', 'c']);
    expect(ask(all, { machines, limits: [{ name: 'r', scope: 'Rack', maxUnavailable: '50%' }] }).granted).toEqual(['a', 'b', 'c']);
    expect(ask(all, { machines, limits: [{ name: 'r', scope: 'Rack', maxUnavailable: 1 }] }).of('d')).toMatchObject({
      limit: 'p/r',
      holders: ['web/c'],
    });
  });

  test('D8: a machine without the label is refused where its zone or rack is limited, for any operation', () => {
    for (const [scope, label] of [
      ['Zone', 'topology.kubernetes.io/zone'],
      ['Rack', 'topology.kubenode.io/rack'],
    ] as const)
      expect(ask([restore('a'), repair('b')], { limits: [{ name: 'l', scope, maxUnavailable: 9 }] }).of('a')).toEqual({
        allowed: false,
        limit: 'p/l',
        wouldPassWhen: `the machine or its Node has the label ${label}`,
      });
  });

  test('repairs of one condition type are limited by themselves, of all machines', () => {
    const hung = (name: string) => repair(name, { scopes: ['cluster', 'pool/web', 'condition/Hung'] });
    const disk = (name: string) => repair(name, { scopes: ['cluster', 'pool/web', 'condition/DiskFull'] });
    const asked = [hung('a'), hung('b'), disk('c'), disk('d'), request('e')];
    expect(ask(asked, { limits: [{ name: 'c', scope: 'Condition', maxConcurrent: 1 }] }).granted).toEqual(['a', 'c', 'e']);
    const named: LimitSpec = { name: 'c', scope: 'Condition', conditions: ['Hung'], maxUnavailable: '20%' };
    expect(ask(asked, { limits: [named] }).granted).toEqual(['a', 'c', 'd', 'e']);
  });
});

describe('rates', () => {
  const two: LimitSpec = { name: 'two', scope: 'Cluster', maxPerHour: 2 };

  test('count what begins in the same pass', () => {
    expect(ask([repair('a'), repair('b'), repair('c')], { limits: [two] }).granted).toEqual(['a', 'b']);
  });

  test('remember what began before, and report when there is room again', () => {
    const begun: World['begun'] = [
      [reservation('x', 'x'), 40],
      [reservation('y', 'y'), 20],
    ];
    expect(ask([request('a')], { limits: [two], begun }).of('a')).toEqual({
      allowed: false,
      limit: 'p/two',
      used: 2,
      of: 2,
      wouldPassWhen:
        'fewer than 2 disruptions (Change, Repair, Delete) began in cluster within an hour: at 2026-11-20T00:25:00.000Z if nothing else begins',
    });
    expect(ask([request('a')], { limits: [{ name: 'd', scope: 'Cluster', maxPerDay: 3 }], begun }).granted).toEqual(['a']);
    expect(
      ask([request('a')], { limits: [{ name: 'd', scope: 'Cluster', maxPerDay: 2 }], begun: begun.map(([each]) => [each, 1200]) }).of('a')
        ?.of,
    ).toBe(2);
  });

  test('that were lowered report when enough of what began has left them', () => {
    const begun: World['begun'] = [
      [reservation('x', 'x'), 40],
      [reservation('y', 'y'), 20],
      [reservation('z', 'z'), 10],
    ];
    expect(ask([request('a')], { limits: [two], begun }).of('a')).toMatchObject({
      used: 3,
      of: 2,
      wouldPassWhen: expect.stringContaining('at 2026-11-20T00:45:00.000Z if nothing else begins'),
    });
  });

  test('are all that limits an operation which takes over the slots of another reservation', () => {
    const limits: LimitSpec[] = [{ name: 'full', scope: 'Cluster', maxUnavailable: 0, maxConcurrent: 0, minIntervalSeconds: 3600 }, two];
    const sources = { policies: [policy('p', ...limits)], sets: new Map() };
    const subject = repair('a', { lastDisruptionMs: T0 });
    const begun = (reservations: LedgerReservation[]) => countStarts([], reservations, T0, rated).hours;
    expect(refusalByRates(subject, begun([reservation('x', 'x')]), sources, T0)).toBeUndefined();
    expect(refusalByRates(subject, begun([reservation('x', 'x'), reservation('y', 'y')]), sources, T0)).toMatchObject({
      limit: 'p/two',
      used: 2,
      of: 2,
    });
  });

  test('delay no Restore, unless they name it', () => {
    const begun: World['begun'] = [
      [reservation('x', 'x'), 1],
      [reservation('y', 'y', { class: 'Restore' }), 1],
      [reservation('z', 'z'), 1],
    ];
    expect(ask([restore('a'), request('b')], { limits: [two], begun }).granted).toEqual(['a']);
    expect(ask([restore('a'), request('b')], { limits: [{ ...two, maxPerHour: 1, classes: ['Restore'] }], begun }).granted).toEqual(['b']);
  });

  test('no operation that a rate limits begins once the ledger cannot count it', () => {
    const starts = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`Repair rack/${index}`, 1]));
    const hours = [{ from: new Date(T0).toISOString(), minutes: 5, starts }];
    const requests = [repair('a'), restore('b')];
    const usage = scopeUsage(createAvailabilityIndex([counted('a'), counted('b')]), [], { hours, nowMs: T0 });
    const { verdicts } = judge(requests, usage, { policies: [policy('p', roomy, two)], sets: new Map() }, { reservations: 0, nowMs: T0 });
    expect(verdicts.get('uid-a')).toMatchObject({ allowed: false, limit: 'ledger/hours' });
    expect(verdicts.get('uid-b')).toEqual({ allowed: true });
  });
});

describe('minIntervalSeconds', () => {
  const limits: LimitSpec[] = [{ name: 'rest', scope: 'Pool', minIntervalSeconds: 3600 }];
  const last = (minutes: number) => ({ lastDisruptionMs: T0 - minutes * MINUTE });

  test('keeps two disruptions of one machine apart, of any class', () => {
    expect(ask([repair('a', last(59)), repair('b', last(60)), repair('c')], { limits }).granted).toEqual(['b', 'c']);
    expect(ask([repair('a', last(59))], { limits }).of('a')).toEqual({
      allowed: false,
      limit: 'p/rest',
      wouldPassWhen: 'it is 2026-11-20T00:01:00.000Z, 3600 s after the last disruption of this machine',
    });
  });

  test('delays no Restore, unless it is named', () => {
    expect(ask([restore('a', last(1))], { limits }).granted).toEqual(['a']);
    expect(
      ask([restore('a', last(1))], {
        limits: [{ ...limits[0], name: 'rest', scope: 'Pool', classes: ['Restore'], minIntervalSeconds: 3600 }],
      }).granted,
    ).toEqual([]);
  });
});

test('D9: who waits for operations alone keeps its rate token, too; who waits for time keeps nothing', () => {
  const limits: LimitSpec[] = [
    { name: 'web', scope: 'Pool', maxUnavailable: 1, pools: ['web'] },
    { name: 'slow', scope: 'Cluster', maxPerHour: 1 },
  ];
  const machines = [counted('a'), counted('b', { scopes: ['cluster', 'pool/db'] }), counted('x')];
  const older = request('a', { since: 1 });
  const younger = request('b', { since: 2, machine: 'db/b', scopes: ['cluster', 'pool/db'] });
  // The pool of a is busy; b would take the only start of this hour for ever.
  expect(ask([older, younger], { limits, machines, reservations: [reservation('r', 'x')] }).granted).toEqual([]);
  // No request keeps a slot for the hour: an operation that needs no start goes on.
  const changes: LimitSpec[] = [{ name: 'slow', scope: 'Cluster', maxPerHour: 1, classes: ['Change'] }];
  expect(ask([older, repair('b', { since: 2 })], { limits: changes, machines, begun: [[reservation('x', 'x'), 1]] }).granted).toEqual([
    'b',
  ]);
});
