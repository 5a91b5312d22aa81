import { expect, test } from 'vitest';
import { authorization, heed, isWatch, targetOf, type Connection } from './connect.ts';

const server = 'https://127.0.0.1:6443';
/** A source of tokens that notes when the server refused one. */
function source(): { connection: Connection; refused: () => number } {
  let refused = 0;
  const token = Object.assign(() => Promise.resolve('t'), { refused: () => void (refused += 1) });
  return { connection: { server, token }, refused: () => refused };
}

test('a token that the server refused is told to its source, and nothing else is', () => {
  const { connection, refused } = source();
  for (const status of [200, 403, 500, undefined]) heed(connection, status);
  expect(refused()).toBe(0);
  heed(connection, 401);
  expect(refused()).toBe(1);
  // One that stands in a kubeconfig has no source.
  expect(() => heed({ server, token: 't' }, 401)).not.toThrow();
});

test('a token goes as a Bearer, and where there is none nothing does', async () => {
  expect(await authorization(source().connection)).toEqual({ authorization: 'Bearer t' });
  expect(await authorization({ server, token: 'fixed' })).toEqual({ authorization: 'Bearer fixed' });
  expect(await authorization({ server })).toEqual({});
});

test('a watch is one that asks to be', () => {
  const asking = (query?: Record<string, string>) => isWatch({ method: 'GET', path: '/', ...(query === undefined ? {} : { query }) });
  expect([asking({ watch: 'true' }), asking({ watch: '1' }), asking({ watch: 'false' }), asking({}), asking()]).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
});

test('what goes on the wire is below the path of the server, and has no query where none is asked', () => {
  const target = (of: string, query?: Record<string, string>) =>
    targetOf(new URL(of), { method: 'GET', path: '/api', ...(query === undefined ? {} : { query }) });
  expect(target(server)).toBe('/api');
  expect(target(`${server}/clusters/blue//`, {})).toBe('/clusters/blue/api');
  expect(target(server, { a: 'x y', b: '1' })).toBe('/api?a=x+y&b=1');
});
