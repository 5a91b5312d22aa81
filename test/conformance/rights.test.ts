/* oxlint-disable vitest/no-standalone-expect -- every sentence is a test */
import { expect } from 'vitest';
import type { JsonObject } from '../../src/api/wire.ts';
import { listAt } from '@kubenode/embedded/testing';
import type { Answer, Scene } from './scene.ts';
import { conformance } from './suite.ts';
import { configMap, defineWidgets, WIDGET, widget } from './widgets.ts';

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const GROUP = 'rbac.authorization.k8s.io';

/** Requests of another user, who has no rights until a role is bound to them. */
const as = (
  scene: Scene,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  more: { body?: JsonObject; groups?: string; query?: Record<string, string>; user?: string; type?: string } = {},
): Promise<Answer> =>
  scene.api.send(method, path, more.body, more.type ?? 'application/json', {
    ...(more.query === undefined ? {} : { query: more.query }),
    headers: {
      'impersonate-user': more.user ?? `${scene.ns}-bob`,
      ...(more.groups === undefined ? {} : { 'impersonate-group': more.groups }),
    },
  });

const role = (name: string, rules: JsonObject[]): JsonObject => ({ apiVersion: `${GROUP}/v1`, kind: 'Role', metadata: { name }, rules });
const clusterRole = (name: string, rules: JsonObject[], labels: JsonObject = {}): JsonObject => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'ClusterRole',
  metadata: { name, labels },
  rules,
});
const user = (name: string): JsonObject => ({ kind: 'User', apiGroup: GROUP, name });
const binding = (
  kind: 'RoleBinding' | 'ClusterRoleBinding',
  name: string,
  to: string,
  of: 'Role' | 'ClusterRole',
  ...subjects: JsonObject[]
): JsonObject => ({
  apiVersion: `${GROUP}/v1`,
  kind,
  metadata: { name },
  roleRef: { apiGroup: GROUP, kind: of, name: to },
  subjects,
});
const rule = (resources: string, verbs: string, more: JsonObject = {}): JsonObject => ({
  apiGroups: [''],
  resources: resources.split(','),
  verbs: verbs.split(','),
  ...more,
});

const roles = (scene: Scene): string => `${RBAC}/namespaces/${scene.ns}/roles`;
const bindings = (scene: Scene): string => `${RBAC}/namespaces/${scene.ns}/rolebindings`;

/** Rights are read from a cache on a real server: waits until they are in force there. */
async function inForce(scene: Scene, method: 'GET', path: string, status = 200, user = `${scene.ns}-bob`): Promise<void> {
  await scene.until(`${path} is answered with ${status}`, async () => {
    const answer = await scene.unrecorded.send(method, path, undefined, undefined, { headers: { 'impersonate-user': user } });
    return answer.status === status;
  });
}

