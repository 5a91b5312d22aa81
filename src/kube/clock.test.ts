import { describe, expect, test } from 'vitest';
import { microTime, rfc3339, sleep, systemClock, withDeadline } from './clock.ts';
import { fakeClock } from './testing/clock.ts';
import { rejection } from './testing/rejection.ts';
import { settle, waitFor } from './testing/wait-for.ts';

describe('times as Kubernetes writes them', () => {
  test('a Time has whole seconds', () => expect(rfc3339(Date.UTC(2026, 10, 20, 9, 51, 0, 999))).toBe('2026-11-20T09:51:00Z'));
  test('a MicroTime has exactly six fraction digits', () => {
    expect(microTime(Date.UTC(2026, 10, 20))).toBe('2026-11-20T00:00:00.000000Z');
    expect(microTime(Date.UTC(2026, 10, 20, 0, 0, 0, 7) + 0.25)).toBe('2026-11-20T00:00:00.007250Z');
  });
});

describe('the system clock', () => {
  test('a timer fires, and not once cancelled', async () => {
    const clock = systemClock({ ref: true });
    let fired = 0;
    clock.setTimer(1, () => (fired += 1))();
    clock.setTimer(2, () => (fired += 10));
    await waitFor(() => fired > 0);
    expect(fired).toBe(10);
  });

  test('a timer of 40 days does not fire at once, as a plain setTimeout would', async () => {
    let fired = false;
    const cancel = systemClock().setTimer(40 * 86_400_000, () => (fired = true));
    await sleep(systemClock({ ref: true }), 10);
    cancel();
    expect(fired).toBe(false);
  });
});

describe('sleep', () => {
  test('ends early with the reason of the signal, and leaves no timer', async () => {
    const clock = fakeClock();
    const controller = new AbortController();
    const slept = sleep(clock, 1000, controller.signal);
    controller.abort(new Error('stop'));
    await expect(slept).rejects.toThrow('stop');
    expect(clock.timers).toBe(0);
    await expect(sleep(clock, 1000, controller.signal)).rejects.toThrow('stop');
  });
});

const forever = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

describe('withDeadline', () => {
  test('what takes too long is aborted with the error given', async () => {
    const clock = fakeClock();
    const outcome = rejection(withDeadline(clock, 50, new AbortController().signal, () => new Error('late'), forever));
    await clock.advance(50);
    expect(await outcome).toEqual(new Error('late'));
  });

  test('the outer signal comes first, and no timer is left behind', async () => {
    const clock = fakeClock();
    const outer = new AbortController();
    const outcome = rejection(withDeadline(clock, 50, outer.signal, () => new Error('late'), forever));
    outer.abort(new Error('stop'));
    expect(await outcome).toEqual(new Error('stop'));
    expect(clock.timers).toBe(0);
  });
});

describe('the fake clock', () => {
  test('timers run in order of time, also those set on the way', async () => {
    const clock = fakeClock();
    const ran: string[] = [];
    clock.setTimer(20, () => ran.push('b'));
    clock.setTimer(10, () => {
      ran.push('a');
      clock.setTimer(5, () => ran.push('a+5'));
    });
    await clock.advance(15);
    expect(ran).toEqual(['a', 'a+5']);
    await clock.advance(5);
    expect(ran).toEqual(['a', 'a+5', 'b']);
  });

  test('a pause runs nothing until time moves again', async () => {
    const clock = fakeClock();
    let fired = false;
    clock.setTimer(10, () => (fired = true));
    clock.pause(100);
    await settle();
    expect(fired).toBe(false);
    await clock.advance(0);
    expect(fired).toBe(true);
  });
});

test('a timer keeps the process alive only where that is asked for', () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length;
  const before = timers();
  const idle = systemClock().setTimer(60_000, () => undefined);
  expect(timers()).toBe(before);
  const busy = systemClock({ ref: true }).setTimer(60_000, () => undefined);
  expect(timers()).toBe(before + 1);
  busy();
  idle();
  expect(timers()).toBe(before);
});
