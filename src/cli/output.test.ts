import { expect, it, vi } from 'vitest';
import { age, table, terminalOutput } from './output.ts';

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
])('prints %d ms as %s', (ms, text) => {
  expect(age(ms)).toBe(text);
});

it('security 6, G7: prints nothing that a terminal would obey, from any author', () => {
  const out = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  const err = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    const output = terminalOutput({ NO_COLOR: '1', LANG: 'C.UTF-8' });
    output.print(`NAME\n${table(['A', 'B'], [['x\u001B[31m', 'two\nlines']], { header: false })}\u0007`);
    output.print(JSON.stringify({ message: '\u009B2J\u001B]' }));
    output.report('failed', 'unit app: \u001B]0;gone\u0007 \u202Etxt\nnext line');
    expect(out.mock.calls.map(([text]) => text)).toEqual(['NAME\nx\\u001b[31m   two lines\\u0007\n', '{"message":"\\u009b2J\\u001b]"}\n']);
    expect(err.mock.calls.map(([text]) => text)).toEqual(['✗ unit app: \\u001b]0;gone\\u0007 \\u202etxt\nnext line\n']);
  } finally {
    out.mockRestore();
    err.mockRestore();
  }
});
