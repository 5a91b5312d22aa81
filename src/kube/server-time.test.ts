import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { boundsOf, createServerTime, serverClock, timedTransport, type ServerTime } from './server-time.ts';
import { fakeClock } from './testing/clock.ts';

const T0 = Date.UTC(2026, 10, 21, 12);
const httpDate = (ms: number): string => new Date(ms).toUTCString();

/** A server whose clock shows `T0` when the own monotonic one shows 1000, and answers of it. */
function server(clock = fakeClock(0)) {
  let aheadMs = T0 - clock.monotonic();
  const doubts: number[] = [];
  const time = createServerTime(clock, (apartMs) => void doubts.push(apartMs));
  /** Written `writtenMs` after the request was sent, there `tookMs` after it. */
  const answer = ({ writtenMs = 5, tookMs = 10, date }: { writtenMs?: number; tookMs?: number; date?: string } = {}): void => {
    const sentMs = clock.monotonic();
    clock.pause(writtenMs);
    const shown = date ?? httpDate(clock.monotonic() + aheadMs);
    clock.pause(tookMs - writtenMs);
    time.observe({ headers: { date: shown }, sentMs, answeredMs: clock.monotonic() });
  };
  const nowMs = (): number => clock.monotonic() + aheadMs;
  const set = (ms: number): void => void (aheadMs += ms);
  return { clock, time, doubts, nowMs, set, answer };
}

const errorOf = (time: ServerTime, trueMs: number): number => {
  const estimate = time.estimate();
  if (estimate === undefined) throw new Error('the time is not known');
  expect(Math.abs(estimate.ms - trueMs)).toBeLessThanOrEqual(estimate.errorMs);
  return estimate.errorMs;
};

