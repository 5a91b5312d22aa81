import { Machines, type Machine } from '../../api/machine.ts';
import { MachineSets, type MachineSet } from '../../api/machineset.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Clock, Log, Random } from '../../api/ports.ts';
import { parseKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/apierror.ts';
import { applyIfChanged } from '../../kube/apply.ts';
import type { Client } from '../../kube/client.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';
import { mergeDiff } from '../machinecomponentset/mergepatch.ts';
import { decideMachineSet, type MachineSetDecision, type MachineSetView } from './decide.ts';
import { machineName } from './names.ts';
import { keepMarks, type Unsettled } from './mark.ts';
import { ownedBy } from './owner.ts';
import { statusOf } from './report.ts';
import { desiredMachine, syncedMachine } from './template.ts';

export interface MachineSetDeps {
  sets: Store<MachineSet>;
  machines: Store<Machine>;
  clock: Clock;
  random: Random;
  recorder: Pick<Recorder, 'event'>;
  /** Of this term: marks of another one are not acted on. */
  epoch: number;
  /** What this term asked for and has no answer to. */
  unsettled: Unsettled;
}

export interface Run {
  client: Client;
  log: Log;
  signal: AbortSignal;
}

const OPTIONS = { fieldManager: MANAGERS.machineSet };
/** Machines brought in line with the template before everything is looked at afresh. */
const SYNCED_AT_ONCE = 50;
/** Something else wrote meanwhile: what was read is old, and the stores will show it. */
const AGAIN = { requeueAfterMs: 200 };

/**
 * One set. Its stores must show every write of this process before it runs again (the runtime sees to that): machines that were made
 * and are not seen yet would be made twice.
 */
export async function reconcileMachineSet(deps: MachineSetDeps, key: string, run: Run): Promise<QueueResult | void> {
  const set = deps.sets.get(parseKey(key));
  if (set === undefined || set.metadata.deletionTimestamp !== undefined) return undefined;
  const machines = deps.machines.inNamespace(set.metadata.namespace ?? '').filter((machine) => ownedBy(machine, set));
  const view = { set, machines, now: deps.clock.now() };
  const decision = decideMachineSet(view);

  if (decision.create.length > 0 && !(await isCurrent(run, set))) return AGAIN;
  let failure: unknown;
  try {
    await create(deps, view, decision, run);
  } catch (error) {
    // A server that is away is told by the retries; one that says no is told in the status.
    if (!hasReason(error, 'Invalid', 'Forbidden', 'BadRequest')) throw error;
    failure = error;
  }
  const marked = await keepMarks({ ...deps, ...run }, view);
  const synced = await sync(set, decision.sync, run);

  const { status, again } = statusOf(view, decision, failure);
  const isWritten = await writeStatus(set, status, run);
  if (failure !== undefined) throw failure;
  if (!isWritten || synced === 'again' || marked === 'again') return AGAIN;
  return again === undefined ? undefined : { requeueAfterMs: again };
}

/** A live read before machines are made: the number wanted may be another by now. */
async function isCurrent({ client, signal }: Run, set: Stored<MachineSet>): Promise<boolean> {
  const { namespace, name, uid, generation } = set.metadata;
  const live = await client.find(MachineSets, { namespace, name }, { signal });
  return live?.metadata.uid === uid && live.metadata.generation === generation && live.metadata.deletionTimestamp === undefined;
}

/** Made by apply and not by POST: the fields then belong to the manager that keeps them in line later, and can be taken away again. */
async function create(deps: MachineSetDeps, view: MachineSetView, decision: MachineSetDecision, run: Run): Promise<void> {
  const { set } = view;
  const { namespace } = set.metadata;
  for (const failureDomain of decision.create) {
    const name = machineName(set.metadata.name, deps.random, (each) => deps.machines.get({ namespace, name: each }) !== undefined);
    if ((await run.client.find(Machines, { namespace, name }, { signal: run.signal })) !== undefined) continue;
    const fixed = { provider: set.spec.provider, ...(failureDomain === undefined ? {} : { failureDomain }) };
    await run.client.apply(Machines, desiredMachine(set, { name }, fixed), { ...OPTIONS, signal: run.signal });
    run.log.info({ machine: name, failureDomain }, 'made a machine');
    deps.recorder.event(set, { type: 'Normal', reason: 'MachineCreated', message: name });
  }
}

async function sync(set: Stored<MachineSet>, machines: readonly Stored<Machine>[], run: Run): Promise<'done' | 'again'> {
  let left = SYNCED_AT_ONCE;
  for (const stored of machines) {
    if (left === 0) return 'again';
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
      if (!hasReason(error, 'Conflict', 'NotFound')) throw error;
    }
  }
  return 'done';
}

/** False: the set has changed since it was read. */
async function writeStatus(set: Stored<MachineSet>, status: object, run: Run): Promise<boolean> {
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
