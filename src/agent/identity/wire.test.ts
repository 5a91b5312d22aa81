import { beforeEach, expect, test } from 'vitest';
import type { ApiRequest } from '../../api/transport.ts';
import { createClient } from '../../kube/http-client.ts';
import { fakeApiServer, jsonResponse, statusResponse } from '../../kube/testing/api-server.ts';
import type { FakeApiServer, Interceptor } from '../../kube/testing/api-server.ts';
import type { PendingRequest } from './state.ts';
import { ask, isUnauthorized, readAnswer, standInToken } from './wire.ts';

const pending: PendingRequest = { machineUID: 'u', key: 'k', request: 'cmVxdWVzdA==', name: 'kubenode-web-a-1', voucher: 'v' };
const { signal } = new AbortController();
const CERTIFICATE = 'a certificate';
const base64 = Buffer.from(CERTIFICATE).toString('base64');

let api: FakeApiServer;
beforeEach(() => {
  api = fakeApiServer();
});
const client = () => createClient(api.transport);
const bodyOf = (request: ApiRequest | undefined): unknown => JSON.parse(Buffer.from(request?.body ?? '').toString());

/** The request as the server has it, with its outcome. */
function answers(status: object | undefined, request = pending.request): Interceptor {
  const metadata = { name: pending.name, uid: 'csr', resourceVersion: '1', creationTimestamp: '2026-11-20T00:00:00Z' };
  const spec = { request, signerName: 's', usages: [] };
  const object = {
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata,
    spec,
    ...(status === undefined ? {} : { status }),
  };
  return ({ method }) => jsonResponse(method === 'POST' ? 201 : 200, object);
}
const condition = (type: string, rest: object = {}) => ({ type, status: 'True', ...rest });

test.each<[string, object | undefined, object]>([
  ['it is not judged yet', undefined, { is: 'Waiting', approved: false }],
  ['nothing came of it', { conditions: [] }, { is: 'Waiting', approved: false }],
  ['it is approved', { conditions: [condition('Approved')] }, { is: 'Waiting', approved: true }],
  ['it is approved and signed', { conditions: [condition('Approved')], certificate: base64 }, { is: 'Issued', certificate: CERTIFICATE }],
  ['its certificate is empty', { conditions: [condition('Approved')], certificate: '' }, { is: 'Waiting', approved: true }],
  [
    'the signer failed',
    { conditions: [condition('Approved'), condition('Failed', { reason: 'Invalid', message: 'not here' })] },
    { is: 'Failed', why: 'Invalid: not here' },
  ],
  ['the signer failed without a reason', { conditions: [condition('Failed')] }, { is: 'Failed', why: '' }],
  ['it is denied', { conditions: [condition('Denied', { reason: 'NotNow' })] }, { is: 'Denied', why: 'NotNow' }],
  ['it is denied with words only', { conditions: [condition('Denied', { message: 'no' })] }, { is: 'Denied', why: 'no' }],
  [
    'it is denied, with any other condition',
    { conditions: [condition('Approved'), condition('Denied', { reason: 'NotNow' })], certificate: base64 },
    { is: 'Denied', why: 'NotNow' },
  ],
])('G1: what is read of a request: %s', async (_what, status, expected) => {
  api.intercept(answers(status));
  expect(await ask(client(), pending, 3600, signal)).toEqual(expected);
  expect(await readAnswer(client(), pending, signal)).toEqual(expected);
});

test('G1: a request of another under its name is none of it, even with a certificate', async () => {
  api.intercept(answers({ certificate: base64 }, 'b3RoZXI='));
  expect(await readAnswer(client(), pending, signal)).toEqual({ is: 'Denied', why: 'another request has the name kubenode-web-a-1' });
});

test('a request has its purpose and its duration, and is vouched for where it renews', async () => {
  api.intercept(answers(undefined));
  await ask(client(), pending, 3600, signal);
  expect(bodyOf(api.requests[0])).toMatchObject({
    metadata: { name: 'kubenode-web-a-1', annotations: { 'kubenode.io/voucher': 'v' } },
    spec: { request: pending.request, expirationSeconds: 3600, usages: ['client auth', 'digital signature'] },
  });
  const { voucher: _none, ...first } = pending;
  await ask(client(), first, 3600, signal);
  expect(bodyOf(api.requests[1])).toMatchObject({ metadata: { name: 'kubenode-web-a-1' } });
  expect(JSON.stringify(bodyOf(api.requests[1]))).not.toContain('annotations');
});

test('a request that was made before a crash is found again; what else is refused is a failure', async () => {
  let refusal = statusResponse(409, 'AlreadyExists');
  const found = answers({ conditions: [condition('Approved')] });
  api.intercept((request) => (request.method === 'POST' ? refusal : found(request)));
  expect(await ask(client(), pending, 3600, signal)).toEqual({ is: 'Waiting', approved: true });
  refusal = statusResponse(403, 'Forbidden');
  await expect(ask(client(), pending, 3600, signal)).rejects.toMatchObject({ status: 403 });
  expect(api.requests).toHaveLength(3);
});

test('a request that was cleaned up is gone', async () => {
  expect(await readAnswer(client(), pending, signal)).toEqual({ is: 'Gone' });
});

const machine = { namespace: 'web', name: 'a' };
const UNTIL = '2026-11-20T01:00:00Z';

test('G2: a stand-in token is asked for by its account, and had until the server’s time', async () => {
  api.intercept(() => jsonResponse(201, { status: { token: 't', expirationTimestamp: UNTIL } }));
  expect(await standInToken(client(), machine, 3600, signal)).toEqual({ token: 't', until: Date.parse(UNTIL) });
  expect(api.requests[0]).toMatchObject({ method: 'POST', path: '/api/v1/namespaces/web/serviceaccounts/kubenode-agent-a/token' });
  expect(bodyOf(api.requests[0])).toMatchObject({ kind: 'TokenRequest', spec: { expirationSeconds: 3600 } });
});

test.each<[string, object]>([
  ['no token', { status: { expirationTimestamp: UNTIL } }],
  ['a token that is no text', { status: { token: 7, expirationTimestamp: UNTIL } }],
  ['no end', { status: { token: 't' } }],
  ['an end that is no time', { status: { token: 't', expirationTimestamp: 'tomorrow' } }],
  ['an end that is no text', { status: { token: 't', expirationTimestamp: 7 } }],
  ['no status', {}],
])('G2: an answer with %s gives none', async (_what, body) => {
  api.intercept(() => jsonResponse(201, body));
  expect(await standInToken(client(), machine, 3600, signal)).toBeUndefined();
});

test.each([
  [404, 'NotFound'],
  [403, 'Forbidden'],
])('G2: %i means that this machine was given none', async (status, reason) => {
  api.intercept(() => statusResponse(status, reason));
  expect(await standInToken(client(), machine, 3600, signal)).toBeUndefined();
});

test('G2: a server that fails has given no answer, and 401 is another case', async () => {
  let status = 500;
  api.intercept(() => statusResponse(status, 'AnyReason'));
  const failure = (): Promise<unknown> => standInToken(client(), machine, 3600, signal).catch((error: unknown) => error);
  expect(isUnauthorized(await failure())).toBe(false);
  status = 401;
  expect(isUnauthorized(await failure())).toBe(true);
  expect(isUnauthorized(Object.assign(new Error('x'), { status: 401 }))).toBe(false);
});
