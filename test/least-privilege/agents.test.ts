/** What an agent can do, by certificate and by ServiceAccount: its own Machine, and nothing else (docs/security.md). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BREAK_GLASS } from '../../deploy/identities.ts';
import { AGENTS, agentServiceAccountName, agentUser, serviceAccountUser } from '../../src/api/identity.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import { machineAccess, poolAccess, standInPoolAccess } from '../../src/api/machine-access.ts';
import { Machines, type Machine } from '../../src/api/machine.ts';
import { MANAGERS } from '../../src/api/names.ts';
import type { JsonObject, ManagedFieldsEntry, Stored } from '../../src/api/wire.ts';
import { makeRequestAndKey } from '@kubenode/embedded/testing';
import { install, loosen } from './installed.ts';
import { attempt, until, WHO, type Outcome, type Rig, type Who } from './rig.ts';

const MACHINES = '/apis/kubenode.io/v1alpha1/namespaces/web/machines';
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/web/leases';
const NOW = '2026-11-20T12:00:00Z';
const ready = (type: string, status = 'True') => ({ type, status, reason: 'A', message: '', lastTransitionTime: NOW });
const agent = { version: '1', apiLevel: 1, bootID: 'b', os: 'linux', arch: 'amd64' };
const component = { name: 'kubelet', version: '1', content: 'c', revision: 1, running: 1, state: 'Healthy' };

let rig: Rig & { remove: () => Promise<void> };

beforeAll(async () => {
  rig = await install();
  for (const [namespace, name] of [
    ['web', 'm1'],
    ['web', 'm2'],
    ['db', 'm1'],
  ] as const) {
    const path = `/apis/kubenode.io/v1alpha1/namespaces/${namespace}/machines`;
    await attempt(rig.admin.request({ method: 'DELETE', path: `${path}/${name}` }));
    const made = await rig.admin.create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: { namespace, name }, spec: {} });
    // By the machine controller itself: it must be able to give what it gives.
    const { role, roleBinding } = machineAccess(made, { standIn: true });
    for (const object of [role, roleBinding, poolAccess(namespace), standInPoolAccess(namespace)])
      await rig.apply(object, rig.as(WHO.machine));
    // What controllers report stays when the agent reports.
    const nodeKeys = { nodeUID: 'u', nodeVersion: '1', labels: [], taints: [] };
    const status = { phase: 'Pending', providerID: 'p', nodeKeys, conditions: [ready('Ready'), ready('NodeReady')] };
    await rig.as(WHO.machine).patch(Machines, { namespace, name }, { merge: { status } }, { subresource: 'status' });
  }
  for (const who of BOTH) await until('the rights of the agent', async () => (await attempt(get(who, 'machines/m1'))).outcome === 'ok');
}, 120_000);

afterAll(async () => {
  for (const path of [`${MACHINES}/m1`, `${MACHINES}/m2`, MACHINES.replace('web', 'db') + '/m1'])
    await attempt(rig.admin.request({ method: 'DELETE', path }));
  await rig.remove();
});

const BOTH: Who[] = [WHO.agent, WHO.agentAccount];
const each = describe.each([
  ['by certificate', WHO.agent],
  ['by ServiceAccount', WHO.agentAccount],
] as [string, Who][]);

const get = (who: Who, path: string, query: Record<string, string> = {}): Promise<unknown> =>
  rig.as(who).request({ method: 'GET', path: path.startsWith('/') ? path : `${MACHINES.replace('/machines', '')}/${path}`, query });

function send(
  who: Who,
  method: 'POST' | 'PATCH' | 'PUT' | 'DELETE',
  path: string,
  body?: object,
  type = 'application/merge-patch+json',
  dry = true,
) {
  return rig.as(who).request({
    method,
    path,
    query: { ...(dry ? { dryRun: 'All' } : {}), ...(type.includes('apply') ? { fieldManager: 'kubenode-agent', force: 'true' } : {}) },
    ...(body === undefined
      ? {}
      : { headers: { 'content-type': method === 'PATCH' ? type : 'application/json' }, body: JSON.stringify(body) }),
  });
}

const reportAs = (who: Who, status: JsonObject | null, path = `${MACHINES}/m1/status`) => attempt(send(who, 'PATCH', path, { status }));
const applies = (who: Who, status: object, dry = true, name = 'm1') =>
  attempt(
    send(
      who,
      'PATCH',
      `${MACHINES}/${name}/status`,
      { apiVersion: API_VERSION, kind: 'Machine', metadata: { name, namespace: 'web' }, status },
      'application/apply-patch+yaml',
      dry,
    ),
  );
const live = (): Promise<Stored<Machine>> => rig.admin.get(Machines, { namespace: 'web', name: 'm1' });

each('an agent %s', (_, who) => {
  test('G3: reads its Machine, the components that it names, and Nodes: one by one, never as a list', async () => {
    const cases: [string, Record<string, string>, Outcome][] = [
      ['machines/m1', {}, 'ok'],
      ['machines/m2', {}, 'rbac'],
      [`${MACHINES.replace('web', 'db')}/m1`, {}, 'rbac'],
      ['machines', {}, 'rbac'],
      ['machines', { fieldSelector: 'metadata.name=m1' }, 'rbac'],
      ['machines', { watch: '1', timeoutSeconds: '1', fieldSelector: 'metadata.name=m2' }, 'rbac'],
      ['machines', { watch: '1', timeoutSeconds: '1', fieldSelector: 'metadata.name!=m2' }, 'rbac'],
      ['machines', { watch: '1', timeoutSeconds: '1' }, 'rbac'],
      ['/apis/kubenode.io/v1alpha1/machines', { watch: '1', timeoutSeconds: '1', fieldSelector: 'metadata.name=m1' }, 'rbac'],
      ['machines/m1/status', {}, 'rbac'],
      ['/apis/kubenode.io/v1alpha1/machinecomponents/none', {}, 'absent'],
      ['/apis/kubenode.io/v1alpha1/machinecomponents', {}, 'rbac'],
      ['/api/v1/nodes/none', {}, 'absent'],
      ['/api/v1/nodes', {}, 'rbac'],
      ['/api/v1/namespaces/web/secrets', {}, 'rbac'],
      ['/api/v1/namespaces/web/secrets/any', {}, 'rbac'],
      ['/api/v1/namespaces/web/configmaps', {}, 'rbac'],
      ['/api/v1/namespaces/web/pods', {}, 'rbac'],
      ['/api/v1/namespaces/kubenode-system/secrets/cluster-prod', {}, 'rbac'],
      [`${LEASES}/agent-m2`, {}, 'rbac'],
      [LEASES, {}, 'rbac'],
      ...['machinesets', 'disruptionledgers', 'freezes', 'noderemediers', 'machinecomponentsets', 'remedyoperationjobs'].map(
        (plural): [string, Record<string, string>, Outcome] => [`/apis/kubenode.io/v1alpha1/${plural}`, {}, 'rbac'],
      ),
    ];
    const found = await Promise.all(cases.map(async ([path, query]) => (await attempt(get(who, path, query))).outcome));
    expect(found.map((outcome, index) => [...(cases[index] ?? []).slice(0, 2), outcome])).toEqual(cases);
  });

  test('watches its own Machine by name, and gets its events', async () => {
    const stop = AbortSignal.timeout(10_000);
    for await (const event of rig
      .as(who)
      .watch(Machines, { namespace: 'web', fieldSelector: 'metadata.name=m1', timeoutSeconds: 5, signal: stop })) {
      expect(event).toMatchObject({ type: 'ADDED', object: { metadata: { name: 'm1' } } });
      break;
    }
  });

  test('reports what is its own, and leaves what others reported', async () => {
    expect(
      await applies(
        who,
        { agent, components: [component], operation: { id: 'a', state: 'Running' }, conditions: [ready('AgentReady')] },
        false,
      ),
    ).toEqual({
      outcome: 'ok',
      message: '',
    });
    const { status } = await live();
    expect(status).toMatchObject({ phase: 'Pending', providerID: 'p', agent, components: [component] });
    expect(status?.conditions?.map(({ type }) => type).sort()).toEqual(['AgentReady', 'NodeReady', 'Ready']);
    expect((await applies(who, { agent, conditions: [ready('AgentReady', 'False')] }, false)).outcome).toBe('ok');
    expect((await live()).status?.components).toBeUndefined();
    expect((await reportAs(who, { agent: { ...agent, version: '2' } })).outcome).toBe('ok');
    expect((await reportAs(who, { agent: null, components: null })).outcome).toBe('ok');
  });

  test("changes nothing that is others', set, changed, emptied or removed", async () => {
    const foreign: (JsonObject | null)[] = [
      { phase: 'Running' },
      { phase: null },
      { providerID: 'other' },
      { providerID: null },
      { nodeRef: { name: 'n', uid: 'u' } },
      { nodeKeys: { nodeUID: 'u', nodeVersion: '1', labels: ['a=b'], taints: ['a=b:NoExecute'] } },
      { nodeKeys: null },
      { addresses: [] },
      { verified: [] },
      { verdict: { allowed: true } },
      { lastDisruption: NOW },
      { observations: [] },
      { repairRules: ['hung'] },
      { observedGeneration: 9 },
      { repair: { id: 'a', state: 'Done' } },
      null,
      { conditions: null },
      { conditions: [] },
      { conditions: [ready('AgentReady')] },
      { conditions: [ready('Ready'), ready('NodeReady', 'False'), ready('AgentReady')] },
      { conditions: [ready('Ready'), ready('NodeReady'), ready('Healthy'), ready('AgentReady')] },
      { conditions: [ready('NodeReady'), ready('AgentReady')] },
      { agent, phase: 'Running' },
    ];
    for (const status of foreign) {
      const { outcome, message } = await reportAs(who, status);
      expect([status, outcome, message]).toEqual([status, 'policy', expect.stringContaining('agent')]);
    }
    expect((await applies(who, { conditions: [ready('Ready', 'False')] })).outcome).toBe('policy');
    expect((await applies(who, { phase: 'Running' })).outcome).toBe('policy');
  });

  test('G7b: writes by no name but its own, and gives its fields to no other', async () => {
    await applies(who, { agent, conditions: [ready('AgentReady')] }, false);
    // The machine controller writes its part by an apply, as always.
    const part = { apiVersion: API_VERSION, kind: 'Machine', metadata: { name: 'm1', namespace: 'web' }, status: { addresses: [] } };
    const options = { fieldManager: MANAGERS.machine, subresource: 'status', force: true };
    await rig.as(WHO.machine).apply(Machines, part, options);
    const { status, metadata } = await live();
    const path = `${MACHINES}/m1/status`;
    const patch = (body: unknown, type: string, query: Record<string, string>, headers: Record<string, string> = {}) =>
      attempt(
        rig.as(who).request({ method: 'PATCH', path, query, headers: { 'content-type': type, ...headers }, body: JSON.stringify(body) }),
      );
    const whole = { ...part, status: { ...status, agent: { ...agent, version: 'stolen' } } };
    const names = [...Object.values(MANAGERS).filter((name) => name !== MANAGERS.agent), 'kubenode-x', 'another'];
    for (const fieldManager of names) {
      const applied = await patch(whole, 'application/apply-patch+yaml', { fieldManager, force: 'true' });
      expect([fieldManager, applied]).toEqual([fieldManager, { outcome: 'policy', message: expect.stringContaining('field manager') }]);
      const merged = await patch({ status: { agent: { version: 'x' } } }, 'application/merge-patch+json', { fieldManager });
      expect([fieldManager, merged.outcome]).toEqual([fieldManager, 'policy']);
    }
    const named = { 'user-agent': 'kubenode-machine/1' };
    expect((await patch({ status: { agent: { version: 'x' } } }, 'application/merge-patch+json', {}, named)).outcome).toBe('policy');
    const records = metadata.managedFields ?? [];
    const changed = (change: (each: ManagedFieldsEntry) => ManagedFieldsEntry[]) =>
      patch(
        { metadata: { managedFields: records.flatMap(change) }, status: { agent: { version: 'other' } } },
        'application/merge-patch+json',
        {},
      );
    const isControllers = ({ manager, operation }: ManagedFieldsEntry) => manager === MANAGERS.machine && operation === 'Apply';
    expect(records.filter(isControllers)).toHaveLength(1);
    // What the server leaves as it was is as good as refused.
    const kept = async () => (await live()).metadata.managedFields?.find(isControllers);
    const before = await kept();
    expect(['ok', 'policy']).toContain((await changed((each) => (isControllers(each) ? [] : [each]))).outcome);
    expect(await kept()).toEqual(before);
    const more = { 'f:status': { 'f:addresses': {}, 'f:agent': { 'f:version': {} } } };
    expect(['ok', 'policy']).toContain((await changed((each) => [isControllers(each) ? { ...each, fieldsV1: more } : each])).outcome);
    expect(await kept()).toEqual(before);
    // The controller goes on, and the agent too.
    const less = { ...part, status: {} };
    await rig.as(WHO.machine).apply(Machines, less, options);
    expect((await live()).status?.agent).toBeDefined();
    expect((await applies(who, { agent: { ...agent, version: '2' } }, false)).outcome).toBe('ok');
    // What the merges above own stays when an apply leaves it out.
    expect((await attempt(send(who, 'PATCH', path, { status: { agent: null } }, undefined, false))).outcome).toBe('ok');
  });

  test('has no other way to its Machine: neither spec nor metadata, neither made nor deleted', async () => {
    const machine = await live();
    const smuggled = { metadata: { labels: { a: 'b' }, finalizers: ['a/b'] }, spec: { hold: true }, status: { agent } };
    expect((await attempt(send(who, 'PATCH', `${MACHINES}/m1/status`, smuggled, undefined, false))).outcome).toBe('ok');
    const after = await live();
    expect([after.metadata.labels, after.metadata.finalizers, after.spec]).toEqual([
      machine.metadata.labels,
      machine.metadata.finalizers,
      machine.spec,
    ]);
    for (const [method, path, body] of [
      ['PATCH', `${MACHINES}/m1`, { spec: { hold: true } }],
      ['PATCH', `${MACHINES}/m1`, {}],
      ['PATCH', `${MACHINES}/m1`, { metadata: { labels: { a: 'b' } } }],
      ['PUT', `${MACHINES}/m1`, machine],
      ['PUT', `${MACHINES}/m1/status`, machine],
      ['DELETE', `${MACHINES}/m1`, undefined],
      ['DELETE', MACHINES, undefined],
      ['POST', MACHINES, { ...machine, metadata: { name: 'm3' } }],
    ] as const)
      expect([method, path, (await attempt(send(who, method, path, body))).outcome]).toEqual([method, path, 'rbac']);
  });

  test('reports nothing about other machines, not even an empty status', async () => {
    for (const path of [`${MACHINES}/m2/status`, `${MACHINES.replace('web', 'db')}/m1/status`])
      for (const status of [{ agent }, {}, null]) expect([path, (await reportAs(who, status, path)).outcome]).toEqual([path, 'rbac']);
    expect((await applies(who, { agent }, true, 'm2')).outcome).toBe('rbac');
  });

  test('renews its own Lease and makes no other', async () => {
    const lease = (name: string) => ({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name },
      spec: { holderIdentity: 'x' },
    });
    expect((await attempt(send(who, 'POST', LEASES, lease('agent-m1')))).outcome).toBe('ok');
    for (const name of ['agent-m2', 'm1', 'kubenode-cell', 'agent-m1-x', 'agent-m'])
      expect([name, (await attempt(send(who, 'POST', LEASES, lease(name)))).outcome]).toEqual([name, 'policy']);
    for (const namespace of ['db', 'kube-node-lease', 'kubenode-system'])
      expect((await attempt(send(who, 'POST', LEASES.replace('web', namespace), lease('agent-m1')))).outcome).toBe('rbac');
    const generated = { ...lease(''), metadata: { generateName: 'agent-m1' } };
    expect((await attempt(send(who, 'POST', LEASES, generated))).outcome).toBe('policy');
    await rig.admin.request({
      method: 'POST',
      path: LEASES,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(lease('agent-m2')),
    });
    expect((await attempt(send(who, 'PATCH', `${LEASES}/agent-m2`, { spec: { holderIdentity: 'me' } }))).outcome).toBe('rbac');
    expect((await attempt(send(who, 'DELETE', `${LEASES}/agent-m1`))).outcome).toBe('rbac');
    await rig.admin.request({ method: 'DELETE', path: `${LEASES}/agent-m2` });
  });

  test('writes Events about its own Machine only', async () => {
    const path = '/api/v1/namespaces/web/events';
    const event = (about: object) => ({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: 'e1', namespace: 'web' },
      reason: 'A',
      type: 'Normal',
      involvedObject: { apiVersion: API_VERSION, kind: 'Machine', namespace: 'web', name: 'm1', ...about },
    });
    expect((await attempt(send(who, 'POST', path, event({})))).outcome).toBe('ok');
    for (const about of [{ name: 'm2' }, { kind: 'Pod' }, { kind: 'MachineSet', name: 'web' }])
      expect([about, (await attempt(send(who, 'POST', path, event(about)))).outcome]).toEqual([about, 'policy']);
    expect((await attempt(send(who, 'POST', path.replace('web', 'db'), event({ namespace: 'db' })))).outcome).toBe('rbac');
    expect((await attempt(send(who, 'PATCH', `${path}/e1`, {}))).outcome).toBe('rbac');
  });

  test('reports Events under no name but that of agents', async () => {
    const about = { apiVersion: API_VERSION, kind: 'Machine', namespace: 'web', name: 'm1' };
    const core = (name: string, more: object) => ({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name, namespace: 'web' },
      reason: 'A',
      type: 'Normal',
      involvedObject: about,
      ...more,
    });
    const report = (body: object) => attempt(send(who, 'POST', '/api/v1/namespaces/web/events', body));
    const own = { source: { component: 'kubenode-agent', host: 'm1' }, reportingComponent: 'kubenode.io/agent' };
    expect((await report(core('own', own))).outcome).toBe('ok');
    for (const more of [{ source: { component: 'kubelet' } }, { reportingComponent: 'kubenode.io/machine' }])
      expect([more, (await report(core('other', { ...own, ...more }))).outcome]).toEqual([more, 'policy']);
  });

  test('reports Events that end by themselves, and are no longer than Kubernetes allows', async () => {
    const owner = { apiVersion: API_VERSION, kind: 'Machine', name: 'm1', uid: 'u' };
    const event = (message: string, more: object = {}) => ({
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { generateName: 'e-', namespace: 'web', ...more },
      reason: 'A',
      type: 'Normal',
      message,
      involvedObject: { apiVersion: API_VERSION, kind: 'Machine', namespace: 'web', name: 'm1' },
    });
    const report = async (...of: Parameters<typeof event>) =>
      (await attempt(send(who, 'POST', '/api/v1/namespaces/web/events', event(...of)))).outcome;
    expect(await report('x'.repeat(1024))).toBe('ok');
    expect(await report('x'.repeat(1025))).toBe('policy');
    expect(await report('x', { finalizers: ['x.example/y'] })).toBe('policy');
    expect(await report('x', { ownerReferences: [owner] })).toBe('policy');
  });

  test('G7a: makes nothing that stays or is large', async () => {
    const owner = { apiVersion: API_VERSION, kind: 'Machine', name: 'm2', uid: 'u' };
    const long = 'x'.repeat(254);
    const lease = (more: object, spec: object = {}) => ({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'agent-m1', ...more },
      spec: { holderIdentity: 'm1', ...spec },
    });
    const stays: object[] = [
      { finalizers: ['x.example/y'] },
      { ownerReferences: [owner] },
      { annotations: { a: 'x'.repeat(2049) } },
      { annotations: Object.fromEntries(Array.from({ length: 9 }, (_unused, index) => [`a${index}`, ''])) },
    ];
    for (const more of stays) expect([more, (await attempt(send(who, 'POST', LEASES, lease(more)))).outcome]).toEqual([more, 'policy']);
    expect((await attempt(send(who, 'POST', LEASES, lease({}, { holderIdentity: long })))).outcome).toBe('policy');
    // As the agent makes it: it goes with its Machine.
    expect((await attempt(send(who, 'POST', LEASES, lease({ ownerReferences: [{ ...owner, name: 'm1' }] })))).outcome).toBe('ok');
    await attempt(send(WHO.clusterAdmin, 'POST', LEASES, lease({}), undefined, false));
    for (const change of [{ metadata: stays[0] }, { metadata: stays[1] }, { spec: { holderIdentity: long } }])
      expect([change, (await attempt(send(who, 'PATCH', `${LEASES}/agent-m1`, change))).outcome]).toEqual([change, 'policy']);
    expect((await attempt(send(who, 'PATCH', `${LEASES}/agent-m1`, { spec: { leaseDurationSeconds: 180 } }))).outcome).toBe('ok');
    await attempt(send(WHO.clusterAdmin, 'DELETE', `${LEASES}/agent-m1`, undefined, undefined, false));
    const about = { apiVersion: API_VERSION, kind: 'Machine', namespace: 'web', name: 'm1' };
    const event = { apiVersion: 'v1', kind: 'Event', metadata: { name: 'e', namespace: 'web' }, reason: 'A', type: 'Normal' };
    for (const more of [
      { reason: long },
      { involvedObject: { ...about, fieldPath: long } },
      { source: { host: long } },
      { related: { name: long } },
      { action: long },
      { metadata: { ...event.metadata, annotations: { a: 'x'.repeat(2049) } } },
    ]) {
      const made = await attempt(send(who, 'POST', '/api/v1/namespaces/web/events', { ...event, involvedObject: about, ...more }));
      expect([more, made.outcome]).toEqual([more, 'policy']);
    }
  });

  test('gives itself nothing: no tokens, roles, accounts, approvals', async () => {
    const binding = { ...machineAccess(await live()).roleBinding, metadata: { name: 'mine', namespace: 'web' } };
    const post = (path: string, body: object = {}) => attempt(send(who, 'POST', path, body));
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    for (const path of [
      '/api/v1/namespaces/web/serviceaccounts/default/token',
      `/api/v1/namespaces/web/serviceaccounts/${agentServiceAccountName('m1')}/token`,
      '/api/v1/namespaces/web/serviceaccounts',
      '/api/v1/namespaces/web/pods',
      '/api/v1/namespaces/web/secrets',
      '/apis/policy/v1/namespaces/web/poddisruptionbudgets',
    ])
      expect([path, (await post(path)).outcome]).toEqual([path, 'rbac']);
    expect((await post(`${rbac}/namespaces/web/rolebindings`, binding)).outcome).toBe('rbac');
    expect((await post(`${rbac}/clusterrolebindings`, binding)).outcome).toBe('rbac');
    expect((await attempt(send(who, 'PATCH', '/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval', {}))).outcome).toBe(
      'rbac',
    );
    expect((await attempt(send(who, 'PATCH', '/api/v1/nodes/m1', { spec: { unschedulable: true } }))).outcome).toBe('rbac');
  });
});

describe('G3, invariant 9: with any rights that an agent was given in error', () => {
  let tighten: () => Promise<void>;
  beforeAll(async () => {
    tighten = await loosen(rig);
  });
  afterAll(() => tighten());

  const IMPOSTORS: [string, Who][] = [
    ['m2', { user: agentUser('web', 'm2'), group: AGENTS }],
    ['m1 of another pool', { user: agentUser('db', 'm1'), group: AGENTS }],
    ['a member of the group with another name', { user: 'stranger', group: AGENTS }],
    ['an agent without the group, m2', { user: agentUser('web', 'm2') }],
    ['a name that is too long', { user: 'kubenode:machine:web:m1:x', group: AGENTS }],
    ['a name that is too short', { user: 'kubenode:machine:m1', group: AGENTS }],
    ['the ServiceAccount of m2', { user: serviceAccountUser('web', agentServiceAccountName('m2')) }],
    ['the ServiceAccount of m1 in another pool', { user: serviceAccountUser('db', agentServiceAccountName('m1')) }],
    ['an agent that broke the glass', { user: agentUser('web', 'm2'), group: BREAK_GLASS }],
  ];

  test.each(IMPOSTORS)('%s reports nothing about m1', async (_, who) => {
    for (const status of [{ agent }, {}, null, { phase: 'Running' }]) expect((await reportAs(who, status)).outcome).toBe('policy');
    const lease = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name: 'agent-m1' } };
    expect((await attempt(send(who, 'POST', LEASES, lease))).outcome).toBe('policy');
  });

  each('an agent %s', (_, who) => {
    test('changes nothing of kubenode.io but its status: not by spec, labels, scale or deletion, of no kind', async () => {
      const path = '/apis/kubenode.io/v1alpha1';
      const machine = await live();
      const attempts: [() => Promise<unknown>, string][] = [
        [() => send(who, 'PATCH', `${MACHINES}/m1`, { spec: { hold: true } }), 'spec'],
        [() => send(who, 'PATCH', `${MACHINES}/m1`, {}), 'nothing'],
        [() => send(who, 'PATCH', `${MACHINES}/m1`, { metadata: { labels: { a: 'b' } } }), 'labels'],
        [() => send(who, 'PATCH', `${MACHINES}/m1`, { metadata: { annotations: { a: 'b' } } }), 'annotations'],
        [() => send(who, 'DELETE', `${MACHINES}/m1`), 'delete'],
        [() => send(who, 'DELETE', MACHINES), 'delete all'],
        [() => send(who, 'POST', MACHINES, { ...machine, metadata: { name: 'm3' } }), 'create'],
        [
          () => send(who, 'POST', `${path}/freezes`, { apiVersion: API_VERSION, kind: 'Freeze', metadata: { name: 'x' }, spec: {} }),
          'freeze',
        ],
        [
          () =>
            send(who, 'POST', `${path}/disruptionledgers`, {
              apiVersion: API_VERSION,
              kind: 'DisruptionLedger',
              metadata: { name: 'x' },
              spec: {},
            }),
          'ledger',
        ],
      ];
      for (const [work, what] of attempts) expect([what, (await attempt(work())).outcome]).toEqual([what, 'policy']);
      expect((await reportAs(who, { agent: { ...agent, version: '3' } })).outcome).toBe('ok');
    });

    test('reports Events under no name but its own, in their newer form too', async () => {
      const event = (reportingController: string, more = {}) => ({
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { generateName: 'e-', namespace: 'web' },
        eventTime: '2026-01-01T00:00:00.000000Z',
        action: 'A',
        reason: 'A',
        type: 'Normal',
        note: 'n',
        reportingController,
        reportingInstance: 'm1',
        regarding: { apiVersion: API_VERSION, kind: 'Machine', namespace: 'web', name: 'm1' },
        ...more,
      });
      const report = async (body: object) =>
        (await attempt(send(who, 'POST', '/apis/events.k8s.io/v1/namespaces/web/events', body))).outcome;
      expect(await report(event('kubenode.io/agent'))).toBe('ok');
      expect(await report(event('kubenode.io/machine'))).toBe('policy');
      const metadata = { generateName: 'e-', namespace: 'web' };
      const owner = { apiVersion: API_VERSION, kind: 'Machine', name: 'm1', uid: 'u' };
      for (const more of [{ finalizers: ['x.example/y'] }, { ownerReferences: [owner] }])
        expect([more, await report(event('kubenode.io/agent', { metadata: { ...metadata, ...more } }))]).toEqual([more, 'policy']);
      expect(await report(event('kubenode.io/agent', { note: 'x'.repeat(1025) }))).toMatch(/^(policy|invalid)$/);
      // The server itself allows no other source in this form.
      expect(await report(event('kubenode.io/agent', { deprecatedSource: { component: 'kubelet' } }))).toBe('invalid');
    });

    test('G7a: asks by no request that stays or is large', async () => {
      const { request } = await makeRequestAndKey([{ CN: [WHO.agent.user] }, { O: [AGENTS] }]);
      const spec = {
        signerName: 'kubernetes.io/kube-apiserver-client',
        request: Buffer.from(request).toString('base64'),
        usages: ['client auth'],
      };
      const ask = async (metadata: object, asked = spec) =>
        (
          await attempt(
            send(who, 'POST', '/apis/certificates.k8s.io/v1/certificatesigningrequests', {
              apiVersion: 'certificates.k8s.io/v1',
              kind: 'CertificateSigningRequest',
              metadata: { generateName: 'x-', ...metadata },
              spec: asked,
            }),
          )
        ).outcome;
      expect(await ask({})).toBe('ok');
      const owner = { apiVersion: 'v1', kind: 'Namespace', name: 'web', uid: 'u' };
      for (const more of [{ finalizers: ['x.example/y'] }, { ownerReferences: [owner] }, { annotations: { a: 'x'.repeat(2049) } }])
        expect([more, await ask(more)]).toEqual([more, 'policy']);
      const large = Buffer.from(`${request}${'\n'.repeat(20_000)}`).toString('base64');
      expect(await ask({}, { ...spec, request: large })).toBe('policy');
    });

    test('asks for client certificates only', async () => {
      const { request } = await makeRequestAndKey([{ CN: [WHO.agent.user] }, { O: [AGENTS] }]);
      const csr = (signerName: string) => ({
        apiVersion: 'certificates.k8s.io/v1',
        kind: 'CertificateSigningRequest',
        metadata: { generateName: 'x-' },
        spec: { signerName, request: Buffer.from(request).toString('base64'), usages: ['client auth'] },
      });
      const ask = async (signer: string) =>
        (await attempt(send(who, 'POST', '/apis/certificates.k8s.io/v1/certificatesigningrequests', csr(signer)))).outcome;
      expect(await ask('kubernetes.io/kube-apiserver-client')).toBe('ok');
      expect(await ask('kubernetes.io/kube-apiserver-client-kubelet')).toBe('ok');
      for (const signer of ['kubernetes.io/kubelet-serving', 'example.com/any'])
        expect([signer, await ask(signer)]).toEqual([signer, 'policy']);
    });
  });

  test('G7b: where the machine controller owns what its agent reports, the next report of the agent ends that', async () => {
    await applies(WHO.agent, { agent, conditions: [ready('AgentReady')] }, false);
    const options = { fieldManager: MANAGERS.machine, subresource: 'status', force: true };
    const of = (status: object) => ({ apiVersion: API_VERSION, kind: 'Machine', metadata: { name: 'm1', namespace: 'web' }, status });
    // As an agent could, before it was refused.
    const glass = rig.as({ user: 'root', group: BREAK_GLASS });
    await glass.apply(Machines, of({ agent: { ...agent, version: 'stolen' } }), options);
    const controller = async () => (await attempt(rig.as(WHO.machine).apply(Machines, of({}), options))).outcome;
    expect(await controller()).toBe('invalid');
    expect((await applies(WHO.agent, { agent, conditions: [ready('AgentReady')] }, false)).outcome).toBe('ok');
    expect(await controller()).toBe('ok');
    expect((await live()).status?.agent).toEqual(agent);
  });

  test('G7a: a kubelet writes what kubelets write, and nothing that outlives its Machine', async () => {
    const kubelet: Who = { user: 'system:node:m9', group: 'system:nodes' };
    const nodes = '/api/v1/nodes';
    const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'm9', labels: { 'kubernetes.io/hostname': 'm9' } } };
    expect((await attempt(send(kubelet, 'POST', nodes, { ...node, metadata: { name: 'm9', finalizers: ['x.example/y'] } }))).outcome).toBe(
      'policy',
    );
    expect((await attempt(send(kubelet, 'POST', nodes, node, undefined, false))).outcome).toBe('ok');
    const owner = { apiVersion: 'v1', kind: 'Node', name: 'm9', uid: 'u' };
    const strategic = 'application/strategic-merge-patch+json';
    for (const path of [`${nodes}/m9`, `${nodes}/m9/status`]) {
      for (const metadata of [{ finalizers: ['x.example/y'] }, { ownerReferences: [owner] }])
        expect([path, metadata, (await attempt(send(kubelet, 'PATCH', path, { metadata }))).outcome]).toEqual([path, metadata, 'policy']);
      const beat = { metadata: { annotations: { a: 'x'.repeat(1000) } }, status: { conditions: [{ type: 'Ready', status: 'True' }] } };
      expect([path, (await attempt(send(kubelet, 'PATCH', path, beat, strategic))).outcome]).toEqual([path, 'ok']);
    }
    // What controllers' writes are conditioned on (docs/protocols.md#c4a).
    const ours = { metadata: { annotations: { 'kubenode.io/node-write': '1' } }, spec: { unschedulable: true } };
    expect((await attempt(send(WHO.clusterAdmin, 'PATCH', `${nodes}/m9`, ours, undefined, false))).outcome).toBe('ok');
    for (const path of [`${nodes}/m9`, `${nodes}/m9/status`])
      for (const value of ['2', null])
        for (const name of ['kubenode.io/node-write', 'kubenode.io/cordoned-by']) {
          if (name !== 'kubenode.io/node-write' && value === null) continue;
          const change = { metadata: { annotations: { [name]: value } } };
          expect([path, change, (await attempt(send(kubelet, 'PATCH', path, change))).outcome]).toEqual([path, change, 'policy']);
        }
    for (const unschedulable of [false, null])
      expect((await attempt(send(kubelet, 'PATCH', `${nodes}/m9`, { spec: { unschedulable } }))).outcome).toBe('policy');
    expect((await attempt(send(kubelet, 'PATCH', `${nodes}/m9`, { metadata: { annotations: { a: 'y' } } }))).outcome).toBe('ok');
    const lease = (ownerReferences: object[], more: object = {}) => ({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'm9', ownerReferences, ...more },
      spec: { holderIdentity: 'm9', leaseDurationSeconds: 40 },
    });
    const create = async (...of: Parameters<typeof lease>) => (await attempt(send(kubelet, 'POST', leases, lease(...of)))).outcome;
    expect([await create([]), await create([owner])]).toEqual(['ok', 'ok']);
    expect(await create([{ ...owner, name: 'm8' }])).toBe('policy');
    expect(await create([{ ...owner, apiVersion: API_VERSION, kind: 'Machine' }])).toBe('policy');
    expect(await create([], { finalizers: ['x.example/y'] })).toBe('policy');
    await attempt(send(WHO.clusterAdmin, 'DELETE', `${nodes}/m9`, undefined, undefined, false));
  });

  test('no other reports for an agent', async () => {
    await applies(WHO.agent, { agent, conditions: [ready('AgentReady')] }, false);
    const names = [
      'machine',
      'machineSet',
      'machineComponentSet',
      'remedy',
      'remedyJob',
      'sync',
      'hub',
      'operator',
      'clusterAdmin',
    ] as const;
    for (const name of names) {
      for (const status of [
        { agent: null },
        { agent: { ...agent, version: '9' } },
        { components: [component] },
        { operation: { id: 'x', state: 'Done' } },
        null,
        { conditions: [] },
      ])
        expect([name, status, (await reportAs(WHO[name], status)).outcome]).toEqual([name, status, 'policy']);
      const conditions = [...((await live()).status?.conditions ?? []), ready('Degraded')];
      const cell = ['machine', 'machineComponentSet', 'remedy', 'remedyJob'].includes(name);
      expect([name, (await reportAs(WHO[name], { conditions: conditions as unknown as JsonObject[] })).outcome]).toEqual([
        name,
        cell ? 'ok' : 'policy',
      ]);
      expect([name, (await reportAs(WHO[name], { phase: 'Running' })).outcome]).toEqual([name, cell ? 'ok' : 'policy']);
    }
  });
});
