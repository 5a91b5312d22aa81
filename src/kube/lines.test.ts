import { describe, expect, test } from 'vitest';
import { linesOf } from './lines.ts';

/** The result of these chunks, with lines of at most 4 bytes: the lines of each yield. */
async function lines(...chunks: string[]): Promise<string[][]> {
  async function* stream(): AsyncGenerator<Uint8Array, void> {
    for (const chunk of chunks) yield await Promise.resolve(Buffer.from(chunk, 'latin1'));
  }
  const found: string[][] = [];
  for await (const each of linesOf(stream(), 4)) found.push(each);
  return found;
}

describe('lines of a stream', () => {
  test('are yielded together where one chunk completes them, and joined where it does not', async () => {
    expect(await lines('ab\ncd\ne', 'f\n', 'g', 'h', 'i\n')).toEqual([['ab', 'cd'], ['ef'], ['ghi']]);
  });

  test('are left out where they are empty', async () => {
    expect(await lines('\n\r\n', 'a\n\nb\n', '\n')).toEqual([['a', 'b']]);
  });

  test('are not left out without end', async () => {
    expect(await lines('\n'.repeat(999), '\r\na\n')).toEqual([['a']]);
    await expect(lines('\n'.repeat(999), 'a\n\n\n')).rejects.toMatchObject({ code: 'LinesEmpty' });
  });

  test('may be as long as the bound, in any chunks, and no byte longer', async () => {
    expect(await lines('abcd\n', 'efgh', '\n', 'i', 'jkl', '\nmnop\n')).toEqual([['abcd'], ['efgh'], ['ijkl', 'mnop']]);
    for (const chunks of [['abcde\n'], ['abcde'], ['abcd', 'e'], ['abcd', 'e\n'], ['a\nbcdef\n'], ['abc', 'de\n']])
      await expect(lines(...chunks), chunks.join('|')).rejects.toMatchObject({ code: 'LineTooLong' });
  });

  test('that the stream ends inside are an error, and its end behind one is none', async () => {
    expect(await lines()).toEqual([]);
    await expect(lines('ab\nc')).rejects.toMatchObject({ code: 'Truncated' });
    await expect(lines('ab\nc', 'd')).rejects.toMatchObject({
      code: 'Truncated',
      message: expect.stringContaining('after 2 bytes') as string,
    });
  });
});
