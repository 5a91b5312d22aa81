/** Scope usage that is kept machine by machine, against one that is counted again from its definition. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import { scopeUsage } from './scope-usage.ts';
import { classOf } from './request.ts';
import { createAvailabilityIndex, type IndexedMachine } from './availability-index.ts';
import { counted, reservation, T0 } from './testing/reservations.ts';

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const SCOPES = ['cluster', 'pool/web', 'zone/h', 'zone/i', 'set/s1', 'condition/Hung'];
const CLASSES = ['Restore', 'Repair', 'Change', 'Delete'];

const drawnScopes = fc.subarray(['pool/web', 'zone/h', 'zone/i', 'set/s1']).map((scopes) => ['cluster', ...scopes]);
const drawnMachine: fc.Arbitrary<IndexedMachine> = fc
  .record({
    name: fc.constantFrom(...NAMES),
    scopes: drawnScopes,
    health: fc.constantFrom('healthy', 'cordoned', 'dead', 'dead', 'new'),
    symptoms: fc.option(fc.subarray(['NotReady', 'Hung', 'DiskFull']), { nil: undefined }),
  })
  .map(({ name, scopes, health, symptoms }) =>
    counted(name, {
      scopes,
      unavailable: health === 'cordoned' || health === 'dead',
      persistently: health === 'dead',
      ...(health === 'new' ? { isNew: true } : {}),
      ...(symptoms === undefined ? {} : { symptoms }),
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
  machines: readonly IndexedMachine[],
  reservations: readonly LedgerReservation[],
  removed: readonly LedgerReservation[],
  ordered: ReadonlySet<string>,
) {
  const of = (uid: string): IndexedMachine | undefined => machines.find((machine) => machine.uid === uid);
  const gone = new Set(removed.map((each) => each.machineUID));
  const left = reservations.filter((each) => !removed.includes(each));
  const isIn = (scope: string, each: LedgerReservation): boolean =>
    each.scopes.includes(scope) || of(each.machineUID)?.scopes.includes(scope) === true;
  const isNew = (uid: string): boolean => of(uid)?.isNew === true;
  const ailsIn = (scope: string): IndexedMachine[] => machines.filter((machine) => machine.scopes.includes(scope) && !isNew(machine.uid));
  return (scope: string) => {
    const reservationsIn = left.filter((each) => isIn(scope, each));
    const reserved = reservationsIn.filter((each) => !isNew(each.machineUID));
    const others = ailsIn(scope).filter(
      (machine) =>
        (gone.has(machine.uid) ? machine.persistently : machine.unavailable) && !reserved.some((each) => each.machineUID === machine.uid),
    );
    const lasting = [
      ...reserved.map((each) => of(each.machineUID)?.persistently ?? true),
      ...others.map((machine) => machine.persistently),
    ];
    const whole = scope.startsWith('condition/') ? 'cluster' : scope;
    const outage = ailsIn(scope).filter((machine) => machine.persistently && machine.symptoms !== undefined && !ordered.has(machine.uid));
    const count = (symptom: string): number => outage.filter((machine) => machine.symptoms?.includes(symptom) === true).length;
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
        .filter((symptom) => count(symptom) * 2 > outage.length)
        .toSorted((a, b) => count(b) - count(a) || (a < b ? -1 : 1)),
    };
  };
}

test('invariant 2: after any changes scope usage equals a new count of all machines', () => {
  fc.assert(
    fc.property(
      fc.array(change, { maxLength: 40 }),
      fc.uniqueArray(drawnReservation, { maxLength: 6, selector: (each) => each.machineUID }),
      fc.nat(6),
      fc.nat(6),
      fc.subarray([...NAMES, 'gone']),
      (changes, reservations, granted, takenAway, orders) => {
        const availabilityIndex = createAvailabilityIndex();
        const there = new Map<string, IndexedMachine>();
        for (const each of changes) {
          if ('put' in each) {
            availabilityIndex.put(each.put);
            there.set(each.put.uid, each.put);
          } else if ('remove' in each) {
            availabilityIndex.remove(each.remove);
            there.delete(each.remove);
          } else {
            availabilityIndex.clear();
            there.clear();
          }
        }
        const machines = [...there.values()];
        const ordered = new Set(orders.map((name) => `uid-${name}`));
        // The last of them come in as what is granted under way.
        const before = reservations.slice(granted);
        const usage = scopeUsage(availabilityIndex, before, { nowMs: T0, ordered });
        for (const each of reservations.slice(0, granted)) usage.add(each);
        const removed = reservations.slice(0, takenAway);
        for (const each of removed) usage.remove(each);
        const expected = byHand(machines, reservations, removed, ordered);
        for (const scope of [...SCOPES, 'zone/none']) {
          const slots = usage.slots(scope);
          const outage = usage.outage(scope);
          expect({
            total: usage.total(scope),
            used: slots.used,
            ...slots.who(),
            counts: [...NAMES, 'gone'].filter((name) => usage.counts(scope, `uid-${name}`)),
            reservations: CLASSES.map((asked) => usage.reservations(scope, [asked]).used),
            outage: outage.machines,
            ill: outage.who().holders,
            shared: outage.who().shared,
          }).toEqual(expected(scope));
          expect(usage.reservations(scope, CLASSES).used).toBe(expected(scope).reservations.reduce((sum, many) => sum + many, 0));
        }
        for (const name of NAMES) {
          const machine = there.get(`uid-${name}`);
          expect(usage.isUnavailableByItself(`uid-${name}`)).toBe(machine === undefined || machine.persistently || machine.isNew === true);
        }
      },
    ),
    { numRuns: 400 },
  );
});

test('scope usage whose availability index has changed since is not asked any more', () => {
  const availabilityIndex = createAvailabilityIndex([counted('a')]);
  const usage = scopeUsage(availabilityIndex, []);
  expect(usage.total('cluster')).toBe(1);
  availabilityIndex.put(counted('a'));
  expect(usage.total('cluster')).toBe(1);
  availabilityIndex.put(counted('b'));
  expect(() => usage.total('cluster')).toThrow('after its availability index has changed');
  expect(() => usage.slots('cluster')).toThrow('after its availability index has changed');
});
