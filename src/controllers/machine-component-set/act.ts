import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { MANAGERS } from '../../api/names.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client, JsonPatchOperation } from '../../kube/client.ts';
import { patchIfSame } from '../shared/send-patch.ts';
import type { EntryWrite } from './decide.ts';
import { mergeDiff } from '../../kube/merge-patch.ts';
import type { Overlay } from './overlay.ts';
import type { SetStatus } from './report.ts';
import { entriesPatch, settlePatch } from './writing.ts';

const OPTIONS = { fieldManager: MANAGERS.machineComponentSet };
const PARALLEL = 8;

export interface Actors {
  client: Client;
  machines: Overlay<Machine>;
  sets: Overlay<MachineComponentSet>;
  signal: AbortSignal;
}

/** `lost`: what was read is older than the server's state: read again, decide again. */
export type Written<T> = { object: T } | 'unchanged' | 'lost';

/**
 * Patches the status on condition that the set is as it was read. A leader that decided from an older set, or was deposed since, loses here,
 * before any Machine is touched.
 */
export async function writeSetStatus(
  actors: Actors,
  set: Stored<MachineComponentSet>,
  status: SetStatus,
): Promise<Written<Stored<MachineComponentSet>>> {
  const merge = statusPatch(set, status);
  if (merge === undefined) return 'unchanged';
  const { name } = set.metadata;
  return attempt(actors.sets, { name }, () =>
    actors.client.patch(MachineComponentSets, { name }, { merge }, { ...OPTIONS, subresource: 'status', signal: actors.signal }),
  );
}

/** undefined: nothing is to be written. */
export function statusPatch(set: Stored<MachineComponentSet>, status: SetStatus): object | undefined {
  const diff = mergeDiff(set.status, status);
  const { resourceVersion } = set.metadata;
  return diff === undefined ? undefined : { metadata: { resourceVersion }, status: diff };
}

/**
 * False: something was lost, and everything has to be decided again. A copy of a store, which may be old, is conditioned on its version, too; what was `lost`
 * once in this run was read live since.
 */
export async function writeEntries(
  actors: Actors,
  writes: readonly EntryWrite[],
  lost: Set<string>,
  onWritten: (write: EntryWrite) => void,
): Promise<boolean> {
  let isAll = true;
  await inParallel(writes, async (write) => {
    const key = keyOf(write.machine.metadata);
    const json = entriesPatch(write.machine, [write.entry], { known: !lost.has(key) });
    if ((await writeMachine(actors, write.machine, json)) === 'lost') {
      lost.add(key);
      isAll = false;
    } else {
      onWritten(write);
    }
  });
  return isAll;
}

/** After this an entry that was announced for such a Machine comes too late (docs/protocols.md#b9). */
export async function settleMachines(actors: Actors, machines: readonly Stored<Machine>[]): Promise<void> {
  await inParallel(machines, (machine) => writeMachine(actors, machine, settlePatch(machine)));
}

export async function writeMachine(
  { client, machines, signal }: Pick<Actors, 'client' | 'machines' | 'signal'>,
  machine: Stored<Machine>,
  json: JsonPatchOperation[],
  subresource?: 'status',
): Promise<Written<Stored<Machine>>> {
  return attempt(machines, machine.metadata, () => patchIfSame(client, Machines, machine, json, { ...OPTIONS, subresource, signal }));
}

/** In their order. After an error nothing more begins; the first one is thrown. */
async function inParallel<T>(items: readonly T[], act: (item: T) => Promise<unknown>): Promise<void> {
  const queue = [...items];
  const errors: unknown[] = [];
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined && errors.length === 0; next = queue.shift()) {
      try {
        await act(next);
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, queue.length) }, worker));
  if (errors.length > 0) throw errors[0];
}

/**
 * One conditioned write. Conflict and NotFound mean that the read was old: the object is read live before the next decision. A write
 * whose answer was lost is the runtime's to settle: it keeps the key back until a list shows what happened.
 */
export async function attempt<T extends Machine | MachineComponentSet>(
  overlay: Overlay<T>,
  key: { namespace?: string | undefined; name: string },
  write: () => Promise<Stored<T>>,
): Promise<Written<Stored<T>>> {
  try {
    const object = await write();
    overlay.put(object);
    return { object };
  } catch (error) {
    if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
    overlay.doubt(key);
    return 'lost';
  }
}
