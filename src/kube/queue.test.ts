import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { ApiError } from './api-error.ts';
import { sleep } from './clock.ts';
import { createQueue, TerminalError } from './queue.ts';
import type { Queue, QueueOptions, QueueResult } from './queue.ts';
import { fakeClock, seededRandom } from './testing/clock.ts';
import type { FakeClock } from './testing/clock.ts';
import { settle } from './testing/wait-for.ts';

const controllers: AbortController[] = [];
afterEach(() => controllers.splice(0).forEach((controller) => controller.abort(new Error('the test is over'))));

interface World {
  clock: FakeClock;
  queue: Queue;
  controller: AbortController;
  runs: { key: string; at: number; failures: number }[];
  errors: { key: string; failures: number; retryInMs: number | undefined }[];
}

function start(process: (key: string, clock: FakeClock) => Promise<QueueResult | void>, options: Partial<QueueOptions> = {}): World {
  const clock = fakeClock();
  const begin = clock.monotonic();
  const controller = new AbortController();
  controllers.push(controller);
  const runs: World['runs'] = [];
  const errors: World['errors'] = [];
  const queue = createQueue({
    clock,
    random: seededRandom(7),
    signal: controller.signal,
    concurrency: 2,
    process: (key, { failures }) => {
      runs.push({ key, at: clock.monotonic() - begin, failures });
      return process(key, clock);
    },
    onError: (key, _error, retry) => errors.push({ key, ...retry }),
    ...options,
  });
  return { clock, queue, controller, runs, errors };
}

const nothing = (): Promise<void> => Promise.resolve();
const keys = (world: World): string[] => world.runs.map((run) => run.key);

describe('adding', () => {
  test('adds of one key before its run are one run', async () => {
    const world = start((_key, clock) => sleep(clock, 10), { concurrency: 1 });
    world.queue.add('first');
    world.queue.add('a');
    world.queue.add('a');
    world.queue.add('a', { priority: 'resync' });
    await world.clock.advance(100);
    expect(keys(world)).toEqual(['first', 'a']);
  });

  test('a key that is ready is not run again for an add that asks for later', async () => {
    const world = start((_key, clock) => sleep(clock, 10), { concurrency: 1 });
    world.queue.add('busy');
    world.queue.add('a');
    world.queue.add('a', { afterMs: 50 });
    await world.clock.advance(1000);
    expect(keys(world)).toEqual(['busy', 'a']);
  });

  test('an add during a run leads to exactly one run after it', async () => {
    const world = start((_key, clock) => sleep(clock, 10));
    world.queue.add('a');
    await world.clock.advance(5);
    world.queue.add('a');
    world.queue.add('a');
    await world.clock.advance(100);
    expect(world.runs.map((run) => run.at)).toEqual([0, 10]);
  });

  test('the earliest of several times wins, in whichever order they come', async () => {
    const world = start(nothing);
    world.queue.add('a', { afterMs: 100 });
    world.queue.add('a', { afterMs: 50 });
    world.queue.add('b', { afterMs: 50 });
    world.queue.add('b', { afterMs: 100 });
    world.queue.add('c', { afterMs: 100 });
    world.queue.add('c');
    await world.clock.advance(1000);
    expect(world.runs.map(({ key, at }) => [key, at])).toEqual([
      ['c', 0],
      ['a', 50],
      ['b', 50],
    ]);
  });

  test('of several adds during a run the earliest wins', async () => {
    const world = start((_key, clock) => sleep(clock, 10));
    world.queue.add('a');
    await world.clock.advance(5);
    world.queue.add('a', { afterMs: 20 });
    world.queue.add('a', { afterMs: 500 });
    await world.clock.advance(100);
    expect(world.runs.map((run) => run.at)).toEqual([0, 25]);
  });

  test('what is live goes before a resync, and a live add lifts a key that waits as resync', async () => {
    const world = start((_key, clock) => sleep(clock, 10), { concurrency: 1 });
    world.queue.add('busy');
    for (const key of ['r1', 'r2', 'r3']) world.queue.add(key, { priority: 'resync' });
    world.queue.add('live');
    world.queue.add('r3');
    await world.clock.advance(100);
    expect(keys(world)).toEqual(['busy', 'live', 'r3', 'r1', 'r2']);
  });

  test('a live add during a run stays live, with any later add, and a resync stays one', async () => {
    for (const [adds, order] of [
      [
        ['live', 'resync'],
        ['busy', 'busy', 'r1'],
      ],
      [
        ['resync', 'live'],
        ['busy', 'busy', 'r1'],
      ],
      [
        ['resync', 'resync'],
        ['busy', 'r1', 'busy'],
      ],
    ] as const) {
      const world = start((_key, clock) => sleep(clock, 10), { concurrency: 1 });
      world.queue.add('busy', { priority: 'resync' });
      await world.clock.advance(5);
      world.queue.add('r1', { priority: 'resync' });
      for (const priority of adds) world.queue.add('busy', { priority });
      await world.clock.advance(100);
      expect(keys(world), adds.join(', ')).toEqual(order);
    }
  });

  test('a flood of live keys does not starve a resync', async () => {
    const world: World = start(
      async (key, clock) => {
        await sleep(clock, 1);
        if (key !== 'unchanged') world.queue.add(key);
      },
      { concurrency: 1 },
    );
    for (let i = 0; i < 5; i++) world.queue.add(`loud${i}`);
    world.queue.add('unchanged', { priority: 'resync' });
    await world.clock.advance(20);
    expect(keys(world)).toContain('unchanged');
  });

  test('one of eight runs is a resync, where both wait', async () => {
    const world = start((_key, clock) => sleep(clock, 1), { concurrency: 1 });
    for (let i = 0; i < 20; i++) world.queue.add(`live${i}`);
    for (const key of ['r1', 'r2']) world.queue.add(key, { priority: 'resync' });
    await world.clock.advance(100);
    expect(['r1', 'r2'].map((key) => keys(world).indexOf(key))).toEqual([7, 15]);
    expect(world.runs).toHaveLength(22);
  });

  test('a key that is added to an idle queue runs at once, however long it was idle', async () => {
    const world = start(nothing);
    world.queue.add('a');
    await settle();
    world.clock.pause(60_000);
    world.queue.add('b');
    await settle();
    expect(world.runs.map(({ key, at }) => [key, at])).toEqual([
      ['a', 0],
      ['b', 60_000],
    ]);
    expect(world.clock.timers).toBe(0);
  });

  test('a delay that is no time is refused', () => {
    const world = start(nothing);
    expect(() => world.queue.add('a', { afterMs: Number.NaN })).toThrow('must be 0 or more, not NaN');
    expect(() => world.queue.add('a', { afterMs: -1 })).toThrow('not -1');
  });
});

