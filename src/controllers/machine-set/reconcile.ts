import { Machines, type Machine } from '../../api/machine.ts';
import type { MachineComponentSet } from '../../api/machine-component-set.ts';
import { MachineSets, type MachineSet } from '../../api/machine-set.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { parseKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason, isRefusal } from '../../kube/api-error.ts';
import { applyIfChanged } from '../../kube/apply.ts';
import type { Client } from '../../kube/client.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';
import { mergeDiff } from '../../kube/merge-patch.ts';
import { leftText } from '../shared/left-components.ts';
import { decideMachineSet, type MachineSetView } from './decide.ts';
import { makeMachines, noteNames, unseenNames } from './make.ts';
import { keepMarks, type Unsettled } from './mark.ts';
import { ownedBy } from './owner.ts';
import { unmakeable, type Providers } from './provider.ts';
import { statusOf } from './report.ts';
import { syncedMachine } from './template.ts';

export interface MachineSetDeps {
  sets: Store<MachineSet>;
  machines: Store<Machine>;
  /** Only read: the status reports what machines still run of a set that is gone. */
  componentSets: Pick<Store<MachineComponentSet>, 'list'>;
  clock: Clock;
  random: Random;
  recorder: Pick<Recorder, 'event'>;
  providers: Providers;
  /** Of this term: marks of another one have no effect. */
  epoch: number;
  /** What this term asked for and has no answer to. */
  unsettled: Unsettled;
}

export interface MachineSetRun {
  client: Client;
  log: Log;
  signal: AbortSignal;
}

const OPTIONS = { fieldManager: MANAGERS.machineSet };
/** Machines brought in line with the template before everything is read again. */
const SYNCED_AT_ONCE = 50;
/** Another client wrote meanwhile: the next run reads that from the stores. */
const AGAIN = { requeueAfterMs: 200 };

/**
 * One set. Its stores must show every write of this process before it runs again (the runtime sees to that): machines that were made
 * and are not seen yet would be made twice.
 */
export async function reconcileMachineSet(deps: MachineSetDeps, key: string, run: MachineSetRun): Promise<QueueResult | void> {
  const set = deps.sets.get(parseKey(key));
  if (set === undefined || set.metadata.deletionTimestamp !== undefined) return undefined;
  const machines = deps.machines.inNamespace(set.metadata.namespace ?? '').filter((machine) => ownedBy(machine, set));
  const isSeen = (name: string): boolean => deps.machines.get({ namespace: set.metadata.namespace, name }) !== undefined;
  const left = leftText(machines, deps.componentSets.list());
  const making = unseenNames(set, isSeen);
  const seen: MachineSetView = { set, machines, now: deps.clock.now(), making, ...(left === undefined ? {} : { left }) };
  const configError = unmakeable(set, deps.providers);
  const decided = decideMachineSet(seen);
  const wanted = configError === undefined ? decided : { ...decided, create: [] };

  const ports = { ...deps, ...run };
  const noted = wanted.create.length === 0 ? { view: seen, decision: wanted } : await noteNames(ports, seen, wanted);
  if (noted === undefined) return AGAIN;
  const { view, decision } = noted;
  let failure: unknown;
  try {
    await makeMachines(ports, view, decision);
  } catch (error) {
    // The retries show a server that is away. A refusal stands in the status.
    if (!isRefusal(error)) throw error;
    failure = error;
  }
  const marked = await keepMarks(ports, view);
  const synced = await sync(view.set, decision.sync, run);

  const { status, again } = statusOf(view, configError ?? failure, synced.failure);
  const isWritten = await writeStatus(view.set, status, run);
  failure ??= synced.failure;
  if (failure !== undefined) throw failure;
  if (!isWritten || synced.again || marked === 'again') return AGAIN;
  return again === undefined ? undefined : { requeueAfterMs: again };
}

interface Synced {
  /** There are more. */
  again: boolean;
  /** The first one. What follows is tried all the same: one machine that is refused keeps no other as it was. */
  failure: unknown;
}

async function sync(set: Stored<MachineSet>, machines: readonly Stored<Machine>[], run: MachineSetRun): Promise<Synced> {
  let left = SYNCED_AT_ONCE;
  let failure: unknown;
  for (const stored of machines) {
    if (left === 0) return { again: true, failure };
    try {
      const { changed } = await applyIfChanged(run.client, Machines, syncedMachine(set, stored), {
        ...OPTIONS,
        force: true,
        stored,
        signal: run.signal,
      });
      if (changed) left--;
    } catch (error) {
      // It is gone, or it is another one: the apply names its UID.
      if (hasReason(error, 'Conflict', 'NotFound')) continue;
      if (run.signal.aborted) throw error;
      failure ??= error;
      left--;
      // A server that is away is not asked for each machine.
      if (!isRefusal(error)) break;
    }
  }
  return { again: false, failure };
}

/** False: the set has changed since it was read. */
async function writeStatus(set: Stored<MachineSet>, status: object, run: MachineSetRun): Promise<boolean> {
  const diff = mergeDiff(set.status, status);
  if (diff === undefined) return true;
  const { namespace, name, resourceVersion } = set.metadata;
  try {
    await run.client.patch(
      MachineSets,
      { namespace, name },
      { merge: { metadata: { resourceVersion }, status: diff } },
      { ...OPTIONS, subresource: 'status', signal: run.signal },
    );
    return true;
  } catch (error) {
    if (hasReason(error, 'Conflict', 'NotFound')) return false;
    throw error;
  }
}
