/** The census that is kept machine by machine, against one that is counted anew by what its words say. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import { takeCensus } from './census.ts';
import { classOf } from './request.ts';
import { createRoll, type CensusMachine } from './roll.ts';
import { counted, reservation, T0 } from './testing/reservations.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const SCOPES = ['cluster', 'pool/web', 'zone/h', 'zone/i', 'set/s1', 'condition/Hung'];
const CLASSES = ['Restore', 'Repair', 'Change', 'Delete'];

const drawnScopes = fc.subarray(['pool/web', 'zone/h', 'zone/i', 'set/s1']).map((scopes) => ['cluster', ...scopes]);
const drawnMachine: fc.Arbitrary<CensusMachine> = fc
  .record({
    name: fc.constantFrom(...NAMES),
    scopes: drawnScopes,
    health: fc.constantFrom('healthy', 'cordoned', 'dead', 'dead', 'new'),
    ailments: fc.option(fc.subarray(['NotReady', 'Hung', 'DiskFull']), { nil: undefined }),
  })
  .map(({ name, scopes, health, ailments }) =>
    counted(name, {
      scopes,
      unavailable: health === 'cordoned' || health === 'dead',
      lastingly: health === 'dead',
      ...(health === 'new' ? { isNew: true } : {}),
      ...(ailments === undefined ? {} : { ailments }),
    }),
  );
const drawnReservation: fc.Arbitrary<LedgerReservation> = fc
  .record({
    name: fc.constantFrom(...NAMES, 'gone'),
    scopes: fc.subarray([...SCOPES]),
    kind: fc.constantFrom('Change', 'Repair', 'Delete'),
    class: fc.constantFrom('Change', 'Repair', 'Restore'),
  })
  .map(({ name, ...rest }) => reservation(`r-${name}`, name, rest));

const change = fc.oneof(
  { weight: 5, arbitrary: drawnMachine.map((machine) => ({ put: machine })) },
  { weight: 2, arbitrary: fc.constantFrom(...NAMES).map((name) => ({ remove: `uid-${name}` })) },
  { weight: 1, arbitrary: fc.constant({ clear: true }) },
);

/** By definition, from everything there is. */
function byHand(
  machines: readonly CensusMachine[],
  reservations: readonly LedgerReservation[],
  removed: readonly LedgerReservation[],
  ordered: ReadonlySet<string>,
) {
  const of = (uid: string): CensusMachine | undefined => machines.find((machine) => machine.uid === uid);
  const gone = new Set(removed.map((each) => each.machineUID));
  const left = reservations.filter((each) => !removed.includes(each));
  const isIn = (scope: string, each: LedgerReservation): boolean =>
    each.scopes.includes(scope) || of(each.machineUID)?.scopes.includes(scope) === true;
  const isNew = (uid: string): boolean => of(uid)?.isNew === true;
  const ailsIn = (scope: string): CensusMachine[] => machines.filter((machine) => machine.scopes.includes(scope) && !isNew(machine.uid));
  return (scope: string) => {
    const reservationsIn = left.filter((each) => isIn(scope, each));
    const reserved = reservationsIn.filter((each) => !isNew(each.machineUID));
    const others = ailsIn(scope).filter(
      (machine) =>
        (gone.has(machine.uid) ? machine.lastingly : machine.unavailable) && !reserved.some((each) => each.machineUID === machine.uid),
    );
    const lasting = [...reserved.map((each) => of(each.machineUID)?.lastingly ?? true), ...others.map((machine) => machine.lastingly)];
    const whole = scope.startsWith('condition/') ? 'cluster' : scope;
    const outage = ailsIn(scope).filter((machine) => machine.lastingly && machine.ailments !== undefined && !ordered.has(machine.uid));
    const says = (ailment: string): number => outage.filter((machine) => machine.ailments?.includes(ailment) === true).length;
    return {
      total: machines.some((machine) => machine.scopes.includes(whole)) ? ailsIn(whole).length : undefined,
      used: reserved.length + others.length,
      holders: [...reserved.map((each) => each.machine).toSorted(), ...others.map((machine) => machine.name).toSorted()].slice(0, 5),
      lasting: lasting.filter(Boolean).length,
      counts: [...NAMES, 'gone'].filter(
        (name) =>
          isNew(`uid-${name}`) ||
          [...reserved.map((each) => each.machineUID), ...others.map((machine) => machine.uid)].includes(`uid-${name}`),
      ),
      reservations: CLASSES.map((asked) => reservationsIn.filter((each) => classOf(each) === asked).length),
      outage: outage.length,
      ill: outage
        .map((machine) => machine.name)
        .toSorted()
        .slice(0, 5),
      shared: ['DiskFull', 'Hung', 'NotReady']
        .filter((ailment) => says(ailment) * 2 > outage.length)
        .toSorted((a, b) => says(b) - says(a) || (a < b ? -1 : 1)),
    };
  };
}

test('invariant 2: after any changes the census says what one that is taken anew of everybody would', () => {
  fc.assert(
    fc.property(
      fc.array(change, { maxLength: 40 }),
      fc.uniqueArray(drawnReservation, { maxLength: 6, selector: (each) => each.machineUID }),
      fc.nat(6),
      fc.nat(6),
      fc.subarray([...NAMES, 'gone']),
      (changes, reservations, granted, takenAway, orders) => {
        const roll = createRoll();
        const there = new Map<string, CensusMachine>();
        for (const each of changes) {
          if ('put' in each) {
            roll.put(each.put);
            there.set(each.put.uid, each.put);
          } else if ('remove' in each) {
            roll.remove(each.remove);
            there.delete(each.remove);
          } else {
            roll.clear();
            there.clear();
          }
        }
        const machines = [...there.values()];
        const ordered = new Set(orders.map((name) => `uid-${name}`));
        // The last of them come in as what is granted under way.
        const before = reservations.slice(granted);
        const census = takeCensus(roll, before, { nowMs: T0, ordered });
        for (const each of reservations.slice(0, granted)) census.add(each);
        const removed = reservations.slice(0, takenAway);
        for (const each of removed) census.remove(each);
        const expected = byHand(machines, reservations, removed, ordered);
        for (const scope of [...SCOPES, 'zone/none']) {
          const places = census.places(scope);
          const outage = census.outage(scope);
          expect({
            total: census.total(scope),
            used: places.used,
            ...places.who(),
            counts: [...NAMES, 'gone'].filter((name) => census.counts(scope, `uid-${name}`)),
            reservations: CLASSES.map((asked) => census.reservations(scope, [asked]).used),
            outage: outage.machines,
            ill: outage.who().holders,
            shared: outage.who().shared,
          }).toEqual(expected(scope));
          expect(census.reservations(scope, CLASSES).used).toBe(expected(scope).reservations.reduce((sum, many) => sum + many, 0));
        }
        for (const name of NAMES) {
          const machine = there.get(`uid-${name}`);
          expect(census.ails(`uid-${name}`)).toBe(machine === undefined || machine.lastingly || machine.isNew === true);
        }
      },
    ),
    { numRuns: 400 },
  );
});

test('a census whose roll has changed since is not asked any more', () => {
  const roll = createRoll([counted('a')]);
  const census = takeCensus(roll, []);
  expect(census.total('cluster')).toBe(1);
  roll.put(counted('a'));
  expect(census.total('cluster')).toBe(1);
  roll.put(counted('b'));
  expect(() => census.total('cluster')).toThrow('after its roll has changed');
  expect(() => census.places('cluster')).toThrow('after its roll has changed');
});
