import { Machines, type Machine } from '../../../api/machine.ts';
import type { MachineComponentSet } from '../../../api/machine-component-set.ts';
import { MANAGERS } from '../../../api/names.ts';
import type { Clock } from '../../../api/ports.ts';
import { parseKey } from '../../../api/resource.ts';
import type { Stored } from '../../../api/wire.ts';
import type { QueueResult } from '../../../kube/queue.ts';
import type { Recorder } from '../../../kube/recorder.ts';
import type { Store } from '../../../kube/store.ts';
import { attempt, entriesPatch, type Written } from '../act.ts';
import { targetsOf } from '../content.ts';
import { soakMs } from '../decide.ts';
import type { LeaseAges } from '../../shared/lease-ages.ts';
import { mergeDiff } from '../../../kube/merge-patch.ts';
import { agentLease } from '../observe.ts';
import type { Overlay } from '../overlay.ts';
import type { Run } from '../reconcile.ts';
import { isDeleting } from '../../shared/selection.ts';
import { decideMachine, type MachineState, type Owner, type StatusChange } from './decide.ts';

export interface MachineDeps {
  sets: Pick<Store<MachineComponentSet>, 'list'>;
  machines: Overlay<Machine>;
  leases: Pick<LeaseAges, 'of'>;
  clock: Pick<Clock, 'now'>;
  recorder: Pick<Recorder, 'event'>;
}

const TRIES = 3;
const OPTIONS = { fieldManager: MANAGERS.machineComponentSet };

/** One machine: answers what its agent reported of its entries, and judges which of them are proved and verified. */
export async function reconcileMachine(deps: MachineDeps, key: string, run: Run): Promise<QueueResult | void> {
  for (let tries = 1; ; tries++) {
    await deps.machines.settle(run.client, run.signal);
    const machine = deps.machines.get(parseKey(key));
    if (machine === undefined || isDeleting(machine) || machine.spec.paused === true) return undefined;
    const result = await pass(deps, machine, run);
    if (result !== 'again') return result;
    if (tries === TRIES) return { requeueAfterMs: 100 };
  }
}

async function pass(deps: MachineDeps, machine: Stored<Machine>, run: Run): Promise<QueueResult | undefined | 'again'> {
  const decision = decideMachine(stateOf(deps, machine));
  if (decision.changes.length > 0) {
    const entries = decision.changes.map(({ entry }) => entry);
    const written = await patch(deps, machine, entriesPatch(machine, entries), run);
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
  if (status !== undefined && (await patch(deps, machine, statusPatch(machine, status), run, 'status')) === 'lost') return 'again';
  return decision.requeueAfterMs === undefined ? undefined : { requeueAfterMs: decision.requeueAfterMs };
}

export function stateOf(deps: Pick<MachineDeps, 'leases' | 'clock' | 'sets'>, machine: Stored<Machine>): MachineState {
  const sets = new Map(deps.sets.list().map((set) => [set.metadata.uid, set]));
  return {
    machine,
    now: deps.clock.now(),
    agentFresh: deps.leases.of(agentLease(machine))?.fresh ?? false,
    owner(uid): Owner | undefined {
      const set = sets.get(uid);
      if (set === undefined || isDeleting(set)) return undefined;
      const { rolloutID, unitDigest } = set.spec;
      return { number: set.status?.revision?.number, rolloutID, unitDigest, soakMs: soakMs(set), target: targetsOf(set).of(machine) };
    },
  };
}

/** Conditioned on the resourceVersion, since the lists are sent whole and `conditions` holds what others wrote. */
export function statusPatch(machine: Stored<Machine>, change: StatusChange): object {
  const { verified, soaks, conditions } = machine.status ?? {};
  const status = mergeDiff({ verified: verified ?? [], soaks: soaks ?? [], conditions: conditions ?? [] }, change) ?? {};
  const { resourceVersion } = machine.metadata;
  return { metadata: { resourceVersion }, status };
}

function patch(
  deps: MachineDeps,
  { metadata: { namespace, name } }: Stored<Machine>,
  merge: object,
  run: Run,
  subresource?: string,
): Promise<Written<Stored<Machine>>> {
  const options = { ...OPTIONS, signal: run.signal, ...(subresource === undefined ? {} : { subresource }) };
  return attempt(deps.machines, { namespace, name }, () => run.client.patch(Machines, { namespace, name }, { merge }, options));
}
