/** Writes of the machine controller, by `guarded-patch.ts`. */
import { answerCodes } from '../../kube/errors.ts';
import { Nodes, type Node } from '../../api/builtin.ts';
import { isCoded } from '../../api/errors.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { machinePatch, nodePatch, withRecordMoved, type ReadFrom } from '../../defender/guarded-patch.ts';
import type { Performed } from '../../defender/guarded-write.ts';
import type { Client } from '../../kube/client.ts';
import { patchIfSame } from '../shared/send-patch.ts';

interface Sending extends ReadFrom {
  signal: AbortSignal;
}

const fieldManager = MANAGERS.machine;

/** How often a write is tried again because the node has moved the server's record of our cordon. A node that moves it more often keeps it for this turn. */
const MOVES = 10;

/** Errors: `Conflict` where what it is conditioned on has changed since it was read; those of the API. */
export async function writeNode(client: Client, read: Stored<Node>, wanted: Stored<Node>, { known, signal }: Sending): Promise<void> {
  let from = read;
  for (let move = 1; ; move++) {
    try {
      await patchIfSame(client, Nodes, from, nodePatch(from, wanted, { known }), { fieldManager, signal });
      return;
    } catch (error) {
      if (known || move > MOVES || !isCoded(error, answerCodes, 'Conflict')) throw error;
      const live = await client.find(Nodes, { name: read.metadata.name }, { signal });
      const moved = live === undefined ? undefined : withRecordMoved(from, wanted, live);
      if (moved === undefined) throw error;
      from = moved;
    }
  }
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

/** A conflict is an answer: what was read has changed, and the next reconcile sees how. */
export async function unlessConflict(write: Promise<unknown>): Promise<Performed> {
  try {
    await write;
    return { done: true };
  } catch (error) {
    if (isCoded(error, answerCodes, 'Conflict')) return { done: false, why: 'it changed meanwhile' };
    throw error;
  }
}
