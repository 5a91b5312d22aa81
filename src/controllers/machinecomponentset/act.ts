import { Machines, type ComponentEntry, type Machine } from '../../api/machine.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machinecomponentset.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/apierror.ts';
import type { Client } from '../../kube/client.ts';
import type { EntryWrite } from './decide.ts';
import { mergeDiff } from './mergepatch.ts';
import type { Overlay } from './overlay.ts';
import type { SetStatus } from './report.ts';

const OPTIONS = { fieldManager: MANAGERS.machineComponentSet };
/** Machines written before everything is looked at afresh. */
const AT_ONCE = 50;
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
 * Patches the status on condition that the set is as it was read. Whoever decided from an older set, or was deposed since, loses here,
 * before any Machine is touched.
 */
export async function writeSetStatus(
  actors: Actors,
  set: Stored<MachineComponentSet>,
  status: SetStatus,
): Promise<Written<Stored<MachineComponentSet>>> {
  const diff = mergeDiff(set.status, status);
  if (diff === undefined) return 'unchanged';
  const { name, resourceVersion } = set.metadata;
  return attempt(actors.sets, { name }, () =>
    actors.client.patch(
      MachineComponentSets,
      { name },
      { merge: { metadata: { resourceVersion }, status: diff } },
      { ...OPTIONS, subresource: 'status', signal: actors.signal },
    ),
  );
}

/** Writes one entry of a Machine and leaves the others as they were read (A2): the list is sent whole, on condition of the resourceVersion. */
export async function writeEntry(actors: Actors, machine: Stored<Machine>, entry: ComponentEntry): Promise<Written<Stored<Machine>>> {
  const components = withEntry(machine.spec.components ?? [], entry);
  const { namespace, name, resourceVersion } = machine.metadata;
  return attempt(actors.machines, { namespace, name }, () =>
    actors.client.patch(
      Machines,
      { namespace, name },
      { merge: { metadata: { resourceVersion }, spec: { components } } },
      { ...OPTIONS, signal: actors.signal },
    ),
  );
}

export function withEntry(entries: readonly ComponentEntry[], entry: ComponentEntry): ComponentEntry[] {
  const index = entries.findIndex((each) => each.name === entry.name);
  return index < 0 ? [...entries, entry] : entries.with(index, entry);
}

/** Carries out what was decided, a part of it at a time. True: there is more to do, or something has to be decided again. */
export async function writeEntries(actors: Actors, writes: readonly EntryWrite[]): Promise<{ written: EntryWrite[]; again: boolean }> {
  const written: EntryWrite[] = [];
  let again = writes.length > AT_ONCE;
  const queue = writes.slice(0, AT_ONCE);
  const errors: unknown[] = [];
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined && errors.length === 0; next = queue.shift()) {
      try {
        const result = await writeEntry(actors, next.machine, next.entry);
        if (result === 'lost') again = true;
        else written.push(next);
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, queue.length) }, worker));
  if (errors.length > 0) throw errors[0];
  return { written, again };
}

/**
 * One conditioned write. Conflict and NotFound mean that the read was old: the object is read live before the next decision. A write
 * whose answer was lost is the runtime's to settle: it holds the key until a list shows what happened.
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