describe('results', () => {
  test('requeueAfterMs runs the key again then, or earlier if it is added', async () => {
    let first = true;
    const world = start(() => {
      const result = first ? { requeueAfterMs: 1000 } : undefined;
      first = false;
      return Promise.resolve(result);
    });
    world.queue.add('a');
    await world.clock.advance(999);
    expect(world.runs).toHaveLength(1);
    await world.clock.advance(1);
    expect(world.runs).toHaveLength(2);
    await world.clock.advance(10_000);
    expect(world.runs).toHaveLength(2);
    expect(world.clock.timers).toBe(0);
  });

  test('requeueAfterMs of 0 is at once, and one without an end is never', async () => {
    const results = [{ requeueAfterMs: 0 }, { requeueAfterMs: Infinity }];
    const world = start(() => Promise.resolve(results.shift()));
    world.queue.add('a');
    await world.clock.advance(0);
    expect([world.runs.length, world.errors.length]).toEqual([2, 0]);
    expect([world.clock.timers, world.queue.counts.delayed]).toEqual([0, 0]);
  });

  test('a key that asked to run again goes before what is no news when its time has come', async () => {
    let first = true;
    const world = start(
      async (key, clock) => {
        await sleep(clock, 10);
        const result = key === 'a' && first ? { requeueAfterMs: 5 } : undefined;
        first = false;
        return result;
      },
      { concurrency: 1 },
    );
    world.queue.add('a');
    for (const key of ['r1', 'r2', 'r3']) world.queue.add(key, { priority: 'resync' });
    await world.clock.advance(100);
    expect(keys(world)).toEqual(['a', 'r1', 'a', 'r2', 'r3']);
  });

  test('the counts report how many keys are in each state', async () => {
    const outcomes: Record<string, () => QueueResult> = {
      fails: () => {
        throw new Error('broken');
      },
      ends: () => {
        throw new TerminalError('the spec is wrong');
      },
      again: () => ({ requeueAfterMs: 1000 }),
    };
    const world = start(
      async (key, clock) => {
        if (key === 'long') await sleep(clock, 500);
        return outcomes[key]?.();
      },
      { concurrency: 1, mayRun: (key) => key !== 'blocked' },
    );
    const empty = { ready: 0, delayed: 0, running: 0, held: 0, terminal: 0 };
    expect(world.queue.counts).toEqual(empty);
    for (const key of ['fails', 'ends', 'again', 'blocked', 'long', 'live']) world.queue.add(key);
    world.queue.add('resync', { priority: 'resync' });
    await settle();
    expect(world.queue.counts).toEqual({ ready: 2, delayed: 2, running: 1, held: 1, terminal: 1 });
    world.queue.add('ends');
    expect(world.queue.counts).toEqual({ ready: 3, delayed: 2, running: 1, held: 1, terminal: 0 });
    world.queue.release('blocked');
    expect(world.queue.counts).toEqual({ ready: 4, delayed: 2, running: 1, held: 0, terminal: 0 });
  });

  test('requeueAfterMs that is no time is an error of the reconcile, not a busy loop', async () => {
    const world = start(() => Promise.resolve({ requeueAfterMs: Number.NaN }));
    world.queue.add('a');
    await world.clock.advance(50);
    expect(world.runs).toHaveLength(1);
    expect(world.errors).toHaveLength(1);
  });

  test('failures of a key are retried ever later, with jitter, and success forgets them', async () => {
    let broken = true;
    const world = start(() => (broken ? Promise.reject(new Error('broken')) : nothing()), { backoff: { baseMs: 100, maxMs: 1000 } });
    world.queue.add('a');
    await world.clock.advance(10_000);
    const waits = world.errors.map((error) => error.retryInMs ?? 0);
    waits.forEach((wait, i) => {
      const ceiling = Math.min(1000, 100 * 2 ** i);
      expect(wait).toBeGreaterThanOrEqual(ceiling / 2);
      expect(wait).toBeLessThanOrEqual(ceiling);
    });
    expect(new Set(waits).size).toBeGreaterThan(3);
    expect(world.runs[3]?.failures).toBe(3);
    broken = false;
    await world.clock.advance(1000);
    broken = true;
    world.queue.add('a');
    await settle();
    expect(world.errors.at(-1)?.failures).toBe(1);
  });

  test('the time after which a server asks for another request is kept', async () => {
    const world = start(() => Promise.reject(new ApiError(429, { reason: 'TooManyRequests', details: { retryAfterSeconds: 30 } })));
    world.queue.add('a');
    await world.clock.advance(29_999);
    expect(world.runs).toHaveLength(1);
    await world.clock.advance(1);
    expect(world.runs).toHaveLength(2);
  });

  test('nor is it asked sooner than the failures of a key allow', async () => {
    const world = start(() => Promise.reject(new ApiError(429, { reason: 'TooManyRequests', details: { retryAfterSeconds: 1 } })), {
      backoff: { baseMs: 60_000, maxMs: 60_000 },
    });
    world.queue.add('a');
    await settle();
    expect(world.errors[0]?.retryInMs).toBeGreaterThanOrEqual(30_000);
  });

  test('one key that fails does not delay another', async () => {
    const world = start((key) => (key === 'bad' ? Promise.reject(new Error('broken')) : nothing()));
    world.queue.add('bad');
    world.queue.add('good');
    await settle();
    expect(keys(world)).toEqual(['bad', 'good']);
  });

  test('an add runs a failing key at once; its wait is not doubled by that', async () => {
    const world = start(() => Promise.reject(new Error('broken')), { backoff: { baseMs: 1000, maxMs: 1000 } });
    world.queue.add('a');
    await settle();
    world.queue.add('a');
    await settle();
    expect(world.runs).toHaveLength(2);
    await world.clock.advance(1000);
    expect(world.runs).toHaveLength(3);
  });

  test('a TerminalError is not retried, nor by a resync; a live add starts again', async () => {
    const world = start(() => Promise.reject(new TerminalError('the spec is wrong')));
    world.queue.add('a');
    await world.clock.advance(1_000_000);
    world.queue.add('a', { priority: 'resync' });
    await world.clock.advance(1000);
    expect(world.runs).toHaveLength(1);
    expect(world.errors).toEqual([{ key: 'a', failures: 1, retryInMs: undefined }]);
    expect(world.queue.counts.terminal).toBe(1);
    world.queue.add('a');
    await settle();
    expect(world.runs[1]).toMatchObject({ failures: 0 });
  });

  test('input that changed during a run with a TerminalError starts another run', async () => {
    const world = start(async (_key, clock) => {
      await sleep(clock, 10);
      throw new TerminalError('the spec is wrong');
    });
    world.queue.add('a');
    await world.clock.advance(5);
    world.queue.add('a');
    await world.clock.advance(100);
    expect(world.runs).toHaveLength(2);
  });

  test('an exception thrown before the first await is a failure too', async () => {
    const world = start(() => {
      throw new Error('at once');
    });
    world.queue.add('a');
    await settle();
    expect(world.errors).toHaveLength(1);
  });
});

