import { ServiceAccounts } from '../../api/builtin.ts';
import { CodedError, messageOf } from '../../api/errors.ts';
import { API_VERSION } from '../../api/kind.ts';
import type { Machine } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { InfraProvider, InstanceRequest, NodeBootstrap } from '../../api/provider.ts';
import { pathOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/apierror.ts';
import type { Client } from '../../kube/client.ts';
import { isDeleting } from './facts.ts';
import type { InstanceView } from './view.ts';

/** How nodes of this cell reach it. */
export interface CellAddress {
  server: string;
  /** PEM. */
  certificateAuthority: string;
  mirror: string | undefined;
}

/** Asked for; the server may give less. */
const TOKEN_SECONDS = 365 * 24 * 3600;

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

/** Makes the instance with an identity of its own: a ServiceAccount that belongs to the Machine and goes with it. */
export async function ensureInstance(
  client: Client,
  machine: Stored<Machine>,
  provider: InfraProvider,
  cell: CellAddress,
  signal: AbortSignal,
): Promise<void> {
  const request = requestOf(machine);
  const bootstrap: NodeBootstrap = {
    server: cell.server,
    certificateAuthority: cell.certificateAuthority,
    token: await agentToken(client, machine, signal),
    machine: { namespace: request.namespace, name: request.name, uid: request.machineUID },
    providerID: provider.providerIDOf(request),
    ...(cell.mirror === undefined ? {} : { mirror: cell.mirror }),
  };
  await provider.ensure(request, bootstrap, signal);
}

async function agentToken(client: Client, machine: Stored<Machine>, signal: AbortSignal): Promise<string> {
  const key = { namespace: machine.metadata.namespace ?? '', name: `machine-${machine.metadata.name}` };
  const owner = { apiVersion: API_VERSION, kind: 'Machine', name: machine.metadata.name, uid: machine.metadata.uid };
  try {
    await client.create(
      ServiceAccounts,
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { ...key, ownerReferences: [owner] } },
      { fieldManager: MANAGERS.machine, signal },
    );
  } catch (error) {
    if (!hasReason(error, 'AlreadyExists')) throw error;
    const found = await client.get(ServiceAccounts, key, { signal });
    if (!found.metadata.ownerReferences?.some(({ uid }) => uid === machine.metadata.uid)) {
      throw new CodedError('ForeignServiceAccount', `ServiceAccount ${key.namespace}/${key.name} belongs to something else`, {
        next: 'it goes with the Machine that had this name; wait, or delete it',
      });
    }
  }
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: TOKEN_SECONDS } };
  const answer = await client.post(pathOf(ServiceAccounts, key.namespace, key.name, 'token'), request, { signal });
  const token = (answer as { status?: { token?: unknown } } | null)?.status?.token;
  if (typeof token !== 'string')
    throw new CodedError('NoToken', `the server gave no token for ServiceAccount ${key.namespace}/${key.name}`);
  return token;
}
