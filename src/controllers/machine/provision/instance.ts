import { CodedError, messageOf } from '../../../api/errors.ts';
import type { Machine } from '../../../api/machine.ts';
import type { InfraProvider, InstanceRequest, NodeBootstrap } from '../../../api/provider.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Client } from '../../../kube/client.ts';
import { openAdmission } from '../../identity/admission.ts';
import { isDeleting } from '../facts.ts';
import type { InstanceView } from '../view.ts';

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

/** What the provider proves of this machine's instance. Its errors are not absence (invariant 1). */
export async function instanceOf(
  machine: Stored<Machine>,
  provider: InfraProvider | undefined,
  signal: AbortSignal,
): Promise<InstanceView> {
  if (machine.spec.provider === undefined) return { state: 'NoProvider' };
  if (provider === undefined) {
    return { state: 'Unknown', reason: 'UnknownProvider', message: `this cell has no provider "${machine.spec.provider.name}"` };
  }
  const [mistake] = isDeleting(machine) ? [] : provider.validate(machine.spec.provider.config ?? {});
  if (mistake !== undefined)
    return { state: 'Unknown', reason: 'InvalidConfig', message: `\`spec.provider.config.${mistake.path}\` ${mistake.message}` };
  try {
    const instance = await provider.get(machine.status?.providerID ?? provider.providerIDOf(requestOf(machine)), signal);
    return instance === undefined ? { state: 'Absent' } : { state: 'Present', instance };
  } catch (error) {
    if (signal.aborted) throw error;
    return { state: 'Unknown', reason: error instanceof CodedError ? error.code : 'Unavailable', message: messageOf(error) };
  }
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