describe('blocking', () => {
  test('a key that may not run is left aside, with any add, until released', async () => {
    let may = false;
    const world = start(nothing, { mayRun: (key) => key !== 'a' || may });
    world.queue.add('a');
    world.queue.add('b');
    world.queue.add('a');
    await settle();
    expect(keys(world)).toEqual(['b']);
    expect(world.queue.counts.held).toBe(1);
    world.queue.release('a');
    await settle();
    expect(world.queue.counts.held).toBe(1);
    may = true;
    world.queue.release('a');
    world.queue.release('unknown');
    await settle();
    expect(keys(world)).toEqual(['b', 'a']);
  });

  test('a key that changed while it was left aside goes before what is no news, and one that did not goes in its turn', async () => {
    let may = false;
    const world = start((_key, clock) => sleep(clock, 1), { concurrency: 1, mayRun: (key) => !key.startsWith('aside') || may });
    for (const key of ['aside1', 'aside2']) world.queue.add(key, { priority: 'resync' });
    world.queue.add('aside1');
    world.queue.add('aside2', { priority: 'resync' });
    world.queue.add('busy');
    for (const key of ['r1', 'r2']) world.queue.add(key, { priority: 'resync' });
    may = true;
    for (const key of ['aside2', 'aside1']) world.queue.release(key);
    world.queue.release('aside1');
    await world.clock.advance(100);
    expect(keys(world)).toEqual(['busy', 'aside1', 'r1', 'r2', 'aside2']);
  });
});

