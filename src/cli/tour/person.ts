import type { Transport } from '../../api/transport.ts';
import type { KubeObject } from '../../api/wire.ts';
import { createClient } from '../../kube/http-client.ts';

const RBAC = 'rbac.authorization.k8s.io';
const PERSON = 'kubenode-tour';
const WORKLOAD = 'kubenode-tour-workload';

function binding(name: string, role: string): KubeObject {
  return {
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: role },
    subjects: [{ kind: 'User', apiGroup: RBAC, name: PERSON }],
  } as KubeObject;
}

const GIVEN: Readonly<Record<string, KubeObject[]>> = {
  clusterroles: [
    {
      apiVersion: `${RBAC}/v1`,
      kind: 'ClusterRole',
      metadata: { name: WORKLOAD },
      rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['create', 'get'] }],
    } as KubeObject,
  ],
  // The one as docs/install.md gives people their rights; the other to play an application that has a pod on a node.
  clusterrolebindings: [binding(PERSON, 'kubenode-operator'), binding(WORKLOAD, WORKLOAD)],
};

/** On servers that ask for rights the tour acts as an operator and not as the administrator who started it: gives that one its rights. */
export async function giveRights(administrator: Transport): Promise<void> {
  const client = createClient(administrator, { userAgent: 'kubenode-tour' });
  for (const [plural, objects] of Object.entries(GIVEN))
    for (const object of objects)
      await client.request({
        method: 'PATCH',
        path: `/apis/${RBAC}/v1/${plural}/${object.metadata.name}`,
        query: { fieldManager: PERSON, force: 'true' },
        headers: { 'content-type': 'application/apply-patch+yaml' },
        body: JSON.stringify(object),
      });
}

/** The API server takes an administrator's word for who it is. */
export const asPerson =
  (administrator: Transport): Transport =>
  (request) =>
    administrator({ ...request, headers: { ...request.headers, 'impersonate-user': PERSON } });
