import { afterEach, beforeEach, expect, test } from 'vitest';
import { fakeClock } from '../../kube/testing/clock.ts';
import type { FakeClock } from '../../kube/testing/clock.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { keepLease } from './lease.ts';

let clock: FakeClock;
let ended: AbortController;
let log: ReturnType<typeof recordingLog>;
let running: Promise<void>;
let failing: boolean;
let draw: number;
let times: number[];
let signals: Set<AbortSignal>;

beforeEach(() => {
  clock = fakeClock();
  ended = new AbortController();
  log = recordingLog();
  [failing, draw, times, signals] = [false, 0.5, [], new Set()];
  running = keepLease({
    renew(signal) {
      signals.add(signal);
      times.push(clock.monotonic());
      return failing ? Promise.reject(new Error('no answer')) : Promise.resolve();
    },
    clock,
    random: () => draw,
    log,
    signal: ended.signal,
  });
});

afterEach(async () => {
  ended.abort(new Error('ended'));
  await clock.advance(1);
  await running;
});

/** Seconds between the last renewals. */
const gaps = (count: number): number[] =>
  times.slice(-count - 1).flatMap((at, index, all) => (index === 0 ? [] : (at - (all[index - 1] ?? 0)) / 1000));

test('the Lease is renewed at once, and then every 60 s, give or take a fifth', async () => {
  await clock.advance(0);
  expect(times).toHaveLength(1);
  expect([...signals]).toEqual([ended.signal]);
  await clock.advance(121_000);
  expect(gaps(2)).toEqual([60, 60]);
  draw = 0;
  await clock.advance(120_000);
  expect(gaps(1)).toEqual([48]);
  draw = 1;
  await clock.advance(200_000);
  expect(gaps(1)).toEqual([72]);
});

test('a renewal that fails is tried again soon, ever more slowly, and at the usual pace once it works', async () => {
  failing = true;
  draw = 1;
  await clock.advance(200_000);
  // The first one worked.
  expect(gaps(5)).toEqual([60, 10, 20, 40, 60]);
  expect(log.lines.at(-1)?.message).toBe('the Lease was not renewed');
  failing = false;
  await clock.advance(300_000);
  expect(gaps(2)).toEqual([72, 72]);
  // The next failure is a first one.
  failing = true;
  const before = times.length;
  await clock.advance(85_000);
  expect((times[before + 1] ?? 0) - (times[before] ?? 0)).toBe(10_000);
});

test('its end is no failure', async () => {
  await clock.advance(10);
  failing = true;
  ended.abort(new Error('ended'));
  await running;
  expect(times).toHaveLength(1);
  expect(log.lines).toEqual([]);
});
