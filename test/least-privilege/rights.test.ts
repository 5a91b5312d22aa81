/**
 * Every right that RBAC gives each identity, by the server's own account: `rights.txt` is all there is. A
 * change of it is a change of what an identity may do, and is to be reviewed as one.
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { API_VERSION } from '../../src/api/kind.ts';
import { machineAccess, poolAccess, standInAccess } from '../../src/api/machine-access.ts';
import { Machines, type Machine } from '../../src/api/machine.ts';
import { serviceAccountUser } from '../../src/api/identity.ts';
import type { Stored } from '../../src/api/wire.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createClient } from '../../src/kube/http-client.ts';
import { httpTransport } from '../../src/kube/http-transport.ts';
import { loadKubeconfig } from '../../src/kube/kubeconfig.ts';
import { install } from './installed.ts';
import { attempt, OPTIONS, pathOfObject, WHO, write, type Name, type Rig, type Who } from './rig.ts';

/** What everyone who is authenticated may do anyway. */
const UNBOUND = { user: 'nobody-in-particular' };

let rig: Rig & { remove: () => Promise<void> };
let machine: Stored<Machine>;
beforeAll(async () => {
  rig = await install();
  const key = { namespace: 'web', name: 'm1' };
  await attempt(rig.admin.delete(Machines, key));
  machine = await rig.as(WHO.operator).create(Machines, { apiVersion: API_VERSION, kind: 'Machine', metadata: key, spec: {} });
  for (const { role, roleBinding } of [machineAccess(machine, { standIn: true }), standInAccess(machine)])
    for (const object of [role, roleBinding]) await rig.apply(object, rig.as(WHO.identity));
  await rig.apply(poolAccess('web'), rig.as(WHO.identity));
  // Another test may have been here.
  await attempt(write(rig.admin, 'DELETE', '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/kubenode-agent-pool-web'));
}, 120_000);
afterAll(async () => {
  // Not left to the garbage collector: other files have a machine of this name, and read what it may not do.
  for (const { role, roleBinding } of [machineAccess(machine, { standIn: true }), standInAccess(machine)])
    for (const object of [roleBinding, role]) await attempt(write(rig.admin, 'DELETE', pathOfObject(object)));
  await attempt(rig.as(WHO.operator).delete(Machines, { namespace: 'web', name: 'm1' }));
  await rig.remove();
});

interface Rule {
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
  verbs: string[];
}

/** All that an identity may do in a namespace, by the server's own account, as lines like `kubenode.io machines/status m1: patch`. */
async function rulesOf(who: Who, namespace: string): Promise<Map<string, Set<string>>> {
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
  const answer = await write(rig.as(who), 'POST', '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews', body);
  const { resourceRules } = (answer as { status: { resourceRules: Rule[] } }).status;
  const verbs = new Map<string, Set<string>>();
  for (const { apiGroups = [], resources = [], resourceNames = [], ...rule } of resourceRules)
    for (const group of apiGroups)
      for (const resource of resources)
        for (const name of resourceNames.length === 0 ? [''] : resourceNames) {
          const what = `${group === '' ? 'core' : group} ${resource}${name === '' ? '' : ` ${name}`}`;
          verbs.set(what, new Set([...(verbs.get(what) ?? []), ...rule.verbs]));
        }
  return verbs;
}

/** The rights in any namespace first, then what more does in those that matter. */
async function rightsOf(who: Who): Promise<string[]> {
  const lines: string[] = [];
  const everywhere = await rulesOf(who, 'default');
  for (const [suffix, rules] of [
    ['', everywhere],
    [' (in kubenode-system)', await rulesOf(who, OPTIONS.namespace)],
    [' (in web)', await rulesOf(who, 'web')],
  ] as const)
    for (const [what, verbs] of rules) {
      const more = [...verbs].filter((verb) => suffix === '' || everywhere.get(what)?.has(verb) !== true);
      if (more.length > 0) lines.push(`${what}: ${more.sort().join(' ')}${suffix}`);
    }
  return lines.sort();
}

test('no identity has a right that is not written down', async () => {
  const common = new Set(await rightsOf(UNBOUND));
  const names = (Object.keys(WHO) as Name[]).filter((name) => !['clusterAdmin', 'stranger'].includes(name));
  const parts: string[] = [];
  for (const name of names) {
    const lines = (await rightsOf(WHO[name])).filter((line) => !common.has(line));
    parts.push(`${name} (${WHO[name].user})\n${lines.map((line) => `  ${line}`).join('\n') || '  nothing'}\n`);
  }
  await expect(parts.join('\n')).toMatchFileSnapshot(fileURLToPath(new URL('rights.txt', import.meta.url)));
});

async function allowed({ user, group }: Who, attributes: object): Promise<boolean> {
  const [, namespace] = /^system:serviceaccount:([^:]+):/.exec(user) ?? [];
  const account = namespace === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];
  const groups = [...(group === undefined ? [] : [group]), ...account, 'system:authenticated'];
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: { user, groups, resourceAttributes: attributes },
  };
  const answer = await write(rig.admin, 'POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', body);
  return (answer as { status: { allowed: boolean } }).status.allowed;
}

