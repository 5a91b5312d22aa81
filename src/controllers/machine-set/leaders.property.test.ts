/**
 * docs/protocols.md#c8a with two leaders: one is deposed while its calls are under way, and they arrive late. Of the machine controller only what it may do
 * is played: it deletes what bears a mark of its own term, is neither held nor frozen, and was drained.
 */
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { CodedError } from '../../api/errors.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MachineSets } from '../../api/machine-set.ts';
import type { Clock } from '../../api/ports.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { seededRandom } from '../../kube/testing/clock.ts';
import { modelApi } from '../machine-component-set/testing/api.ts';
import type { Unsettled } from './mark.ts';
import { markedFor } from './obstacle.ts';
import { reconcileMachineSet } from './reconcile.ts';
import { applyMachine } from './testing/applier.ts';

const KEY = { namespace: 'web', name: 'web-a' };
const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
const clock: Clock = { now: () => Date.UTC(2026, 10, 20), monotonic: () => 0, setTimer: () => () => undefined };
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A write that has left the leader and has not arrived. */
interface Call {
  /** When the run began that decided it: what was right then may still arrive, and is taken back later. */
  decided: number;
  arrive: () => Promise<unknown>;
  answer: (result: unknown) => void;
  fail: (error: unknown) => void;
}

function leader(api: ReturnType<typeof modelApi>, epoch: number, seed: number) {
  const reader = api.reader();
  const calls: Call[] = [];
  const late: Call[] = [];
  let needsVersion = 0;
  let needsList = false;
  let begun: number | undefined;
  const client = api.client(
    () => 'none',
    (_, object) =>
      object === 'unknown' ? (needsList = true) : (needsVersion = Math.max(needsVersion, Number(object.metadata.resourceVersion))),
  );
  const underWay = <T>(arrive: () => Promise<T>): Promise<T> =>
    new Promise<T>((answer, fail) => calls.push({ decided: begun ?? 0, arrive, answer: (result) => answer(result as T), fail }));
  const gated: Client = {
    ...client,
    patch: (...args) => underWay(() => client.patch(...args)),
    apply: (...args) => underWay(() => client.apply(...args)),
    delete: (...args) => underWay(() => client.delete(...args)),
  };
  const unsettled: Unsettled = new Map();
  const recorder = { event: () => undefined };
  const deps = {
    sets: reader.store(MachineSets),
    machines: reader.store(Machines),
    componentSets: { list: () => [] },
    clock,
    random: seededRandom(seed),
    recorder,
    providers: new Map([['fake', { validate: () => [] }]]),
    epoch,
    unsettled,
  };
  return {
    reader,
    next: (): number | undefined => calls[0]?.decided,
    nextLate: (): number | undefined => late[0]?.decided,
    async run(now: number): Promise<void> {
      if (begun !== undefined || needsList || !reader.hasSeen(needsVersion)) return;
      begun = now;
      void reconcileMachineSet(deps, `${KEY.namespace}/${KEY.name}`, { client: gated, log, signal: new AbortController().signal })
        .catch((error: unknown) => {
          if (!(error instanceof CodedError)) throw error;
        })
        .finally(() => (begun = undefined));
      await settled();
    },
    /** The oldest call arrives; `lost`: its answer does not come back. */
    async arrive(lost: boolean): Promise<void> {
      const call = calls.shift();
      if (call === undefined) return;
      try {
        const result = await call.arrive();
        if (lost) call.fail(new CodedError('Unreachable', 'the answer was lost'));
        else call.answer(result);
      } catch (error) {
        call.fail(error);
      }
      if (lost) needsList = true;
      await settled();
    },
    /** The leader gives up waiting; the call may arrive at any later time. */
    async giveUp(): Promise<void> {
      const call = calls.shift();
      if (call === undefined) return;
      late.push(call);
      needsList = true;
      call.fail(new CodedError('Unreachable', 'no answer in time'));
      await settled();
    },
    async arriveLate(): Promise<void> {
      await late
        .shift()
        ?.arrive()
        .catch(() => undefined);
    },
    relist(): void {
      reader.relist();
      needsList = false;
    },
    pending: () => calls.length + late.length,
  };
}

