import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { resolveCount } from '../api/batches.ts';
import { LIMIT_CLASSES, LIMIT_SCOPES, type LimitSpec } from '../api/defender-policy.ts';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import { scopeUsage } from './scope-usage.ts';
import { createAvailabilityIndex, type IndexedMachine } from './availability-index.ts';
import { judge } from './judge.ts';
import { reserve } from './protocol.ts';
import { countsOf } from './rates.ts';
import { revocations } from './recheck.ts';
import { limitsOf } from './limits.ts';
import { classOf, reservationFor, type Request } from './request.ts';
import { counted, policy, request, reservation, T0 } from './testing/reservations.ts';

const MINUTE = 60_000;
const CLASSES = ['Restore', 'Repair', 'Change'] as const;
const POOLS = ['web', 'db'];

const drawnMachine = fc.record({
  pool: fc.constantFrom(...POOLS),
  zone: fc.constantFrom('h', 'i'),
  rack: fc.constantFrom('1', '2', '3'),
  condition: fc.constantFrom('Hung', 'DiskFull'),
  health: fc.constantFrom('healthy', 'healthy', 'dead', 'cordoned'),
  has: fc.constantFrom('nothing', 'request', 'request', 'reservation'),
  class: fc.constantFrom(...CLASSES),
  kind: fc.constantFrom('same', 'same', 'Delete'),
  since: fc.nat(5),
  last: fc.option(fc.nat(120), { nil: undefined }),
});
const countOrPercent = fc.oneof(
  fc.nat(4),
  fc.integer({ min: 0, max: 100 }).map((percent) => `${percent}%`),
);
const measures = fc.oneof(
  fc.record({ maxUnavailable: countOrPercent }),
  fc.record({ maxConcurrent: fc.nat(3) }),
  fc.record({ maxUnavailable: countOrPercent, maxConcurrent: fc.nat(3) }),
  fc.record({ maxPerHour: fc.integer({ min: 1, max: 3 }), maxPerDay: fc.integer({ min: 3, max: 5 }) }),
  fc.record({ minIntervalSeconds: fc.integer({ min: 1, max: 7200 }) }),
);
const drawnLimit = fc.record({
  scope: fc.constantFrom(...LIMIT_SCOPES),
  pools: fc.option(
    fc.constantFrom('web', 'db').map((pool) => [pool]),
    { nil: undefined },
  ),
  classes: fc.option(fc.uniqueArray(fc.constantFrom(...LIMIT_CLASSES), { minLength: 1 }), { nil: undefined }),
  measure: measures,
});
const world = fc.record({
  machines: fc.array(drawnMachine, { minLength: 1, maxLength: 12 }),
  limits: fc.array(drawnLimit, { minLength: 1, maxLength: 4 }),
});
type World = typeof world extends fc.Arbitrary<infer Value> ? Value : never;

const kindOf = (each: World['machines'][number]): LedgerReservation['kind'] =>
  each.kind === 'Delete' ? 'Delete' : each.class === 'Repair' ? 'Repair' : 'Change';

function built({ machines: drawn, limits: drawnLimits }: World) {
  const limits = drawnLimits.map(({ scope, pools, classes, measure }, index): LimitSpec => {
    const counted = classes !== undefined && scope === 'Condition' ? [...new Set([...classes, 'Repair' as const])] : classes;
    return {
      name: `l${index}`,
      scope,
      ...(pools === undefined || scope === 'Cluster' ? {} : { pools }),
      ...(counted === undefined ? {} : { classes: counted }),
      ...measure,
    };
  });
  const scopesOf = (each: World['machines'][number]): string[] => [
    'cluster',
    `pool/${each.pool}`,
    `zone/${each.zone}`,
    `rack/${each.rack}`,
    `machineset/${each.pool}/x`,
  ];
  const name = (index: number): string => `m${String(index).padStart(2, '0')}`;
  const asked = (each: World['machines'][number]): string[] => [
    ...scopesOf(each),
    ...(kindOf(each) === 'Repair' ? [`condition/${each.condition}`] : []),
  ];
  const machines = drawn.map((each, index) =>
    counted(name(index), {
      name: `${each.pool}/${name(index)}`,
      scopes: scopesOf(each),
      unavailable: each.health !== 'healthy',
      persistently: each.health === 'dead',
    }),
  );
  const of = (has: string) => drawn.flatMap((each, index) => (each.has === has ? [{ each, index }] : []));
  const requests = of('request').map(({ each, index }) =>
    request(name(index), {
      machine: `${each.pool}/${name(index)}`,
      kind: kindOf(each),
      class: each.class,
      since: each.since,
      scopes: asked(each),
      lastDisruptionMs: each.last === undefined ? undefined : T0 - each.last * MINUTE,
    }),
  );
  const reservations = of('reservation').map(({ each, index }) =>
    reservation(`r${index}`, name(index), {
      machine: `${each.pool}/${name(index)}`,
      kind: kindOf(each),
      class: each.class,
      scopes: asked(each),
      since: new Date(T0 - each.since * 1000).toISOString(),
    }),
  );
  const sources = { policies: [policy('p', ...limits)], sets: new Map() };
  const { rated } = limitsOf(sources);
  const ledger = reserve({ epoch: 1, reservations: [] }, 1, reservations, { nowMs: T0 - 20 * MINUTE, rated });
  return { limits, machines, requests, reservations: ledger.reservations, hours: ledger.hours ?? [], sources, rated };
}

