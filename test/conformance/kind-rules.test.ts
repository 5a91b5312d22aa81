/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
/** Each CEL rule of KubeNode's kinds, and a write that breaks it: both servers refuse it with the same words, at the same path. */
import { expect } from 'vitest';
import { Fleets } from '../../src/api/fleet.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { ALL_KINDS } from '../../src/api/kinds.ts';
import { at, type JsonObject, type Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { define } from './widgets.ts';

const path = (plural: string): string => `/apis/${API_VERSION}/${plural}`;
const object = (kind: string, name: string, spec: JsonObject, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, ...metadata },
  spec,
});
const plain = (value: unknown): JsonObject => JSON.parse(JSON.stringify(value)) as JsonObject;
const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** How every message of every rule begins, wherever in a schema it stands. */
function rulesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(rulesIn);
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, child]) =>
    key === 'x-kubernetes-validations' && Array.isArray(child)
      ? child.map(
          (rule: { message: string; messageExpression?: string }) => rule.messageExpression?.split(/["\\(]/)[0]?.slice(1) ?? rule.message,
        )
      : rulesIn(child),
  );
}

const refusals: string[] = [];

/** A write that breaks one rule. */
async function refused(scene: Scene, write: () => ReturnType<Scene['api']['create']>): Promise<void> {
  const answer = await write();
  const message = text(answer.body['message']);
  if (scene.server === 'embedded') refusals.push(message);
  expect([answer.status, message]).toEqual([422, expect.stringContaining('Invalid value')]);
}

async function made(answer: Promise<{ status: number; body: JsonObject }>): Promise<void> {
  const { status, body } = await answer;
  expect([status, body['message']]).toEqual([expect.any(Number), undefined]);
}

const all = { dryRun: 'All' };

