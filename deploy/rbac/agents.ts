/** What every agent may do, besides what its own Role says (`machineAccess` in src/api). */
import type { Construct } from 'constructs';
import { AGENT_CLUSTER_ROLE } from '../../src/api/machineaccess.ts';
import { AGENTS } from '../../src/api/identity.ts';
import { clusterRole, clusterRoleBinding, core, of, own } from './rules.ts';

export function agentRights(scope: Construct): void {
  clusterRole(scope, AGENT_CLUSTER_ROLE, [own('machinecomponents', 'get'), core('nodes', 'get')]);
  clusterRoleBinding(scope, AGENT_CLUSTER_ROLE, AGENT_CLUSTER_ROLE, { kind: 'Group', name: AGENTS });
  clusterRole(scope, 'kubenode-agent-renewal', [of('certificates.k8s.io', 'certificatesigningrequests', 'create get')]);
  clusterRoleBinding(scope, 'kubenode-agent-renewal', 'kubenode-agent-renewal', { kind: 'Group', name: AGENTS });
}
