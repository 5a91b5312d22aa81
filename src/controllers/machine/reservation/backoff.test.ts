import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Machine, Outcome } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { actOf } from '../steps.ts';
import { askOf } from './ask.ts';
import type { AskFacts } from '../facts.ts';
import type { Step } from '../view.ts';
import { tryOf } from './backoff.ts';
import { at, entry, facts, job, machine, NOW, operation, reservation, waiting } from '../testing/objects.ts';

const ledger = (...reservations: LedgerReservation[]) => ({
  apiVersion: API_VERSION,
  kind: 'DisruptionLedger',
  metadata: { name: 'cell', uid: 'l', resourceVersion: '5', creationTimestamp: at(0) },
  spec: {},
  status: { epoch: 1, reservations },
});

/** A cell with one machine, in which time passes; each reservation is given up or ordered, and ends with the outcome that the test chooses. */
function cell(start = machine()) {
  let seconds = 0;
  let live = start;
  let reservations = 0;
  const known: Partial<AskFacts> = {};
  const factsNow = (): AskFacts => facts({ ...known, nowMs: NOW + seconds * 1000 });
  const write = (step: Step, of: LedgerReservation): void => {
    const context = { epoch: 1, machine: { namespace: 'web', name: 'a' }, node: 'a', facts: factsNow(), newID: () => 'new' };
    const move = actOf(step, context)?.judge({ machine: live, node: undefined, ledger: ledger(of) });
    if (move === undefined || !('write' in move)) throw new Error(`${step.do} writes nothing`);
    live = move.object as Stored<Machine>;
  };
  const granted = (): LedgerReservation => {
    const ask = askOf(live, factsNow());
    if (ask.state !== 'Asks') throw new Error(ask.state === 'Refused' ? `refused by ${ask.verdict.limit}` : 'it asks for nothing');
    const { kind, class: asked, action, scopes, components } = ask.request;
    return reservation({
      id: `r${(reservations += 1)}`,
      kind,
      class: asked,
      scopes,
      ...(action === undefined ? {} : { action }),
      ...(components === undefined ? {} : { components }),
      notAfter: at(seconds + 900),
    });
  };
  return {
    known,
    pass: (more: number) => void (seconds += more),
    change: (edit: (machine: Stored<Machine>) => Stored<Machine>) => void (live = edit(live)),
    cancel(): void {
      const of = granted();
      write({ do: 'WriteCancelled', reservation: of, cause: 'Expired', reason: 'Expired: it had not begun', why: '' }, of);
    },
    end(outcome: Outcome): void {
      const of = granted();
      write({ do: 'Order', reservation: of, drained: true, why: '' }, of);
      live = { ...live, status: { ...live.status, operation: { id: of.id, state: 'Done', outcome } } };
    },
    /** Seconds until it asks again; 0: at once. */
    waits(): number {
      for (let more = 0; more < 90_000; more += 1) {
        const ask = askOf(live, facts({ ...known, nowMs: NOW + (seconds + more) * 1000 }));
        if (ask.state === 'Asks') return more;
        if (ask.state === 'Nothing' || ask.verdict.limit !== 'Machine/retry') throw new Error('it waits for something else');
      }
      throw new Error('it never asks again');
    },
  };
}

test('C10: a deletion that is given up in between forgets no try of a change', () => {
  let live = machine();
  for (let tries = 1; tries <= 4; tries++) {
    for (const of of [reservation({ id: `c${tries}` }), reservation({ id: `d${tries}`, kind: 'Delete' })])
      live = { ...live, spec: { ...live.spec, operation: operation({ id: of.id, kind: 'Cancelled', ...tryOf(of, live, NOW) }) } };
    expect(live.spec.operation?.retry?.tries).toBe(tries);
  }
});

describe('safety 12, C10: an operation that failed is requested again ever later', () => {
  test.each(['Cancelled', 'Superseded'] as const)('after the agent reported %s, each time the same is asked for', (outcome) => {
    const world = cell();
    const waited = Array.from({ length: 10 }, () => {
      world.end(outcome);
      const wait = world.waits();
      world.pass(wait);
      return wait;
    });
    expect(waited).toEqual([30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]);
  });

  test('after its reservation was given up before the order, too, from the second time on: the node was cordoned, and perhaps drained', () => {
    const world = cell();
    const waited = Array.from({ length: 3 }, () => {
      world.cancel();
      const wait = world.waits();
      world.pass(wait);
      return wait;
    });
    expect(waited).toEqual([0, 30, 60]);
  });

  test('under any leader: all that is known of it stands in the Machine', () => {
    const world = cell();
    world.end('Cancelled');
    world.pass(30);
    world.end('Cancelled');
    world.change((live) => structuredClone(live));
    expect(world.waits()).toBe(60);
  });

  test('not another entry, nor a higher revision of it: that is new', () => {
    const world = cell();
    world.end('Superseded');
    world.change((live) =>
      machine({
        spec: { ...live.spec, components: [entry({ revision: 3 })] },
        components: [waiting({ revision: 3 })],
        status: { operation: live.status?.operation ?? { id: '', state: 'Done' } },
      }),
    );
    expect(world.waits()).toBe(0);
    world.end('Cancelled');
    expect(world.waits()).toBe(30);
  });

  test('not after a success, nor after six hours without a try', () => {
    const world = cell();
    world.end('Cancelled');
    world.pass(30);
    world.end('Succeeded');
    expect(world.waits()).toBe(0);
    world.end('Cancelled');
    world.pass(30);
    world.end('Cancelled');
    world.pass(6 * 3600);
    world.end('Cancelled');
    expect(world.waits()).toBe(30);
  });

  test('a repair waits as well, for ten minutes at most, and not for the tries of a change', () => {
    const world = cell();
    world.end('Cancelled');
    world.known.jobsOf = () => [job()];
    expect(world.waits()).toBe(0);
    world.change((live) => ({ ...live, spec: { ...live.spec, components: [] } }));
    const waited = Array.from({ length: 7 }, () => {
      world.cancel();
      // The next job of the rule.
      const wait = world.waits();
      world.pass(wait);
      return wait;
    });
    expect(waited).toEqual([0, 30, 60, 120, 240, 480, 600]);
  });

  test('a server whose clock was set back blocks nothing for long', () => {
    const world = cell();
    world.end('Cancelled');
    world.pass(-365 * 86_400);
    expect(world.waits()).toBe(0);
  });
});
