/**
 * Repairs under everything that may happen to those who carry them out: leaders that are deposed, die and see the past, answers that are lost,
 * limits that fall and freezes that begin, humans who cordon, nodes that hang and come back, jobs that are cancelled at any moment, agents that
 * become stale. The real decisions and guarded writes, one API call at a time.
 */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import { API_VERSION } from '../../../api/kind.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Stored } from '../../../api/wire.ts';
import { at, cordoned, idle, node, repairOperation, repairReservation } from '../testing/objects.ts';
import { judgeRepairs } from '../testing/repair-judge.ts';
import { down, type Objects } from '../testing/repair-leader.ts';
import { repairWorld, type Happening } from '../testing/repair-world.ts';

const machine = fc.nat(2);
const leader = fc.nat(1);
const on = fc.boolean();
/** What stands in the way passes sooner than it comes. */
const seldom = fc.constantFrom(true, false, false, false);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  {
    weight: 90,
    arbitrary: fc.record({
      do: fc.constant('lead' as const),
      pick: fc.nat(7),
      calls: fc.constantFrom(1, 2, 5),
      current: fc.constantFrom(true, false, false),
      known: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('wake-other' as const) }) },
  { weight: 24, arbitrary: fc.record({ do: fc.constant('sync' as const), leader, store: fc.nat(5) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('begin-term' as const), leader }) },
  { weight: 10, arbitrary: fc.record({ do: fc.constantFrom('oust' as const, 'oust' as const, 'oust' as const, 'land' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forget' as const), by: fc.constantFrom('other' as const, 'own' as const) }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('beat' as const), machine }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const), leader }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('lose-reply' as const), leader, dies: on }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('late' as const) }) },
  { weight: 16, arbitrary: fc.record({ do: fc.constant('agent' as const), machine }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('stopAgent' as const, 'hang' as const, 'hang' as const, 'hang' as const, 'due' as const),
      machine,
      on,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('human' as const), machine, on: seldom }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('ready' as const), machine, on: fc.constantFrom(true, true, false) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('limit' as const), to: fc.constantFrom(1, 2) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('freeze' as const), on: seldom }) },
  { weight: 16, arbitrary: fc.record({ do: fc.constant('job' as const), machine }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), machine }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('new-job' as const), machine, action: fc.constantFrom(0, 0, 1, 2, 2, 2, 3), beside: on }),
  },
);

/** A run takes some 25 ms. What never came up was not tried, which only many runs can show of what is rare. */
const THOROUGH = process.env['KUBENODE_THOROUGH'] === '1';
const RARE = ['takeovers', 'cuts', 'forced'];

test('invariants 2, 5 and 6 are true under any interleaving, and when all is well again every job ends and nothing is left', () => {
  const seen: Record<string, number> = {};
  fc.assert(
    fc.property(fc.array(happening, { minLength: 300, maxLength: 600, size: 'max' }), (happenings) => {
      const world = repairWorld();
      const begun: Happening[] = [
        { do: 'begin-term', leader: 0 },
        ...[0, 1].map((each): Happening => ({ do: 'new-job', machine: each, action: 0, beside: false })),
      ];
      for (const each of begun) world.happen(each);
      for (const each of happenings) {
        world.happen(each);
        const broken = world.broken();
        if (broken.length > 0) expect(broken).toEqual([]);
      }
      world.heal();
      expect(world.broken()).toEqual([]);
      expect(world.unfinished()).toEqual([]);
      for (const [kind, times] of Object.entries(world.seen)) seen[kind] = (seen[kind] ?? 0) + times;
    }),
    { numRuns: THOROUGH ? 1800 : 400, seed: 20_261_120 },
  );
  for (const [kind, times] of Object.entries(seen)) expect(times, kind).toBeGreaterThan(RARE.includes(kind) ? (THOROUGH ? 5 : 0) : 50);
}, 180_000);

test('and it can fail: two machines that are cordoned by us are seen', () => {
  const both = repairWorld((objects) => ({ ...objects, nodes: [cordoned('a', 'r1'), cordoned('b', 'r2'), ...objects.nodes.slice(2)] }));
  expect(both.broken()).toEqual(['invariant 2: a and b are disrupted or reserved, the limit is 0']);
});

