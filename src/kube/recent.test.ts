import { expect, test } from 'vitest';
import { createRecent } from './recent.ts';

test('as many are remembered as it has room for, and what was set longest ago goes first', () => {
  const recent = createRecent<number>(2);
  recent.set('a', 1);
  recent.set('b', 2);
  expect(recent.get('a')).toBe(1);
  recent.set('a', 3);
  recent.set('c', 4);
  expect(['a', 'b', 'c'].map((key) => recent.get(key))).toEqual([3, undefined, 4]);
});
