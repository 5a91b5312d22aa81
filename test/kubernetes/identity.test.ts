/** Admission of an agent by a real API server, its authorizer and its signer. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createDurable } from '../../src/agent/disk/durable.ts';
import { createIdentity } from '../../src/agent/identity/identity.ts';
import { identityState } from '../../src/agent/identity/state.ts';
import { nodeFiles } from '../../src/agent/ports/files.ts';
import { CustomResourceDefinitions, Namespaces, ServiceAccounts } from '../../src/api/builtin.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { Machines } from '../../src/api/machine.ts';
import { openAdmission } from '../../src/controllers/identity/admission.ts';
import { runIdentityController } from '../../src/controllers/identity/controller.ts';
import { createCache } from '../../src/kube/cache.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { nodeHttpsTransport } from '../../src/kube/https-transport.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { realServer } from './real-server.ts';

const clock = systemClock({ ref: true });
const real = realServer();

test.runIf(real?.controllers)(
  'an agent is admitted once by its token, has its own Machine and nothing else, and its epoch binds all',
  async () => {
    if (real === undefined) throw new Error('npm run test:kubernetes starts the server that this test wants');
    const { connection } = real;
    const folder = mkdtempSync(join(tmpdir(), 'kubenode-identity-'));
    const ended = new AbortController();
    const { signal } = ended;
    const key = { namespace: 'kubenode-identity', name: 'a' };
    const log = recordingLog();
    const client = createClient(real.transport, { fieldManager: 'a-human' });
    const shared = { client, clock, random: Math.random, log, signal };
    await client.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: key.namespace } });
    const definition = CustomResourceDefinitions.parse(Machines.crd());
    if ((await client.find(CustomResourceDefinitions, definition.metadata)) === undefined)
      await client.create(CustomResourceDefinitions, definition);
    await waitFor(
      () =>
        client.list(Machines).then(
          () => true,
          () => false,
        ),
      { deadlineMs: 20_000 },
    );
    const make = (name: string) =>
      client.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { ...key, name }, spec: {} });
    const { uid } = (await make('a')).metadata;
    await make('b');
    // What `kubenode install` makes of it is tested with the installation.
    const rbac = '/apis/rbac.authorization.k8s.io/v1/clusterroles';
    const rules = [{ apiGroups: ['certificates.k8s.io'], resources: ['certificatesigningrequests'], verbs: ['create', 'get'] }];
    const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'kubenode-bootstrap' }, rules };
    await client.post(rbac, role).catch((error: unknown) => expect(String(error)).toContain('already exists'));
    const { token } = await openAdmission(client, { ...key, uid }, { signal });

    const cache = createCache(shared);
    const recorder = { event: () => undefined, flush: () => Promise.resolve() };
    const cell = { server: 'https://127.0.0.1', certificateAuthority: '', mirror: undefined };
    const controller = runIdentityController({ ...shared, cache, recorder, cell, providers: new Map() });
    const reach = { server: connection.server, ...(connection.ca === undefined ? {} : { ca: connection.ca }) };
    const identity = createIdentity({
      ...shared,
      machine: { ...key, uid },
      readToken: () => Promise.resolve(token),
      state: identityState(createDurable(nodeFiles(), folder), join(folder, 'state'), uid),
      connect: (credentials) => nodeHttpsTransport({ ...reach, ...credentials }),
      userAgent: 'agent',
    });
    const running = identity.run();
    const byToken = nodeHttpsTransport({ ...reach, token });
    onTestFinished(async () => {
      ended.abort(new Error('ended'));
      await Promise.all([running, controller, identity.close(), byToken.close()]);
      await cache.done();
      await client.delete(Namespaces, { name: key.namespace });
      await real.transport.close();
      rmSync(folder, { recursive: true });
    });

    const agent = createClient(identity.transport);
    // Rights reach the authorizer a moment after they are written.
    await waitFor(
      () =>
        agent.get(Machines, key).then(
          () => true,
          () => false,
        ),
      { deadlineMs: 30_000, what: 'the agent to read its Machine' },
    );
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
    const who = await agent.post('/apis/authentication.k8s.io/v1/selfsubjectreviews', review);
    expect(who).toMatchObject({
      status: { userInfo: { username: 'kubenode:machine:kubenode-identity:a', groups: expect.arrayContaining(['kubenode:machines']) } },
    });
    await expect(agent.get(Machines, { ...key, name: 'b' })).rejects.toMatchObject({ status: 403 });
    await expect(createClient(byToken).get(Machines, key)).rejects.toMatchObject({ status: 403 });
    await expect(createClient(byToken).get(ServiceAccounts, { ...key, name: 'default' })).rejects.toMatchObject({ status: 403 });

    // CEL enforces it for everyone, administrators too.
    const status = (bootstrap: object) => client.patch(Machines, key, { merge: { status: { bootstrap } } }, { subresource: 'status' });
    await expect(status({ csrUID: 'another' })).rejects.toThrow('one request is admitted in an epoch');
    await expect(client.patch(Machines, key, { merge: { status: { bootstrap: null } } }, { subresource: 'status' })).rejects.toThrow(
      'is never removed',
    );
    // The next epoch ends the token of this one.
    await openAdmission(client, { ...key, uid }, { again: true, signal });
    expect((await client.get(Machines, key)).status?.bootstrap).toMatchObject({ epoch: 2 });
    await waitFor(
      () =>
        createClient(byToken)
          .get(Machines, key)
          .then(
            () => false,
            (error: unknown) => error instanceof Error && 'status' in error && error.status === 401,
          ),
      { deadlineMs: 30_000, what: 'the old token to end' },
    );
  },
  120_000,
);
