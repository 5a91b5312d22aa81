import type { Machine } from '../../api/machine.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machinecomponentset.ts';
import { isCoded, messageOf } from '../../api/errors.ts';
import type { Clock, Log } from '../../api/ports.ts';
import { keyOf } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Client } from '../../kube/client.ts';
import { TerminalError, type QueueResult } from '../../kube/queue.ts';
import type { Recorder } from '../../kube/recorder.ts';
import { writeEntries, writeSetStatus, type Actors } from './act.ts';
import { decideSet, type EntryWrite } from './decide.ts';
import { eventsOf } from './events.ts';
import { observeSet, type Stores } from './observe.ts';
import type { Overlay } from './overlay.ts';
import { statusOf } from './report.ts';
import { isDeleting } from './selection.ts';

export interface SetDeps {
  stores: Stores;
  machines: Overlay<Machine>;
  sets: Overlay<MachineComponentSet>;
  clock: Clock;
  recorder: Pick<Recorder, 'event'>;
}

export interface Run {
  client: Client;
  log: Log;
  signal: AbortSignal;
}

/** Reads that follow a lost write, before the key goes back to the queue. */
const TRIES = 3;
/** While something is under way, time alone may change the decision: a soak ends, an agent falls silent. */
const UNDER_WAY_MS = 15_000;

/** One set: observe, decide, act, report. Deleting a set leaves its entries where they are (A6): nobody writes them any more. */
export async function reconcileSet(deps: SetDeps, name: string, run: Run): Promise<QueueResult | void> {
  const actors: Actors = { client: run.client, machines: deps.machines, sets: deps.sets, signal: run.signal };
  for (let tries = 1; ; tries++) {
    await deps.sets.settle(run.client, run.signal);
    await deps.machines.settle(run.client, run.signal);
    const set = deps.sets.get({ name });
    if (set === undefined || isDeleting(set)) return undefined;
    const result = await pass(deps, set, actors, run);
    if (result !== 'again') return result;
    if (tries === TRIES) return { requeueAfterMs: 100 };
  }
}

async function pass(deps: SetDeps, set: Stored<MachineComponentSet>, actors: Actors, run: Run): Promise<QueueResult | undefined | 'again'> {
  const machines = deps.machines.over(deps.stores.machines.list());
  const view = observeSet(set, machines, deps.stores, deps.clock.now());
  const decision = decide(view);
  if (decision.step === 'Count') {
    const isNext = decision.revision.number !== set.status?.revision?.number;
    const { evidence, ...status } = set.status ?? {};
    const kept = isNext || evidence === undefined ? {} : { evidence };
    const counted = await writeSetStatus(actors, set, { ...status, ...kept, revision: decision.revision });
    if (typeof counted === 'object' && isNext) {
      const { number, version } = decision.revision;
      run.log.info({ revision: number, version }, 'a new revision begins');
      deps.recorder.event(set, { type: 'Normal', reason: 'RevisionBegun', message: `revision ${number}: ${version}` });
    }
    return 'again';
  }

  const status = statusOf(view, decision.facts);
  const reported = await writeSetStatus(actors, set, status);
  if (reported === 'lost') return 'again';
  if (reported !== 'unchanged') for (const event of eventsOf(set.status, status)) deps.recorder.event(set, event);

  if (decision.writes.length > 0) {
    if (!(await isCurrent(actors, set))) return 'again';
    const { written, again } = await writeEntries(actors, decision.writes);
    for (const write of written) logWrite(run.log, write);
    if (again) return 'again';
  }
  return decision.facts.isComplete ? undefined : { requeueAfterMs: UNDER_WAY_MS };
}

function decide(view: Parameters<typeof decideSet>[0]): ReturnType<typeof decideSet> {
  try {
    return decideSet(view);
  } catch (error) {
    // Refused by the CRD as well; an older server may hold one all the same.
    if (isCoded(error, 'InvalidBatches', 'InvalidCount')) throw new TerminalError(messageOf(error), { cause: error });
    throw error;
  }
}

/** A live read before Machines are given content: a set that was reverted, paused or deleted meanwhile gives no more. */
async function isCurrent({ client, sets, signal }: Actors, set: Stored<MachineComponentSet>): Promise<boolean> {
  const { name, uid, generation } = set.metadata;
  const live = await client.find(MachineComponentSets, { name }, { signal });
  if (live?.metadata.uid === uid && live.metadata.generation === generation && !isDeleting(live)) return true;
  if (live === undefined) sets.doubt({ name });
  else sets.put(live);
  return false;
}

function logWrite(log: Log, { machine, entry, lane }: EntryWrite): void {
  const { version, revision, setRevision } = entry;
  log.info({ machine: keyOf(machine.metadata), lane, version, revision, setRevision }, 'gave a machine its content');
}
