import { expect, it } from 'vitest';
import fc from 'fast-check';
import { resolveBatches, resolveCount } from './batches.ts';

it('B2: rounds percentages down but never below the entry before nor below 1', () => {
  expect(resolveBatches([1, '10%', '50%', '100%'], 4)).toEqual([1, 1, 2, 4]);
  expect(resolveBatches([5, '10%', '100%'], 20)).toEqual([5, 5, 20]);
});

it.each([
  [[], 'at least one'],
  [[0, '100%'], 'above 0'],
  [['0%', '100%'], 'above 0'],
  [[-1, '100%'], 'whole number'],
  [['101%'], 'percentage'],
  [[5, 1, '100%'], 'fall'],
  [['50%', '10%', '100%'], 'fall'],
  [[1, '50%'], '100%'],
])('B2: refuses %j', (batches, message) => {
  expect(() => resolveBatches(batches, 10)).toThrow(message);
});

it('never falls and ends with everything, for any number of machines', () => {
  const batches = fc
    .array(fc.integer({ min: 1, max: 100 }), { maxLength: 8 })
    .map((list) => [...list.sort((a, b) => a - b).map((n) => `${n}%`), '100%']);
  fc.assert(
    fc.property(batches, fc.integer({ min: 0, max: 20_000 }), (list, total) => {
      const sizes = resolveBatches(list, total);
      expect(sizes.at(-1)).toBe(total);
      for (const [index, size] of sizes.entries()) expect(size).toBeGreaterThanOrEqual(Math.min(total, Math.max(1, sizes[index - 1] ?? 0)));
    }),
  );
});

it('takes 0 and "0%" as none and refuses what is neither', () => {
  expect(resolveCount(0, 10, 'x')).toBe(0);
  expect(resolveCount('0%', 10, 'x')).toBe(0);
  expect(resolveCount('1%', 10, 'x')).toBe(1);
  expect(() => resolveCount('1.5%', 10, 'x')).toThrow('`x`');
  expect(() => resolveCount(1.5, 10, 'x')).toThrow('`x`');
});
