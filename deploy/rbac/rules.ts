/** Short words for RBAC. */
import type { Construct } from 'constructs';
import { GROUP } from '../../src/api/kind.ts';
import { object } from '../object.ts';

export interface Rule {
  apiGroups: string[];
  resources: string[];
  resourceNames?: string[];
  verbs: string[];
}

const RBAC = 'rbac.authorization.k8s.io';

const words = (text: string): string[] => text.split(' ');

/** `own('machines machines/status', 'get list')`: resources of kubenode.io. */
export const own = (resources: string, verbs: string): Rule => ({ apiGroups: [GROUP], resources: words(resources), verbs: words(verbs) });

export const core = (resources: string, verbs: string): Rule => ({ apiGroups: [''], resources: words(resources), verbs: words(verbs) });

export const of = (group: string, resources: string, verbs: string): Rule => ({
  apiGroups: [group],
  resources: words(resources),
  verbs: words(verbs),
});

export const named = (rule: Rule, ...resourceNames: string[]): Rule => ({ ...rule, resourceNames });

/** To ask whose a token is and what he may: what serving metrics takes. */
export const REVIEWS = [
  of('authentication.k8s.io', 'tokenreviews', 'create'),
  of('authorization.k8s.io', 'subjectaccessreviews', 'create'),
];

/** What `createRecorder` asks for. */
export const EVENTS = core('events', 'create patch');

export interface Subject {
  kind: 'ServiceAccount' | 'Group' | 'User';
  name: string;
  namespace?: string;
}

const subjectOf = ({ kind, name, namespace }: Subject) =>
  kind === 'ServiceAccount' ? { kind, name, namespace } : { kind, name, apiGroup: RBAC };

export function clusterRole(scope: Construct, name: string, rules: Rule[], labels?: Record<string, string>): void {
  object(scope, {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRole',
    metadata: { name, ...(labels === undefined ? {} : { labels }) },
    rules,
  });
}

/** A ClusterRole whose rules are those of all ClusterRoles with the label. */
export function aggregate(scope: Construct, name: string, label: string): void {
  object(scope, {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRole',
    metadata: { name },
    aggregationRule: { clusterRoleSelectors: [{ matchLabels: { [label]: 'true' } }] },
  });
}

export function clusterRoleBinding(scope: Construct, name: string, role: string, subject: Subject): void {
  object(scope, {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: role },
    subjects: [subjectOf(subject)],
  });
}

/** A Role in one namespace and, where there is a subject, its RoleBinding of the same name. */
export function role(scope: Construct, namespace: string, name: string, rules: Rule[], subject?: Subject): void {
  object(scope, { apiVersion: `${RBAC}/v1`, kind: 'Role', metadata: { name, namespace }, rules });
  if (subject === undefined) return;
  object(scope, {
    apiVersion: `${RBAC}/v1`,
    kind: 'RoleBinding',
    metadata: { name, namespace },
    roleRef: { apiGroup: RBAC, kind: 'Role', name },
    subjects: [subjectOf(subject)],
  });
}
