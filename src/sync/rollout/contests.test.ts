import { expect, test } from 'vitest';
import { fakeClock } from '../../kube/testing/clock.ts';
import { Contests } from './contests.ts';

const UNIT = 'MachineSet/web/a';

test('what is changed again when it was put back is put back at once first, then ever more rarely, at least once a minute', async () => {
  const clock = fakeClock();
  const contests = new Contests(clock, () => 1);
  const waited: number[] = [];
  for (let times = 0; times < 9; times += 1) {
    contests.add(UNIT, 'prod', ['spec.maxFailed from 50 to 1, set by argo']);
    const [wait = 0] = contests.waits();
    expect(contests.waiting(UNIT, 'prod') === undefined).toBe(wait === 0);
    waited.push(wait);
    await clock.advance(wait);
    expect(contests.waiting(UNIT, 'prod')).toBeUndefined();
  }
  expect(waited).toEqual([0, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
  contests.add(UNIT, 'prod', ['spec.maxFailed from 50 to 1, set by argo']);
  expect(contests.waiting(UNIT, 'prod')).toBe(
    'it was put back 10 times, and changed again each time; the next try is within a minute. Last: spec.maxFailed from 50 to 1, set by argo',
  );
  expect([contests.waiting(UNIT, 'test'), contests.waiting('MachineSet/web/b', 'prod')]).toEqual([undefined, undefined]);
  await clock.advance(600_001);
  contests.add(UNIT, 'prod', ['x']);
  expect(contests.waits()).toEqual([]);
});