interface Taker {
  uid: string;
  pool: string;
  class: string;
  scopes: readonly string[];
}
const takerOf = (each: Pick<Request, 'machineUID' | 'machine' | 'kind' | 'class'> & { scopes: readonly string[] }): Taker => ({
  uid: each.machineUID,
  pool: each.machine.split('/')[0] ?? '',
  class: classOf(each),
  scopes: each.scopes,
});

const PREFIX: Record<LimitSpec['scope'], string> = {
  Cluster: 'cluster',
  Zone: 'zone/',
  Rack: 'rack/',
  Pool: 'pool/',
  Set: 'machineset/',
  Condition: 'condition/',
};

/** Written without the code under test: what a limit allows, machine by machine. */
function useOf(
  limit: LimitSpec,
  scope: string,
  machines: readonly IndexedMachine[],
  takers: readonly Taker[],
  gone: ReadonlySet<string> = new Set(),
) {
  const limits = (asked: string): boolean => limit.classes?.some((each) => each === asked) ?? true;
  const inScope = takers.filter((taker) => taker.scopes.includes(scope));
  const unavailable = machines.filter(
    (machine) => machine.scopes.includes(scope) && (gone.has(machine.uid) ? machine.persistently : machine.unavailable),
  );
  const total = scope.startsWith('condition/') ? machines.length : machines.filter((machine) => machine.scopes.includes(scope)).length;
  return {
    union: new Set([...unavailable.map((machine) => machine.uid), ...inScope.map((taker) => taker.uid)]).size,
    reservations: inScope.filter((taker) => limits(taker.class)).length,
    max: limit.maxUnavailable === undefined ? Infinity : resolveCount(limit.maxUnavailable, total, ''),
    applies: (taker: Taker): boolean => limits(taker.class) && taker.scopes.includes(scope) && (limit.pools?.includes(taker.pool) ?? true),
  };
}
const scopesUnder = (limit: LimitSpec, takers: readonly Taker[]): Set<string> =>
  new Set(takers.flatMap((taker) => taker.scopes.filter((scope) => scope.startsWith(PREFIX[limit.scope]))));

test('invariant 2: each grant found room in every limit that applies to it, beside all earlier grants', () => {
  fc.assert(
    fc.property(world, (drawn) => {
      const { limits, machines, requests, reservations, hours, sources, rated } = built(drawn);
      const usage = scopeUsage(createAvailabilityIndex(machines), reservations, { hours, nowMs: T0 });
      const { granted, verdicts } = judge(requests, usage, sources, { reservations: reservations.length, nowMs: T0 });
      expect(verdicts.size).toBe(requests.length);
      const takers = reservations.map(takerOf);
      const started = countsOf(hours, T0);
      for (const each of granted) {
        const taker = takerOf(each);
        for (const limit of limits) {
          const forward = limit.classes ?? ['Change', 'Repair', 'Delete'];
          for (const scope of taker.scopes.filter((name) => name.startsWith(PREFIX[limit.scope]))) {
            const use = useOf(limit, scope, machines, takers);
            if (!use.applies(taker)) continue;
            const unavailable = machines.some(
              (machine) => machine.uid === taker.uid && machine.unavailable && machine.scopes.includes(scope),
            );
            if (!unavailable) expect(use.union + 1).toBeLessThanOrEqual(use.max);
            if (limit.maxConcurrent !== undefined) expect(use.reservations + 1).toBeLessThanOrEqual(limit.maxConcurrent);
            if (!forward.some((asked) => asked === taker.class)) continue;
            for (const [span, max] of [
              ['Hour', limit.maxPerHour ?? Infinity],
              ['Day', limit.maxPerDay ?? Infinity],
            ] as const)
              expect(started.within(span, forward, scope) + 1).toBeLessThanOrEqual(max);
            if (limit.minIntervalSeconds !== undefined && each.lastDisruptionMs !== undefined)
              expect(T0 - each.lastDisruptionMs).toBeGreaterThanOrEqual(limit.minIntervalSeconds * 1000);
          }
        }
        takers.push(taker);
        started.add(taker.class, taker.scopes);
      }
      // The sums here are what the ledger contains in the end.
      const written = reserve(
        { epoch: 1, reservations, hours },
        1,
        granted.map((each, index) => reservationFor(each, `g${index}`, T0)),
        { nowMs: T0, rated },
      );
      const counts = countsOf(written.hours ?? [], T0);
      for (const limit of limits)
        if (limit.maxPerHour !== undefined)
          for (const scope of scopesUnder(limit, takers))
            for (const asked of limit.classes ?? ['Change', 'Repair', 'Delete'])
              if (rated(asked, scope)) expect(counts.within('Hour', [asked], scope)).toBe(started.within('Hour', [asked], scope));
    }),
    { numRuns: 500 },
  );
});

