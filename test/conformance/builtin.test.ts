/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import { makeRequest, pick, text } from '@kubenode/embedded/testing';
import { at, pickTable, type JsonObject, type Scene } from './scene.ts';
import { conformance } from './suite.ts';

const NODES = '/api/v1/nodes';
const CSRS = '/apis/certificates.k8s.io/v1/certificatesigningrequests';
const node = (name: string, more: JsonObject = {}): JsonObject => ({ apiVersion: 'v1', kind: 'Node', metadata: { name }, ...more });

const pod = (name: string, labels: JsonObject = {}, spec: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, labels },
  spec: { serviceAccountName: 'default', containers: [{ name: 'c', image: 'i:1' }], ...spec },
});

async function runningPod(scene: Scene, name: string, status: JsonObject = {}): Promise<void> {
  await scene.unrecorded.create(scene.in('pods'), pod(name, { app: 'x' }, { nodeName: `${scene.ns}-n` }));
  await scene.unrecorded.merge(scene.in('pods', name, 'status'), {
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }], ...status },
  });
}

async function budget(scene: Scene, name: string, spec: JsonObject, allowed: number): Promise<void> {
  const object = {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name },
    spec: { selector: { matchLabels: { app: 'x' } }, ...spec },
  };
  const made = await scene.unrecorded.create(scene.in('policy/v1/poddisruptionbudgets'), object);
  expect(made.status).toBe(201);
  await scene.until('the budget to be counted', async () => {
    const found = await scene.unrecorded.get(scene.in('policy/v1/poddisruptionbudgets', name));
    return (
      at(found, 'status.observedGeneration') === at(found, 'metadata.generation') && at(found, 'status.disruptionsAllowed') === allowed
    );
  });
}

const evict = (scene: Scene, name: string, more: JsonObject = {}) =>
  scene.api.create(scene.in('pods', name, 'eviction'), { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name }, ...more });

