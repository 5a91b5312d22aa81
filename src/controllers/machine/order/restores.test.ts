import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { ComponentEntry, Machine, Outcome } from '../../../api/machine.ts';
import { contentOf } from '../../../api/machine/values.ts';
import type { Stored } from '../../../api/wire.ts';
import { actOf } from '../steps.ts';
import { askOf } from '../reservation/ask.ts';
import { MAX_RESTORES, restoresOf } from './restores.ts';
import { at, entry, facts, machine, NOW, reservation, VERIFIED_OLD, waiting } from '../testing/objects.ts';

const HOUR_MS = 3_600_000;
const cni = { name: 'cni', version: '1.0.0', lane: 'Restore' as const, revision: 7 };
const kubelet = { version: '1.0.0', lane: 'Restore' as const };

/** A machine with two components that are declared to go back, whose agent reports what a test wants. */
function world(entries: ComponentEntry[] = [entry(kubelet)]) {
  let nowMs = NOW;
  let ids = 0;
  let object: Stored<Machine> = machine({
    entries,
    components: [],
    status: { verified: [VERIFIED_OLD, { ...VERIFIED_OLD, name: 'cni' }] },
  });

  function write(act: 'Order' | 'WriteCancelled', of: LedgerReservation): void {
    const ledger = {
      apiVersion: API_VERSION,
      kind: 'DisruptionLedger',
      metadata: { name: 'cell', uid: 'l', resourceVersion: '5', creationTimestamp: at(0) },
      spec: {},
      status: { epoch: 3, reservations: [of] },
    };
    const context = { epoch: 3, machine: { namespace: 'web', name: 'a' }, node: 'a', facts: facts({ nowMs }), newID: () => 'new' };
    const step =
      act === 'Order'
        ? ({ do: 'Order', reservation: of, drained: true, why: '' } as const)
        : ({ do: act, reservation: of, cause: 'Expired', reason: 'late', why: '' } as const);
    const move = actOf(step, context)?.judge({ machine: object, ledger });
    if (move === undefined || !('write' in move) || move.write !== 'machine') throw new Error(JSON.stringify(move));
    object = move.object;
  }

  return {
    report: (...components: ReturnType<typeof waiting>[]) => void (object = { ...object, status: { ...object.status, components } }),
    later: () => void (nowMs += 2 * HOUR_MS),
    edit: (change: Partial<ComponentEntry>) =>
      void (object = {
        ...object,
        spec: { ...object.spec, components: (object.spec.components ?? []).map((each) => ({ ...each, ...change })) },
      }),
    asks: () => {
      const ask = askOf(object, facts({ nowMs }));
      return ask.state === 'Asks' ? ask.request.class : ask.state;
    },
    frozen: () => askOf(object, facts({ nowMs, freezes: [{ metadata: { name: 'f' }, spec: {} }] })).state,
    take(act: 'Order' | 'WriteCancelled' = 'Order'): void {
      const ask = askOf(object, facts({ nowMs }));
      if (ask.state !== 'Asks') throw new Error(JSON.stringify(ask));
      const { class: asked, components = [], scopes } = ask.request;
      const notAfter = new Date(nowMs + 1000).toISOString();
      write(act, reservation({ id: `r${++ids}`, class: asked, components, scopes, notAfter, since: new Date(nowMs).toISOString() }));
    },
    ends: (outcome: Outcome) =>
      void (object = { ...object, status: { ...object.status, operation: { id: `r${ids}`, state: 'Done', outcome } } }),
    operation: () => object.spec.operation,
  };
}

const waits = (change: Parameters<typeof waiting>[0] = {}) => waiting({ version: '2.0.0', ...change });
const cniWaits = () => waits({ name: 'cni', revision: 7 });

test('B7: an operation of a machine without components records nothing of restores', () => {
  const { components: _, ...spec } = machine().spec;
  expect(restoresOf(reservation({ class: 'Restore' }), [{ name: 'kubelet', revision: 2 }], { ...machine(), spec })).toEqual({});
});

