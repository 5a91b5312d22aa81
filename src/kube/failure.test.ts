import { describe, expect, test } from 'vitest';
import type { ApiRequest } from '../api/transport.ts';
import { ApiError, askedMsOf, hasReason, isExpired, isFromTheFuture, isRefusal } from './api-error.ts';
import { failure, statusOf } from './failure.ts';
import { jsonResponse } from './testing/api-server.ts';

const at = (path: string): ApiRequest => ({ method: 'GET', path });
const failed = (
  status: number,
  text: string,
  { path = '/version', headers = {} }: { path?: string; headers?: Record<string, string> } = {},
): ApiError => failure(at(path), jsonResponse(status, {}, headers), text);
const status = (more: object): string => JSON.stringify({ kind: 'Status', ...more });

describe('an answer that is no success', () => {
  test.each([
    [400, 'BadRequest'],
    [401, 'Unauthorized'],
    [403, 'Forbidden'],
    [404, 'NotFound'],
    [405, 'MethodNotAllowed'],
    [409, 'Conflict'],
    [410, 'Gone'],
    [413, 'RequestEntityTooLarge'],
    [415, 'UnsupportedMediaType'],
    [422, 'Invalid'],
    [429, 'TooManyRequests'],
    [500, 'InternalError'],
    [503, 'ServiceUnavailable'],
    [504, 'Timeout'],
    [418, 'Unknown'],
  ])('and no Status has the reason that its number %d has in Kubernetes', (number, reason) => {
    for (const text of ['', '<html>', 'null', '[]', '{"kind":"Other","reason":"Odd"}']) {
      expect(failed(number, text)).toMatchObject({
        name: 'ApiError',
        status: number,
        reason,
        code: reason,
        method: 'GET',
        path: '/version',
      });
    }
  });

  test('quotes 200 characters of the answer, in one line, and nothing of an empty one', () => {
    expect(failed(502, ' bad\n\n  gateway ').message).toBe('GET /version: the server answered 502: bad gateway');
    expect(failed(502, 'x'.repeat(300)).message).toBe(`GET /version: the server answered 502: ${'x'.repeat(200)}`);
    expect(failed(502, ' \n').message).toBe('GET /version: the server answered 502');
  });

  test('that is a Status has the message of the Status', () => {
    expect(failed(409, status({ reason: 'AlreadyExists', message: 'it is there' }))).toMatchObject({
      reason: 'AlreadyExists',
      message: 'GET /version: it is there',
    });
    expect(failed(403, status({ reason: '', message: 3 }))).toMatchObject({
      reason: 'Unknown',
      message: 'GET /version: the server answered 403',
    });
  });

  test('of credentials is a sentence, unless the server has one', () => {
    const sentence = 'GET /version: Unauthorized: the server does not accept these credentials';
    expect(failed(401, 'x').message).toBe(sentence);
    expect(failed(401, status({ message: 'Unauthorized' })).message).toBe(sentence);
    expect(failed(401, status({ message: 'the token has expired' })).message).toBe('GET /version: the token has expired');
    expect(failed(403, status({ message: 'Unauthorized' })).message).toBe('GET /version: Unauthorized');
  });

  test.each([
    ['/api/v1/nodes/a', 'this API server does not serve nodes of v1'],
    ['/api/v1/namespaces/x/pods', 'this API server does not serve pods of v1'],
    ['/apis/kubenode.io/v1alpha1/machines', 'this API server does not serve machines of kubenode.io/v1alpha1'],
    ['/apis/apps/v1/namespaces/x/daemonsets/a', 'this API server does not serve daemonsets of apps/v1'],
    ['/version', 'the server answered 404: 404 page not found'],
  ])('404 without a Status, of %s, is one of the kind and not of the object', (path, message) => {
    expect(failed(404, '404 page not found', { path })).toMatchObject({
      reason: 'NotFound',
      message: `GET ${path}: ${message}`,
      details: undefined,
    });
    expect(failed(500, '404 page not found', { path }).message).toContain('the server answered 500');
    expect(failed(404, status({ reason: 'NotFound', message: 'no such thing' }), { path }).message).toBe(`GET ${path}: no such thing`);
  });

  test.each([
    ['7', {}, 7],
    ['7', { retryAfterSeconds: 3 }, 3],
    ['7', { retryAfterSeconds: 0 }, 0],
    ['1', { name: 'a' }, 1],
    ['0', {}, undefined],
    ['-1', {}, undefined],
    ['soon', {}, undefined],
    ['Infinity', {}, undefined],
  ])('and asks by its header to come back after %s, with the details %j', (retryAfter, details, expected) => {
    const error = failed(429, status({ details }), { headers: { 'retry-after': retryAfter } });
    expect([error.retryAfterSeconds, error.details]).toEqual([
      expected,
      expected === undefined ? details : { ...details, retryAfterSeconds: expected },
    ]);
  });
});

