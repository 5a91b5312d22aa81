import { expect, test } from 'vitest';
import { createVerdicts, isNews } from './verdicts.ts';

const refused = { allowed: false, limit: 'p/all', used: 2, of: 2, holders: ['web/a', 'web/b'], wouldPassWhen: 'x' };

test('D10: a verdict is reported when it contains something new, not for each operation of the cell', () => {
  expect(isNews(refused, undefined)).toBe(true);
  expect(isNews(undefined, refused)).toBe(true);
  expect(isNews({ ...refused }, refused)).toBe(false);
  expect(isNews({ ...refused, holders: ['web/b', 'web/c'] }, refused)).toBe(false);
  expect(isNews({ ...refused, holders: ['web/c', 'web/d'] }, refused)).toBe(true);
  expect(isNews({ ...refused, limit: 'p/other' }, refused)).toBe(true);
  expect(isNews({ ...refused, of: 3 }, refused)).toBe(true);
  expect(isNews({ allowed: true }, refused)).toBe(true);
});

test('the verdicts of a pass replace those before; who asks no more has none', () => {
  const verdicts = createVerdicts();
  expect(
    verdicts.replace(
      new Map([
        ['a', refused],
        ['b', refused],
      ]),
    ),
  ).toEqual(['a', 'b']);
  expect(verdicts.replace(new Map([['b', refused]]))).toEqual(['a']);
  expect([verdicts.of('a'), verdicts.of('b')]).toEqual([undefined, refused]);
});
