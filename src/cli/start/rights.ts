import { AGENTS } from '../../api/identity.ts';
import { AGENT_CLUSTER_ROLE, BOOTSTRAP_CLUSTER_ROLE } from '../../api/machineaccess.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { KubeObject } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { manifests } from '../manifests.ts';

const RBAC = 'rbac.authorization.k8s.io';
const STAND_INS = 'kubenode-stand-ins';

/**
 * What the stand-ins of kubelet and detector do, which speak as the agent of their node. A real kubelet and a real detector have identities of
 * their own, and rights of Kubernetes.
 */
const standIns: KubeObject[] = [
  {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRole',
    metadata: { name: STAND_INS },
    rules: [
      { apiGroups: [''], resources: ['nodes'], verbs: ['get', 'create'] },
      { apiGroups: [''], resources: ['nodes/status'], verbs: ['patch'] },
      { apiGroups: [''], resources: ['pods'], verbs: ['list', 'delete'] },
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ['create', 'patch'] },
    ],
  } as KubeObject,
  {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: STAND_INS },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: STAND_INS },
    subjects: [{ apiGroup: RBAC, kind: 'Group', name: AGENTS }],
  } as KubeObject,
];

/** Gives nodes of a cell what they need there: of what `kubenode install` prints, the rights of agents; and those of the stand-ins. */
export async function grantNodes(cell: Client, fieldManager: string): Promise<string[]> {
  const installed = await manifests({ role: 'cell', namespace: SYSTEM_NAMESPACE, image: 'kubenode', replicas: 1 });
  const plurals: Record<string, string> = { ClusterRole: 'clusterroles', ClusterRoleBinding: 'clusterrolebindings' };
  const ofAgents = installed.filter(
    ({ kind, metadata }) => kind in plurals && [AGENT_CLUSTER_ROLE, BOOTSTRAP_CLUSTER_ROLE].includes(metadata.name),
  );
  const objects = [...ofAgents, ...standIns];
  for (const object of objects) {
    await cell.request({
      method: 'PATCH',
      path: `/apis/${RBAC}/v1/${plurals[object.kind]}/${object.metadata.name}`,
      query: { fieldManager, force: 'true', fieldValidation: 'Strict' },
      headers: { 'content-type': 'application/apply-patch+yaml' },
      body: JSON.stringify(object),
    });
  }
  return [...new Set(objects.map(({ metadata }) => metadata.name))];
}
