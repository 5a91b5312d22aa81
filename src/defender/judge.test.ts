import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../api/disruption-ledger.ts';
import { scopeUsage } from './scope-usage.ts';
import { createAvailabilityIndex, type IndexedMachine } from './availability-index.ts';
import { judge } from './judge.ts';
import type { LimitSources } from './limits.ts';
import { MAX_ROWS } from './protocol.ts';
import type { Request, Verdict } from './request.ts';
import { counted, policy, request, reservation, T0 } from './testing/reservations.ts';

const sources = (...policies: ReturnType<typeof policy>[]): LimitSources => ({ policies, sets: new Map() });
const cluster = (maxUnavailable: number | string) => sources(policy('p', { name: 'all', scope: 'Cluster', maxUnavailable }));

function ask(requests: Request[], machines: IndexedMachine[], limits: LimitSources, reservations: LedgerReservation[] = []) {
  const { granted, verdicts } = judge(requests, scopeUsage(createAvailabilityIndex(machines), reservations), limits, {
    reservations: reservations.length,
    nowMs: T0,
  });
  return { granted: granted.map((each) => each.machine.slice(4)), of: (name: string): Verdict | undefined => verdicts.get(`uid-${name}`) };
}
const three = [counted('a'), counted('b'), counted('c')];
const dead = { unavailable: true, persistently: true };

describe('a limit', () => {
  test('D7: compares unavailable and reserved machines, each counted once', () => {
    const machines = [counted('a', dead), counted('b'), counted('c'), counted('d')];
    // a is unavailable and reserved: one slot of two.
    expect(ask([request('b'), request('c')], machines, cluster(2), [reservation('r1', 'a')]).granted).toEqual(['b']);
    expect(ask([request('c')], machines, cluster(2), [reservation('r1', 'a'), reservation('r2', 'b')]).of('c')).toEqual({
      allowed: false,
      limit: 'p/all',
      used: 2,
      of: 2,
      holders: ['web/a', 'web/b'],
      wouldPassWhen: 'fewer than 2 of the 4 machines of cluster are unavailable or reserved',
    });
  });

  test('D7: a machine that counts already adds nothing', () => {
    expect(ask([request('a'), request('b')], [counted('a', dead), counted('b'), counted('c')], cluster(1)).granted).toEqual(['a']);
    expect(ask([request('a')], [counted('a', dead), counted('b')], cluster(0)).granted).toEqual(['a']);
  });

  test('D7: a reservation counts also where its machine is not known any more', () => {
    expect(ask([request('b')], three, cluster(1), [reservation('r1', 'vanished')]).granted).toEqual([]);
  });

  test('D8: every limit of every scope must have room, all or nothing', () => {
    const limits = sources(
      policy('p', { name: 'all', scope: 'Cluster', maxUnavailable: 5 }),
      policy('q', { name: 'pools', scope: 'Pool', maxUnavailable: 1 }, { name: 'other', scope: 'Pool', maxUnavailable: 0, pools: ['db'] }),
    );
    const { granted, of } = ask([request('a'), request('b')], three, limits);
    expect(granted).toEqual(['a']);
    expect(of('b')).toMatchObject({ limit: 'q/pools', used: 1, of: 1 });
  });

  test('D8: percentages round down, are at least 1 unless 0, and 0 means none', () => {
    const ten = Array.from({ length: 19 }, (_, index) => counted(`m${index}`));
    const all = ten.map((machine) => request(machine.name.slice(4)));
    expect(ask(all, ten, cluster('10%')).granted).toHaveLength(1);
    expect(ask(all, ten, cluster('1%')).granted).toHaveLength(1);
    expect(ask(all, ten, cluster('20%')).granted).toHaveLength(3);
    expect(ask(all, ten, cluster('0%')).granted).toHaveLength(0);
    expect(ask(all, ten, cluster(0)).of('m3')).toMatchObject({
      of: 0,
      wouldPassWhen: 'p/all allows more than 0 of the 19 machines of cluster',
    });
  });

  test('D8: an unknown total is a no', () => {
    const limits = sources(policy('p', { name: 'pool', scope: 'Pool', maxUnavailable: 3 }));
    expect(ask([request('a', { scopes: ['pool/unknown'] })], three, limits).of('a')).toEqual({
      allowed: false,
      limit: 'p/pool',
      wouldPassWhen: 'the machines of pool/unknown are known',
    });
  });

  test('D8: a limit that makes no sense is a no, also for what outranks the validation errors of a policy', () => {
    expect(ask([request('a')], three, cluster('abc')).of('a')).toMatchObject({
      allowed: false,
      limit: 'p',
      wouldPassWhen: expect.stringContaining('`spec.limits[0].maxUnavailable`') as string,
    });
    expect(ask([request('a', { class: 'Restore' })], three, cluster('abc')).of('a')).toMatchObject({
      allowed: false,
      limit: 'p/all',
      wouldPassWhen: expect.stringContaining('"abc"') as string,
    });
  });

  test('D10: at most five holders are named, reserved ones first', () => {
    const machines = Array.from({ length: 9 }, (_, index) => counted(`m${index}`, dead));
    const { of } = ask([request('new')], [...machines, counted('new')], cluster(1), [reservation('r1', 'm8')]);
    expect(of('new')?.holders).toEqual(['web/m8', 'web/m0', 'web/m1', 'web/m2', 'web/m3']);
  });

  test('D1: a full ledger is a no', () => {
    const reservations = Array.from({ length: MAX_ROWS }, (_, index) => reservation(`r${index}`, `m${index}`));
    expect(ask([request('a')], three, cluster('100%'), reservations).of('a')).toMatchObject({
      limit: 'ledger/reservations',
      used: 500,
      of: 500,
    });
    // What is granted in the same pass is counted as well.
    const all = [...reservations.map((_, index) => counted(`m${index}`)), ...three];
    const last = ask([request('a'), request('b')], all, cluster('100%'), reservations.slice(1));
    expect(last.of('a')).toEqual({ allowed: true });
    expect(last.of('b')).toMatchObject({ limit: 'ledger/reservations' });
  });

  test('without any policy one machine in ten, at least one, may go', () => {
    expect(ask([request('a'), request('b')], three, sources()).granted).toEqual(['a']);
    expect(ask([request('b')], three, sources(), [reservation('r1', 'a')]).of('b')?.limit).toBe('builtin/cluster');
    const many = Array.from({ length: 40 }, (_, index) => counted(`m${index}`));
    expect(
      ask(
        many.map((machine) => request(machine.name.slice(4))),
        many,
        sources(),
      ).granted,
    ).toHaveLength(4);
  });

  test('B8: a component set is limited by its own maxUnavailable, one where it sets none', () => {
    const scopes = ['cluster', 'set/s1'];
    const machines = three.map((machine) => ({ ...machine, scopes }));
    const asked = ['a', 'b', 'c'].map((name) => request(name, { scopes }));
    const limited = (maxUnavailable?: number | string): LimitSources => ({
      policies: [policy('p', { name: 'all', scope: 'Cluster', maxUnavailable: 9 })],
      sets: new Map([['s1', { name: 'kubelet', maxUnavailable }]]),
    });
    expect(ask(asked, machines, limited()).granted).toEqual(['a']);
    expect(ask(asked, machines, limited(2)).granted).toEqual(['a', 'b']);
    expect(ask(asked, machines, limited('100%')).granted).toEqual(['a', 'b', 'c']);
    expect(ask(asked, machines, limited()).of('b')?.limit).toBe('MachineComponentSet/kubelet');
  });
});

