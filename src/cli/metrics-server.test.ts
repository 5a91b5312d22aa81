import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { manifests } from '../../deploy/main.ts';
import { openCluster, type EmbeddedCluster } from '@kubenode/embedded';
import { makeAuthority, makeServerCertificate } from '@kubenode/embedded/pki';
import { createClient } from '../kube/http-client.ts';
import { systemClock } from '../kube/clock.ts';
import { recordingLog } from '../kube/testing/log.ts';
import type { ListeningServer } from './listen.ts';
import { metricsAccess, type MayRead } from './metrics-access.ts';
import { serveMetrics } from './metrics-server.ts';
import { scrape } from './testing/scrape.ts';

const making = { now: Date.now(), random: Math.random };
const rbac = '/apis/rbac.authorization.k8s.io/v1';

let identity: { certificate: string; key: string };
let cluster: EmbeddedCluster;
const open: ListeningServer[] = [];

beforeAll(async () => {
  identity = await makeServerCertificate(await makeAuthority('test', making), making);
  cluster = await openCluster({ name: 'cell', state: 'memory', clock: systemClock(), authorization: 'RBAC' });
});
afterAll(async () => {
  for (const each of open) await each.close();
  await cluster.close();
});

async function serve(mayRead: MayRead) {
  const log = recordingLog();
  const server = await serveMetrics({ listen: '127.0.0.1:0', identity, mayRead, text: () => 'kubenode_leader 1\n', log });
  open.push(server);
  return { port: server.port, log };
}

describe('security 9: /metrics asks whose the token is and what he may', () => {
  let token: { reader: string; other: string };
  let port: number;
  beforeAll(async () => {
    const admin = createClient(cluster.asUser());
    const post = async (path: string, body: object): Promise<unknown> =>
      await admin.request({ method: 'POST', path, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    await post('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'kubenode-system' } });
    // What a process is given, and no more: it must be enough to ask.
    const wanted = new Set(['ClusterRole kubenode-cell', 'ClusterRoleBinding kubenode-cell', 'ClusterRole kubenode-metrics-reader']);
    for (const object of manifests({ role: 'cell', namespace: 'kubenode-system', image: 'kubenode:1', replicas: 1 }))
      if (wanted.delete(`${object.kind} ${object.metadata.name}`)) await post(`${rbac}/${object.kind.toLowerCase()}s`, object);
    if (wanted.size > 0) throw new Error(`not installed: ${[...wanted].join(', ')}`);
    const tokenOf = async (name: string): Promise<string> => {
      const accounts = '/api/v1/namespaces/kubenode-system/serviceaccounts';
      await post(accounts, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } });
      const answer = await post(`${accounts}/${name}/token`, { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} });
      return (answer as { status: { token: string } }).status.token;
    };
    token = { reader: await tokenOf('prometheus'), other: await tokenOf('other') };
    await post(`${rbac}/clusterrolebindings`, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'prometheus-kubenode' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'kubenode-metrics-reader' },
      subjects: [{ kind: 'ServiceAccount', name: 'prometheus', namespace: 'kubenode-system' }],
    });
    const own = createClient(
      cluster.asUser({ name: 'system:serviceaccount:kubenode-system:kubenode-cell', groups: ['system:authenticated'] }),
    );
    ({ port } = await serve(metricsAccess(own)));
  });

  test('who may, reads', async () => {
    expect(await scrape({ port }, token.reader)).toEqual({ status: 200, body: 'kubenode_leader 1\n' });
  });

  test.each([
    ['no token', () => undefined, 401],
    ['a token that is none', () => 'x.y.z', 401],
    ['a token of a user without the right', () => token.other, 403],
  ])('%s reads nothing', async (_, of, status) => {
    const answer = await scrape({ port }, of());
    expect(answer.status).toBe(status);
    expect(answer.body).not.toContain('kubenode_leader');
  });

  test('there is nothing else', async () => {
    expect((await scrape({ port }, token.reader, '/debug')).status).toBe(404);
    expect((await scrape({ port }, token.reader, '/metrics', 'POST')).status).toBe(405);
  });
});

test('no reader is admitted while the API server does not answer who may read', async () => {
  const { port, log } = await serve(() => Promise.reject(new Error('connection refused')));
  expect((await scrape({ port }, 'a')).status).toBe(503);
  expect(log.lines.map(({ level }) => level)).toEqual(['warn']);
});

test('strangers cannot make it ask more than a few questions at once', async () => {
  const reviewed = Promise.withResolvers<'Unauthenticated'>();
  let [asked, most] = [0, 0];
  const { port } = await serve(async () => {
    most = Math.max(most, ++asked);
    const verdict = await reviewed.promise;
    asked--;
    return verdict;
  });
  const calls = Array.from({ length: 12 }, () =>
    scrape({ port }, 'a').then(({ status }) => {
      // The first that is turned away lets the others be answered.
      reviewed.resolve('Unauthenticated');
      return status;
    }),
  );
  const answers = await Promise.all(calls);
  expect(most).toBe(4);
  expect(new Set(answers)).toEqual(new Set([401, 429]));
});

test.each([
  ['an answer without a verdict', {}],
  ['an authenticated user without a name', { authenticated: true, user: {} }],
  ['a word instead of true', { authenticated: 'true', user: { username: 'a' } }],
])('%s is no reader', async (_, status) => {
  const mayRead = metricsAccess({ request: () => Promise.resolve({ status }) });
  expect(await mayRead('a', AbortSignal.timeout(1000))).toBe('Unauthenticated');
});

test('what is denied is not allowed, and groups and extra of a user are asked with him', async () => {
  const bodies: unknown[] = [];
  const answers = [
    { authenticated: true, user: { username: 'a', uid: 'u', groups: ['g'], extra: { scopes: ['s'] } } },
    { allowed: true, denied: true },
  ];
  const mayRead = metricsAccess({
    request: ({ body }) => {
      bodies.push(JSON.parse(String(body)));
      return Promise.resolve({ status: answers[bodies.length - 1] });
    },
  });
  expect(await mayRead('t', AbortSignal.timeout(1000))).toBe('Forbidden');
  expect(bodies).toMatchObject([
    { kind: 'TokenReview', spec: { token: 't' } },
    {
      kind: 'SubjectAccessReview',
      spec: { user: 'a', uid: 'u', groups: ['g'], extra: { scopes: ['s'] }, nonResourceAttributes: { path: '/metrics', verb: 'get' } },
    },
  ]);
});
