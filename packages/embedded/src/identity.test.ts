import { X509Certificate } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { userOfCertificate } from './serve/peer.ts';
import { FakeClock, settled } from './testing/clock.ts';
import { makeRequest } from './testing/csr.ts';
import { Api, closeRig, openRig, pick, text, type Rig } from './testing/rig.ts';

let rig: Rig;
const ACCOUNTS = '/api/v1/namespaces/default/serviceaccounts';
const REQUESTS = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const REVIEWS = '/apis/authentication.k8s.io/v1/selfsubjectreviews';

beforeEach(async () => {
  rig = await openRig();
  return () => closeRig(rig);
});

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

async function whoIs(headers: Record<string, string>, of: Rig = rig): Promise<unknown> {
  const answer = await new Api((request) => of.cluster.handle(request)).send('POST', REVIEWS, {}, undefined, { headers });
  return answer.status === 201
    ? [pick(answer.body, 'status.userInfo.username'), pick(answer.body, 'status.userInfo.groups')]
    : answer.status;
}

async function tokenOf(name: string, spec: JsonObject = {}): Promise<string> {
  const { body } = await rig.api.create(`${ACCOUNTS}/${name}/token`, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec,
  });
  return text(pick(body, 'status.token'));
}

describe('a request', () => {
  it.each([{}, { authorization: '' }, { authorization: 'Basic eDp5' }, bearer('nonsense'), bearer('a.b.c')])(
    'with %j is unauthorized',
    async (headers) => {
      expect(await whoIs(headers)).toBe(401);
    },
  );

  it('with the admin token is the admin, here and in no other cluster', async () => {
    expect(await whoIs(bearer(rig.cluster.adminToken))).toEqual(['kubernetes-admin', ['system:masters', 'system:authenticated']]);
    const other = await openRig({ name: 'other' });
    expect(await whoIs(bearer(rig.cluster.adminToken), other)).toBe(401);
    await other.cluster.close();
  });

  it('of an admin may be made for another, of others not', async () => {
    const admin = bearer(rig.cluster.adminToken);
    expect(await whoIs({ ...admin, 'impersonate-user': 'bob', 'impersonate-group': 'g1, g2' })).toEqual([
      'bob',
      ['g1', 'g2', 'system:authenticated'],
    ]);
    expect(await whoIs({ ...bearer(await tokenOf('default')), 'impersonate-user': 'bob' })).toBe(403);
    expect(await whoIs({ ...admin, 'impersonate-group': 'g1' })).toBe(400);
  });
});

describe('a ServiceAccount token', () => {
  it('stands for its account', async () => {
    expect(await whoIs(bearer(await tokenOf('default')))).toEqual([
      'system:serviceaccount:default:default',
      ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'],
    ]);
  });

  it('ends with its time', async () => {
    const token = await tokenOf('default', { expirationSeconds: 600 });
    await rig.clock.advance(599_000);
    expect(await whoIs(bearer(token))).not.toBe(401);
    await rig.clock.advance(1_000);
    expect(await whoIs(bearer(token))).toBe(401);
  });

  it('ends with its account, and does not pass to another of the name', async () => {
    await rig.api.create(ACCOUNTS, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'bot' } });
    const token = await tokenOf('bot');
    await rig.api.remove(`${ACCOUNTS}/bot`);
    expect(await whoIs(bearer(token))).toBe(401);
    await rig.api.create(ACCOUNTS, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'bot' } });
    expect(await whoIs(bearer(token))).toBe(401);
  });

  it('for another audience is not good here', async () => {
    expect(await whoIs(bearer(await tokenOf('default', { audiences: ['vault'] })))).toBe(401);
  });

  it('of another cluster, or changed in any part, is not good', async () => {
    const token = await tokenOf('default');
    const other = await openRig({ name: 'other' });
    expect(await whoIs(bearer(token), other)).toBe(401);
    await other.cluster.close();
    for (const part of [0, 1, 2]) {
      const parts = token.split('.');
      parts[part] = `${(parts[part] ?? '').slice(0, -2)}AA`;
      expect(await whoIs(bearer(parts.join('.')))).toBe(401);
    }
    const [head, body] = token.split('.');
    expect(await whoIs(bearer(`${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`))).toBe(401);
    expect(await whoIs(bearer(`${head}.${body}.`))).toBe(401);
  });

  it.each([
    ['default', { expirationSeconds: 5 }, 422],
    ['default', { boundObjectRef: { kind: 'Pod', name: 'p' } }, 400],
    ['unknown', {}, 404],
  ] as [string, JsonObject, number][])('for %s with %j is refused with %i', async (name, spec, status) => {
    expect((await rig.api.create(`${ACCOUNTS}/${name}/token`, { kind: 'TokenRequest', spec })).status).toBe(status);
  });
});

