import { canonical } from '../../../api/digest.ts';
import type { Machine } from '../../../api/machine.ts';
import type { MachineComponentSet } from '../../../api/machine-component-set.ts';
import type { Clock } from '../../../api/ports.ts';
import { parseKey } from '../../../api/resource.ts';
import type { Stored } from '../../../api/wire.ts';
import { machinePatch, type Path, type ReadFrom } from '../../../defender/guarded-patch.ts';
import type { JsonPatchOperation } from '../../../kube/client.ts';
import { agentLease, type Liveness } from '../../../kube/liveness.ts';
import type { QueueResult } from '../../../kube/queue.ts';
import type { Recorder } from '../../../kube/recorder.ts';
import type { Store } from '../../../kube/store.ts';
import { writeMachine } from '../act.ts';
import { targetsOf } from '../content.ts';
import { soakMs } from '../decide.ts';
import type { Overlay } from '../overlay.ts';
import type { ComponentSetRun } from '../reconcile.ts';
import { isDeleting } from '../../shared/selection.ts';
import { entriesPatch } from '../writing.ts';
import { decideMachine, type MachineState, type Owner, type StatusChange } from './decide.ts';

export interface MemberDeps {
  sets: Pick<Store<MachineComponentSet>, 'list'>;
  machines: Overlay<Machine>;
  liveness: Pick<Liveness, 'isAlive'>;
  clock: Pick<Clock, 'now'>;
  recorder: Pick<Recorder, 'event'>;
}

const TRIES = 3;

/** One machine: answers what its agent reported of its entries, and judges which of them are proved and verified. Of one that goes it records failures. */
export async function reconcileMachine(deps: MemberDeps, key: string, run: ComponentSetRun): Promise<QueueResult | void> {
  for (let tries = 1; ; tries++) {
    await deps.machines.settle(run.client, run.signal);
    const machine = deps.machines.get(parseKey(key));
    if (machine === undefined || machine.spec.paused === true) return undefined;
    const result = await pass(deps, machine, run, { known: tries === 1 });
    if (result !== 'again') return result;
    if (tries === TRIES) return { requeueAfterMs: 100 };
  }
}

/** What was lost in this run was read live since. */
async function pass(
  deps: MemberDeps,
  machine: Stored<Machine>,
  run: ComponentSetRun,
  from: ReadFrom,
): Promise<QueueResult | undefined | 'again'> {
  const actors = { client: run.client, machines: deps.machines, signal: run.signal };
  const decision = decideMachine(stateOf(deps, machine));
  if (decision.changes.length > 0) {
    const entries = decision.changes.map(({ entry }) => entry);
    const written = await writeMachine(actors, machine, entriesPatch(machine, entries, from));
    if (written === 'lost') return 'again';
    for (const { entry, reason, message } of decision.changes) {
      run.log.info({ component: entry.name, reason, revision: entry.revision }, message);
      const event = reason === 'Failed' ? 'ComponentFailed' : 'RevisionRefused';
      deps.recorder.event(machine, { type: 'Warning', reason: event, message: `${entry.name}: ${message}` });
    }
    // The entries are new: what is proved of them is another question.
    return 'again';
  }
  const { status } = decision;
  if (status !== undefined && (await writeMachine(actors, machine, statusPatch(machine, status, from), 'status')) === 'lost')
    return 'again';
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

export function stateOf(deps: Pick<MemberDeps, 'liveness' | 'clock' | 'sets'>, machine: Stored<Machine>): MachineState {
  const sets = new Map(deps.sets.list().map((set) => [set.metadata.uid, set]));
  return {
    machine,
    now: deps.clock.now(),
    agentFresh: deps.liveness.isAlive(agentLease(machine)),
    owner(uid): Owner | undefined {
      const set = sets.get(uid);
      if (set === undefined || isDeleting(set)) return undefined;
      const { rolloutID, unitDigest } = set.spec;
      return { number: set.status?.revision?.number, rolloutID, unitDigest, soakMs: soakMs(set), target: targetsOf(set).of(machine) };
    },
  };
}

/**
 * The fields by which it is judged, besides UID, spec and deletion (docs/protocols.md#c4a). The agent writes two of them, the report of its components and the boot:
 * an agent that changes these all the time proves nothing.
 */
const VERDICT_DEPENDS: readonly Path[] = [
  ['status', 'components'],
  ['status', 'agent', 'bootID'],
  ['status', 'firstReadyAt'],
  ['status', 'phase'],
  ['status', 'verified'],
  ['status', 'soaks'],
];

export function statusPatch(machine: Stored<Machine>, change: StatusChange, from: ReadFrom): JsonPatchOperation[] {
  const { verified = [], soaks = [], conditions = [] } = machine.status ?? {};
  const status = {
    ...machine.status,
    ...(canonical(verified) !== canonical(change.verified) && { verified: change.verified }),
    ...(canonical(soaks) !== canonical(change.soaks) && { soaks: change.soaks }),
    ...(canonical(conditions) !== canonical(change.conditions) && { conditions: change.conditions }),
  };
  return machinePatch(machine, { ...machine, status }, { ...from, on: VERDICT_DEPENDS }, true);
}
