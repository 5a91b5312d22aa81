import { expect, it } from 'vitest';
import { age, table } from './output.ts';

it('prints columns as kubectl does', () => {
  expect(
    table(
      ['NAME', 'PHASE', 'AGE'],
      [
        ['a-long-name', 'Done', '5s'],
        ['b', 'Progressing', ''],
      ],
    ),
  ).toBe(['NAME          PHASE         AGE', 'a-long-name   Done          5s', 'b             Progressing'].join('\n'));
  expect(table(['NAME'], [['a']], { header: false })).toBe('a');
});

it.each([
  [0, '0s'],
  [119_999, '119s'],
  [120_000, '2m'],
  [192_000, '3m12s'],
  [47 * 60_000, '47m'],
  [5 * 3600_000 + 180_000, '5h3m'],
  [30 * 3600_000, '30h'],
  [72 * 3600_000, '3d'],
  [-5, '0s'],
])('says %d ms as %s', (ms, text) => {
  expect(age(ms)).toBe(text);
});