const request = (pem: string, more: JsonObject = {}): JsonObject => ({
  apiVersion: 'certificates.k8s.io/v1',
  kind: 'CertificateSigningRequest',
  metadata: { name: 'm1' },
  spec: {
    request: Buffer.from(pem).toString('base64'),
    signerName: 'kubernetes.io/kube-apiserver-client',
    usages: ['client auth', 'digital signature'],
    ...more,
  },
});

const approve = (status: JsonObject = { conditions: [{ type: 'Approved', status: 'True', reason: 'Test' }] }) =>
  rig.api.merge(`${REQUESTS}/m1/approval`, { status });

/** Keys are made and used beside this thread, so that its turns prove nothing: wait with a deadline. */
async function issued(): Promise<JsonObject> {
  for (const endMs = performance.now() + 20_000; performance.now() < endMs;) {
    const { body } = await rig.api.get(`${REQUESTS}/m1`);
    const done =
      (pick(body, 'status.conditions') as JsonObject[]).some((it) => it['type'] === 'Failed') ||
      pick(body, 'status.certificate') !== undefined;
    if (done) return body;
    await settled();
  }
  throw new Error('not signed');
}

describe('a certificate signing request', () => {
  const subject = [{ CN: ['kubenode:machine:web:m1'] }, { O: ['kubenode:machines'] }];

  it('records who asked, regardless of the request', async () => {
    const as = new Api(rig.cluster.asUser({ name: 'alice', groups: ['sre'], uid: 'u1' }));
    const { body } = await as.create(REQUESTS, request(await makeRequest(subject), { username: 'root', groups: ['system:masters'] }));
    expect(body).toMatchObject({ spec: { username: 'alice', groups: ['sre', 'system:authenticated'], uid: 'u1' }, status: {} });
  });

  it('that is approved is signed for its subject and for as long as it asked, and its certificate is good here only', async () => {
    await rig.api.create(REQUESTS, request(await makeRequest(subject), { expirationSeconds: 3600 }));
    expect((await approve()).status).toBe(200);
    const body = await issued();
    const pem = Buffer.from(text(pick(body, 'status.certificate')), 'base64').toString();
    const certificate = new X509Certificate(pem);
    expect(certificate.validTo).toBe('Nov 20 13:00:00 2026 GMT');
    const authority = await rig.cluster.clientAuthority();
    const now = rig.clock.now();
    expect(userOfCertificate(certificate, authority, now)).toEqual({
      name: 'kubenode:machine:web:m1',
      groups: ['kubenode:machines', 'system:authenticated'],
    });
    expect(userOfCertificate(certificate, authority, now + 3_601_000)).toBeUndefined();
    const other = await openRig({ name: 'other' });
    expect(userOfCertificate(certificate, await other.cluster.clientAuthority(), now)).toBeUndefined();
    await other.cluster.close();
  });

  it('that is denied, or for another signer, is never signed', async () => {
    await rig.api.create(REQUESTS, request(await makeRequest(subject)));
    await approve({ conditions: [{ type: 'Denied', status: 'True' }] });
    await rig.api.create(REQUESTS, {
      ...request(await makeRequest(subject), { signerName: 'kubernetes.io/kubelet-serving' }),
      metadata: { name: 'm2' },
    });
    await rig.api.merge(`${REQUESTS}/m2/approval`, { status: { conditions: [{ type: 'Approved', status: 'True' }] } });
    await settled();
    for (const name of ['m1', 'm2']) expect(pick((await rig.api.get(`${REQUESTS}/${name}`)).body, 'status.certificate')).toBeUndefined();
  });

  it('for other usages, or that cannot be read, fails with the reason', async () => {
    await rig.api.create(REQUESTS, request(await makeRequest(subject), { usages: ['server auth'] }));
    await approve();
    expect(pick(await issued(), 'status.conditions.1')).toMatchObject({ type: 'Failed', reason: 'SignerValidationFailure' });
    await rig.api.remove(`${REQUESTS}/m1`);
    await rig.api.create(REQUESTS, request('-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n'));
    await approve();
    expect(pick(await issued(), 'status.conditions.1.type')).toBe('Failed');
  });

  const kubelet = { signerName: 'kubernetes.io/kube-apiserver-client-kubelet' };

  it('of a kubelet is signed for its node', async () => {
    await rig.api.create(REQUESTS, request(await makeRequest([{ O: ['system:nodes'] }, { CN: ['system:node:n1'] }]), kubelet));
    await approve();
    const certificate = new X509Certificate(Buffer.from(text(pick(await issued(), 'status.certificate')), 'base64').toString());
    expect(userOfCertificate(certificate, await rig.cluster.clientAuthority(), rig.clock.now())).toEqual({
      name: 'system:node:n1',
      groups: ['system:nodes', 'system:authenticated'],
    });
  });

  it.each([
    [[{ O: ['system:masters'] }, { CN: ['system:node:n1'] }], 'subject organization is not system:nodes'],
    [[{ O: ['system:nodes'] }, { O: ['system:masters'] }, { CN: ['system:node:n1'] }], 'subject organization is not system:nodes'],
    [[{ O: ['system:nodes'] }, { CN: ['admin'] }], 'subject common name does not begin with system:node:'],
  ])('of a kubelet for %j fails', async (name, why) => {
    await rig.api.create(REQUESTS, request(await makeRequest(name), kubelet));
    await approve();
    expect(pick(await issued(), 'status.conditions.1')).toMatchObject({ type: 'Failed', message: why });
  });

  it('is approved by its subresource alone, once, and not changed', async () => {
    await rig.api.create(REQUESTS, request(await makeRequest(subject)));
    const approved = { conditions: [{ type: 'Approved', status: 'True' }] };
    expect((await rig.api.merge(`${REQUESTS}/m1/status`, { status: approved })).status).toBe(422);
    expect(pick((await rig.api.merge(`${REQUESTS}/m1`, { status: approved })).body, 'status.conditions')).toBeUndefined();
    await approve();
    expect((await approve({ conditions: [] })).status).toBe(422);
    const both = {
      conditions: [
        { type: 'Approved', status: 'True' },
        { type: 'Denied', status: 'True' },
      ],
    };
    expect((await approve(both)).status).toBe(422);
    expect(pick((await rig.api.merge(`${REQUESTS}/m1`, { spec: { signerName: 'x.io/y' } })).body, 'spec.signerName')).toBe(
      'kubernetes.io/kube-apiserver-client',
    );
  });

  it('is forgotten an hour after it was answered, or a day after its creation without an answer', async () => {
    await rig.api.create(REQUESTS, request(await makeRequest(subject)));
    await rig.api.create(REQUESTS, { ...request(await makeRequest(subject)), metadata: { name: 'm2' } });
    await approve();
    await issued();
    const has = async (name: string): Promise<boolean> => (await rig.api.get(`${REQUESTS}/${name}`)).status === 200;
    await rig.clock.advance(50 * 60_000);
    expect([await has('m1'), await has('m2')]).toEqual([true, true]);
    await rig.clock.advance(30 * 60_000);
    expect([await has('m1'), await has('m2')]).toEqual([false, true]);
    await rig.clock.advance(24 * 3_600_000);
    expect(await has('m2')).toBe(false);
  });

  it('is never signed where the cluster signs none', async () => {
    const other = await openRig({ name: 'other', signsCertificates: false });
    await other.api.create(REQUESTS, request(await makeRequest(subject)));
    await other.api.merge(`${REQUESTS}/m1/approval`, { status: { conditions: [{ type: 'Approved', status: 'True', reason: 'Test' }] } });
    await settled();
    expect(pick((await other.api.get(`${REQUESTS}/m1`)).body, 'status.certificate')).toBeUndefined();
    await other.cluster.close();
  });

  it.each([
    [{ request: Buffer.from('hi').toString('base64') }, 'spec.request'],
    [{ usages: [] }, 'spec.usages'],
    [{ signerName: '' }, 'spec.signerName'],
    [{ expirationSeconds: 10 }, 'spec.expirationSeconds'],
  ] as [JsonObject, string][])('with %j is refused at %s', async (more, field) => {
    const { status, body } = await rig.api.create(REQUESTS, request(await makeRequest(subject), more));
    expect([status, pick(body, 'details.causes.0.field')]).toEqual([422, field]);
  });
});

describe('a client certificate', () => {
  it('that the cluster did not sign stands for no user', async () => {
    const { makeAuthority, signClient } = await import('./pki.ts');
    const making = { now: new FakeClock().now(), random: Math.random };
    const [mine, theirs] = [await makeAuthority('mine', making), await makeAuthority('mine', making)];
    const pem = await signClient(theirs, await makeRequest([{ CN: ['root'] }, { O: ['system:masters'] }]), 3600, making);
    expect(userOfCertificate(new X509Certificate(pem), mine.certificate, making.now)).toBeUndefined();
    expect(userOfCertificate(new X509Certificate(pem), theirs.certificate, making.now)?.name).toBe('root');
    expect(userOfCertificate(new X509Certificate(theirs.certificate), theirs.certificate, making.now)).toBeUndefined();
  });
});