conformance('builtin', {}, (it) => {
  it('a Node keeps its status when it is created, and has no generation', async (scene) => {
    const status = { conditions: [{ type: 'Ready', status: 'True' }], nodeInfo: { kubeletVersion: 'v1.34.4' }, capacity: { cpu: '2' } };
    const made = await scene.api.create(NODES, node(`${scene.ns}-n`, { status }));
    expect([at(made, 'status.conditions.0.status'), at(made, 'metadata.generation')]).toEqual(['True', undefined]);
    await scene.api.strategic(`${NODES}/${scene.ns}-n`, { spec: { unschedulable: true } });
    await scene.api.strategic(`${NODES}/${scene.ns}-n`, { status: { phase: 'x' } });
    await scene.api.strategic(`${NODES}/${scene.ns}-n/status`, {
      status: { conditions: [{ type: 'KernelDeadlock', status: 'True', reason: 'DockerHung' }] },
    });
    await scene.api.strategic(`${NODES}/${scene.ns}-n/status`, { status: { conditions: [{ type: 'Ready', status: 'False' }] } });
    await scene.api.merge(`${NODES}/${scene.ns}-n`, { metadata: { labels: { 'node-role.kubernetes.io/worker': '' } } });
  });

  it('a Node is born with the taint of one that is not ready', async (scene) => {
    const taint = { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' };
    const made = await scene.api.create(NODES, node(`${scene.ns}-a`));
    expect(at(made, 'spec.taints')).toEqual([taint]);
    await scene.api.create(NODES, node(`${scene.ns}-b`, { status: { conditions: [{ type: 'Ready', status: 'True' }] } }), {
      dryRun: 'All',
    });
    for (const taints of [
      [taint],
      [{ ...taint, value: 'x' }],
      [{ ...taint, effect: 'NoExecute' }],
      [{ key: 'a', effect: 'NoSchedule' }, taint],
    ])
      await scene.api.create(NODES, node(`${scene.ns}-b`, { spec: { taints } }), { dryRun: 'All' });
    await scene.api.apply(
      `${NODES}/${scene.ns}-c`,
      node(`${scene.ns}-c`, { spec: { taints: [{ key: 'a', effect: 'NoSchedule' }] } }),
      'm',
      {
        force: 'true',
      },
    );
    await scene.api.apply(
      `${NODES}/${scene.ns}-c`,
      node(`${scene.ns}-c`, { spec: { taints: [{ key: 'b', effect: 'NoSchedule' }] } }),
      'm',
      {
        force: 'true',
      },
    );
    await scene.api.merge(`${NODES}/${scene.ns}-a`, { spec: { taints: null } });
    await scene.api.get(`${NODES}/${scene.ns}-a`);
  });

  it('taints are checked', async (scene) => {
    await scene.unrecorded.create(NODES, node(`${scene.ns}-n`));
    const taint = (...taints: JsonObject[]) => scene.api.merge(`${NODES}/${scene.ns}-n`, { spec: { taints } });
    await taint({ key: 'a', effect: 'NoSchedule' }, { key: 'a', effect: 'NoExecute', value: 'x' });
    expect((await taint({ key: 'a', effect: 'Never' })).status).toBe(422);
    expect((await taint({ key: 'a', effect: 'NoSchedule' }, { key: 'a', effect: 'NoSchedule' })).status).toBe(422);
    expect((await taint({ key: '', effect: 'NoSchedule' })).status).toBe(422);
    expect((await taint({ key: 'a' })).status).toBe(422);
    await taint({ key: 'a b', effect: 'NoSchedule' });
    await taint({ key: 'a', value: 'x y', effect: 'NoSchedule' });
    await scene.api.merge(`${NODES}/${scene.ns}-n`, { spec: { providerID: 'fake://1', taints: null } });
    expect((await scene.api.merge(`${NODES}/${scene.ns}-n`, { spec: { providerID: 'fake://2' } })).status).toBe(422);
    await scene.api.create(NODES, node('A_b'));
  });

  it('a Pod gets its defaults, and little of it can change', async (scene) => {
    const made = await scene.api.create(
      scene.in('pods'),
      pod('p', { app: 'x' }, { nodeName: 'n', volumes: [{ name: 'v', emptyDir: {} }] }),
    );
    expect([made.status, at(made, 'status.phase')]).toEqual([201, 'Pending']);
    expect((await scene.api.merge(scene.in('pods', 'p'), { spec: { nodeName: 'other' } })).status).toBe(422);
    await scene.api.strategic(scene.in('pods', 'p'), { spec: { containers: [{ name: 'c', image: 'i:2' }] } });
    await scene.api.merge(scene.in('pods', 'p', 'status'), { status: { phase: 'Running', podIPs: [{ ip: '10.0.0.1' }] } });
    await scene.api.merge(scene.in('pods', 'p', 'status'), { spec: { nodeName: 'third' }, status: { phase: 'Failed' } });
    await scene.api.create(scene.in('pods'), { ...pod('q'), spec: {} });
    await scene.api.create(scene.in('pods'), { ...pod('q'), spec: { containers: [{ name: 'c' }] } });
    await scene.api.create(scene.in('pods'), { ...pod('q'), spec: { containers: [{ image: 'i' }] } });
    await scene.api.create(scene.in('pods'), {
      ...pod('q'),
      spec: {
        containers: [
          { name: 'c', image: 'i' },
          { name: 'c', image: 'i' },
        ],
      },
    });
  });

  it('the quality of a Pod follows from what it asks for', async (scene) => {
    const asks: JsonObject[] = [
      {},
      { requests: { cpu: '100m' } },
      { limits: { cpu: '1', memory: '1Gi' } },
      { limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '500m' } },
      { requests: { cpu: '2' }, limits: { cpu: '1' } },
      { requests: { cpu: 'lots' } },
    ];
    for (const [n, resources] of asks.entries()) {
      await scene.api.create(scene.in('pods'), pod(`p${n}`, { app: 'x' }, { containers: [{ name: 'c', image: 'i', resources }] }), {
        dryRun: 'All',
      });
    }
  });

  it(
    'an eviction is refused while its budget has nothing to give, and counts when it has',
    async (scene) => {
      await runningPod(scene, 'a');
      await runningPod(scene, 'b');
      await budget(scene, 'strict', { minAvailable: 2 }, 0);
      const refused = await evict(scene, 'a');
      expect([refused.status, at(refused, 'details.causes.0.reason')]).toEqual([429, 'DisruptionBudget']);
      await scene.unrecorded.merge(scene.in('policy/v1/poddisruptionbudgets', 'strict'), { spec: { minAvailable: 1 } });
      await scene.until('one disruption to be allowed', async () => {
        const found = await scene.unrecorded.get(scene.in('policy/v1/poddisruptionbudgets', 'strict'));
        return at(found, 'status.disruptionsAllowed') === 1;
      });
      expect((await evict(scene, 'a', { deleteOptions: { dryRun: ['All'] } })).status).toBe(201);
      expect((await evict(scene, 'a')).status).toBe(201);
      const marked = await scene.api.get(scene.in('pods', 'a'));
      expect(at(marked, 'metadata.deletionGracePeriodSeconds')).toBe(30);
      const counted = await scene.unrecorded.get(scene.in('policy/v1/poddisruptionbudgets', 'strict'));
      scene.see('allowed', at(counted, 'status.disruptionsAllowed') ?? null);
      expect((await evict(scene, 'b')).status).toBe(429);
      expect((await evict(scene, 'a')).status).toBe(201);
    },
    { controllers: true, within: 60 },
  );

  it(
    'pods that do not run are evicted past any budget',
    async (scene) => {
      await runningPod(scene, 'a', { phase: 'Succeeded' });
      await runningPod(scene, 'b', { phase: 'Failed' });
      await runningPod(scene, 'c', { phase: 'Pending' });
      await runningPod(scene, 'd');
      await budget(scene, 'none', { minAvailable: 4 }, 0);
      for (const name of ['a', 'b', 'c']) expect((await evict(scene, name)).status).toBe(201);
      expect((await evict(scene, 'd')).status).toBe(429);
      expect((await evict(scene, 'nobody')).status).toBe(404);
      await evict(scene, 'd', { metadata: { name: 'other' } });
      await scene.api.get(scene.in('pods', 'd', 'eviction'));
    },
    { controllers: true, within: 60 },
  );

  it(
    'two budgets over one pod are an error',
    async (scene) => {
      await runningPod(scene, 'a');
      await budget(scene, 'one', { minAvailable: 0 }, 1);
      await budget(scene, 'two', { minAvailable: 0 }, 1);
      const answer = await evict(scene, 'a');
      expect(answer.status).toBe(500);
    },
    { controllers: true, within: 60 },
  );

  it('budgets are checked', async (scene) => {
    const make = (name: string, spec: JsonObject) =>
      scene.api.create(
        scene.in('policy/v1/poddisruptionbudgets'),
        { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', metadata: { name }, spec },
        { dryRun: 'All' },
      );
    const selector = { matchLabels: { app: 'y' } };
    expect((await make('a', { minAvailable: 1, selector })).status).toBe(201);
    await make('b', { minAvailable: '50%', selector });
    expect((await make('c', { minAvailable: 1, maxUnavailable: 1, selector })).status).toBe(422);
    await make('d', { minAvailable: -1, selector });
    await make('e', { minAvailable: 'half', selector });
    await make('f', { minAvailable: '150%', selector });
    await make('g', { maxUnavailable: 1, selector, unhealthyPodEvictionPolicy: 'Sometimes' });
    await make('h', { maxUnavailable: 1, selector, unhealthyPodEvictionPolicy: 'AlwaysAllow' });
    await make('i', { maxUnavailable: 1, selector: { matchExpressions: [{ key: 'a', operator: 'Frob' }] } });
  });

  it('a Lease keeps times of microseconds', async (scene) => {
    const path = scene.in('coordination.k8s.io/v1/leases');
    const lease = (spec: JsonObject): JsonObject => ({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'l' },
      spec,
    });
    const spec = {
      holderIdentity: 'me',
      leaseDurationSeconds: 15,
      acquireTime: '2020-01-01T00:00:00.000000Z',
      renewTime: '2020-01-01T00:00:00.123456Z',
      leaseTransitions: 0,
    };
    await scene.api.create(path, lease(spec));
    await scene.api.merge(`${path}/l`, { spec: { renewTime: '2020-01-01T00:00:01.5Z' } });
    await scene.api.merge(`${path}/l`, { spec: { renewTime: 'noon' } });
    await scene.api.merge(`${path}/l`, { spec: { leaseDurationSeconds: 0 } });
    await scene.api.merge(`${path}/l`, { spec: { leaseTransitions: -1 } });
    await scene.api.merge(`${path}/l`, { spec: { holderIdentity: '' } });
    await scene.api.merge(`${path}/l`, { spec: { holderIdentity: null } });
  });

  it('a Secret takes text and gives base64', async (scene) => {
    const path = scene.in('secrets');
    const secret = (name: string, more: JsonObject): JsonObject => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name }, ...more });
    const made = await scene.api.create(path, secret('a', { stringData: { p: 'q' }, data: { x: 'eQ==' } }));
    expect(at(made, 'data')).toEqual({ p: 'cQ==', x: 'eQ==' });
    await scene.api.create(path, secret('b', { data: { x: '***' } }));
    await scene.api.create(path, secret('c', { data: { 'a b': 'eQ==' } }));
    await scene.api.create(path, secret('e', { immutable: true, stringData: { p: 'q' } }));
    expect((await scene.api.merge(`${path}/e`, { stringData: { p: 'r' } })).status).toBe(422);
    expect((await scene.api.merge(`${path}/a`, { type: 'Other' })).status).toBe(422);
    await scene.api.apply(`${path}/a`, secret('a', { stringData: { p: 'changed' } }), 'm', { force: 'true' });
    await scene.api.create(path, secret('d', { type: 'kubernetes.io/tls', data: { 'tls.crt': 'eQ==' } }), { dryRun: 'All' });
  });

  it('a ConfigMap’s keys are checked, and one that is immutable stays', async (scene) => {
    const path = scene.in('configmaps');
    const map = (name: string, more: JsonObject): JsonObject => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, ...more });
    await scene.api.create(path, map('a', { data: { 'a b': 'x' } }));
    await scene.api.create(path, map('b', { data: { a: 1 } }));
    await scene.api.create(path, map('c', { data: { a: 'x' }, binaryData: { a: 'eQ==' } }));
    await scene.api.create(path, map('d', { data: { a: 'x' }, immutable: true }));
    expect((await scene.api.merge(`${path}/d`, { data: { a: 'y' } })).status).toBe(422);
    await scene.api.merge(`${path}/d`, { immutable: false });
    await scene.api.merge(`${path}/d`, { metadata: { labels: { a: 'b' } } });
  });

  it('an Event is of something, and of its namespace', async (scene) => {
    const path = scene.in('events');
    const event = (name: string, more: JsonObject): JsonObject => ({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name },
      involvedObject: { kind: 'Pod', name: 'p', namespace: scene.ns, apiVersion: 'v1' },
      reason: 'Because',
      message: 'it is so',
      type: 'Normal',
      count: 1,
      firstTimestamp: '2020-01-01T00:00:00Z',
      lastTimestamp: '2020-01-01T00:00:00Z',
      source: { component: 'test' },
      ...more,
    });
    expect((await scene.api.create(path, event('a', {}))).status).toBe(201);
    await scene.api.create(path, event('b', { involvedObject: { kind: 'Pod', name: 'p', namespace: 'other' } }));
    await scene.api.merge(`${path}/a`, { count: 2, lastTimestamp: '2020-01-01T00:00:01Z' });
    await scene.api.get(path, { fieldSelector: 'involvedObject.name=p,type=Normal' });
  });

  it('a ServiceAccount gives tokens', async (scene) => {
    await scene.api.create(scene.in('serviceaccounts'), { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'bot' } });
    const token = await scene.unrecorded.create(scene.in('serviceaccounts', 'bot', 'token'), {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 600 },
    });
    expect([token.status, text(at(token, 'status.token')).split('.').length]).toEqual([201, 3]);
    scene.see('expiry', at(token, 'spec.expirationSeconds') ?? null);
    const reviewed = await scene.unrecorded.create('/apis/authentication.k8s.io/v1/tokenreviews', {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token: text(at(token, 'status.token')) },
    });
    scene.see('who', [
      at(reviewed, 'status.authenticated') ?? null,
      at(reviewed, 'status.user.username') ?? null,
      at(reviewed, 'status.user.groups') ?? null,
    ]);
    await scene.api.create(scene.in('serviceaccounts', 'bot', 'token'), {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 10 },
    });
    await scene.api.create(scene.in('serviceaccounts', 'none', 'token'), {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {},
    });
  });

  it('who one is, and what one may do, can be asked', async (scene) => {
    await scene.api.create('/apis/authentication.k8s.io/v1/selfsubjectreviews', {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'SelfSubjectReview',
    });
    await scene.api.create('/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SelfSubjectAccessReview',
      spec: { resourceAttributes: { verb: 'delete', resource: 'pods', namespace: scene.ns } },
    });
  });

  it(
    'a certificate is signed when it was approved',
    async (scene) => {
      const request = Buffer.from(await makeRequest([{ CN: [`${scene.ns}-me`] }, { O: ['team'] }])).toString('base64');
      scene.call(request, '<request>');
      const name = `${scene.ns}-csr`;
      const csr = (spec: JsonObject): JsonObject => ({
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        metadata: { name },
        spec: { request, signerName: 'kubernetes.io/kube-apiserver-client', usages: ['client auth'], ...spec },
      });
      await scene.api.create(CSRS, csr({ expirationSeconds: 599 }), { dryRun: 'All' });
      await scene.api.create(CSRS, csr({ usages: [] }), { dryRun: 'All' });
      await scene.api.create(CSRS, csr({ signerName: 'plain' }), { dryRun: 'All' });
      await scene.api.create(CSRS, csr({ request: 'eA==' }), { dryRun: 'All' });
      const made = await scene.api.create(CSRS, csr({ expirationSeconds: 600 }));
      expect([made.status, at(made, 'spec.username')]).toEqual([201, 'kubernetes-admin']);
      await scene.api.merge(`${CSRS}/${name}`, { spec: { usages: ['server auth'] } });
      const approval = { type: 'Approved', status: 'True', reason: 'Test', message: 'ok' };
      await scene.api.merge(`${CSRS}/${name}`, { status: { conditions: [approval] } });
      const approved = await scene.unrecorded.put(`${CSRS}/${name}/approval`, {
        ...made.body,
        metadata: { name },
        status: { conditions: [approval] },
      });
      scene.see('approved', [approved.status, pickTable(at(approved, 'status.conditions'), ['type', 'status', 'reason', 'message'])]);
      await scene.until(
        'the certificate',
        async () => at(await scene.unrecorded.get(`${CSRS}/${name}`), 'status.certificate') !== undefined,
      );
      const both = [approval, { type: 'Denied', status: 'True', reason: 'Test', message: 'no' }];
      const live = await scene.unrecorded.get(`${CSRS}/${name}`);
      const denied = await scene.unrecorded.put(`${CSRS}/${name}/approval`, {
        ...live.body,
        status: { ...(live.body['status'] as JsonObject), conditions: both },
      });
      scene.see('denied too', [denied.status, pick(denied.body, 'message') ?? null]);
    },
    { controllers: true, within: 60 },
  );

  it('a request of another shape than any resource is not found', async (scene) => {
    for (const path of ['/nothing', '/api/v2', '/apis/none.io', '/apis/none.io/v1', '/apis/none.io/v1/things', '/api/v1/none'])
      await scene.api.get(path);
  });
});
