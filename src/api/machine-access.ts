/** What an agent may do in its pool's namespace: objects that belong to its Machine and go with it (docs/security.md). */
import { bootstrapAccountName } from './admission.ts';
import { AGENT_PREFIX, agentServiceAccountName, agentUser } from './identity.ts';
import { API_VERSION, GROUP } from './kind.ts';
import type { Machine } from './machine.ts';
import { agentLeaseName } from './names.ts';
import type { KubeObject, OwnerReference, Stored } from './wire.ts';

const RBAC = 'rbac.authorization.k8s.io';

/** ClusterRoles that `kubenode install` makes: what every agent may do, and what a node may that is not admitted yet. */
export const AGENT_CLUSTER_ROLE = 'kubenode-agent';
export const BOOTSTRAP_CLUSTER_ROLE = 'kubenode-bootstrap';

export interface Role extends KubeObject {
  rules: { apiGroups: string[]; resources: string[]; resourceNames?: string[]; verbs: string[] }[];
}

export interface RoleBinding extends KubeObject {
  roleRef: { apiGroup: string; kind: 'Role' | 'ClusterRole'; name: string };
  subjects: { apiGroup?: string; kind: 'User' | 'Group' | 'ServiceAccount'; name: string; namespace?: string }[];
}

export interface MachineAccess {
  role: Role;
  roleBinding: RoleBinding;
}

const ownedBy = ({ name, uid }: Stored<Machine>['metadata']): OwnerReference => ({ apiVersion: API_VERSION, kind: 'Machine', name, uid });

function access(
  { metadata }: Pick<Stored<Machine>, 'metadata'>,
  name: string,
  rules: Role['rules'],
  subjects: RoleBinding['subjects'],
): MachineAccess {
  const about = { name, namespace: metadata.namespace ?? '', ownerReferences: [ownedBy(metadata)] };
  const apiVersion = `${RBAC}/v1`;
  return {
    role: { apiVersion, kind: 'Role', metadata: about, rules },
    roleBinding: { apiVersion, kind: 'RoleBinding', metadata: about, roleRef: { apiGroup: RBAC, kind: 'Role', name }, subjects },
  };
}

/**
 * Get and watch of this one Machine (never list), patch of its status, its Lease, Events. Bound to the user of its certificate; and to the ServiceAccount
 * that replaces it only once it does, in the same RoleBinding: two would cost every request in the namespace twice. Before that, a user who made an
 * account of that name would have the rights of the agent.
 *
 * `create` cannot be limited by name: admission restricts Leases and Events to the machine's own.
 */
export function machineAccess(machine: Pick<Stored<Machine>, 'metadata'>, { standIn = false } = {}): MachineAccess {
  const { name, namespace = '' } = machine.metadata;
  const lease = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
  return access(
    machine,
    `${AGENT_PREFIX}${name}`,
    [
      { apiGroups: [GROUP], resources: ['machines'], resourceNames: [name], verbs: ['get', 'watch'] },
      { apiGroups: [GROUP], resources: ['machines/status'], resourceNames: [name], verbs: ['patch'] },
      { ...lease, resourceNames: [agentLeaseName(name)], verbs: ['get', 'patch'] },
      { ...lease, verbs: ['create'] },
      { apiGroups: [''], resources: ['events'], verbs: ['create'] },
    ],
    [
      { apiGroup: RBAC, kind: 'User', name: agentUser(namespace, name) },
      ...(standIn ? [{ kind: 'ServiceAccount' as const, name: agentServiceAccountName(name), namespace }] : []),
    ],
  );
}

/**
 * Only where the cluster signs no certificates: the holder of the bootstrap token or the last certificate, and later the ServiceAccount itself, gets tokens of the ServiceAccount that
 * replaces a certificate.
 */
export function standInAccess(machine: Pick<Stored<Machine>, 'metadata'>): MachineAccess {
  const { name, namespace = '' } = machine.metadata;
  const standIn = agentServiceAccountName(name);
  return access(
    machine,
    bootstrapAccountName(name),
    [{ apiGroups: [''], resources: ['serviceaccounts/token'], resourceNames: [standIn], verbs: ['create'] }],
    [
      ...[bootstrapAccountName(name), standIn].map((account) => ({ kind: 'ServiceAccount' as const, name: account, namespace })),
      // A signer may stop signing after it has admitted: the agent asks while its last certificate is still good.
      { apiGroup: RBAC, kind: 'User', name: agentUser(namespace, name) },
    ],
  );
}

/**
 * One a pool: its ServiceAccounts may ask for certificates, which is how an agent is admitted. They are in no group but their namespace's, and a
 * binding a machine would slow every request of the cluster.
 */
export const poolAccess = (namespace: string): RoleBinding => forPool(namespace, bootstrapAccountName(''), BOOTSTRAP_CLUSTER_ROLE);

/** One a pool, only where the cluster signs no certificates: what agents with a certificate may read, for their stand-ins. */
export const standInPoolAccess = (namespace: string): RoleBinding => forPool(namespace, AGENT_PREFIX, AGENT_CLUSTER_ROLE);

function forPool(namespace: string, prefix: string, role: string): RoleBinding {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: `${prefix}pool-${namespace}` },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: role },
    subjects: [{ apiGroup: RBAC, kind: 'Group', name: `system:serviceaccounts:${namespace}` }],
  };
}
