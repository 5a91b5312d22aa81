/** What every agent may do, besides what its own Role grants (`machineAccess` in src/api). */
import type { Construct } from 'constructs';
import { AGENTS } from '../../src/api/identity.ts';
import { AGENT_CLUSTER_ROLE, BOOTSTRAP_CLUSTER_ROLE } from '../../src/api/machine-access.ts';
import { clusterRole, clusterRoleBinding, core, of, own } from './rules.ts';

/** One binding for all that have a certificate: one a machine would slow every request of the cluster. */
export function agentRights(scope: Construct): void {
  clusterRole(scope, AGENT_CLUSTER_ROLE, [
    own('machinecomponents', 'get'),
    core('nodes', 'get'),
    of('certificates.k8s.io', 'certificatesigningrequests', 'create get'),
  ]);
  clusterRole(scope, BOOTSTRAP_CLUSTER_ROLE, [of('certificates.k8s.io', 'certificatesigningrequests', 'create get')]);
  clusterRoleBinding(scope, AGENT_CLUSTER_ROLE, AGENT_CLUSTER_ROLE, { kind: 'Group', name: AGENTS });
}
