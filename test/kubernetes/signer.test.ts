/** A real API server whose signer gives no client certificates: it does not answer, it refuses, or a person is faster than our approver. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { createDurable } from '../../src/agent/disk/durable.ts';
import { createIdentity } from '../../src/agent/identity/identity.ts';
import { identityState } from '../../src/agent/identity/state.ts';
import { nodeFiles } from '../../src/agent/ports/files.ts';
import { SIGNERS } from '../../src/api/admission.ts';
import { CertificateSigningRequests, CustomResourceDefinitions, Namespaces } from '../../src/api/builtin.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { Machines } from '../../src/api/machine.ts';
import { openAdmission } from '../../src/controllers/identity/admission.ts';
import { runIdentityController } from '../../src/controllers/identity/controller.ts';
import { createCache } from '../../src/kube/cache.ts';
import type { Client } from '../../src/kube/client.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { ClosableTransport } from '../../src/kube/connect.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { nodeHttpsTransport } from '../../src/kube/https-transport.ts';
import type { RecordedEvent } from '../../src/kube/recorder.ts';
import { recordingLog } from '../../src/kube/testing/log.ts';
import { waitFor } from '../../src/kube/testing/wait-for.ts';
import { openKubernetes } from '../faults/kubernetes.ts';
import type { BrokenServer } from '../faults/servers.ts';

vi.setConfig({ testTimeout: 90_000, hookTimeout: 180_000 });

const NS = 'web';
const LATE = { deadlineMs: 40_000 };
const clock = systemClock({ ref: true });

let server: BrokenServer;
let transport: ClosableTransport;
let admin: Client;
beforeAll(async () => {
  // It has no controller manager: no process signs.
  server = await openKubernetes();
  transport = httpTransport(server.connection);
  admin = createClient(transport, { fieldManager: 'a-human' });
  await admin.create(Namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NS } });
  await admin.create(CustomResourceDefinitions, Machines.crd());
  await waitFor(
    () =>
      admin.list(Machines).then(
        () => true,
        () => false,
      ),
    LATE,
  );
  // What `kubenode install` makes of it is tested with the installation.
  const rules = [{ apiGroups: ['certificates.k8s.io'], resources: ['certificatesigningrequests'], verbs: ['create', 'get'] }];
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: 'kubenode-bootstrap' }, rules };
  await admin.post('/apis/rbac.authorization.k8s.io/v1/clusterroles', role);
});
afterAll(async () => {
  await transport.close();
  await server.close();
});

/** A Machine with an open admission, and an agent that asks for it; `lead` starts who answers. */
async function world(name: string) {
  const folder = mkdtempSync(join(tmpdir(), 'kubenode-signer-'));
  const ended = new AbortController();
  const { signal } = ended;
  const key = { namespace: NS, name };
  const log = recordingLog();
  const events: RecordedEvent[] = [];
  const shared = { client: admin, clock, random: Math.random, log, signal };
  const { uid } = (await admin.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: key, spec: {} })).metadata;
  const { token } = await openAdmission(admin, { ...key, uid }, { signal });
  const cache = createCache(shared);
  const { server: url, ca } = server.connection;
  const identity = createIdentity({
    ...shared,
    machine: { ...key, uid },
    readToken: () => Promise.resolve(token),
    state: identityState(createDurable(nodeFiles(), folder), join(folder, 'state'), uid),
    connect: (credentials) => nodeHttpsTransport({ server: url, ...(ca === undefined ? {} : { ca }), ...credentials }),
    userAgent: 'agent',
  });
  const running: Promise<unknown>[] = [identity.run()];
  onTestFinished(async () => {
    ended.abort(new Error('ended'));
    await Promise.all([...running, identity.close()]);
    await cache.done();
    rmSync(folder, { recursive: true });
  });
  const agent = createClient(identity.transport);
  return {
    key,
    log,
    events,
    agent,
    lead: (signerDeadlineMs: number): void => {
      const recorder = { event: (_: object, event: RecordedEvent) => void events.push(event), flush: () => Promise.resolve() };
      const cell = { server: 'https://127.0.0.1', certificateAuthority: '', mirror: undefined };
      running.push(runIdentityController({ ...shared, cache, recorder, cell, providers: new Map(), signerDeadlineMs }));
    },
    /** Its own request, once there is one. */
    request: () =>
      waitFor(
        async () =>
          (await admin.list(CertificateSigningRequests)).items.find(
            ({ spec }) => spec.signerName === SIGNERS.client && spec.username === `system:serviceaccount:${NS}:kubenode-bootstrap-${name}`,
          ),
        LATE,
      ),
    condition: (reason: string) =>
      waitFor(
        async () => (await admin.get(Machines, key)).status?.conditions?.find((each) => each.type === 'Admitted' && each.reason === reason),
        { ...LATE, what: `Admitted with reason ${reason}` },
      ),
  };
}