test('rights by name are for those names only', async () => {
  const may = (who: Name, verb: string, group: string, resource: string, namespace: string, name: string) =>
    allowed(WHO[who], { verb, group, resource: resource.split('/')[0], subresource: resource.split('/')[1], namespace, name });
  const system = OPTIONS.namespace;
  const cases: [Name, string, string, string, string, string, boolean][] = [
    ['cell', 'impersonate', '', 'serviceaccounts', system, 'kubenode-machine', true],
    ['cell', 'impersonate', '', 'serviceaccounts', system, 'kubenode-remedyjob', true],
    ['cell', 'impersonate', '', 'serviceaccounts', system, 'kubenode-sync', false],
    ['cell', 'impersonate', '', 'serviceaccounts', system, 'kubenode-hub', false],
    ['cell', 'impersonate', '', 'serviceaccounts', 'kube-system', 'kubenode-machine', false],
    ['cell', 'impersonate', '', 'users', '', 'system:admin', false],
    ['cell', 'impersonate', '', 'groups', '', 'system:masters', false],
    ['cell', 'update', 'coordination.k8s.io', 'leases', system, 'kubenode-cell', true],
    ['cell', 'update', 'coordination.k8s.io', 'leases', system, 'kubenode-hub', false],
    ['hub', 'update', 'coordination.k8s.io', 'leases', system, 'kubenode-hub', true],
    ['hub', 'update', 'coordination.k8s.io', 'leases', system, 'kubenode-cell', false],
    ['identity', 'approve', 'certificates.k8s.io', 'signers', '', 'kubernetes.io/kube-apiserver-client', true],
    ['identity', 'approve', 'certificates.k8s.io', 'signers', '', 'kubernetes.io/legacy-unknown', false],
    ['agent', 'get', 'kubenode.io', 'machines', 'web', 'm1', true],
    ['agent', 'get', 'kubenode.io', 'machines', 'web', 'm2', false],
    ['agent', 'get', 'kubenode.io', 'machines', 'db', 'm1', false],
    ['agent', 'patch', 'kubenode.io', 'machines/status', 'web', 'm1', true],
    ['agent', 'patch', 'kubenode.io', 'machines/status', 'web', 'm2', false],
    ['agent', 'patch', 'coordination.k8s.io', 'leases', 'web', 'agent-m1', true],
    ['agent', 'patch', 'coordination.k8s.io', 'leases', 'web', 'agent-m2', false],
    ['bootstrap', 'create', '', 'serviceaccounts/token', 'web', 'kubenode-agent-m1', true],
    ['bootstrap', 'create', '', 'serviceaccounts/token', 'web', 'kubenode-agent-m2', false],
    ['bootstrap', 'create', '', 'serviceaccounts/token', 'web', 'kubenode-bootstrap-m1', false],
    ['bootstrap', 'get', 'kubenode.io', 'machines', 'web', 'm1', false],
    ['bootstrap', 'patch', 'kubenode.io', 'machines/status', 'web', 'm1', false],
  ];
  for (const [who, verb, group, resource, namespace, name, expected] of cases)
    expect([who, verb, resource, namespace, name, await may(who, verb, group, resource, namespace, name)]).toEqual([
      who,
      verb,
      resource,
      namespace,
      name,
      expected,
    ]);
});

test('the process of a cell writes as its writers and as no other', async () => {
  const made = await write(rig.admin, 'POST', `/api/v1/namespaces/${OPTIONS.namespace}/serviceaccounts/kubenode-cell/token`, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: 600 },
  });
  const token = (made as { status: { token: string } }).status.token;
  const review = async (user: string): Promise<string> => {
    const { server, ca = '' } = await loadKubeconfig({
      path: process.env['KUBENODE_TEST_KUBECONFIG'] ?? '',
      env: {},
      clock: systemClock(),
    });
    const transport = httpTransport({ server, ca, token });
    try {
      const client = createClient((request) => transport({ ...request, headers: { ...request.headers, 'impersonate-user': user } }), {
        userAgent: 'test',
      });
      const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
      const found = await attempt(write(client, 'POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', body));
      return found.outcome;
    } finally {
      await transport.close();
    }
  };
  for (const name of [
    'kubenode-machine',
    'kubenode-identity',
    'kubenode-machineset',
    'kubenode-machinecomponentset',
    'kubenode-defender',
    'kubenode-remedy',
    'kubenode-remedyjob',
  ])
    expect([name, await review(serviceAccountUser(OPTIONS.namespace, name))]).toEqual([name, 'ok']);
  for (const user of [
    serviceAccountUser(OPTIONS.namespace, 'kubenode-sync'),
    serviceAccountUser(OPTIONS.namespace, 'kubenode-hub'),
    serviceAccountUser('kube-system', 'default'),
    serviceAccountUser('web', 'kubenode-machine'),
    'kubernetes-admin',
    'kubenode:machine:web:m1',
  ])
    expect([user, await review(user)]).toEqual([user, 'rbac']);
});
