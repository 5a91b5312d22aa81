/** Sends the conditioned writes of `guarded-patch.ts`. */
import { Nodes, type Node } from '../../api/builtin.ts';
import { CodedError } from '../../api/errors.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Resource } from '../../api/resource.ts';
import type { KubeObject, Stored } from '../../api/wire.ts';
import { holds, machinePatch, nodePatch, type ReadFrom } from '../../defender/guarded-patch.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { Client, JsonPatchOperation } from '../../kube/client.ts';

interface Sending extends ReadFrom {
  signal: AbortSignal;
}

/** Errors: `Conflict` where what it is conditioned on has changed since it was read; those of the API. */
export async function writeNode(client: Client, read: Stored<Node>, wanted: Stored<Node>, sending: Sending): Promise<void> {
  await send(client, Nodes, read, nodePatch(read, wanted, sending), sending);
}

/** As `writeNode`. `status`: that, and nothing else; absent: all but that. */
export async function writeMachine(
  client: Client,
  read: Stored<Machine>,
  wanted: Stored<Machine>,
  sending: Sending & { status?: true | undefined },
): Promise<void> {
  const { status } = sending;
  const json = machinePatch(read, wanted, sending, status);
  await send(client, Machines, read, json, { ...sending, ...(status === true ? { subresource: 'status' } : {}) });
}

async function send<T extends KubeObject>(
  client: Client,
  resource: Resource<T>,
  { metadata: { namespace, name } }: Stored<T>,
  json: JsonPatchOperation[],
  { signal, subresource }: { signal: AbortSignal; subresource?: string },
): Promise<void> {
  const key = { namespace, name };
  const manager = { fieldManager: MANAGERS.machine, signal };
  try {
    await client.patch(resource, key, { json }, subresource === undefined ? manager : { ...manager, subresource });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 422) throw error;
    // The server says the same of a test that fails, of a path that is gone and of an object that is not valid.
    const live = await client.find(resource, key, { signal });
    if (live !== undefined && holds(json, live)) throw error;
    throw new CodedError('Conflict', `${resource.kind} ${name} changed meanwhile`, { cause: error });
  }
}