const who = fc.nat({ max: 1 });
const step = fc.oneof(
  { weight: 10, arbitrary: fc.record({ do: fc.constant('run' as const), who }) },
  { weight: 16, arbitrary: fc.record({ do: fc.constant('arrive' as const), who, lost: fc.nat(9).map((drawn) => drawn === 0) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('give-up' as const, 'late' as const), who }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('deliver' as const), who, count: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('relist' as const), who }) },
  { weight: 1, arbitrary: fc.constant({ do: 'depose' as const }) },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('machine' as const), index: fc.nat({ max: 11 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('human-deletes' as const, 'hold' as const, 'unready' as const, 'spare' as const),
      index: fc.nat({ max: 11 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('freeze' as const), on: fc.boolean() }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('replicas' as const),
      replicas: fc.constantFrom(undefined, 0, 2, 3, 5, 6),
      pace: fc.constantFrom(1, 2, 9),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function play(steps: readonly Step[], seed: number): Promise<void> {
  const api = modelApi(() => clock.now(), applyMachine);
  api.create(MachineSets, {
    apiVersion: API_VERSION,
    kind: 'MachineSet',
    metadata: { ...KEY },
    spec: { provider: { name: 'fake' }, maxInFlight: 100 },
  });
  let time = 0;
  let epoch = 1;
  let frozen = false;
  /** How many were asked for, from when on; `Infinity`: it was left out, and none is to go. */
  const asked: { at: number; replicas: number }[] = [];
  const humans: number[] = [];
  const leaders = [leader(api, 1, seed), leader(api, 2, seed + 1)] as const;
  const drained = new Set<string>();
  /** By machine UID, when the run began whose mark it bears. */
  const decided = new Map<string, number>();
  const alive = (): Stored<Machine>[] => api.list(Machines).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const edit = (machine: Stored<Machine> | undefined, change: (machine: Stored<Machine>) => void): void => {
    if (machine !== undefined) api.edit(Machines, machine.metadata, change);
  };
  function scale(replicas: number | undefined, pace = 9): void {
    asked.push({ at: time, replicas: replicas ?? Infinity });
    api.edit(MachineSets, KEY, ({ spec }) => {
      spec.maxRetiring = pace;
      if (replicas === undefined) delete spec.replicas;
      else spec.replicas = replicas;
    });
  }
  /** The least that was asked for at any time since. */
  const leastSince = (since: number): number => {
    const before = asked.findLast(({ at }) => at <= since);
    return Math.min(before?.replicas ?? Infinity, ...asked.filter(({ at }) => at > since).map(({ replicas }) => replicas));
  };

  const mostSince = (since: number): number => {
    const before = asked.findLast(({ at }) => at <= since);
    return Math.max(before?.replicas ?? 0, ...asked.filter(({ at }) => at > since).map(({ replicas }) => replicas));
  };
  /** Every name that ever had a machine. A call that outlives its machine makes it once more: nothing can stop that one. */
  const names = new Set<string>();
  let remade = 0;

  /** One step of the machine controller that leads. */
  function machineStep(machine: Stored<Machine> | undefined): void {
    if (machine === undefined) return;
    const { uid } = machine.metadata;
    const may = machine.spec.retire?.epoch === epoch && machine.spec.hold !== true && !frozen;
    if (!may) return void drained.delete(uid);
    if (!drained.has(uid)) return void drained.add(uid);
    api.remove(Machines, machine.metadata);
    const since = decided.get(uid) ?? time;
    const byHand = humans.filter((at) => at >= since).length;
    expect(alive().length + byHand, 'machines left').toBeGreaterThanOrEqual(leastSince(since));
  }

  async function arrive(decidedAt: number | undefined, act: () => Promise<void>): Promise<void> {
    const before = new Map(alive().map((machine) => [machine.metadata.uid, machine]));
    await act();
    for (const { metadata } of alive()) {
      if (before.has(metadata.uid)) continue;
      if (names.has(metadata.name)) remade++;
      names.add(metadata.name);
      expect(alive().length - remade, 'machines made').toBeLessThanOrEqual(mostSince(decidedAt ?? time));
    }
    for (const machine of alive()) {
      const { metadata, spec } = machine;
      const was = before.get(metadata.uid);
      if (spec.retire === undefined || was?.spec.retire?.epoch === spec.retire.epoch) continue;
      // A mark that another term confirms, or one of no term that becomes one, is decided again.
      decided.set(metadata.uid, decidedAt ?? time);
      const isSpared = was !== undefined && was.spec.retire === undefined && markedFor(was) !== undefined;
      if (isSpared && spec.retire.epoch > 0)
        expect(markedFor(machine), 'marked again for the number it was spared at').not.toBe(markedFor(was));
    }
  }

  async function happen(each: Step): Promise<void> {
    time++;
    const all = alive();
    const machine = 'index' in each ? all[each.index % all.length] : undefined;
    switch (each.do) {
      case 'run':
        // A process that has not been elected yet does nothing.
        if (each.who < epoch) await leaders[each.who]?.run(time);
        return;
      case 'arrive': {
        const of = leaders[each.who];
        if (of !== undefined) await arrive(of.next(), () => of.arrive(each.lost));
        return;
      }
      case 'give-up':
        return await leaders[each.who]?.giveUp();
      case 'late': {
        const of = leaders[each.who];
        if (of !== undefined) await arrive(of.nextLate(), () => of.arriveLate());
        return;
      }
      case 'deliver':
        return leaders[each.who]?.reader.deliver(each.count);
      case 'relist':
        return leaders[each.who]?.relist();
      case 'depose':
        if (epoch === 1) leaders[1].relist();
        epoch = 2;
        return;
      case 'machine':
        return machineStep(machine);
      case 'human-deletes':
        humans.push(time);
        return machine === undefined ? undefined : api.remove(Machines, machine.metadata);
      case 'hold':
        return edit(machine, ({ spec }) => (spec.hold === true ? delete spec.hold : (spec.hold = true)));
      case 'spare':
        return edit(machine, ({ spec }) => delete spec.retire);
      case 'unready':
        return edit(machine, (one) => (one.status = { ...one.status, conditions: [] }));
      case 'freeze':
        frozen = each.on;
        return;
      case 'replicas':
        return scale(each.replicas, each.pace);
      default:
        return each satisfies never;
    }
  }

  scale(6);
  for (let round = 0; round < 40; round++) {
    leaders[0].relist();
    await leaders[0].run(0);
    await arrive(leaders[0].next(), () => leaders[0].arrive(false));
  }
  expect(alive()).toHaveLength(6);
  for (const one of alive())
    edit(one, ({ status, ...rest }) => Object.assign(one, rest, { status: { ...status, firstReadyAt: '2026-11-20T00:00:00Z' } }));
  for (const each of steps) await happen(each);

  // A tick of its own: what the last step decided, it decided by the number before this one.
  time++;
  frozen = false;
  epoch = 2;
  scale(4);
  for (const one of alive()) edit(one, ({ spec }) => delete spec.hold);
  for (let round = 0; round < 60; round++) {
    time++;
    for (const of of leaders) {
      await arrive(of.nextLate(), () => of.arriveLate());
      await arrive(of.next(), () => of.arrive(false));
    }
    leaders[1].relist();
    await leaders[1].run(time);
    for (const one of alive()) machineStep(one);
  }
  expect([alive().length, alive().filter(({ spec }) => spec.retire !== undefined).length]).toEqual([4, 0]);
  expect(leaders.map((of) => of.pending())).toEqual([0, 0]);
}

it('safety 7: never lets more machines go than were asked for, and ends with as many as are', { timeout: 900_000 }, async () => {
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 160, size: 'max' }), fc.nat(), play), {
    numRuns: Number(process.env['RUNS'] ?? (process.env['KUBENODE_THOROUGH'] === '1' ? 2000 : 80)),
  });
});
