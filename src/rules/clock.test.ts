import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { advance, clockOf, heldMs, LOOK_MS, observationOf, refreshMs, type HoldClock, type Look } from './clock.ts';

const look = (nowMs: number, holds: boolean, rest: Partial<Look> = {}): Look => ({
  nowMs,
  holds,
  stamp: '',
  transitionsMs: [],
  holdsForMs: 30_000,
  clearsAfterMs: 60_000,
  ...rest,
});
const run = (...looks: Look[]): HoldClock | undefined => looks.reduce<HoldClock | undefined>(advance, undefined);

it('begins when it is first seen, whatever the detector says', () => {
  expect(run(look(1000, true))).toEqual({ firstSeenMs: 1000, lastSeenMs: 1000, open: true, stamp: '' });
  expect(run(look(1000, false))).toBeUndefined();
});

it('flapping extends, and does not reset', () => {
  const clock = run(look(0, true), look(20_000, false), look(25_000, true));
  expect(heldMs(clock, 34_999)).toBe(29_999);
  expect(heldMs(clock, 35_000)).toBe(30_000);
});

it('a gap longer than clearsAfter ends it', () => {
  expect(run(look(0, true), look(20_000, false), look(80_001, true))?.firstSeenMs).toBe(80_001);
  expect(run(look(0, true), look(20_000, false), look(80_001, false))).toBeUndefined();
});

it('a gap of exactly clearsAfter is still flapping', () => {
  expect(run(look(0, true), look(20_000, false), look(80_000, false))).toMatchObject({ lastSeenMs: 20_000, open: false });
  expect(heldMs(run(look(0, true), look(20_000, false), look(80_000, true)), 80_000)).toBe(20_000);
});

describe('F2: between two looks', () => {
  const a = { stamp: 'a' };
  const b = { stamp: 'b' };
  it('a condition without a transition has held, however long nobody looked', () => {
    expect(heldMs(run(look(0, true, a), look(1e9, true, a)), 1e9)).toBe(1e9);
  });
  it('a transition that nobody saw is a gap of unknown length', () => {
    expect(heldMs(run(look(0, true, a), look(50_000, true, b)), 50_000)).toBe(0);
    expect(run(look(0, true, a), look(20_000, true, a), look(90_000, true, b))?.firstSeenMs).toBe(90_000);
  });
  it('an end counts from when its detector says it was, and not before the last look', () => {
    const end = (said: number) => run(look(0, true, a), look(40_000, false, { ...b, transitionsMs: [said] }))?.lastSeenMs;
    expect([end(5000), end(40_500), end(-3_600_000), end(3_600_000)]).toEqual([5000, 40_000, 0, 0]);
    expect([end(42_000), end(42_001)]).toEqual([40_000, 0]);
  });
  it('facts without transitions count while somebody looks', () => {
    expect(heldMs(run(look(0, true), look(LOOK_MS, true)), LOOK_MS)).toBe(LOOK_MS);
    expect(heldMs(run(look(0, true), look(LOOK_MS + 1, true)), LOOK_MS + 1)).toBe(0);
    const clearsAfterMs = 300_000;
    expect(heldMs(run(look(0, true), look(200_000, false, { clearsAfterMs }), look(201_000, true, { clearsAfterMs })), 201_000)).toBe(0);
  });
  it('an end of facts without transitions counts from the look that saw it, or the last one if that is long ago', () => {
    const end = (afterMs: number) => run(look(1e9, true), look(1e9 + afterMs, false, { clearsAfterMs: 1e6 }))?.lastSeenMs;
    expect([end(LOOK_MS), end(LOOK_MS + 1)]).toEqual([1e9 + LOOK_MS, 1e9]);
  });
  it('facts without transitions that have not held long enough begin again after a gap, also late in the day', () => {
    expect(run(look(1e9, true), look(1e9 + LOOK_MS + 1, true))?.firstSeenMs).toBe(1e9 + LOOK_MS + 1);
  });
  it('facts without transitions that have held long enough stay so until they are seen not to', () => {
    expect(heldMs(run(look(0, true), look(30_000, true), look(86_400_000, true)), 86_400_000)).toBe(86_400_000);
  });
});

it('looks that change nothing cost no write', () => {
  const first = run(look(0, true));
  expect(run(look(0, true), look(refreshMs(60_000) - 1, true))).toEqual(first);
  expect(run(look(0, true), look(refreshMs(60_000), true))?.lastSeenMs).toBe(30_000);
  expect([0, 60_000, 1e9].map(refreshMs)).toEqual([10_000, 30_000, 60_000]);
});

it('a look that finds that it has held long enough is written, and once', () => {
  const holdsForMs = 10_000;
  const at = (...times: number[]) => run(...times.map((ms) => look(ms, true, { holdsForMs })))?.lastSeenMs;
  expect([at(0, 9999), at(0, 10_000), at(0, 10_000, 20_000), at(0, 10_000, 40_000)]).toEqual([0, 10_000, 10_000, 40_000]);
  const never = (ms: number) => run(look(0, true), look(ms, true, { holdsForMs: 1e9 }))?.lastSeenMs;
  expect([never(29_999), never(30_000)]).toEqual([0, 30_000]);
});

it('times from the future, of a leader whose clock was ahead, are taken as now', () => {
  const ahead: HoldClock = { firstSeenMs: 90_000, lastSeenMs: 95_000, open: true, stamp: '' };
  expect(advance(ahead, look(10_000, true))).toMatchObject({ firstSeenMs: 10_000, lastSeenMs: 10_000 });
});

it('survives being written down', () => {
  const clocks = fc.record({
    firstSeenMs: fc.integer({ min: 0, max: 4e12 }),
    lastSeenMs: fc.integer({ min: 0, max: 4e12 }),
    open: fc.boolean(),
    stamp: fc.stringMatching(/^[0-9a-f:TZ.-]{0,24}$/),
  });
  fc.assert(
    fc.property(clocks, (clock) => {
      expect(clockOf(observationOf('bad/example.com/X', clock))).toEqual({ key: 'bad/example.com/X', clock });
    }),
  );
  const at = new Date(0).toISOString();
  expect(clockOf({ key: 'for/x', firstSeen: 'yesterday', lastSeen: at })).toBeUndefined();
  expect(clockOf({ key: 'for/x', firstSeen: at, lastSeen: 'now' })).toBeUndefined();
});

it('never counts more than it was seen to hold, and never a gap', () => {
  const steps = fc.array(fc.record({ afterMs: fc.integer({ min: 1, max: LOOK_MS }), holds: fc.boolean() }), {
    minLength: 1,
    maxLength: 30,
  });
  fc.assert(
    fc.property(steps, (list) => {
      let nowMs = 0;
      let held = 0;
      let holding = false;
      let clock: HoldClock | undefined;
      for (const { afterMs, holds } of list) {
        nowMs += afterMs;
        if (holding) held += afterMs;
        holding = holds;
        clock = advance(clock, look(nowMs, holds, { holdsForMs: 1e9 }));
        expect(heldMs(clock, nowMs)).toBeLessThanOrEqual(held);
      }
    }),
  );
});