describe('C9: a reservation that took over from a stale agent, and got no order', () => {
  const lead: Happening = { do: 'lead', pick: 0, calls: 6, current: true, known: false };
  const oneCall: Happening = { do: 'lead', pick: 0, calls: 1, current: true, known: false };
  const reserve: Happening = { do: 'lead', pick: 6, calls: 6, current: true, known: false };
  const job: Happening = { do: 'job', machine: 0 };
  const newJob = (action: number): Happening => ({ do: 'new-job', machine: 0, action, beside: true });
  /** A node hangs in the middle of what its agent was ordered, and a power cycle takes over and is about to be ordered. */
  const takenOver: Happening[] = [
    { do: 'begin-term', leader: 0 },
    newJob(3),
    reserve,
    job,
    lead,
    lead,
    job,
    { do: 'agent', machine: 0 },
    { do: 'hang', machine: 0, on: true },
    { do: 'late' },
    job,
    newJob(0),
    job,
    lead,
    job,
    lead,
    lead,
  ];
  const givenUp: Happening[] = [{ do: 'cancel', machine: 0 }, { do: 'late' }, newJob(0)];

  test('is taken over once more, and its order that was on its way does not come', () => {
    const world = repairWorld();
    // It has read all that it needs, and is deposed before it writes.
    for (const each of [...takenOver, oneCall, oneCall, oneCall, { do: 'oust' } as const, ...givenUp, lead, lead]) world.happen(each);
    expect(world.seen).toMatchObject({ takeovers: 2, orders: 1 });
    world.happen({ do: 'land' });
    expect(world.broken()).toEqual([]);
    expect(world.seen.orders).toBe(1);
    world.heal();
    expect([...world.broken(), ...world.unfinished()]).toEqual([]);
  });

  test('is not taken over where its order came first', () => {
    const world = repairWorld();
    for (const each of [...takenOver, lead, ...givenUp, lead, lead]) world.happen(each);
    expect(world.seen).toMatchObject({ takeovers: 1, orders: 2 });
    expect(world.broken()).toEqual([]);
  });
});

describe('C9: and the judge can fail: a reservation is taken over', () => {
  const order = repairOperation({ action: 'Reboot' });
  const ordered = idle({ spec: { operation: order } });
  const second = repairReservation({ id: 'r2', succeeds: 'r1' });
  const third = repairReservation({ id: 'r3', succeeds: 'r1' });
  const late = Date.parse(second.notAfter) + 1;
  const objects = (machine: Stored<Machine>, reservation: LedgerReservation, frozen = false): Objects => ({
    machines: [machine],
    nodes: [node('a')],
    ledger: {
      apiVersion: API_VERSION,
      kind: 'DisruptionLedger',
      metadata: { name: 'cell', uid: 'l', resourceVersion: '1', creationTimestamp: at(0) },
      spec: {},
      status: { epoch: 3, reservations: [reservation] },
    },
    jobs: [],
    rules: { limit: 1, frozen },
  });
  function judged(
    change: {
      machine?: Stored<Machine>;
      from?: LedgerReservation;
      to?: LedgerReservation;
      agentStale?: boolean;
      nowMs?: number;
      frozen?: boolean;
    } = {},
  ): string[] {
    const { machine = ordered, from = second, to = third, agentStale = true, nowMs = late, frozen = false } = change;
    const judge = judgeRepairs([{ agentStale, hung: agentStale, power: 'Running', pods: [], spent: new Set() }]);
    const [before, after] = [objects(machine, from, frozen), objects(machine, to, frozen)];
    const decided = { nowMs, stores: before, hung: [agentStale], agentStale: [agentStale], pods: [0], stale: false };
    judge.wroteLedger(before, after, { ...down(before), epoch: 3 }, decided);
    return judge.broken(after, []).filter((each) => !each.startsWith('invariant 2'));
  }
  const wrong = (id: string) => [`C9: the reservation ${id} is taken over, though no stale agent blocks it`];

  test('as it may be: from the agent, and from what took over from it', () => {
    expect(judged({ from: repairReservation(), to: second })).toEqual([]);
    expect(judged()).toEqual([]);
  });
  test.each<[string, Parameters<typeof judged>[0], string[]]>([
    ['while the agent answers', { agentStale: false }, wrong('r2')],
    ['before its time is over', { nowMs: late - 1 }, wrong('r2')],
    ['by a reservation that forgets what may go on', { to: repairReservation({ id: 'r3' }) }, wrong('r2')],
    ['by a reservation that names what has no order', { to: repairReservation({ id: 'r3', succeeds: 'r2' }) }, wrong('r2')],
    ['by a reservation that is no repair', { to: { ...third, kind: 'Change' } }, wrong('r2')],
    ['that took over nothing, and has no order', { from: repairReservation({ id: 'r2' }) }, wrong('r2')],
    ['where nothing was ordered', { machine: idle() }, wrong('r2')],
    ['where what was ordered was taken back', { machine: idle({ spec: { operation: { ...order, kind: 'Cancelled' } } }) }, wrong('r2')],
    [
      'where what was ordered has ended',
      { machine: idle({ spec: { operation: order }, status: { operation: { id: 'r1', state: 'Done', outcome: 'Succeeded' } } }) },
      wrong('r2'),
    ],
    ['while repairs are frozen', { frozen: true }, ['D11: the reservation r2 is taken over while repairs are frozen']],
  ])('%s', (_, change, expected) => {
    expect(judged(change)).toEqual(expected);
  });
});