describe('ending', () => {
  test('a run that fails after the signal sets no timer', async () => {
    const world = start(async (_key, clock) => {
      await sleep(clock, 100);
      throw new Error('broken');
    });
    world.queue.add('a');
    await settle();
    world.controller.abort(new Error('stop'));
    await world.clock.advance(100);
    await world.queue.done;
    expect(world.errors).toHaveLength(1);
    expect(world.clock.timers).toBe(0);
  });

  test('a queue with nothing to do is done with its signal, also where that came first', async () => {
    const world = start(nothing);
    world.queue.add('later', { afterMs: 1000 });
    world.controller.abort(new Error('stop'));
    await world.queue.done;
    expect(world.clock.timers).toBe(0);
    const late = start(nothing, { signal: world.controller.signal });
    late.queue.add('a');
    await late.queue.done;
    expect([late.runs, late.queue.counts.ready]).toEqual([[], 0]);
  });

  test('after the signal nothing starts, and done waits for what runs', async () => {
    const world = start((_key, clock) => sleep(clock, 100), { concurrency: 1 });
    world.queue.add('a');
    world.queue.add('b');
    world.queue.add('c', { afterMs: 10 });
    await settle();
    world.controller.abort(new Error('stop'));
    world.queue.add('d');
    let done = false;
    void world.queue.done.then(() => (done = true));
    await world.clock.advance(50);
    expect(done).toBe(false);
    await world.clock.advance(50);
    expect(done).toBe(true);
    await world.clock.advance(1000);
    expect(keys(world)).toEqual(['a']);
    expect(world.clock.timers).toBe(0);
  });
});

describe('being fair to the rest of the process', () => {
  test('thousands of keys that never wait leave room for timers and sockets', async () => {
    const clock = fakeClock();
    const ran: string[] = [];
    const controller = new AbortController();
    controllers.push(controller);
    const queue = createQueue({
      clock,
      random: seededRandom(1),
      signal: controller.signal,
      concurrency: 4,
      process: (key) => {
        ran.push(key);
        clock.pause(1);
        return nothing();
      },
      onError: () => undefined,
    });
    for (let i = 0; i < 1000; i++) queue.add(`k${i}`);
    await settle();
    // Eight milliseconds and the run that goes over them.
    expect(ran).toHaveLength(9);
    for (let i = 0; i < 200; i++) await clock.advance(0);
    expect(ran).toHaveLength(1000);
  });

  test('so does one key that asks for itself in each of its runs', async () => {
    const world = start((key) => {
      if (world.runs.length < 10_000) world.queue.add(key);
      return nothing();
    });
    world.queue.add('a');
    await settle();
    expect(world.runs).toHaveLength(256);
    await world.clock.advance(0);
    expect(world.runs.length).toBeGreaterThan(256);
  });
});