describe('safety 14, B7: the way back is taken once, by the record of the cell', () => {
  test('a lying agent that alternates two restores is ordered each of them once', () => {
    const cell = world([entry(kubelet), entry(cni)]);
    const asked: string[] = [];
    for (const component of [waits(), cniWaits(), waits(), cniWaits(), waits()]) {
      cell.report(component);
      asked.push(cell.asks());
      cell.take();
      cell.ends('Succeeded');
      cell.later();
    }
    expect(asked).toEqual(['Restore', 'Restore', 'Change', 'Change', 'Change']);
    expect(cell.frozen()).toBe('Refused');
  });

  test.each<Outcome>(['Succeeded', 'PermanentFailure', 'Superseded'])(
    'one that ended as %s is over, also where the entry has got a higher number since',
    (outcome) => {
      const cell = world();
      cell.report(waits());
      cell.take();
      cell.ends(outcome);
      cell.edit({ revision: 9 });
      cell.report(waits({ revision: 9 }));
      cell.later();
      expect(cell.asks()).toBe('Change');
    },
  );

  test.each<Outcome>(['Cancelled', 'TransientFailure'])('a lying agent that reports %s over and over ends up with a Change', (outcome) => {
    const cell = world();
    const asked: string[] = [];
    for (let tries = 0; tries < MAX_RESTORES + 2; tries++) {
      cell.report(waits());
      asked.push(cell.asks());
      cell.take();
      cell.ends(outcome);
      if (tries > 0) expect(cell.asks()).toBe('Refused');
      cell.later();
    }
    expect(asked).toEqual([...Array<string>(MAX_RESTORES).fill('Restore'), 'Change', 'Change']);
  });

  test('so does one for which reservations are given up before their order: the node is cordoned and drained for them', () => {
    const cell = world();
    cell.report(waits());
    for (let tries = 0; tries < MAX_RESTORES; tries++) {
      expect(cell.asks()).toBe('Restore');
      cell.take('WriteCancelled');
      cell.later();
    }
    expect(cell.asks()).toBe('Change');
  });

  test('what is under way stays what it was ordered as, also at the last try', () => {
    const cell = world();
    cell.report(waits());
    for (let tries = 1; tries < MAX_RESTORES; tries++) {
      cell.take();
      cell.ends('Cancelled');
      cell.later();
    }
    cell.take();
    expect(cell.asks()).toBe('Restore');
    cell.ends('Cancelled');
    expect(cell.operation()?.restores).toMatchObject([{ tries: MAX_RESTORES, last: `r${MAX_RESTORES}` }]);
    expect(cell.operation()?.restores).toHaveLength(1);
  });

  test('one that failed may be taken again, though another component was restored meanwhile', () => {
    const cell = world([entry(kubelet), entry(cni)]);
    cell.report(waits());
    cell.take();
    cell.ends('Cancelled');
    cell.later();
    cell.report(cniWaits());
    cell.take();
    cell.ends('Succeeded');
    cell.later();
    cell.report(waits());
    expect(cell.asks()).toBe('Restore');
  });

  test('another declaration, and a failure of something new, may be taken back again', () => {
    for (const change of [{ setRevision: 3 }, { attempt: 2 }, { setUID: 's2' }]) {
      const cell = world();
      cell.report(waits());
      cell.take();
      cell.ends('Succeeded');
      cell.edit({ ...change, revision: 9 });
      cell.report(waits({ revision: 9 }));
      cell.later();
      expect(cell.asks()).toBe('Restore');
      cell.take();
      expect(cell.operation()?.restores).toEqual([
        {
          name: 'kubelet',
          setUID: 's1',
          setRevision: 2,
          attempt: 1,
          ...change,
          content: contentOf({ action: 'Install', version: '1.0.0' }),
          tries: 1,
          last: 'r2',
        },
      ]);
    }
  });
});
