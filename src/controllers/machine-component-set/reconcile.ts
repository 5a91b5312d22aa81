import { Machines, type Machine } from '../../api/machine.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import type { QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import type { Store } from '../../kube/store.ts';
import { settleMachines, writeEntries, writeSetStatus, type Actors } from './act.ts';
import type { EntryWrite } from './decide.ts';
import { eventsOf } from './events.ts';
import { observeSet, type Stores } from './observe.ts';
import type { Overlay } from './overlay.ts';
import { isSame, planOf, stampedWith } from './plan.ts';
import { isDeleting } from '../shared/selection.ts';

export interface SetDeps {
  stores: Stores & { machines: Pick<Store<Machine>, 'list'> };
  machines: Overlay<Machine>;
  sets: Overlay<MachineComponentSet>;
  clock: Clock;
  recorder: Pick<Recorder, 'event'>;
  /** Of this leader's term. */
  epoch: number;
  /** UIDs of sets that bear it, and whose Machines were read since. */
  begun: Set<string>;
}

export interface ComponentSetRun {
  client: Client;
  log: Log;
  signal: AbortSignal;
}

/** Reads that follow a lost write, before the key goes back to the queue. */
const TRIES = 3;
/** While something is under way, time alone may change the decision: a soak ends, an agent becomes stale. */
const UNDER_WAY_MS = 15_000;

/** One set: observe, decide, act, report. Deleting a set leaves its entries where they are (docs/protocols.md#a6): no set writes them any more. */
export async function reconcileSet(deps: SetDeps, name: string, run: ComponentSetRun): Promise<QueueResult | void> {
  const lost = new Set<string>();
  const actors: Actors = { client: run.client, machines: deps.machines, sets: deps.sets, signal: run.signal };
  for (let tries = 1; ; tries++) {
    await deps.sets.settle(run.client, run.signal);
    await deps.machines.settle(run.client, run.signal);
    const set = deps.sets.get({ name });
    if (set === undefined || isDeleting(set)) return undefined;
    const result = await pass(deps, set, actors, { ...run, lost });
    if (result !== 'again') return result;
    if (tries === TRIES) return { requeueAfterMs: 100 };
  }
}

/** `lost`: Machines whose entry lost in this run. */
async function pass(
  deps: SetDeps,
  set: Stored<MachineComponentSet>,
  actors: Actors,
  run: ComponentSetRun & { lost: Set<string> },
): Promise<QueueResult | undefined | 'again'> {
  if (!deps.begun.has(set.metadata.uid)) return beginTerm(deps, actors, run);
  const machines = deps.machines.over(deps.stores.machines.list());
  const view = observeSet(set, machines, deps.stores, deps.clock.now());
  const plan = planOf(view, deps.epoch);
  const { status } = plan;
  const reported = await writeSetStatus(actors, set, status);
  if (plan.step === 'Count') {
    if (typeof reported === 'object' && plan.isNext) {
      const { number, version } = plan.revision;
      run.log.info({ revision: number, version }, 'a new revision begins');
      deps.recorder.event(set, { type: 'Normal', reason: 'RevisionBegun', message: `revision ${number}: ${version}` });
    }
    return 'again';
  }

  if (reported === 'lost') return 'again';
  for (const event of eventsOf(set.status, status)) deps.recorder.event(set, event);

  const { writes, settle } = plan;
  if (writes.length > 0 || settle.length > 0) {
    if (!(await isCurrent(actors, reported === 'unchanged' ? set : reported.object))) return 'again';
    const isWritten = await writeEntries(actors, writes, run.lost, (write) => logWrite(run.log, write));
    await settleMachines(actors, settle);
    if (!isWritten || plan.hasMore || settle.length > 0) return 'again';
  }
  return plan.isComplete ? undefined : { requeueAfterMs: UNDER_WAY_MS };
}

/**
 * docs/protocols.md#b9: the sets bear the epoch of this term before Machines are read for it. From then on no leader of an earlier term can write their status, so it
 * can give nothing that is not announced. This read shows what it gave before.
 */
async function beginTerm({ sets, machines, stores, epoch, begun }: SetDeps, actors: Actors, run: ComponentSetRun): Promise<'again'> {
  const stamped: string[] = [];
  for (const { metadata } of stores.sets.list()) {
    const set = begun.has(metadata.uid) ? undefined : sets.get(metadata);
    if (set === undefined || isDeleting(set)) continue;
    if ((await writeSetStatus(actors, set, stampedWith(set, epoch))) !== 'lost') stamped.push(set.metadata.uid);
  }
  const { items } = await run.client.listAll(Machines, { signal: run.signal });
  for (const machine of items) machines.put(machine);
  for (const uid of stamped) begun.add(uid);
  return 'again';
}

/** A live read before Machines are given content: a set that was reverted, paused or deleted meanwhile gives no more. */
async function isCurrent({ client, sets, signal }: Actors, set: Stored<MachineComponentSet>): Promise<boolean> {
  const { name } = set.metadata;
  const live = await client.find(MachineComponentSets, { name }, { signal });
  if (isSame(live, set)) return true;
  if (live === undefined) sets.doubt({ name });
  else sets.put(live);
  return false;
}

function logWrite(log: Log, { machine, entry, lane }: EntryWrite): void {
  const { version, revision, setRevision } = entry;
  log.info({ machine: keyOf(machine.metadata), lane, version, revision, setRevision }, 'gave a machine its content');
}
