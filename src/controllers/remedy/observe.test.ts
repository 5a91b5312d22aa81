import { expect, test } from 'vitest';
import { wakeAtMs, type Memory } from './observe.ts';

test('the next observation is at the earliest of all that time alone can change, and there is none where that is nothing', () => {
  const at = (staleAtMs: number | undefined, ...next: (number | undefined)[]): number | undefined =>
    wakeAtMs({
      snapshot: { staleAtMs } as Memory['snapshot'],
      rules: new Map(next.map((nextAtMs, index) => [String(index), { matches: false, nextAtMs, peers: [] }])),
    } as unknown as Memory);
  expect(at(undefined)).toBeUndefined();
  expect(at(undefined, undefined)).toBeUndefined();
  expect(at(7)).toBe(7);
  expect(at(undefined, 9, 3, undefined)).toBe(3);
  expect(at(2, 9, 3)).toBe(2);
  expect(at(5, 9, 3)).toBe(3);
});