conformance('rights', { prepare: defineWidgets }, (it) => {
  it('who has no rights is refused everything, with what was asked', async (scene) => {
    for (const path of [
      '/api/v1/nodes',
      '/api/v1/nodes/x',
      '/api/v1/namespaces/default',
      scene.in('pods'),
      scene.in('pods', 'x', 'status'),
      scene.in(WIDGET, 'w'),
      '/metrics',
      '/logs/x',
    ])
      expect((await as(scene, 'GET', path)).status).toBe(403);
    await as(scene, 'POST', scene.in('pods', 'x', 'eviction'), { body: {} });
    await as(scene, 'POST', scene.in(WIDGET), { body: widget('w') });
    await as(scene, 'PUT', scene.in('configmaps', 'c'), { body: configMap('c') });
    await as(scene, 'PATCH', scene.in('configmaps', 'c'), { body: {}, type: 'application/merge-patch+json' });
    await as(scene, 'DELETE', scene.in('configmaps', 'c'));
    await as(scene, 'DELETE', scene.in('configmaps'));
    await as(scene, 'GET', scene.in('configmaps'), { query: { watch: 'true' } });
    await as(scene, 'GET', '/apis/nope.example/v1/things/x');
  });

  it('everybody who is known may read what the server serves', async (scene) => {
    for (const path of ['/version', '/api', '/apis', '/healthz', '/openapi/v3']) {
      const { status } = await scene.unrecorded.send('GET', path, undefined, undefined, { headers: { 'impersonate-user': 'bob' } });
      scene.see(path, status);
      expect(status).toBe(200);
    }
  });

  it('a Role gives rights in its namespace: verbs, names, subresources, and nothing else', async (scene) => {
    await scene.api.create(
      roles(scene),
      role('r', [rule('configmaps', 'get,list', { resourceNames: ['mine'] }), rule('secrets', 'create,get'), rule('pods/status', 'patch')]),
    );
    await scene.api.create(bindings(scene), binding('RoleBinding', 'b', 'r', 'Role', user(`${scene.ns}-bob`)));
    await scene.unrecorded.create(scene.in('configmaps'), configMap('mine'));
    await scene.unrecorded.create(scene.in('configmaps'), configMap('yours'));
    await inForce(scene, 'GET', scene.in('configmaps', 'mine'));
    await as(scene, 'GET', scene.in('configmaps', 'mine'));
    expect((await as(scene, 'GET', scene.in('configmaps', 'yours'))).status).toBe(403);
    expect((await as(scene, 'GET', scene.in('configmaps'))).status).toBe(403);
    const one = await scene.unrecorded.send('GET', scene.in('configmaps'), undefined, undefined, {
      query: { fieldSelector: 'metadata.name=mine' },
      headers: { 'impersonate-user': `${scene.ns}-bob` },
    });
    scene.see('a list of one name', one.status);
    expect((await as(scene, 'GET', scene.in('secrets', 's'))).status).toBe(404);
    expect((await as(scene, 'GET', '/api/v1/namespaces/default/secrets/s')).status).toBe(403);
    expect((await as(scene, 'GET', '/api/v1/secrets')).status).toBe(403);
    expect((await as(scene, 'PATCH', scene.in('pods', 'p', 'status'), { body: {}, type: 'application/merge-patch+json' })).status).toBe(
      404,
    );
    expect((await as(scene, 'PATCH', scene.in('pods', 'p'), { body: {}, type: 'application/merge-patch+json' })).status).toBe(403);
    await scene.unrecorded.remove(`${bindings(scene)}/b`);
    await inForce(scene, 'GET', scene.in('configmaps', 'mine'), 403);
  });

  it('a ClusterRole gives rights everywhere, or where a RoleBinding names it; to users, groups and service accounts', async (scene) => {
    const name = `${scene.ns}-reader`;
    await scene.api.create(
      `${RBAC}/clusterroles`,
      clusterRole(name, [rule('configmaps,nodes', 'get,list'), { nonResourceURLs: ['/metrics', '/logs/*'], verbs: ['get'] }]),
    );
    await scene.api.create(
      bindings(scene),
      binding('RoleBinding', 'b', name, 'ClusterRole', { kind: 'Group', apiGroup: GROUP, name: `${scene.ns}-team` }),
    );
    const account = { kind: 'ServiceAccount', name: 'bot', namespace: scene.ns };
    await scene.api.create(`${RBAC}/clusterrolebindings`, binding('ClusterRoleBinding', name, name, 'ClusterRole', account));
    const bot = `system:serviceaccount:${scene.ns}:bot`;
    await inForce(scene, 'GET', '/api/v1/nodes/none', 404, bot);
    await as(scene, 'GET', scene.in('configmaps', 'none'), { groups: `${scene.ns}-team` });
    expect((await as(scene, 'GET', '/api/v1/namespaces/default/configmaps/none', { groups: `${scene.ns}-team` })).status).toBe(403);
    expect((await as(scene, 'GET', '/api/v1/nodes/none', { groups: `${scene.ns}-team` })).status).toBe(403);
    expect((await as(scene, 'GET', '/api/v1/nodes/none', { user: bot })).status).toBe(404);
    expect((await as(scene, 'GET', '/logs/x/y', { user: bot })).status).toBe(404);
    await as(scene, 'DELETE', scene.in('configmaps', 'none'), { user: bot });
    await scene.unrecorded.remove(`${RBAC}/clusterrolebindings/${name}`);
    await scene.unrecorded.remove(`${RBAC}/clusterroles/${name}`);
  });

  it('a binding to a role that is not there gives nothing, and the refusal reports it', async (scene) => {
    await scene.api.create(bindings(scene), binding('RoleBinding', 'b', 'none', 'Role', user(`${scene.ns}-bob`)));
    await scene.until('the binding is known', async () => {
      const { body } = await scene.unrecorded.send('GET', scene.in('configmaps'), undefined, undefined, {
        headers: { 'impersonate-user': `${scene.ns}-bob` },
      });
      return JSON.stringify(body).includes('not found');
    });
    await as(scene, 'GET', scene.in('configmaps'));
  });

  it('roles and bindings are checked', async (scene) => {
    await scene.api.create(roles(scene), role('a', [{ apiGroups: [''], resources: ['pods'], verbs: [] }]));
    await scene.api.create(roles(scene), role('a', [{ resources: ['pods'], verbs: ['get'] }]));
    await scene.api.create(roles(scene), role('a', [{ apiGroups: [''], verbs: ['get'] }]));
    await scene.api.create(roles(scene), role('a', [{ nonResourceURLs: ['/x'], verbs: ['get'] }]));
    await scene.api.create(
      `${RBAC}/clusterroles`,
      clusterRole(`${scene.ns}-a`, [{ nonResourceURLs: ['/x'], resources: ['pods'], verbs: ['get'] }]),
    );
    await scene.api.create(bindings(scene), binding('RoleBinding', 'a', '', 'Role'));
    await scene.api.create(bindings(scene), binding('RoleBinding', 'a', 'view', 'ClusterRole', { kind: 'Robot', name: 'x' }));
    await scene.api.create(bindings(scene), binding('RoleBinding', 'a', 'view', 'ClusterRole', { kind: 'User', name: 'x', apiGroup: 'y' }));
    await scene.api.create(bindings(scene), binding('RoleBinding', 'a', 'view', 'ClusterRole', { kind: 'ServiceAccount', name: 'x' }));
    await scene.api.create(`${RBAC}/clusterrolebindings`, binding('ClusterRoleBinding', `${scene.ns}-a`, 'view', 'Role'));
    await scene.api.create(
      `${RBAC}/clusterrolebindings`,
      binding('ClusterRoleBinding', `${scene.ns}-a`, 'view', 'ClusterRole', { kind: 'ServiceAccount', name: 'x' }),
    );
    await scene.api.create(bindings(scene), binding('RoleBinding', 'b', 'view', 'ClusterRole', { kind: 'User', name: 'x' }));
    await scene.api.merge(`${bindings(scene)}/b`, { roleRef: { name: 'edit' } });
  });

  it('no user gives rights that they do not have', async (scene) => {
    const name = `${scene.ns}-giver`;
    await scene.unrecorded.create(
      `${RBAC}/clusterroles`,
      clusterRole(name, [
        {
          apiGroups: [GROUP],
          resources: ['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'],
          verbs: ['create', 'get', 'update', 'patch'],
        },
        rule('configmaps', 'get,list'),
        { apiGroups: [GROUP], resources: ['clusterroles'], resourceNames: ['view'], verbs: ['bind'] },
      ]),
    );
    await scene.unrecorded.create(
      `${RBAC}/clusterrolebindings`,
      binding('ClusterRoleBinding', name, name, 'ClusterRole', user(`${scene.ns}-bob`)),
    );
    await inForce(scene, 'GET', scene.in('configmaps', 'none'), 404);
    const esc = `${scene.ns}-esc`;
    await as(scene, 'POST', `${RBAC}/clusterroles`, {
      body: clusterRole(esc, [
        { apiGroups: ['', 'apps'], resources: ['pods', 'secrets'], verbs: ['get', 'list'] },
        { nonResourceURLs: ['/metrics'], verbs: ['get'] },
        rule('nodes', 'get', { resourceNames: ['a'] }),
        rule('configmaps', 'get'),
      ]),
    });
    await as(scene, 'POST', roles(scene), { body: role('held', [rule('configmaps', 'get', { resourceNames: ['a'] })]) });
    await as(scene, 'PATCH', `${roles(scene)}/held`, { body: { rules: [rule('configmaps', '*')] }, type: 'application/merge-patch+json' });
    await as(scene, 'POST', `${RBAC}/clusterrolebindings`, {
      body: binding('ClusterRoleBinding', esc, 'cluster-admin', 'ClusterRole', user('me')),
    });
    await as(scene, 'POST', `${RBAC}/clusterrolebindings`, { body: binding('ClusterRoleBinding', esc, 'none', 'ClusterRole', user('me')) });
    await as(scene, 'POST', bindings(scene), { body: binding('RoleBinding', 'held', 'held', 'Role', user('me')) });
    await as(scene, 'POST', bindings(scene), { body: binding('RoleBinding', 'view', 'view', 'ClusterRole', user('me')) });
    await as(scene, 'POST', `${RBAC}/clusterroles`, {
      body: { ...clusterRole(esc, []), aggregationRule: { clusterRoleSelectors: [{ matchLabels: { a: 'b' } }] } },
    });
    await scene.unrecorded.remove(`${RBAC}/clusterrolebindings/${name}`);
    await scene.unrecorded.remove(`${RBAC}/clusterroles/${name}`);
  });

  it('no user acts as others without the right to', async (scene) => {
    const name = `${scene.ns}-actor`;
    await scene.unrecorded.create(roles(scene), role('actor', [rule('serviceaccounts', 'impersonate', { resourceNames: ['bot'] })]));
    await scene.unrecorded.create(scene.in('serviceaccounts'), { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'actor' } });
    await scene.unrecorded.create(
      bindings(scene),
      binding('RoleBinding', name, 'actor', 'Role', { kind: 'ServiceAccount', name: 'actor', namespace: scene.ns }),
    );
    const asked = await scene.unrecorded.create(scene.in('serviceaccounts', 'actor', 'token'), {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {},
    });
    expect(asked.status).toBe(201);
    const can = async (resource: string, of: string): Promise<void> => {
      const spec = {
        user: `system:serviceaccount:${scene.ns}:actor`,
        resourceAttributes: { verb: 'impersonate', resource, name: of, namespace: scene.ns },
      };
      const { body } = await scene.unrecorded.create('/apis/authorization.k8s.io/v1/subjectaccessreviews', {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec,
      });
      scene.see(`impersonate ${resource} ${of}`, body['status'] ?? null);
    };
    await scene.until('the right is in force', async () => {
      const spec = {
        user: `system:serviceaccount:${scene.ns}:actor`,
        resourceAttributes: { verb: 'impersonate', resource: 'serviceaccounts', name: 'bot', namespace: scene.ns },
      };
      const { body } = await scene.unrecorded.create('/apis/authorization.k8s.io/v1/subjectaccessreviews', {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec,
      });
      return JSON.stringify(body['status']).includes('"allowed":true');
    });
    await can('serviceaccounts', 'bot');
    await can('serviceaccounts', 'actor');
    await can('users', 'root');
    await can('groups', 'system:masters');
  });

  it(
    'a ClusterRole may be the sum of others',
    async (scene) => {
      const label = { [`${scene.ns}/sum`]: 'yes' };
      const sum = `${scene.ns}-sum`;
      await scene.unrecorded.create(`${RBAC}/clusterroles`, {
        ...clusterRole(sum, []),
        aggregationRule: { clusterRoleSelectors: [{ matchLabels: label }] },
      });
      await scene.unrecorded.create(
        `${RBAC}/clusterroles`,
        clusterRole(`${scene.ns}-b`, [rule('pods', 'get'), rule('nodes', 'get')], label),
      );
      await scene.unrecorded.create(`${RBAC}/clusterroles`, clusterRole(`${scene.ns}-a`, [rule('nodes', 'get')], label));
      const rulesOf = async () => (await scene.unrecorded.get(`${RBAC}/clusterroles/${sum}`)).body['rules'];
      await scene.until('it has the rules of both', async () => JSON.stringify(await rulesOf()).includes('pods'));
      await scene.until(
        'of both, in order',
        async () =>
          JSON.stringify(await rulesOf()).startsWith('[{"verbs":["get"],"apiGroups":[""],"resources":["nodes"]') ||
          JSON.stringify(await rulesOf()).includes('nodes'),
      );
      await scene.unrecorded.remove(`${RBAC}/clusterroles/${scene.ns}-b`);
      await scene.until('one is gone', async () => !JSON.stringify(await rulesOf()).includes('pods'));
      scene.see('its rules', (await rulesOf()) ?? null);
    },
    { controllers: true },
  );

  it('what one may do, and what others may, can be asked', async (scene) => {
    const bob = `${scene.ns}-bob`;
    await scene.unrecorded.create(roles(scene), role('r', [rule('configmaps', 'get')]));
    await scene.unrecorded.create(bindings(scene), binding('RoleBinding', 'b', 'r', 'Role', user(bob)));
    await inForce(scene, 'GET', scene.in('configmaps', 'none'), 404);
    const review = async (kind: string, spec: JsonObject, headers: Record<string, string> = {}): Promise<void> => {
      const body = { apiVersion: 'authorization.k8s.io/v1', kind, spec };
      const answer = await scene.unrecorded.send('POST', `/apis/authorization.k8s.io/v1/${kind.toLowerCase()}s`, body, 'application/json', {
        headers,
      });
      const { metadata: _managed, ...rest } = answer.body;
      // In the order of a map of Go.
      for (const list of ['resourceRules', 'nonResourceRules'])
        listAt(rest, 'status', list).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
      scene.see(`${kind} ${JSON.stringify(spec).replaceAll(scene.ns, '<ns>')}`, answer.status === 201 ? (rest['status'] ?? null) : rest);
    };
    const me = { 'impersonate-user': bob };
    const get = { verb: 'get', resource: 'configmaps', namespace: scene.ns };
    await review('SelfSubjectAccessReview', { resourceAttributes: get }, me);
    await review('SelfSubjectAccessReview', { resourceAttributes: { ...get, verb: 'delete' } }, me);
    await review('SelfSubjectAccessReview', { resourceAttributes: { ...get, namespace: '' } }, me);
    await review('SelfSubjectAccessReview', { nonResourceAttributes: { verb: 'get', path: '/metrics' } }, me);
    await review('SelfSubjectAccessReview', {}, me);
    await review('SelfSubjectAccessReview', { resourceAttributes: { ...get, verb: '*', resource: '*' } });
    await review('SubjectAccessReview', { user: bob, resourceAttributes: get });
    await review('SubjectAccessReview', { user: 'nobody', resourceAttributes: get });
    await review('SubjectAccessReview', { resourceAttributes: get });
    await review('SubjectAccessReview', { user: bob, resourceAttributes: get }, me);
    await review('SelfSubjectRulesReview', { namespace: scene.ns }, me);
    await review('SelfSubjectRulesReview', {}, me);
  });
});
