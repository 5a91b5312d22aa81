/** Makes the instance of a machine with what admits its agent. */
import type { Machine } from '../../api/machine.ts';
import type { InfraProvider, InstanceRequest, NodeBootstrap } from '../../api/provider.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { openAdmission } from './admission.ts';

/** How nodes of this cell reach it. */
export interface CellAddress {
  server: string;
  /** PEM. */
  certificateAuthority: string;
  mirror: string | undefined;
  /** Public keys, a line each, that new nodes pin; absent: none. */
  componentKeys?: string;
}

export function requestOf(machine: Stored<Machine>): InstanceRequest {
  const { failureDomain, provider } = machine.spec;
  return {
    machineUID: machine.metadata.uid,
    namespace: machine.metadata.namespace ?? '',
    name: machine.metadata.name,
    config: provider?.config ?? {},
    ...(failureDomain === undefined ? {} : { failureDomain }),
  };
}

/**
 * Makes the instance unless there is one, and gives it a bootstrap whose token admits the agent of exactly this machine, once (docs/protocols.md#g1).
 * `again`: in a new epoch in any case.
 */
export async function ensureInstance(
  client: Client,
  machine: Stored<Machine>,
  provider: InfraProvider,
  cell: CellAddress,
  signal: AbortSignal,
  options: { again?: boolean } = {},
): Promise<void> {
  const request = requestOf(machine);
  const { namespace, name, machineUID: uid } = request;
  const { token } = await openAdmission(client, { namespace, name, uid }, { ...options, signal });
  const bootstrap: NodeBootstrap = {
    server: cell.server,
    certificateAuthority: cell.certificateAuthority,
    token,
    machine: { namespace, name, uid },
    providerID: provider.providerIDOf(request),
    ...(cell.mirror === undefined ? {} : { mirror: cell.mirror }),
    ...(cell.componentKeys === undefined ? {} : { componentKeys: cell.componentKeys }),
  };
  await provider.ensure(request, bootstrap, signal);
}