conformance(
  'kind-rules',
  {
    async prepare(api) {
      for (const kind of ALL_KINDS) await define(api, plain(kind.crd()));
    },
  },
  (it) => {
    it('a machine is set aside only after its agent had the time to renew its Lease', async (scene) => {
      const sets = path('machinecomponentsets');
      const spec = (afterSeconds: number): JsonObject => ({ componentName: 'kubelet', version: '1.0.0', offlinePolicy: { afterSeconds } });
      await refused(scene, () => scene.api.create(sets, object('MachineComponentSet', `${scene.ns}-offline`, spec(179)), all));
      await made(scene.api.create(sets, object('MachineComponentSet', `${scene.ns}-offline`, spec(180)), all));
    });

    it('the component of a set is fixed', async (scene) => {
      const sets = path('machinecomponentsets');
      await made(scene.unrecorded.create(sets, object('MachineComponentSet', scene.ns, { componentName: 'kubelet', version: '1.0.0' })));
      await refused(scene, () => scene.api.merge(`${sets}/${scene.ns}`, { spec: { componentName: 'containerd' } }));
      await made(scene.unrecorded.merge(`${sets}/${scene.ns}`, { spec: { version: '1.0.1' } }));
      await scene.unrecorded.remove(`${sets}/${scene.ns}`);
    });

    it('a job is fixed, also in what its schema does not know', async (scene) => {
      const jobs = scene.in(`${API_VERSION}/remedyoperationjobs`);
      const job = object('RemedyOperationJob', 'a', {
        rule: 'hung',
        machine: { name: 'a', uid: 'u' },
        node: 'a',
        rung: 0,
        attempt: 1,
        action: 'CleanDisk',
        args: { belowPercent: 80, more: { a: 1 } },
        timeoutSeconds: 600,
        healedWhen: { condition: 'DiskPressure', is: 'False', forSeconds: 300 },
        priority: 0,
        matchedSince: '2026-01-01T00:00:00.000Z',
        why: 'because',
      });
      await made(scene.unrecorded.create(jobs, job));
      await refused(scene, () => scene.api.merge(`${jobs}/a`, { spec: { action: 'Replace' } }));
      await refused(scene, () => scene.api.merge(`${jobs}/a`, { spec: { args: { more: { a: 2 } } } }));
      await refused(scene, () => scene.api.apply(`${jobs}/a`, { ...job, spec: { why: 'so' } }, 'm', { force: 'true' }));
      await made(scene.unrecorded.merge(`${jobs}/a`, { metadata: { labels: { a: 'b' } } }));
      await made(scene.unrecorded.merge(`${jobs}/a/status`, { status: { phase: 'Pending' } }));
    });

    it('the epoch of the ledger never falls', async (scene) => {
      const ledgers = path('disruptionledgers');
      const ledger = `${ledgers}/${scene.ns}`;
      await made(scene.unrecorded.create(ledgers, object('DisruptionLedger', scene.ns, {})));
      await made(scene.unrecorded.merge(`${ledger}/status`, { status: { epoch: 3 } }));
      await made(scene.unrecorded.merge(`${ledger}/status`, { status: { epoch: 3, reservations: [] } }));
      await refused(scene, () => scene.api.merge(`${ledger}/status`, { status: { epoch: 2 } }));
      await refused(scene, () => scene.api.merge(`${ledger}/status`, { status: { epoch: null } }));
      await refused(scene, () => scene.api.merge(`${ledger}/status`, { status: null }));
      await scene.unrecorded.remove(ledger);
    });

    it('of a rollout only paused and retry may change', async (scene) => {
      const rollouts = path('rollouts');
      const rollout = `${rollouts}/${scene.ns}`;
      const unit = (name: string, digest: string) => ({ unit: name, clusters: [{ name: 'a', digest }] });
      const stage = { name: 'test', clusters: ['a'], soakSeconds: 0, maxClusters: 1 };
      const spec = { fleet: 'f', commit: 'c', subject: 's', sequence: 1, stages: [stage], units: [unit('x', '1'), unit('y', '1')] };
      await made(scene.unrecorded.create(rollouts, object('Rollout', scene.ns, spec)));
      const changes: JsonObject[] = [
        { fleet: 'g' },
        { commit: 'd' },
        { subject: 't' },
        { subject: null },
        { author: 'a' },
        { sequence: 2 },
        { stages: [{ ...stage, clusters: ['b'] }] },
        { units: [unit('x', '2'), unit('y', '1')] },
        { units: [unit('x', '1')] },
      ];
      for (const change of changes) await refused(scene, () => scene.api.merge(rollout, { spec: change }));
      await made(scene.unrecorded.merge(rollout, { spec: { paused: true, retry: '1' } }));
      // Units are distinguished by their names, so their order means nothing.
      await made(scene.unrecorded.merge(rollout, { spec: { units: [unit('y', '1'), unit('x', '1')] } }));
      await scene.unrecorded.remove(rollout);
    });

    it('a component is fixed, and called by what it is', async (scene) => {
      const components = path('machinecomponents');
      const name = `${scene.ns}-1.0.0-build-1`;
      const component = (spec: JsonObject = {}, called = name) =>
        object('MachineComponent', called, { componentName: scene.ns, version: '1.0.0+Build_1', platforms: [], ...spec });
      await made(scene.unrecorded.create(components, component()));
      await refused(scene, () => scene.api.merge(`${components}/${name}`, { spec: { healthDeadlineSeconds: 5 } }));
      await scene.unrecorded.remove(`${components}/${name}`);
      await refused(scene, () => scene.api.create(components, component({}, `${scene.ns}-1.0.1`), all));
      const bad: JsonObject[] = [
        { files: [{ path: '/etc/../x', content: '' }] },
        {
          files: [
            { path: '/etc/x', content: '' },
            { path: '/x/..', content: '' },
          ],
        },
        { disposable: [{ path: '/var/lib', olderThanSeconds: 60 }] },
        { disposable: [{ path: '/etc/kubenode/x', olderThanSeconds: 60 }] },
        { probes: [{ name: 'none' }] },
        { probes: [{ name: 'two', http: { url: 'http://localhost' }, exec: { command: ['true'] } }] },
        { probes: [{ name: 'p', unit: 'other' }] },
        { units: [{ name: 'app', exec: ['a'] }], probes: [{ name: 'p', unit: 'other' }] },
        { units: [{ name: 'app', exec: ['a'], systemd: { requires: ['kubenode-agent.service'] } }] },
        { nodeCredentials: { kubeconfig: '/var/lib/kubenode/x', certificateAuthority: '/etc/kubernetes/ca.crt' } },
        { nodeCredentials: { kubeconfig: '/etc/a', certificateAuthority: '/etc/b', clientCertificate: '/var/lib/kubenode/x' } },
      ];
      for (const spec of bad) await refused(scene, () => scene.api.create(components, component(spec), all));
      const good: JsonObject[] = [
        { files: [{ path: '/etc/..x/y..', content: '' }] },
        { disposable: [{ path: '/var/lib/kubenodes', olderThanSeconds: 60 }] },
        { units: [{ name: 'app', exec: ['a'] }], probes: [{ name: 'p', unit: 'app' }] },
        { units: [{ name: 'app', exec: ['a'], systemd: { requires: ['network-online.target'] } }] },
        { nodeCredentials: { kubeconfig: '/etc/a', certificateAuthority: '/etc/b', clientCertificate: '/etc/c' } },
      ];
      for (const spec of good) await made(scene.unrecorded.create(components, component(spec), all));
    });

    it('a fleet has one source, and stages', async (scene) => {
      const stages = [{ name: 'all', clusterSelector: {} }];
      const sources: JsonObject[] = [{}, { path: '/a', url: 'https://a', branch: 'main' }, { url: 'https://a' }];
      const fleet = (spec: JsonObject) => object(Fleets.kind, scene.ns, { source: { path: '/a' }, stages, ...spec });
      for (const source of sources) await refused(scene, () => scene.api.create(path('fleets'), fleet({ source }), all));
      expect((await scene.api.create(path('fleets'), fleet({ stages: [] }), all)).status).toBe(422);
      await made(scene.unrecorded.create(path('fleets'), fleet({ source: { url: 'https://a', branch: 'main' } }), all));
    });

    it('the epochs of a machine never fall, and one request is admitted in each', async (scene) => {
      const machines = scene.in(`${API_VERSION}/machines`);
      const operation = { id: 'o', epoch: 2, kind: 'Change', notAfter: '2026-01-01T00:00:00Z' };
      const bootstrap = { epoch: 2, accountUID: 'u', tokenUntil: '2026-01-01T00:00:00Z' };
      await made(scene.unrecorded.create(machines, object('Machine', 'a', {})));
      await made(scene.unrecorded.merge(`${machines}/a`, { spec: { operation } }));
      await made(scene.unrecorded.merge(`${machines}/a/status`, { status: { bootstrap } }));
      await refused(scene, () => scene.api.merge(`${machines}/a`, { spec: { operation: { epoch: 1 } } }));
      await refused(scene, () => scene.api.merge(`${machines}/a`, { spec: { operation: null } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: { bootstrap: { epoch: 1 } } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: { bootstrap: null } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: null }));
      await made(scene.unrecorded.merge(`${machines}/a/status`, { status: { bootstrap: { csrUID: 'x' } } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: { bootstrap: { csrUID: 'y' } } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: { bootstrap: { csrUID: null } } }));
      await made(scene.unrecorded.merge(`${machines}/a/status`, { status: { bootstrap: { epoch: 3, csrUID: 'y' } } }));
      expect(at(await scene.unrecorded.get(`${machines}/a`), 'status.bootstrap.csrUID')).toBe('y');
    });

    it('labels and taints of a Node have the form of Kubernetes, and the taints of Kubernetes are its own', async (scene) => {
      const machines = scene.in(`${API_VERSION}/machines`);
      const sets = scene.in(`${API_VERSION}/machinesets`);
      const set = (template: JsonObject) => object('MachineSet', 's', { provider: { name: 'p' }, template });
      const long = (length: number): string => 'a'.repeat(length);
      const taint = (key: string, value = ''): JsonObject => ({ taints: [{ key, value, effect: 'NoExecute' }] });
      const bad: JsonObject[] = [
        ...['NODE-ROLE.kubernetes.io/x', '/x', 'a/', 'a/b/c', '-a', 'a_b/c', long(64), `${long(254)}/a`].map((key) => ({
          labels: { [key]: 'x' },
        })),
        { labels: { a: 'b c' } },
        { labels: { a: long(64) } },
        taint('node.kubernetes.io/out-of-service', 'nodeshutdown'),
        taint('node.cloudprovider.kubernetes.io/shutdown'),
        taint('NODE-ROLE.kubernetes.io/x'),
        taint('a', 'b c'),
        { taints: ['x', 'y'].map((value) => ({ key: 'a', value, effect: 'NoSchedule' })) },
      ];
      for (const spec of bad) {
        await refused(scene, () => scene.api.create(machines, object('Machine', 'b', spec), all));
        await refused(scene, () => scene.api.create(sets, set(spec), all));
      }
      await refused(scene, () => scene.api.create(sets, set({ metadata: { labels: { 'A/b': 'x' } } }), all));
      const good: JsonObject[] = [
        { labels: { 'node-role.kubernetes.io/x': '', Tier: 'Web_1.0', [`a.${long(63)}/${long(63)}`]: long(63) } },
        taint('dedicated.example.com/Pool', 'a'),
        { taints: ['NoSchedule', 'NoExecute'].map((effect) => ({ key: 'a', effect })) },
      ];
      for (const spec of good) {
        await made(scene.unrecorded.create(machines, object('Machine', 'b', spec), all));
        await made(scene.unrecorded.create(sets, set(spec), all));
      }
    });

    it('only a machine that exists is given back or reset', async (scene) => {
      const machines = scene.in(`${API_VERSION}/machines`);
      const provider = { name: 'ssh', config: { address: 'a' } };
      for (const deletionPolicy of ['Orphan', 'Reset']) {
        await refused(scene, () => scene.api.create(machines, object('Machine', 'b', { deletionPolicy }), all));
        await refused(scene, () => scene.api.create(machines, object('Machine', 'b', { deletionPolicy, provider: { name: 'p' } }), all));
        await made(scene.unrecorded.create(machines, object('Machine', 'b', { deletionPolicy, provider }), all));
      }
      await refused(scene, () => scene.api.create(machines, object('Machine', 'b', { deletionPolicy: 'Retain', provider }), all));
      await made(scene.unrecorded.create(machines, object('Machine', 'a', { deletionPolicy: 'Delete' })));
      await refused(scene, () => scene.api.merge(`${machines}/a`, { spec: { deletionPolicy: 'Orphan' } }));
    });

    it('when a machine was first Ready is recorded once', async (scene) => {
      const machines = scene.in(`${API_VERSION}/machines`);
      await made(scene.unrecorded.create(machines, object('Machine', 'a', {})));
      await made(scene.unrecorded.merge(`${machines}/a/status`, { status: { phase: 'Installing' } }));
      await made(scene.unrecorded.merge(`${machines}/a/status`, { status: { firstReadyAt: '2026-01-01T00:00:00.000Z' } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: { firstReadyAt: '2026-01-01T00:00:01.000Z' } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: { firstReadyAt: null } }));
      await refused(scene, () => scene.api.merge(`${machines}/a/status`, { status: null }));
      await made(scene.unrecorded.merge(`${machines}/a/status`, { status: { phase: 'Running' } }));
    });

    it('no rule is without a write that breaks it', async (scene) => {
      const rules = ALL_KINDS.flatMap((kind) => rulesIn(plain(kind.crd())));
      scene.see('rules', rules.length);
      expect(rules.filter((rule) => !refusals.some((message) => message.includes(rule)))).toEqual([]);
    });
  },
);
