import { describe, expect, it } from 'vitest';
import { ageOf, humanDuration } from './age.ts';

describe('an age', () => {
  it.each([
    [-5_000, '<invalid>'],
    [-1_000, '0s'],
    [0, '0s'],
    [119_000, '119s'],
    [120_000, '2m'],
    [150_000, '2m30s'],
    [599_000, '9m59s'],
    [600_000, '10m'],
    [179 * 60_000, '179m'],
    [3 * 3_600_000, '3h'],
    [7.5 * 3_600_000, '7h30m'],
    [47 * 3_600_000, '47h'],
    [50 * 3_600_000, '2d2h'],
    [9 * 86_400_000, '9d'],
    [800 * 86_400_000, '2y70d'],
    [3650 * 86_400_000, '10y'],
  ])('of %d ms is %s', (milliseconds, shown) => {
    expect(humanDuration(milliseconds)).toBe(shown);
  });

  it('of an absent time is unknown, of an invalid one invalid', () => {
    expect([ageOf(undefined, 0), ageOf('soon', 0), ageOf('1970-01-01T00:00:00Z', 5000)]).toEqual(['<unknown>', '<invalid>', '5s']);
  });
});