async function whoIs(agent: Client): Promise<string> {
  const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
  const answer = (await agent.post('/apis/authentication.k8s.io/v1/selfsubjectreviews', review)) as {
    status: { userInfo: { username: string } };
  };
  return answer.status.userInfo.username;
}

test('one that does not answer: the agent is a ServiceAccount instead, may what an agent may, and the Machine reports it', async () => {
  const { key, agent, events, lead, condition } = await world('unsigned');
  lead(2000);
  expect(await condition('ServiceAccountToken')).toMatchObject({
    status: 'True',
    message:
      'signer kubernetes.io/kube-apiserver-client gives no client certificates (it signed nothing within 2 s): the agent is a ServiceAccount instead',
  });
  await waitFor(async () => (await whoIs(agent)) === `system:serviceaccount:${NS}:kubenode-agent-unsigned`, LATE);
  await waitFor(
    () =>
      agent.get(Machines, key).then(
        () => true,
        () => false,
      ),
    LATE,
  );
  await expect(agent.list(Machines, { namespace: NS })).rejects.toMatchObject({ status: 403 });
  expect(events).toMatchObject([{ reason: 'Admitted' }, { type: 'Warning', reason: 'SignerRefused' }]);
});

test('one that refuses ends the request with its reason, at once', async () => {
  const { agent, lead, request, condition } = await world('refused');
  lead(60_000);
  const { metadata } = await request();
  const approved = await waitFor(async () => {
    const found = await admin.get(CertificateSigningRequests, metadata);
    return found.status?.conditions?.some(({ type }) => type === 'Approved') === true && found;
  }, LATE);
  const failed = { type: 'Failed', status: 'True', reason: 'SignerValidationFailure', message: 'not in this cloud' };
  const status = { ...approved.status, conditions: [...(approved.status?.conditions ?? []), failed] };
  await admin.update(CertificateSigningRequests, { ...approved, status }, { subresource: 'status' });
  expect((await condition('ServiceAccountToken')).message).toContain('(it refused: SignerValidationFailure: not in this cloud)');
  await waitFor(async () => (await whoIs(agent)) === `system:serviceaccount:${NS}:kubenode-agent-refused`, LATE);
});

test('a request that a person denied: the Machine has their words, and the agent keeps its node and waits for another token', async () => {
  const { log, events, agent, lead, request, condition } = await world('denied');
  const open = await request();
  const denied = { type: 'Denied', status: 'True', reason: 'NotNow', message: 'ask me on Monday' };
  await admin.update(
    CertificateSigningRequests,
    { ...open, status: { ...open.status, conditions: [denied] } },
    { subresource: 'approval' },
  );
  lead(2000);
  expect(await condition('Denied')).toMatchObject({
    status: 'False',
    message: `request ${open.metadata.name} was denied: NotNow: ask me on Monday`,
  });
  await waitFor(() => events.length > 0, LATE);
  expect(events).toMatchObject([{ type: 'Warning', reason: 'CertificateDenied' }]);
  await waitFor(
    () => log.lines.some(({ message }) => message.includes('ask me on Monday; the node is kept as it is. next: admit it again')),
    LATE,
  );
  await expect(whoIs(agent)).rejects.toThrow('the agent is not admitted: NotNow');
});
