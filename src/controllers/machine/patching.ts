/** Writes of the machine controller, by `guarded-patch.ts`. */
import { Nodes, type Node } from '../../api/builtin.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { machinePatch, nodePatch, type ReadFrom } from '../../defender/guarded-patch.ts';
import type { Client } from '../../kube/client.ts';
import { patchIfSame } from '../shared/guarded-patch.ts';

interface Sending extends ReadFrom {
  signal: AbortSignal;
}

const fieldManager = MANAGERS.machine;

/** Errors: `Conflict` where what it is conditioned on has changed since it was read; those of the API. */
export async function writeNode(client: Client, read: Stored<Node>, wanted: Stored<Node>, { known, signal }: Sending): Promise<void> {
  await patchIfSame(client, Nodes, read, nodePatch(read, wanted, { known }), { fieldManager, signal });
}

/** As `writeNode`. `status`: that, and nothing else; absent: all but that. */
export async function writeMachine(
  client: Client,
  read: Stored<Machine>,
  wanted: Stored<Machine>,
  { known, signal, status }: Sending & { status?: true | undefined },
): Promise<void> {
  const json = machinePatch(read, wanted, { known }, status);
  await patchIfSame(client, Machines, read, json, { fieldManager, signal, ...(status === true ? { subresource: 'status' } : {}) });
}
