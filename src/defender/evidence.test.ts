import { expect, test } from 'vitest';
import { createReleaseMarks } from './evidence.ts';

test('D4: no machine is reserved before the stores have passed every release, and passed releases are forgotten', () => {
  const marks = createReleaseMarks();
  expect(marks.allPassed()).toBe(true);
  const passed = { first: false, second: false };
  marks.record(() => passed.first);
  marks.record(() => passed.second);
  passed.second = true;
  expect(marks.allPassed()).toBe(false);
  passed.first = true;
  expect(marks.allPassed()).toBe(true);
  // A store never goes back; a mark that was passed is not asked again.
  passed.first = false;
  expect(marks.allPassed()).toBe(true);
});
