/** The roles and bindings that every cluster is made with, as far as this repository needs Kubernetes' own. */
import type { JsonObject } from '@kubenode/api-machinery/wire';
import { RBAC_GROUP } from '../kinds/rbac.ts';
import { keyOf } from '../store/entry.ts';
import type { World } from '../world.ts';
import { insert } from '../write.ts';
import { systemWriter } from '../controllers/controller.ts';

const LABELS = { 'kubernetes.io/bootstrapping': 'rbac-defaults' };

interface Rule {
  readonly verbs: string[];
  readonly apiGroups?: string[];
  readonly resources?: string[];
  readonly nonResourceURLs?: string[];
}

const READ = ['get', 'list', 'watch'];
const WRITE = ['create', 'delete', 'deletecollection', 'patch', 'update'];
const INFO = ['/healthz', '/livez', '/readyz', '/version', '/version/'];
const DISCOVERY = [
  '/api',
  '/api/*',
  '/apis',
  '/apis/*',
  '/healthz',
  '/livez',
  '/openapi',
  '/openapi/*',
  '/readyz',
  '/version',
  '/version/',
];
const IN_NAMESPACES = ['configmaps', 'events', 'pods', 'pods/status', 'serviceaccounts', 'namespaces', 'namespaces/status'];

const ROLES: Readonly<Record<string, readonly Rule[]>> = {
  'cluster-admin': [
    { verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
    { verbs: ['*'], nonResourceURLs: ['*'] },
  ],
  'system:discovery': [{ verbs: ['get'], nonResourceURLs: DISCOVERY }],
  'system:public-info-viewer': [{ verbs: ['get'], nonResourceURLs: INFO }],
  'system:basic-user': [
    { verbs: ['create'], apiGroups: ['authorization.k8s.io'], resources: ['selfsubjectaccessreviews', 'selfsubjectrulesreviews'] },
    { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['selfsubjectreviews'] },
  ],
  'system:auth-delegator': [
    { verbs: ['create'], apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'] },
    { verbs: ['create'], apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'] },
  ],
  view: [
    { verbs: READ, apiGroups: [''], resources: IN_NAMESPACES },
    { verbs: READ, apiGroups: ['policy'], resources: ['poddisruptionbudgets', 'poddisruptionbudgets/status'] },
  ],
  edit: [
    { verbs: READ, apiGroups: [''], resources: [...IN_NAMESPACES, 'secrets'] },
    { verbs: WRITE, apiGroups: [''], resources: ['configmaps', 'events', 'pods', 'secrets', 'serviceaccounts'] },
    { verbs: ['create'], apiGroups: [''], resources: ['pods/eviction', 'serviceaccounts/token'] },
    { verbs: ['impersonate'], apiGroups: [''], resources: ['serviceaccounts'] },
    { verbs: [...READ, ...WRITE], apiGroups: ['coordination.k8s.io'], resources: ['leases'] },
    { verbs: [...READ, ...WRITE], apiGroups: ['policy'], resources: ['poddisruptionbudgets'] },
  ],
};
const ADMIN: readonly Rule[] = [
  ...(ROLES['edit'] ?? []),
  { verbs: [...READ, ...WRITE], apiGroups: [RBAC_GROUP], resources: ['roles', 'rolebindings'] },
];

/** By group. */
const BINDINGS: readonly [role: string, groups: readonly string[]][] = [
  ['cluster-admin', ['system:masters']],
  ['system:discovery', ['system:authenticated']],
  ['system:public-info-viewer', ['system:authenticated', 'system:unauthenticated']],
  ['system:basic-user', ['system:authenticated']],
];

interface Made {
  readonly kind: string;
  readonly name: string;
  readonly object: JsonObject;
}

const roleObject = (name: string, rules: readonly Rule[]): Made => ({
  kind: 'ClusterRole',
  name,
  object: {
    apiVersion: `${RBAC_GROUP}/v1`,
    kind: 'ClusterRole',
    metadata: { name, labels: { ...LABELS } },
    rules: rules.map((rule): JsonObject => ({ ...rule })),
  },
});

const bindingObject = (role: string, groups: readonly string[]): Made => ({
  kind: 'ClusterRoleBinding',
  name: role,
  object: {
    apiVersion: `${RBAC_GROUP}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: role, labels: { ...LABELS } },
    roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name: role },
    subjects: groups.map((name): JsonObject => ({ apiGroup: RBAC_GROUP, kind: 'Group', name })),
  },
});

/** Makes those that are not there. */
export function makeDefaults(world: World): void {
  const objects = [
    ...Object.entries({ ...ROLES, admin: ADMIN }).map(([name, rules]) => roleObject(name, rules)),
    ...BINDINGS.map(([role, groups]) => bindingObject(role, groups)),
  ];
  for (const { kind, name, object } of objects) {
    const served = world.registry.byKind(`${RBAC_GROUP}/v1`, kind);
    if (served === undefined || world.store.table(served.storageKey).get(keyOf('', name)) !== undefined) continue;
    insert(world, served, { namespace: '', object, writer: systemWriter('kube-apiserver'), recorded: false, system: true });
  }
}