test('D9: what could go alone goes, and the first in order among equals first; nothing starves', () => {
  fc.assert(
    fc.property(world, (drawn) => {
      // A cordon of ours without a reservation is lifted before long.
      const settled = drawn.machines.map((each) => ({
        ...each,
        has: each.has === 'reservation' ? ('nothing' as const) : each.has,
        health: each.health === 'cordoned' ? ('healthy' as const) : each.health,
      }));
      const { machines, requests, sources } = built({ ...drawn, machines: settled });
      // Time passes, operations end, and what is granted asks no more: in the end only what could never go alone is left.
      let waiting = [...requests];
      let nowMs = T0;
      let hours: Parameters<typeof countsOf>[0] = [];
      const { rated } = limitsOf(sources);
      const possible = new Set(
        requests
          .filter(
            (each) =>
              judge([each], scopeUsage(createAvailabilityIndex(machines), [], { nowMs: T0 + 99 * 60 * MINUTE }), sources, {
                reservations: 0,
                nowMs: T0 + 99 * 60 * MINUTE,
              }).granted.length > 0,
          )
          .map((each) => each.machineUID),
      );
      for (let round = 0; round < requests.length * 3 && waiting.length > 0; round++) {
        const { granted } = judge(waiting, scopeUsage(createAvailabilityIndex(machines), [], { hours, nowMs }), sources, {
          reservations: 0,
          nowMs,
        });
        hours =
          reserve(
            { epoch: 1, reservations: [], hours },
            1,
            granted.map((each, index) => reservationFor(each, `${round}-${index}`, nowMs)),
            { nowMs, rated },
          ).hours ?? hours;
        waiting = waiting.filter((each) => !granted.includes(each));
        nowMs += 26 * 60 * MINUTE;
      }
      expect(waiting.filter((each) => possible.has(each.machineUID))).toEqual([]);
    }),
    { numRuns: 150 },
  );
});

test('case 25: after what is revoked has gone every limit is kept, or no reservation is left that could be revoked and would help', () => {
  fc.assert(
    fc.property(world, fc.nat(12), fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }), (drawn, orders, keeps) => {
      const { limits, machines, reservations, hours, sources } = built(drawn);
      const ordered = new Set(reservations.slice(0, orders).map((each) => each.machineUID));
      const kept = new Set(reservations.filter((_, at) => keeps[at] === true).map((each) => each.id));
      const usage = scopeUsage(createAvailabilityIndex(machines), reservations, { hours, nowMs: T0, ordered });
      const unordered = reservations
        .filter((each) => !ordered.has(each.machineUID))
        .map((each) => ({
          reservation: each,
          subject: { ...each, labels: {}, lastDisruptionMs: undefined },
          keepsSlots: kept.has(each.id),
        }));
      const revoked = revocations(unordered, usage, sources, T0);
      const goes = (each: LedgerReservation): boolean => revoked.has(each.id) && !kept.has(each.id);
      const left = reservations.filter((each) => !goes(each));
      for (const each of reservations)
        if (revoked.has(each.id)) {
          expect(ordered.has(each.machineUID)).toBe(false);
          expect([each.class === 'Restore', each.kind === 'Delete' && each.class === 'Repair']).toEqual([false, false]);
        }
      const gone = new Set(reservations.filter(goes).map((each) => each.machineUID));
      for (const limit of limits)
        for (const scope of scopesUnder(limit, left.map(takerOf))) {
          const use = useOf(limit, scope, machines, left.map(takerOf), gone);
          const could = left.filter(
            (each) =>
              !ordered.has(each.machineUID) &&
              !revoked.has(each.id) &&
              each.class !== 'Restore' &&
              !(each.kind === 'Delete' && each.class === 'Repair') &&
              use.applies(takerOf(each)),
          );
          const helping = could.filter((each) => machines.find((machine) => machine.uid === each.machineUID)?.persistently !== true);
          if (helping.length > 0) expect(use.union).toBeLessThanOrEqual(use.max);
          if (could.length > 0 && limit.maxConcurrent !== undefined) expect(use.reservations).toBeLessThanOrEqual(limit.maxConcurrent);
        }
    }),
    { numRuns: 300 },
  );
});
