import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS } from '../../api/names.ts';
import type { InfraProvider, Instance, InstanceRequest } from '../../api/provider.ts';
import type { ObjectKey } from '../../api/resource.ts';
import { readSshConfig, SSH_PROVIDER, sshConfigErrors } from '../../api/ssh.ts';
import type { Stored } from '../../api/wire.ts';
import { endOf } from '../../api/machine/operation-end.ts';
import { asProviderError, providerError } from '../errors.ts';

export interface SshProviderOptions {
  /** The Machine as it is now; undefined: the server reports that there is none. */
  find: (key: ObjectKey, signal: AbortSignal) => Promise<Stored<Machine> | undefined>;
  listAll: (signal: AbortSignal) => Promise<Stored<Machine>[]>;
}

const SCHEME = `${SSH_PROVIDER}://`;

/**
 * Machines that exist by themselves: KubeNode neither makes nor removes them. A person installs the agent there (`kubenode import`), so `ensure`
 * only waits for that, and the state of an instance is what its Machine records.
 *
 * A machine that is out of reach cannot be asked whether it is gone. Proof is one of: its agent reports that it has removed what it installed; no agent was
 * ever admitted for it; a person states by annotation `kubenode.io/machine-is-off` that it is off permanently, or wiped.
 */
export function sshProvider({ find, listAll }: SshProviderOptions): InfraProvider {
  async function machineOf(providerID: string, signal: AbortSignal): Promise<Stored<Machine> | undefined> {
    const { namespace, name, machineUID } = parse(providerID);
    const machine = await find({ namespace, name }, signal);
    return machine?.metadata.uid === machineUID ? machine : undefined;
  }

  return {
    name: SSH_PROVIDER,
    validate: sshConfigErrors,
    providerIDOf,
    ensure: (request, _bootstrap, signal) =>
      guarded(`wait for ${request.namespace}/${request.name} to be imported`, signal, async () => {
        const machine = await machineOf(providerIDOf(request), signal);
        if (machine === undefined || machine.metadata.deletionTimestamp !== undefined)
          throw providerError('InvalidConfig', `Machine ${request.namespace}/${request.name} is gone, or is being deleted`);
        return instanceOf(machine);
      }),
    get: (providerID, signal) =>
      guarded(`read ${providerID}`, signal, async () => {
        const machine = await machineOf(providerID, signal);
        // Its admission is opened before it is asked for; until then there is nothing to import.
        if (machine?.status?.bootstrap === undefined || isGone(machine)) return undefined;
        return instanceOf(machine);
      }),
    list: (signal) =>
      guarded('list imported machines', signal, async () =>
        (await listAll(signal))
          .filter((machine) => machine.spec.provider?.name === SSH_PROVIDER && machine.status?.bootstrap !== undefined && !isGone(machine))
          .map(instanceOf),
      ),
    delete: (providerID, signal) =>
      guarded(`let go of ${providerID}`, signal, async () => {
        const machine = await machineOf(providerID, signal);
        return machine === undefined || isGone(machine) ? 'gone' : 'deleting';
      }),
  };
}

function isGone(machine: Machine): boolean {
  const { metadata, spec, status } = machine;
  if (metadata.deletionTimestamp === undefined) return false;
  if (status?.bootstrap?.csrUID === undefined && status?.agent === undefined) return true;
  if (metadata.annotations?.[ANNOTATIONS.machineIsOff] !== undefined) return true;
  return spec.operation?.kind === 'Delete' && endOf(machine)?.outcome === 'Succeeded';
}

function instanceOf(machine: Stored<Machine>): Instance {
  const { namespace = '', name, uid } = machine.metadata;
  const address = readSshConfig(machine.spec.provider?.config)?.address;
  const isDeleting = machine.metadata.deletionTimestamp !== undefined && machine.spec.operation?.kind === 'Delete';
  return {
    providerID: providerIDOf({ namespace, name, machineUID: uid }),
    state: isDeleting ? 'Deleting' : machine.status?.agent === undefined ? 'Pending' : 'Running',
    addresses: address === undefined ? [] : [{ type: /^[0-9.]+$|:/.test(address) ? 'InternalIP' : 'InternalDNS', address }],
  };
}

function providerIDOf({ namespace, name, machineUID }: Pick<InstanceRequest, 'namespace' | 'name' | 'machineUID'>): string {
  return `${SCHEME}${namespace}/${name}/${machineUID}`;
}

function parse(providerID: string): { namespace: string; name: string; machineUID: string } {
  const [namespace = '', name = '', machineUID = '', more] = providerID.startsWith(SCHEME)
    ? providerID.slice(SCHEME.length).split('/')
    : [];
  if (namespace !== '' && name !== '' && machineUID !== '' && more === undefined) return { namespace, name, machineUID };
  throw providerError('InvalidConfig', `an ID of an imported machine is "${SCHEME}<namespace>/<name>/<UID>"; got "${providerID}"`);
}

async function guarded<T>(doing: string, signal: AbortSignal, act: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  try {
    return await act();
  } catch (error) {
    if (signal.aborted) throw error;
    throw asProviderError(error, doing);
  }
}