test('while a queue lets others run, one timer waits, however many keys are added', async () => {
  const world = start((_key, clock) => {
    clock.pause(10);
    return nothing();
  });
  for (let i = 0; i < 5; i++) world.queue.add(`first${i}`);
  await settle();
  const ran = world.runs.length;
  for (let i = 0; i < 50; i++) world.queue.add(`more${i}`);
  await settle();
  expect([world.runs.length, world.clock.timers]).toEqual([ran, 1]);
  await world.clock.advance(10_000);
  expect(world.runs).toHaveLength(55);
});

test('an error that cannot be retried has a name of its own', () => {
  expect(String(new TerminalError('the spec is wrong'))).toBe('TerminalError: the spec is wrong');
});

describe('in any sequence', () => {
  test('no key runs twice at once, none is lost, and concurrency is kept', async () => {
    const key = fc.constantFrom('a', 'b', 'c');
    const act = fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({ do: fc.constant('add' as const), key, afterMs: fc.constantFrom(0, 0, 5, 50), live: fc.boolean() }),
      },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 7, 60) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('block' as const, 'free' as const), key }) },
    );
    const outcome = fc.constantFrom('ok', 'ok', 'fail', 'terminal', 'requeue', 'slow');
    await fc.assert(
      fc.asyncProperty(fc.array(act, { maxLength: 30 }), fc.array(outcome, { maxLength: 30 }), async (acts, outcomes) => {
        const violations: string[] = [];
        const running = new Set<string>();
        const blocked = new Set<string>();
        /** The time of the earliest add of a key that no run has begun since; absent when there is none. */
        const owed = new Map<string, number>();
        const clock = fakeClock();
        const controller = new AbortController();
        let calm = false;
        const queue = createQueue({
          clock,
          random: seededRandom(1),
          signal: controller.signal,
          concurrency: 2,
          backoff: { baseMs: 10, maxMs: 40 },
          mayRun: (key) => !blocked.has(key),
          onError: () => undefined,
          process: async (key) => {
            // An exception in here would be a failed run: violations are collected instead.
            if (running.has(key)) violations.push(`${key} runs twice`);
            if (blocked.has(key)) violations.push(`${key} runs although it may not`);
            if (running.size === 2) violations.push('three runs at once');
            running.add(key);
            owed.delete(key);
            const outcome = calm ? 'ok' : (outcomes.shift() ?? 'ok');
            try {
              if (outcome === 'slow') await sleep(clock, 20);
              else await Promise.resolve();
              if (outcome === 'fail') throw new Error('fail');
              if (outcome === 'terminal') throw new TerminalError('terminal');
              return outcome === 'requeue' ? { requeueAfterMs: 15 } : undefined;
            } finally {
              running.delete(key);
            }
          },
        });
        for (const taken of acts) {
          if (taken.do === 'wait') await clock.advance(taken.ms);
          else if (taken.do === 'block') blocked.add(taken.key);
          else if (taken.do === 'add') {
            // Before the add: it may run at once. A resync need not run where the key has failed permanently.
            if (taken.live) owed.set(taken.key, clock.monotonic() + taken.afterMs);
            queue.add(taken.key, { afterMs: taken.afterMs, priority: taken.live ? 'live' : 'resync' });
          } else {
            blocked.delete(taken.key);
            queue.release(taken.key);
          }
        }
        calm = true;
        for (const key of blocked) {
          blocked.delete(key);
          queue.release(key);
        }
        await clock.advance(10_000);
        expect(violations).toEqual([]);
        expect([...owed.keys()]).toEqual([]);
        expect(queue.counts).toMatchObject({ ready: 0, delayed: 0, running: 0, held: 0 });
        controller.abort(new Error('done'));
        await queue.done;
        expect(clock.timers).toBe(0);
      }),
      { numRuns: 300, endOnFailure: true },
    );
  });

  test('a key runs at the earliest time it was asked for, when nothing hinders it', async () => {
    const adds = fc.array(fc.record({ key: fc.constantFrom('a', 'b', 'c', 'd'), afterMs: fc.nat(100), live: fc.boolean() }), {
      minLength: 1,
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(adds, async (adds) => {
        const world = start(nothing, { concurrency: 4 });
        const expected = new Map<string, number>();
        for (const { key, afterMs, live } of adds.filter((add) => add.afterMs > 0)) {
          world.queue.add(key, { afterMs, priority: live ? 'live' : 'resync' });
          expected.set(key, Math.min(afterMs, expected.get(key) ?? Infinity));
        }
        await world.clock.advance(200);
        expect(new Map(world.runs.map(({ key, at }) => [key, at]))).toEqual(expected);
      }),
    );
  });
});
