import { ADMITTED, bootstrapAccountName } from '../../api/admission.ts';
import { ServiceAccounts } from '../../api/builtin.ts';
import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Bootstrap, type Machine } from '../../api/machine.ts';
import type { Clock } from '../../api/ports.ts';
import { pathOf } from '../../api/resource.ts';
import { readSshConfig, SSH_PROVIDER, type SshConfig } from '../../api/ssh.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { sleep } from '../../kube/clock.ts';
import { findCondition } from '../../kube/conditions.ts';
import { importError } from './facts.ts';
import { cliError } from '../errors.ts';

/** The least that Kubernetes gives. */
const TOKEN_SECONDS = 600;
const POLL_MS = 1000;

export interface MachineWish {
  namespace: string;
  name: string;
  ssh: SshConfig;
  labels: Record<string, string>;
}

export interface ImportCell {
  find(key: { namespace: string; name: string }, signal: AbortSignal): Promise<Stored<Machine> | undefined>;
  /** The Machine, made where it is not there. Errors: `NameTaken`, `MachineDeleting`, and those of the API. */
  ensureMachine(wish: MachineWish, signal: AbortSignal): Promise<Stored<Machine>>;
  /** When a controller has opened its admission. Errors: `NoAdmission`. */
  opened(
    machine: Stored<Machine>,
    withinMs: number,
    signal: AbortSignal,
  ): Promise<{ machine: Stored<Machine>; bootstrap: Bootstrap; providerID: string }>;
  /** A token of this epoch's account, and of no other. */
  token(machine: Stored<Machine>, bootstrap: Bootstrap, signal: AbortSignal): Promise<string>;
  /** When its agent reports to the cell. Errors: `AdmissionDenied`, `NotJoined`. */
  joined(machine: Stored<Machine>, withinMs: number, signal: AbortSignal): Promise<Stored<Machine>>;
}

/** The API server of the cell. */
interface Cell {
  client: Client;
  clock: Clock;
}

export function importCell(client: Client, clock: Clock): ImportCell {
  const cell = { client, clock };
  return {
    find: (key, signal) => client.find(Machines, key, { signal }),
    ensureMachine: (wish, signal) => ensureMachine(cell, wish, signal),
    opened: (machine, withinMs, signal) => opened(cell, machine, withinMs, signal),
    token: (machine, bootstrap, signal) => tokenOf(cell, machine, bootstrap, signal),
    joined: (machine, withinMs, signal) => joined(cell, machine, withinMs, signal),
  };
}

const nameOf = ({ metadata }: Machine): string => `${metadata.namespace}/${metadata.name}`;

async function live({ client }: Cell, machine: Stored<Machine>, signal: AbortSignal): Promise<Stored<Machine>> {
  const { namespace, name, uid } = machine.metadata;
  const found = await client.find(Machines, { namespace, name }, { signal });
  if (found?.metadata.uid === uid && found.metadata.deletionTimestamp === undefined) return found;
  throw importError('MachineDeleting', `Machine ${namespace}/${name} was deleted meanwhile`, 'import it again when it is gone');
}

async function waitFor<T>(
  { clock }: Cell,
  withinMs: number,
  signal: AbortSignal,
  read: () => Promise<T | undefined>,
): Promise<T | undefined> {
  const until = clock.monotonic() + withinMs;
  for (;;) {
    const found = await read();
    if (found !== undefined || clock.monotonic() >= until) return found;
    await sleep(clock, POLL_MS, signal);
  }
}

