import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { jsonMemory } from './json-memory.ts';

test('each value costs, and what stands in a text costs no more than its characters', () => {
  expect(jsonMemory('1')).toBe(2);
  expect(jsonMemory('[{},{}]')).toBe(2 * 7 + 4 * 192);
  expect(jsonMemory('{"a":1,"b":[]}')).toBe(2 * 14 + 3 * 192);
  expect(jsonMemory(String.raw`"[{,\"[{,\\"`)).toBe(2 * 12);
  expect(jsonMemory(String.raw`["\\",1]`)).toBe(2 * 8 + 2 * 192);
});

test('no JSON is no error, and what is too much is not read to its end', () => {
  for (const text of ['', '"', '"\\', '"\\"', '{"a', '}]']) expect(jsonMemory(text)).toBeLessThan(300);
  const text = `[${'{},'.repeat(1000)}`;
  expect(jsonMemory(text, 10_000)).toBeLessThan(10_000 + 192 + 1);
  expect(jsonMemory(text)).toBeGreaterThan(300_000);
});

test('V8 makes no more of it than is counted', { timeout: 60_000 }, async () => {
  const program = `
    import { jsonMemory } from ${JSON.stringify(new URL('json-memory.ts', import.meta.url).href)};
    const repeated = (of, count) => '[' + Array.from({ length: count }, (_, index) => of(index)).join() + ']';
    const texts = {
      objects: repeated(() => '{}', 50_000),
      arrays: repeated(() => '[[1]]', 50_000),
      texts: repeated((index) => '"\u4e00' + index + '"', 50_000),
      keys: repeated((index) => '{"abcdefghijklm' + index + '":"' + index + '"}', 50_000),
      members: repeated((index) => '"k' + index + '":"v' + index + '"', 50_000).replace('[', '{').replace(/]$/, '}'),
      ...Object.fromEntries([0, 15, 30, 35, 36, 37, 38, 39, 40, 50, 499, 1000].map((key) => ['index ' + key, repeated(() => '{"' + key + '":1}', 10_000)])),
    };
    const kept = [];
    for (const [name, text] of Object.entries(texts)) {
      gc();
      const before = process.memoryUsage().heapUsed;
      kept.push(JSON.parse(text));
      gc();
      console.log(JSON.stringify([name, (process.memoryUsage().heapUsed - before) / jsonMemory(text)]));
    }
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', '--input-type=module', '-e', program]);
  const shares = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as [string, number]);
  expect(shares).toHaveLength(17);
  expect(shares.filter(([, share]) => share > 1)).toEqual([]);
  // The count is not so much too high that it is useless.
  expect(Math.max(...shares.map(([, share]) => share))).toBeGreaterThan(0.5);
});
