/** What an agent may do in its pool's namespace: objects that belong to its Machine and go with it (PROTOCOLS G3). */
import { AGENT_PREFIX, agentServiceAccountName, agentUser } from './identity.ts';
import { API_VERSION, GROUP } from './kind.ts';
import type { Machine } from './machine.ts';
import { agentLeaseName } from './names.ts';
import type { KubeObject, OwnerReference, Stored } from './wire.ts';

const RBAC = 'rbac.authorization.k8s.io';

/** ClusterRole of what all agents may read; `kubenode install` makes it. */
export const AGENT_CLUSTER_ROLE = 'kubenode-agent';

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

/**
 * Get and watch of this one Machine (never list), patch of its status, its Lease, Events. Bound to the user of its certificate and to its
 * ServiceAccount, so that either identity will do. Two RoleBindings would cost every request in the namespace twice.
 *
 * `create` cannot be limited by name: admission holds Leases and Events to the machine's own.
 */
export function machineAccess(machine: Pick<Stored<Machine>, 'metadata'>): MachineAccess {
  const { name: machineName, namespace = '', uid } = machine.metadata;
  const name = `${AGENT_PREFIX}${machineName}`;
  const owner: OwnerReference = { apiVersion: API_VERSION, kind: 'Machine', name: machineName, uid };
  const metadata = { name, namespace, ownerReferences: [owner] };
  const lease = { apiGroups: ['coordination.k8s.io'], resources: ['leases'] };
  return {
    role: {
      apiVersion: `${RBAC}/v1`,
      kind: 'Role',
      metadata,
      rules: [
        { apiGroups: [GROUP], resources: ['machines'], resourceNames: [machineName], verbs: ['get', 'watch'] },
        { apiGroups: [GROUP], resources: ['machines/status'], resourceNames: [machineName], verbs: ['patch'] },
        { ...lease, resourceNames: [agentLeaseName(machineName)], verbs: ['get', 'patch'] },
        { ...lease, verbs: ['create'] },
        { apiGroups: [''], resources: ['events'], verbs: ['create'] },
      ],
    },
    roleBinding: {
      apiVersion: `${RBAC}/v1`,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: RBAC, kind: 'Role', name },
      subjects: [
        { apiGroup: RBAC, kind: 'User', name: agentUser(namespace, machineName) },
        { kind: 'ServiceAccount', name: agentServiceAccountName(machineName), namespace },
      ],
    },
  };
}

/**
 * One a pool, only where agents have tokens of ServiceAccounts, which cannot be put into a group: its service accounts may read Nodes and
 * MachineComponents by name. One binding a machine would slow every request of the cluster.
 */
export function poolAccess(namespace: string): RoleBinding {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: `${AGENT_PREFIX}pool-${namespace}` },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: AGENT_CLUSTER_ROLE },
    subjects: [{ apiGroup: RBAC, kind: 'Group', name: `system:serviceaccounts:${namespace}` }],
  };
}