describe('H5: the time of the API server', () => {
  test('is not known before the first answer, and a caller that asks for it gets an error', () => {
    const { time, clock } = server();
    expect(time.estimate()).toBeUndefined();
    expect(() => serverClock(clock, time).now()).toThrow(expect.objectContaining({ code: 'ServerTimeUnknown' }));
  });

  test('is known to about a second by one answer, and better by several at other fractions of a second', () => {
    const { time, nowMs, answer, clock } = server();
    answer();
    expect(errorOf(time, nowMs())).toBeLessThanOrEqual(1010);
    for (let i = 0; i < 20; i++) {
      clock.pause(1137);
      answer();
    }
    expect(errorOf(time, nowMs())).toBeLessThanOrEqual(600);
  });

  test('does not come from an answer without Date, with a Date that is none, from a cache, or after too long a time', () => {
    const answer = { sentMs: 0, answeredMs: 10 };
    const date = httpDate(T0);
    expect(boundsOf({ ...answer, headers: {} })).toBeUndefined();
    expect(boundsOf({ ...answer, headers: { date: 'soon' } })).toBeUndefined();
    expect(boundsOf({ ...answer, headers: { date, age: '7' } })).toBeUndefined();
    expect(boundsOf({ sentMs: 0, answeredMs: 8001, headers: { date } })).toBeUndefined();
    expect(boundsOf({ ...answer, headers: { date, age: '0' } })).toEqual({ low: T0 - 10, high: T0 + 1000 });
  });

  test('a late answer widens the error, and never what is known better', () => {
    const { time, nowMs, answer } = server();
    answer({ writtenMs: 10, tookMs: 7500 });
    expect(errorOf(time, nowMs())).toBeGreaterThan(4000);
    answer();
    const good = errorOf(time, nowMs());
    answer({ writtenMs: 7400, tookMs: 7500 });
    expect(errorOf(time, nowMs())).toBeLessThanOrEqual(good + 10);
  });

  test.each([3000, -3000])('answers that are %d ms apart may both be right: the error contains both', (apartMs) => {
    const { time, nowMs, answer, set } = server();
    answer();
    set(apartMs);
    answer();
    errorOf(time, nowMs());
    errorOf(time, nowMs() - apartMs);
  });

  test('the error is right at any rate, distance, delay and age', async () => {
    const each = fc.record({
      pauseMs: fc.integer({ min: 0, max: 3_600_000 }),
      writtenMs: fc.integer({ min: 0, max: 5000 }),
      backMs: fc.integer({ min: 0, max: 4000 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(each, { minLength: 1, maxLength: 30 }),
        fc.integer({ min: -300, max: 300 }),
        fc.integer({ min: 0, max: 400_000_000_000 }),
        async (answers, ppm, startMs) => {
          let monotonic = 0;
          const trueMs = (): number => startMs + monotonic * (1 + ppm / 1_000_000);
          const time = createServerTime({ monotonic: () => monotonic });
          for (const { pauseMs, writtenMs, backMs } of answers) {
            monotonic += pauseMs;
            const sentMs = monotonic;
            monotonic += writtenMs;
            const date = httpDate(trueMs());
            monotonic += backMs;
            time.observe({ headers: { date }, sentMs, answeredMs: monotonic });
            if (time.estimate() !== undefined) errorOf(time, trueMs());
          }
        },
      ),
    );
  });

  test('it is forgotten when nothing was answered for hours, since clocks drift', () => {
    const { time, clock, answer } = server();
    answer();
    clock.pause(4 * 3_600_000);
    expect(time.estimate()).toBeUndefined();
    answer();
    expect(time.estimate()).toBeDefined();
  });

  test('the own wall clock has no part in it', () => {
    const { time, clock, nowMs, answer } = server();
    answer();
    clock.jump(40 * 60_000);
    expect(errorOf(time, nowMs())).toBeLessThan(1100);
    expect(serverClock(clock, time).now()).toBe(time.estimate()?.ms);
  });

  test('it does not go back by refinement alone', () => {
    const { time, clock, answer } = server();
    const own = serverClock(clock, time);
    answer();
    let before = own.now();
    for (let i = 0; i < 50; i++) {
      clock.pause(1000 + ((i * 373) % 1000));
      answer({ writtenMs: i % 10, tookMs: 10 });
      const now = own.now();
      expect(now).toBeGreaterThan(before);
      before = now;
    }
  });

  test.each<[string, [firstMs: number, ...restMs: number[]], boolean]>([
    ['by three answers over five seconds, a minute after the last of the time before', [55_000, 57_500, 60_000], true],
    ['not by two', [55_000, 60_000], false],
    ['not over less than five seconds', [55_001, 57_500, 60_000], false],
    ['not within the minute', [54_000, 57_000, 59_999], false],
  ])('another time is established %s', (_, at, expected) => {
    let monotonic = 0;
    const time = createServerTime({ monotonic: () => monotonic });
    const answer = (serverMs: number): void =>
      time.observe({ headers: { date: httpDate(serverMs) }, sentMs: monotonic, answeredMs: monotonic });
    answer(T0);
    for (const ms of at) {
      monotonic = ms;
      answer(T0 + 3_600_000 + ms);
    }
    expect(time.estimate() !== undefined).toBe(expected);
  });

  /** Answers that take no time, of a server whose clock is `aheadMs` before a second's own. */
  function exact() {
    let monotonic = 0;
    const doubts: number[] = [];
    const time = createServerTime({ monotonic: () => monotonic }, (apartMs) => void doubts.push(apartMs));
    const answer = (aheadMs: number): void =>
      time.observe({ headers: { date: httpDate(T0 + aheadMs) }, sentMs: monotonic, answeredMs: monotonic });
    return { time, doubts, answer, at: (ms: number) => void (monotonic = ms) };
  }

  test.each([
    [6000, []],
    [7000, [6000]],
    [-6000, []],
    [-7000, [6000]],
  ])(
    'answers whose seconds begin %d ms apart are too far from each other to give the time, and contradict by a second less',
    (apartMs, expected) => {
      const { time, doubts, answer } = exact();
      answer(0);
      answer(apartMs);
      expect(time.estimate()).toBeUndefined();
      expect(doubts).toEqual(expected);
    },
  );

  test('an answer that took just eight seconds still counts', () => {
    expect(boundsOf({ headers: { date: httpDate(T0) }, sentMs: 0, answeredMs: 8000 })).toEqual({ low: T0 - 8000, high: T0 + 1000 });
  });

  test('a contradiction is forgotten a minute after the last answer that made it, and no earlier; the next one is a doubt of its own', () => {
    const { time, doubts, answer, at } = exact();
    answer(0);
    at(1000);
    answer(100_000);
    at(60_999);
    expect(time.estimate()).toBeUndefined();
    at(61_000);
    expect(time.estimate()?.ms).toBe(T0 + 61_500);
    answer(200_000);
    expect(time.estimate()).toBeUndefined();
    expect(doubts).toHaveLength(2);
  });

  test('a doubt is reported once, though answers contradict both times', () => {
    const { time, doubts, answer, at } = exact();
    answer(0);
    for (let i = 1; i < 10; i++) {
      at(i * 1000);
      answer(i * 100_000);
      expect(time.estimate()).toBeUndefined();
    }
    expect(doubts).toHaveLength(1);
  });

  test('what is known grows less exact with the time that passes, by one two-thousandth of it', () => {
    const { time, answer, at } = exact();
    answer(0);
    expect(time.estimate()).toEqual({ ms: T0 + 500, errorMs: 500 });
    at(1_000_000);
    expect(time.estimate()).toEqual({ ms: T0 + 1_000_500, errorMs: 1000 });
    at(9_000_000);
    expect(time.estimate()?.errorMs).toBe(5000);
    at(9_000_002);
    expect(time.estimate()).toBeUndefined();
  });

  test('a server whose clock is set makes the time unknown, and after a minute the new one counts', () => {
    const { time, doubts, clock, set, nowMs, answer } = server();
    answer();
    set(40 * 60_000);
    answer();
    expect(time.estimate()).toBeUndefined();
    for (let i = 0; i < 29; i++) {
      clock.pause(2000);
      answer();
      expect(time.estimate()).toBeUndefined();
    }
    for (let i = 0; i < 3; i++) {
      clock.pause(2000);
      answer();
    }
    expect(errorOf(time, nowMs())).toBeLessThan(1100);
    expect(doubts).toHaveLength(1);
    expect(doubts[0]).toBeGreaterThan(39 * 60_000);
  });

  test('a small step, as a time service makes, is followed at once', () => {
    const { time, clock, set, nowMs, answer } = server();
    answer();
    set(-3000);
    for (let i = 0; i < 5; i++) {
      clock.pause(2000);
      answer();
    }
    expect(errorOf(time, nowMs())).toBeLessThan(1100);
  });

  test('a proxy that repeats one old Date never becomes the time', () => {
    const { time, clock, nowMs, answer } = server();
    const old = httpDate(nowMs() - 3_600_000);
    answer();
    for (let i = 0; i < 200; i++) {
      clock.pause(2000);
      answer({ date: old });
      expect(time.estimate()).toBeUndefined();
    }
    clock.pause(61_000);
    answer();
    expect(errorOf(time, nowMs())).toBeLessThan(1100);
  });

  test('servers that disagree by more than a few seconds leave the time unknown for as long as both answer', () => {
    const { time, clock, set, answer } = server();
    answer();
    for (let i = 0; i < 100; i++) {
      clock.pause(2000);
      set(i % 2 === 0 ? 600_000 : -600_000);
      answer();
      expect(time.estimate()).toBeUndefined();
    }
  });

  test('one wrong Date is forgotten after a minute', () => {
    const { time, clock, nowMs, answer } = server();
    answer();
    answer({ date: httpDate(nowMs() + 365 * 86_400_000) });
    expect(time.estimate()).toBeUndefined();
    clock.pause(60_001);
    answer();
    expect(errorOf(time, nowMs())).toBeLessThan(1100);
  });

  test('a transport updates it only by requests that succeed', async () => {
    const clock = fakeClock();
    const time = createServerTime(clock);
    let status = 502;
    const transport = timedTransport(
      () => Promise.resolve({ status, headers: { date: httpDate(T0) }, body: (async function* () {})() }),
      time,
      clock,
    );
    await transport({ method: 'GET', path: '/version' });
    expect(time.estimate()).toBeUndefined();
    status = 300;
    await transport({ method: 'GET', path: '/version' });
    expect(time.estimate()).toBeUndefined();
    status = 299;
    await transport({ method: 'GET', path: '/version' });
    expect(Math.abs((time.estimate()?.ms ?? 0) - T0)).toBeLessThanOrEqual(1000);
  });
});
