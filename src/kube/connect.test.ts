import { expect, test } from 'vitest';
import { authorization, endpointOf, heed, hintsBounded, isWatch, plainHeaders, targetOf, type Connection } from './connect.ts';

const server = 'https://127.0.0.1:6443';
/** A source of tokens that notes when the server refused one. */
function source(): { connection: Connection; refused: () => number } {
  let refused = 0;
  const token = Object.assign(() => Promise.resolve('t'), { refused: () => void (refused += 1) });
  return { connection: { server, token }, refused: () => refused };
}

test('a token that the server refused is reported to its source, and no other error is', () => {
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

test.each([
  ['the URL of no server', { server: 'api.example' }, '"api.example" is not a URL of an API server: '],
  ['a server without TLS', { server: 'http://127.0.0.1' }, 'is not reached over https'],
  ['a certificate without its key', { server, clientCert: 'c' }, 'must be given together'],
  ['a key without its certificate', { server, clientKey: 'k' }, 'must be given together'],
])('%s is no endpoint', (_what, connection, message) => {
  expect(() => endpointOf(connection)).toThrow(
    expect.objectContaining({ code: 'ConnectionInvalid', message: expect.stringContaining(message) as string }),
  );
});

test('an endpoint may have a client certificate with its key, or none', () => {
  expect(endpointOf({ server }).host).toBe('127.0.0.1:6443');
  expect(endpointOf({ server, clientCert: 'c', clientKey: 'k' }).host).toBe('127.0.0.1:6443');
});

test('headers that came several times are one, and those that did not come are none', () => {
  expect(plainHeaders({ a: '1', b: ['2', '3'], c: undefined })).toEqual({ a: '1', b: '2, 3' });
});

test('a source of tokens without a hook for refusals gets none', () => {
  expect(() => heed({ server, token: () => Promise.resolve('t') }, 401)).not.toThrow();
});

test('a request may get 16 answers before its answer, and no seventeenth', () => {
  const count = hintsBounded({ method: 'GET', path: '/api' });
  for (let hints = 0; hints < 16; hints++) count();
  expect(count).toThrow(expect.objectContaining({ code: 'AnswerTooLarge', message: expect.stringContaining('GET /api') as string }));
});
