import { controllerError } from '../shared/errors.ts';
import { bootstrapAccountName, type MachineKey } from '../../api/admission.ts';
import { ServiceAccounts, type ServiceAccount } from '../../api/builtin.ts';
import { agentServiceAccountName } from '../../api/identity.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Bootstrap, type Machine } from '../../api/machine.ts';
import { pathOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { grantAgent, grantStandIn } from './access.ts';
import { recordBootstrap } from './record.ts';

/** Asked for; the server may give less. Time for a machine to be made, to boot and to reach its cell. */
const TOKEN_SECONDS = 3600;
const TRIES = 5;

export interface Opened {
  epoch: number;
  /** A secret; admits once, and only while this epoch lasts. */
  token: string;
}

/**
 * Opens the admission of a machine's agent: a token of a ServiceAccount that is made for this epoch, so that its UID identifies the epoch. An epoch in which
 * no agent was admitted yet goes on, with another token; else, or with `again`, the next one begins, which ends all that came before it: tokens at
 * once, certificates when they would be renewed.
 *
 * Can be repeated after any crash. Errors: `MachineGone`, `ForeignServiceAccount`, `NoToken`, and those of the API.
 */
export async function openAdmission(
  client: Client,
  machine: MachineKey & { uid: string },
  { again = false, signal }: { again?: boolean; signal: AbortSignal },
): Promise<Opened> {
  for (let tries = 1; ; tries++) {
    try {
      return await open(client, machine, again, signal);
    } catch (error) {
      // Machines are busy when they are new. What was made before is used, or made again, the next time.
      if (!hasReason(error, 'Conflict', 'AlreadyExists') || tries === TRIES) throw error;
    }
  }
}

async function open(client: Client, key: MachineKey & { uid: string }, again: boolean, signal: AbortSignal): Promise<Opened> {
  const { namespace, name } = key;
  const machine = await client.find(Machines, { namespace, name }, { signal });
  if (machine === undefined || machine.metadata.uid !== key.uid || machine.metadata.deletionTimestamp !== undefined)
    throw controllerError('MachineGone', `Machine ${namespace}/${name} is gone, or is being deleted: nothing is admitted for it`);
  const before = machine.status?.bootstrap;
  const account = await client.find(ServiceAccounts, { namespace, name: bootstrapAccountName(name) }, { signal });
  if (account !== undefined) requireOwned(account, machine);
  const goesOn = !again && before !== undefined && before.csrUID === undefined && account?.metadata.uid === before.accountUID;
  await grantAgent(client, machine, signal);
  const used = goesOn ? account : await replaced(client, machine, account, signal);
  const { token, until } = await tokenOf(client, used, signal);
  const bootstrap: Bootstrap = {
    epoch: goesOn ? before.epoch : (before?.epoch ?? 0) + 1,
    accountUID: used.metadata.uid,
    tokenUntil: until,
  };
  await recordBootstrap(client, machine, bootstrap, undefined, signal);
  return { epoch: bootstrap.epoch, token };
}

/** The account of the epoch before goes, and with it all its tokens; so does the one that stood in for a certificate. */
async function replaced(
  client: Client,
  machine: Stored<Machine>,
  account: Stored<ServiceAccount> | undefined,
  signal: AbortSignal,
): Promise<Stored<ServiceAccount>> {
  const { namespace = '', name } = machine.metadata;
  if (account !== undefined) await removeAccount(client, account, signal);
  if (machine.status?.bootstrap?.by === 'Token') {
    const standIn = await client.find(ServiceAccounts, { namespace, name: agentServiceAccountName(name) }, { signal });
    if (standIn !== undefined) await removeAccount(client, standIn, signal);
  }
  return await client.create(ServiceAccounts, accountOf(machine, bootstrapAccountName(name)), { signal });
}

async function removeAccount(client: Client, { metadata }: Stored<ServiceAccount>, signal: AbortSignal): Promise<void> {
  try {
    await client.delete(ServiceAccounts, metadata, { uid: metadata.uid, signal });
  } catch (error) {
    if (!hasReason(error, 'NotFound')) throw error;
  }
}

function accountOf(machine: Stored<Machine>, name: string): ServiceAccount {
  const { namespace = '', uid } = machine.metadata;
  const owner = { apiVersion: API_VERSION, kind: 'Machine', name: machine.metadata.name, uid };
  return { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace, ownerReferences: [owner] } };
}

/** Errors: `ForeignServiceAccount`. */
function requireOwned({ metadata }: ServiceAccount, machine: Stored<Machine>): void {
  if (metadata.ownerReferences?.some(({ uid }) => uid === machine.metadata.uid) === true) return;
  throw controllerError('ForeignServiceAccount', `ServiceAccount ${metadata.namespace}/${metadata.name} belongs to something else`, {
    next: 'it goes with the Machine that had this name; wait, or delete it',
  });
}

async function tokenOf(client: Client, { metadata }: ServiceAccount, signal: AbortSignal): Promise<{ token: string; until: string }> {
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: TOKEN_SECONDS } };
  const answer = await client.post(pathOf(ServiceAccounts, metadata.namespace, metadata.name, 'token'), request, { signal });
  const { token, expirationTimestamp } = (answer as { status?: { token?: unknown; expirationTimestamp?: unknown } } | null)?.status ?? {};
  if (typeof token === 'string' && typeof expirationTimestamp === 'string') return { token, until: expirationTimestamp };
  throw controllerError('NoToken', `the server gave no token for ServiceAccount ${metadata.namespace}/${metadata.name}`);
}

/**
 * The account that an agent is where its cluster signs no certificates. There before the Machine reports it. Errors: `ForeignServiceAccount`, and
 * those of the API.
 */
export async function makeTokenAccount(client: Client, machine: Stored<Machine>, signal: AbortSignal): Promise<void> {
  const { namespace = '', name } = machine.metadata;
  const key = { namespace, name: agentServiceAccountName(name) };
  const found = await client.find(ServiceAccounts, key, { signal });
  if (found === undefined) await client.create(ServiceAccounts, accountOf(machine, key.name), { signal });
  else requireOwned(found, machine);
  await grantStandIn(client, machine, signal);
}
