import { objectError } from '../../api/errors.ts';
import type { Machine } from '../../api/machine.ts';
import { machineAccess, poolAccess, standInAccess, standInPoolAccess } from '../../api/machine-access.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Resource } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';

function rbac(kind: string, plural: string, namespaced: boolean): Resource {
  return {
    group: 'rbac.authorization.k8s.io',
    version: 'v1',
    kind,
    plural,
    namespaced,
    parse(value) {
      const object = value as Partial<KubeObject> | null;
      if (object?.kind === kind && typeof object.apiVersion === 'string' && object.metadata !== undefined) return object as KubeObject;
      throw objectError('InvalidObject', `not a ${kind}`);
    },
  };
}

const RESOURCES = [
  rbac('Role', 'roles', true),
  rbac('RoleBinding', 'rolebindings', true),
  rbac('ClusterRoleBinding', 'clusterrolebindings', false),
];

/** What a node needs to be admitted, and its agent when it is. Errors: those of the API. */
export async function grantAgent(client: Client, machine: Stored<Machine>, signal: AbortSignal): Promise<void> {
  const { role, roleBinding } = machineAccess(machine);
  await applyAll(client, [role, roleBinding, poolAccess(machine.metadata.namespace ?? '')], signal);
}

/** What the ServiceAccount needs that stands in for a certificate, and who may have its tokens. Errors: those of the API. */
export async function grantStandIn(client: Client, machine: Stored<Machine>, signal: AbortSignal): Promise<void> {
  const { role, roleBinding } = standInAccess(machine);
  const own = machineAccess(machine, { standIn: true });
  await applyAll(client, [role, roleBinding, own.role, own.roleBinding, standInPoolAccess(machine.metadata.namespace ?? '')], signal);
}

async function applyAll(client: Client, objects: readonly KubeObject[], signal: AbortSignal): Promise<void> {
  for (const object of objects) {
    const resource = RESOURCES.find(({ kind }) => kind === object.kind);
    if (resource === undefined) throw objectError('InvalidObject', `${object.kind} is no kind of RBAC`);
    try {
      await client.apply(resource, object, { fieldManager: MANAGERS.identity, force: true, signal });
    } catch (error) {
      // The embedded server knows no rights: there every holder of a token may do all.
      if (hasReason(error, 'NotFound')) return;
      throw error;
    }
  }
}