describe('D9: requests', () => {
  test('go in order of class, then of age', () => {
    const asked = [
      request('change', { since: 1 }),
      request('older', { since: 0 }),
      request('repair', { class: 'Repair', kind: 'Repair', since: 9 }),
      request('restore', { class: 'Restore', since: 99 }),
    ];
    const machines = asked.map((each) => counted(each.machine.slice(4)));
    expect(ask(asked, machines, cluster(9)).granted).toEqual(['restore', 'repair', 'older', 'change']);
    expect(ask(asked, machines, cluster(2)).granted).toEqual(['restore', 'repair']);
  });

  test('do not starve: who waits for operations alone keeps a slot in every limit it needs', () => {
    const limits = sources(
      policy(
        'p',
        { name: 'web', scope: 'Pool', maxUnavailable: 1, pools: ['web'] },
        { name: 'db', scope: 'Pool', maxUnavailable: 1, pools: ['db'] },
      ),
    );
    const scoped = (name: string, ...pools: string[]) => counted(name, { scopes: pools.map((pool) => `pool/${pool}`) });
    const machines = [scoped('both', 'web', 'db'), scoped('web1', 'web'), scoped('web2', 'web'), scoped('db1', 'db')];
    const both = request('both', { scopes: ['pool/web', 'pool/db'], since: 1 });
    const web2 = request('web2', { scopes: ['pool/web'], since: 2 });
    // db is busy and web is free; the younger one would take web for ever.
    expect(ask([both, web2], machines, limits, [reservation('r1', 'db1', { scopes: ['pool/db'] })]).granted).toEqual([]);
    // A dead node gives no such slot: no one knows for how long.
    const withDead = machines.map((machine) => (machine.uid === 'uid-db1' ? { ...machine, ...dead } : machine));
    expect(ask([both, web2], withDead, limits, [reservation('r1', 'db1', { scopes: ['pool/db'] })]).granted).toEqual(['web2']);
  });
});
