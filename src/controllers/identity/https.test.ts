import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { createDurable } from '../../agent/disk/durable.ts';
import { createIdentity } from '../../agent/identity/identity.ts';
import { identityState } from '../../agent/identity/state.ts';
import { nodeFiles } from '../../agent/ports/files.ts';
import { CustomResourceDefinitions, Namespaces } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { CELL_KINDS } from '../../api/kinds.ts';
import { Machines } from '../../api/machine.ts';
import { openCluster, serve } from '@kubenode/embedded';
import { createCache } from '../../kube/cache.ts';
import { systemClock } from '../../kube/clock.ts';
import { createClient } from '../../kube/http-client.ts';
import { nodeHttpsTransport } from '../../kube/https-transport.ts';
import { recordingLog } from '../../kube/testing/log.ts';
import { runIdentityController } from './controller.ts';
import { openAdmission } from './admission.ts';

const clock = systemClock({ ref: true });
const random = Math.random;

it('over HTTPS an agent is admitted, is itself in its own cluster only, and trusts no other server', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-identity-'));
  const ended = new AbortController();
  const { signal } = ended;
  const [mine, other] = [
    await openCluster({ name: 'mine', state: 'memory', clock }),
    await openCluster({ name: 'other', state: 'memory', clock }),
  ];
  const server = await serve({ clusters: [mine, other], listen: '127.0.0.1:0', state: 'memory', clock });
  const client = createClient(mine.asUser());
  const log = recordingLog();
  await Promise.all(CELL_KINDS.map((kind) => client.create(CustomResourceDefinitions, kind.crd())));
  await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'web' } });
  const key = { namespace: 'web', name: 'a' };
  const { uid } = (await client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: key, spec: {} })).metadata;
  const { token } = await openAdmission(client, { ...key, uid }, { signal });

  const shared = { client, clock, random, log, signal };
  const cache = createCache(shared);
  const recorder = { event: () => undefined, flush: () => Promise.resolve() };
  const cell = { server: 'https://127.0.0.1', certificateAuthority: '', mirror: undefined };
  const controller = runIdentityController({ ...shared, cache, recorder, cell, providers: new Map() });
  const credentials: object[] = [];
  const identity = createIdentity({
    ...shared,
    machine: { ...key, uid },
    readToken: () => Promise.resolve(token),
    state: identityState(createDurable(nodeFiles(), folder), join(folder, 'state'), uid),
    connect(found) {
      credentials.push(found);
      return nodeHttpsTransport({ server: `${server.url}/clusters/mine`, ca: server.authority, ...found });
    },
    userAgent: 'agent',
  });
  const running = identity.run();
  onTestFinished(async () => {
    ended.abort(new Error('ended'));
    await Promise.all([running, controller, identity.close()]);
    await cache.done();
    await server.close();
    await Promise.all([mine.close(), other.close()]);
    rmSync(folder, { recursive: true });
  });

  const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  const began = performance.now();
  const answer = await createClient(identity.transport).post(path, review);
  expect(answer).toMatchObject({
    status: { userInfo: { username: 'kubenode:machine:web:a', groups: ['kubenode:machines', 'system:authenticated'] } },
  });
  process.stdout.write(`agent: admitted over HTTPS in ${Math.round(performance.now() - began)} ms\n`);

  const elsewhere = nodeHttpsTransport({ server: `${server.url}/clusters/other`, ca: server.authority, ...credentials.at(-1) });
  onTestFinished(() => elsewhere.close());
  await expect(createClient(elsewhere).post(path, review)).rejects.toMatchObject({ status: 401 });
  const unverified = nodeHttpsTransport({
    server: `${server.url}/clusters/mine`,
    ca: await other.clientAuthority(),
    ...credentials.at(-1),
  });
  onTestFinished(() => unverified.close());
  await expect(createClient(unverified).post(path, review)).rejects.toMatchObject({ code: 'Unreachable' });
});

it('a transport that is retired lets its watch go on, and takes no request more', async () => {
  const cluster = await openCluster({ name: 'mine', state: 'memory', clock });
  const server = await serve({ clusters: [cluster], listen: '127.0.0.1:0', state: 'memory', clock });
  const transport = nodeHttpsTransport({ server: `${server.url}/clusters/mine`, ca: server.authority, token: cluster.adminToken });
  onTestFinished(async () => {
    await transport.close();
    await server.close();
    await cluster.close();
  });
  const client = createClient(transport);
  await client.list(Namespaces);
  const events = client.watch(Namespaces, { resourceVersion: cluster.resourceVersion })[Symbol.asyncIterator]();
  const next = events.next();
  while (cluster.watches === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  transport.retire();
  await expect(client.list(Namespaces)).rejects.toThrow('this transport is closed');
  await createClient(cluster.asUser()).create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'late' } });
  expect((await next).value).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'late' } } });
});
