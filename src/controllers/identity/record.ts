import { ADMITTED } from '../../api/admission.ts';
import { Machines, type Bootstrap, type Machine } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import { apiVersionOf } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { findCondition, setCondition, type ConditionInput } from '../../kube/conditions.ts';

export interface Said {
  condition: Omit<ConditionInput, 'type'>;
  nowMs: number;
}

/**
 * Writes what is known of a machine's admission, if the Machine is still as it was read: whoever was faster wins, and the other decides again.
 * What is not said of the condition stays as it was. Errors: those of the API, `Conflict` above all.
 */
export async function recordBootstrap(
  client: Client,
  machine: Stored<Machine>,
  bootstrap: Bootstrap | undefined,
  said: Said | undefined,
  signal: AbortSignal,
): Promise<Stored<Machine>> {
  const { name, namespace = '', uid, resourceVersion } = machine.metadata;
  const before = machine.status?.conditions;
  const conditions = said === undefined ? before : setCondition(before, { type: ADMITTED, ...said.condition }, said.nowMs);
  const admitted = findCondition(conditions, ADMITTED);
  const object: KubeObject & { status: Pick<NonNullable<Machine['status']>, 'bootstrap' | 'conditions'> } = {
    apiVersion: apiVersionOf(Machines),
    kind: Machines.kind,
    metadata: { name, namespace, uid, resourceVersion },
    status: { ...(bootstrap === undefined ? {} : { bootstrap }), ...(admitted === undefined ? {} : { conditions: [admitted] }) },
  };
  return await client.apply(Machines, object, { fieldManager: MANAGERS.identity, subresource: 'status', force: true, signal });
}
