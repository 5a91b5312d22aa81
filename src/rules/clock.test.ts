import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { advance, clockOf, matchedMs, SAMPLE_MS, observationOf, refreshMs, type MatchClock, type Sample } from './clock.ts';

const sample = (nowMs: number, matches: boolean, rest: Partial<Sample> = {}): Sample => ({
  nowMs,
  matches,
  stamp: '',
  transitionsMs: [],
  holdsForMs: 30_000,
  clearsAfterMs: 60_000,
  ...rest,
});
const run = (...samples: Sample[]): MatchClock | undefined => samples.reduce<MatchClock | undefined>(advance, undefined);

it('begins when it is first seen, with any time of the detector', () => {
  expect(run(sample(1000, true))).toEqual({ firstSeenMs: 1000, lastSeenMs: 1000, open: true, stamp: '' });
  expect(run(sample(1000, false))).toBeUndefined();
});

it('flapping extends, and does not reset', () => {
  const clock = run(sample(0, true), sample(20_000, false), sample(25_000, true));
  expect(matchedMs(clock, 34_999)).toBe(29_999);
  expect(matchedMs(clock, 35_000)).toBe(30_000);
});

it('a gap longer than clearsAfter ends it', () => {
  expect(run(sample(0, true), sample(20_000, false), sample(80_001, true))?.firstSeenMs).toBe(80_001);
  expect(run(sample(0, true), sample(20_000, false), sample(80_001, false))).toBeUndefined();
});

it('a gap of exactly clearsAfter is still flapping', () => {
  expect(run(sample(0, true), sample(20_000, false), sample(80_000, false))).toMatchObject({ lastSeenMs: 20_000, open: false });
  expect(matchedMs(run(sample(0, true), sample(20_000, false), sample(80_000, true)), 80_000)).toBe(20_000);
});

describe('F2: between two samples', () => {
  const a = { stamp: 'a' };
  const b = { stamp: 'b' };
  it('a condition without a transition stayed true, however long no sample was taken', () => {
    expect(matchedMs(run(sample(0, true, a), sample(1e9, true, a)), 1e9)).toBe(1e9);
  });
  it('a transition that was not observed is a gap of unknown length', () => {
    expect(matchedMs(run(sample(0, true, a), sample(50_000, true, b)), 50_000)).toBe(0);
    expect(run(sample(0, true, a), sample(20_000, true, a), sample(90_000, true, b))?.firstSeenMs).toBe(90_000);
  });
  it('an end counts from the time that its detector reports, and not before the last sample', () => {
    const end = (transitionMs: number) =>
      run(sample(0, true, a), sample(40_000, false, { ...b, transitionsMs: [transitionMs] }))?.lastSeenMs;
    expect([end(5000), end(40_500), end(-3_600_000), end(3_600_000)]).toEqual([5000, 40_000, 0, 0]);
    expect([end(42_000), end(42_001)]).toEqual([40_000, 0]);
  });
  it('facts without transitions count while samples are taken', () => {
    expect(matchedMs(run(sample(0, true), sample(SAMPLE_MS, true)), SAMPLE_MS)).toBe(SAMPLE_MS);
    expect(matchedMs(run(sample(0, true), sample(SAMPLE_MS + 1, true)), SAMPLE_MS + 1)).toBe(0);
    const clearsAfterMs = 300_000;
    expect(
      matchedMs(run(sample(0, true), sample(200_000, false, { clearsAfterMs }), sample(201_000, true, { clearsAfterMs })), 201_000),
    ).toBe(0);
  });
  it('an end of facts without transitions counts from the sample that saw it, or the last one if that is long ago', () => {
    const end = (afterMs: number) => run(sample(1e9, true), sample(1e9 + afterMs, false, { clearsAfterMs: 1e6 }))?.lastSeenMs;
    expect([end(SAMPLE_MS), end(SAMPLE_MS + 1)]).toEqual([1e9 + SAMPLE_MS, 1e9]);
  });
  it('facts without transitions that have not matched long enough begin again after a gap, also late in the day', () => {
    expect(run(sample(1e9, true), sample(1e9 + SAMPLE_MS + 1, true))?.firstSeenMs).toBe(1e9 + SAMPLE_MS + 1);
  });
  it('facts without transitions that have matched long enough stay so until a sample shows that they do not', () => {
    expect(matchedMs(run(sample(0, true), sample(30_000, true), sample(86_400_000, true)), 86_400_000)).toBe(86_400_000);
  });
});

it('samples that change nothing cost no write', () => {
  const first = run(sample(0, true));
  expect(run(sample(0, true), sample(refreshMs(60_000) - 1, true))).toEqual(first);
  expect(run(sample(0, true), sample(refreshMs(60_000), true))?.lastSeenMs).toBe(30_000);
  expect([0, 60_000, 1e9].map(refreshMs)).toEqual([10_000, 30_000, 60_000]);
});

it('a sample that finds that it has matched long enough is written, and once', () => {
  const holdsForMs = 10_000;
  const at = (...times: number[]) => run(...times.map((ms) => sample(ms, true, { holdsForMs })))?.lastSeenMs;
  expect([at(0, 9999), at(0, 10_000), at(0, 10_000, 20_000), at(0, 10_000, 40_000)]).toEqual([0, 10_000, 10_000, 40_000]);
  const never = (ms: number) => run(sample(0, true), sample(ms, true, { holdsForMs: 1e9 }))?.lastSeenMs;
  expect([never(29_999), never(30_000)]).toEqual([0, 30_000]);
});

it('times from the future, of a leader whose clock was ahead, are taken as now', () => {
  const ahead: MatchClock = { firstSeenMs: 90_000, lastSeenMs: 95_000, open: true, stamp: '' };
  expect(advance(ahead, sample(10_000, true))).toMatchObject({ firstSeenMs: 10_000, lastSeenMs: 10_000 });
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

it('never counts more than it was seen to match, and never a gap', () => {
  const steps = fc.array(fc.record({ afterMs: fc.integer({ min: 1, max: SAMPLE_MS }), matches: fc.boolean() }), {
    minLength: 1,
    maxLength: 30,
  });
  fc.assert(
    fc.property(steps, (list) => {
      let nowMs = 0;
      let matched = 0;
      let matching = false;
      let clock: MatchClock | undefined;
      for (const { afterMs, matches } of list) {
        nowMs += afterMs;
        if (matching) matched += afterMs;
        matching = matches;
        clock = advance(clock, sample(nowMs, matches, { holdsForMs: 1e9 }));
        expect(matchedMs(clock, nowMs)).toBeLessThanOrEqual(matched);
      }
    }),
  );
});
