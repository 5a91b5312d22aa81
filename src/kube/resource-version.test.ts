import { expect, test } from 'vitest';
import { compareVersions, hasReached } from './resource-version.ts';

test('versions compare as numbers of any length', () => {
  expect(compareVersions('9', '10')).toBeLessThan(0);
  expect(compareVersions('18446744073709551617', '18446744073709551616')).toBeGreaterThan(0);
  expect(compareVersions('5', '5')).toBe(0);
});

test('what is no number can only be equal', () => {
  expect(compareVersions('abc', 'abc')).toBe(0);
  expect(compareVersions('abc', '5')).toBeUndefined();
  expect(compareVersions('007', '8')).toBeUndefined();
  expect(hasReached('abc', '5')).toBe(false);
  expect(hasReached(undefined, '5')).toBe(false);
  expect(hasReached('6', '5')).toBe(true);
});