async function ensureMachine(
  { client }: Cell,
  { namespace, name, ssh, labels }: MachineWish,
  signal: AbortSignal,
): Promise<Stored<Machine>> {
  const wanted = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { namespace, name },
    spec: { provider: { name: SSH_PROVIDER, config: { ...ssh } }, ...(Object.keys(labels).length === 0 ? {} : { labels }) },
  };
  let found = await client.find(Machines, { namespace, name }, { signal });
  if (found === undefined) {
    try {
      found = await client.create(Machines, wanted, { fieldManager: 'kubenode-cli', signal });
    } catch (error) {
      if (hasReason(error, 'NotFound'))
        throw cliError('NoPool', `there is no pool ${namespace}`, {
          cause: error,
          next: `kubectl create namespace ${namespace}`,
        });
      if (!hasReason(error, 'AlreadyExists')) throw error;
      found = await client.get(Machines, { namespace, name }, { signal });
    }
  }
  if (found.metadata.deletionTimestamp !== undefined)
    throw importError('MachineDeleting', `Machine ${nameOf(found)} is being deleted`, `kubenode why ${name}`);
  const there = readSshConfig(found.spec.provider?.config);
  const isSame =
    found.spec.provider?.name === SSH_PROVIDER &&
    there?.address === ssh.address &&
    (there.port ?? 22) === (ssh.port ?? 22) &&
    (there.hostKeys ?? []).some((key) => ssh.hostKeys?.includes(key) === true);
  if (isSame) return found;
  const what = found.spec.provider === undefined ? 'no provider' : `provider ${found.spec.provider.name}`;
  throw importError(
    'NameTaken',
    `Machine ${nameOf(found)} is there, with ${what}, ${there === undefined ? 'and no address' : `address ${there.address}`} and another host key, address or port`,
    'give this machine another name; or delete that Machine first, if it is the same one',
  );
}

async function opened(cell: Cell, machine: Stored<Machine>, withinMs: number, signal: AbortSignal): ReturnType<ImportCell['opened']> {
  const found = await waitFor(cell, withinMs, signal, async () => {
    const now = await live(cell, machine, signal);
    const { bootstrap, providerID } = now.status ?? {};
    return bootstrap === undefined || providerID === undefined ? undefined : { machine: now, bootstrap, providerID };
  });
  if (found !== undefined) return found;
  throw importError(
    'NoAdmission',
    `no controller of the cell opened the admission of ${nameOf(machine)} within ${withinMs / 1000} s`,
    'do its controllers run? kubectl -n kubenode-system get pods; then run the same command again',
  );
}

async function tokenOf({ client }: Cell, machine: Stored<Machine>, { accountUID }: Bootstrap, signal: AbortSignal): Promise<string> {
  const { namespace, name } = machine.metadata;
  const path = pathOf(ServiceAccounts, namespace, bootstrapAccountName(name), 'token');
  // The server gives none of another account of that name, which would be another epoch's.
  const request = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    metadata: { uid: accountUID },
    spec: { expirationSeconds: TOKEN_SECONDS },
  };
  let answer: unknown;
  try {
    answer = await client.post(path, request, { signal });
  } catch (error) {
    if (!hasReason(error, 'Forbidden')) throw error;
    throw cliError('MayNotAdmit', `you may not admit machines to pool ${namespace}`, {
      cause: error,
      next: `kubectl -n ${namespace} create rolebinding importers --clusterrole kubenode-importer --user YOU`,
    });
  }
  const token = (answer as { status?: { token?: unknown } } | null)?.status?.token;
  if (typeof token === 'string' && token !== '') return token;
  throw cliError('NoToken', `the server gave no token for ${path}`);
}

async function joined(cell: Cell, machine: Stored<Machine>, withinMs: number, signal: AbortSignal): Promise<Stored<Machine>> {
  let last: Stored<Machine> = machine;
  const found = await waitFor(cell, withinMs, signal, async () => {
    last = await live(cell, machine, signal);
    const admitted = findCondition(last.status?.conditions, ADMITTED);
    if (admitted?.reason === 'Denied')
      throw importError(
        'AdmissionDenied',
        `the agent of ${nameOf(last)} is not admitted: ${admitted.message}`,
        `kubenode why ${last.metadata.name}`,
      );
    const isStale = findCondition(last.status?.conditions, 'Ready')?.reason === 'AgentStale';
    return last.status?.agent === undefined || isStale ? undefined : last;
  });
  if (found !== undefined) return found;
  const why = last.status?.bootstrap?.csrUID === undefined ? 'it has not asked to be admitted' : 'it was admitted, and reports nothing';
  throw importError(
    'NotJoined',
    `the agent of ${nameOf(machine)} did not report within ${withinMs / 1000} s: ${why}`,
    'run the same command again',
  );
}
