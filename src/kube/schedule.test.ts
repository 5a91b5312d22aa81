import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createSchedule } from './schedule.ts';

test('the earliest time of a key wins, and keys come out in order of time', () => {
  const schedule = createSchedule();
  expect(schedule.set('a', 50)).toBe(true);
  expect(schedule.set('a', 70)).toBe(false);
  expect(schedule.set('b', 40)).toBe(true);
  expect(schedule.set('a', 10)).toBe(true);
  expect(schedule.next()).toBe(10);
  expect(schedule.due(45)).toEqual(['a', 'b']);
  expect(schedule).toMatchObject({ size: 0 });
  expect(schedule.next()).toBeUndefined();
});

test('only as many due keys come out as are asked for, and the others stay due', () => {
  const schedule = createSchedule();
  for (const [at, key] of ['c', 'a', 'b'].entries()) schedule.set(key, at);
  expect(schedule.due(9, 2)).toEqual(['c', 'a']);
  expect(schedule.due(9)).toEqual(['b']);
});

test('superseded times do not pile up', () => {
  const schedule = createSchedule();
  for (let i = 0; i < 10_000; i++) {
    schedule.delete('a');
    schedule.set('a', 1_000_000 + i);
  }
  expect(schedule.entries).toBeLessThan(100);
  expect(schedule.due(2_000_000)).toEqual(['a']);
});

test('it does what a sorted list would do', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('set' as const), key: fc.constantFrom(...'abcdefghijklmnop'.split('')), at: fc.nat(50) }),
    fc.record({ do: fc.constant('delete' as const), key: fc.constantFrom(...'abcdefgh'.split('')) }),
    fc.record({ do: fc.constant('due' as const), now: fc.nat(50) }),
  );
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 80 }), (steps) => {
      const schedule = createSchedule();
      const model = new Map<string, number>();
      const answers: unknown[] = [];
      const wanted: unknown[] = [];
      for (const taken of steps) {
        if (taken.do === 'set') {
          const known = model.get(taken.key);
          if (known === undefined || taken.at < known) model.set(taken.key, taken.at);
          schedule.set(taken.key, taken.at);
        } else if (taken.do === 'delete') {
          model.delete(taken.key);
          schedule.delete(taken.key);
        } else {
          const expected = [...model].filter(([, at]) => at <= taken.now);
          expected.forEach(([key]) => model.delete(key));
          const due = schedule.due(taken.now);
          const times = due.map((key) => new Map(expected).get(key));
          answers.push([due.toSorted(), times]);
          wanted.push([expected.map(([key]) => key).sort(), expected.map(([, at]) => at).sort((a, b) => a - b)]);
        }
        expect(schedule.next()).toBe(model.size === 0 ? undefined : Math.min(...model.values()));
        expect(schedule.size).toBe(model.size);
      }
      expect(answers).toEqual(wanted);
    }),
  );
});