describe('of a Status is taken', () => {
  test('what is well-formed', () => {
    const causes = [{ reason: 'r', message: 'm', field: 'f', other: 1 }, 3, null, { reason: 3 }];
    expect(statusOf({ reason: 'Invalid', message: '', details: { name: 'n', group: 'g', kind: 'k', uid: 'u', other: 1, causes } })).toEqual(
      {
        reason: 'Invalid',
        message: '',
        details: { name: 'n', group: 'g', kind: 'k', uid: 'u', causes: [{ reason: 'r', message: 'm', field: 'f' }, {}] },
      },
    );
    expect(statusOf({ reason: 1, message: null, details: [] })).toEqual({});
    expect(statusOf({ details: { retryAfterSeconds: '3', causes: {} } })).toEqual({ details: {} });
  });

  test('no more than 512 characters of a word, and 100 causes', () => {
    const word = 'w'.repeat(512);
    const causes = Array.from({ length: 101 }, (_, index) => ({ field: `${index}` }));
    const taken = statusOf({ reason: word, details: { name: word, causes } });
    expect([taken.reason, taken.details?.name, taken.details?.causes?.length]).toEqual([word, word, 100]);
    const cut = statusOf({ reason: `${word}w`, details: { name: `${word}w` } });
    expect([cut.reason?.length, cut.details?.name?.length]).toEqual([512, 512]);
  });
});

describe('what an error of the server means', () => {
  const error = (number: number, reason = 'Odd', more: object = {}): ApiError => new ApiError(number, { reason, ...more });

  test('one without a body has its number', () => {
    expect(new ApiError(500, {})).toMatchObject({ reason: 'Unknown', code: 'Unknown', message: 'the server answered 500', causes: [] });
  });

  test('a refusal is for what was sent, not for the time', () => {
    expect([400, 403, 422].map((number) => isRefusal(error(number)))).toEqual([true, true, true]);
    expect([401, 404, 409, 410, 429, 500].map((number) => isRefusal(error(number)))).toEqual([false, false, false, false, false, false]);
    expect(isRefusal(Object.assign(new Error('x'), { status: 400 }))).toBe(false);
  });

  test('history is gone by number or by reason', () => {
    expect([error(410), error(500, 'Expired'), error(500, 'Gone'), error(404), new Error('Expired')].map(isExpired)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
  });

  test('a version is from the future where one of the causes names it', () => {
    const causes = [{ reason: 'Other' }, { reason: 'ResourceVersionTooLarge' }];
    expect(isFromTheFuture(error(504, 'Timeout', { details: { causes } }))).toBe(true);
    expect(isFromTheFuture(error(504, 'Timeout', { details: { causes: causes.slice(0, 1) } }))).toBe(false);
    expect(isFromTheFuture(error(504, 'Timeout'))).toBe(false);
    expect(isFromTheFuture({ causes })).toBe(false);
  });

  test('it has one of several reasons, or none of them', () => {
    expect(hasReason(error(409, 'Conflict'), 'NotFound', 'Conflict')).toBe(true);
    expect(hasReason(error(409, 'Conflict'), 'NotFound', 'AlreadyExists')).toBe(false);
    expect(hasReason({ reason: 'Conflict' }, 'Conflict')).toBe(false);
  });

  test('it asks to be left alone for five minutes at most, and for no less than nothing', () => {
    const asked = (retryAfterSeconds: number): number => askedMsOf(error(429, 'TooManyRequests', { details: { retryAfterSeconds } }));
    expect([asked(2), asked(300), asked(301), asked(0), asked(-5)]).toEqual([2000, 300_000, 300_000, 0, 0]);
    expect([askedMsOf(error(429)), askedMsOf({ retryAfterSeconds: 5 })]).toEqual([0, 0]);
  });
});
