import { expect, it } from 'vitest';
import { nextPassMs } from './waits.ts';

it.each([
  ['the earliest reason decides', [5000, 700, 60_000], 700],
  ['a soak that ends later than a retry does not hide it', [undefined, 90_000, 1000], 1000],
  ['what is due, or overdue, is observed soon and not at once', [5000, 0], 100],
  ['also where the clock was set forward', [-3_600_000], 100],
  ['without a reason nothing is observed before it changes', [undefined], undefined],
])('%s', (_what, reasons, expected) => {
  expect(nextPassMs(reasons)).toBe(expected);
});
