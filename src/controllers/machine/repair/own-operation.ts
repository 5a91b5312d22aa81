/**
 * Repairs that this controller carries out itself after their order: MigratePods, Replace, PowerCycle. Pure. Each begins by noting in
 * `status.repair` that it runs, and in which boot, before anything else is done, and ends by its outcome there: the next leader goes on
 * from that.
 */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Operation, OperationStatus, Outcome } from '../../../api/machine.ts';
import type { ControllerOperation } from '../../../api/node-remedier/values.ts';
import { isCordonedFor } from '../cordon/cordon.ts';
import { evicting, obstacleTo, podsLeft } from '../drain/drain.ts';
import { drainTimeoutMs, isReplaceable, operationTimeoutMs } from '../facts.ts';
import { isOutOfService, isOutOfServiceNoted } from '../node-sync/node-sync.ts';
import { mayAskForPower } from './repair.ts';
import type { Decision, MachineView, Step } from '../view.ts';

/** Taken by force under one proof. */
const PODS_AT_ONCE = 20;

export function carryingOut(view: MachineView, reservation: LedgerReservation, order: Operation, action: ControllerOperation): Decision {
  const progress = view.machine.status?.repair;
  if (progress?.id !== reservation.id) {
    return { steps: [{ do: 'BeginRepair', reservation, bootID: lastBoot(view), why: `${action} begins` }] };
  }
  const decision = carriedOut(view, reservation, order, action, progress);
  // A slow leader may ask the provider at any time. It must not do so for an operation that is over.
  const ends = decision.steps.some((step) => step.do === 'EndRepair');
  return ends ? { ...decision, steps: [...retiring(view, reservation), ...decision.steps] } : decision;
}

function carriedOut(
  view: MachineView,
  reservation: LedgerReservation,
  order: Operation,
  action: ControllerOperation,
  progress: OperationStatus,
): Decision {
  switch (action) {
    case 'MigratePods':
      return migrating(view, reservation, order, progress);
    case 'Replace':
      return replacing(view, reservation);
    case 'PowerCycle':
      return cycling(view, reservation, progress);
    default:
      // A new operation must not become the strongest there is.
      return action satisfies never;
  }
}

/** Before the operation of a reservation is over. */
export function retiring({ machine, instanceID }: MachineView, reservation: LedgerReservation): Step[] {
  if (!mayAskForPower(reservation, machine)) return [];
  return [{ do: 'RetirePower', reservation, providerID: instanceID, why: 'nothing is to be done to its power after the operation' }];
}

function end(reservation: LedgerReservation, outcome: Outcome, message: string, bootID?: string): Decision {
  return { steps: [{ do: 'EndRepair', reservation, outcome, message, why: message, ...(bootID === undefined ? {} : { bootID }) }] };
}

const startedMs = (progress: OperationStatus): number => Date.parse(progress.startedAt ?? '');

function migrating(view: MachineView, reservation: LedgerReservation, order: Operation, progress: OperationStatus): Decision {
  const { machine, claim, pods } = view;
  if (claim.state !== 'Claimed') return end(reservation, 'Succeeded', 'it has no Node, so no pods either');
  if (!isCordonedFor(claim.node, reservation.id))
    return end(reservation, 'TransientFailure', 'another client lifted the cordon under which the pods were to go');
  const untilMs = startedMs(progress) + drainTimeoutMs(machine);
  if (pods?.length === 0) return end(reservation, 'Succeeded', 'all pods have left the node');
  if (!(view.nowMs < untilMs))
    return end(reservation, 'TransientFailure', [podsLeft(pods ?? []), obstacleTo(machine)].filter(Boolean).join('; '));
  const grace: unknown = order.args?.['graceSeconds'];
  const evictions = evicting(view, reservation, untilMs, typeof grace === 'number' ? grace : undefined);
  // A kubelet that answers ends its pods; without one nothing ends those that are already on their way.
  if (pods === undefined || view.kubeletAnswers || evictions.steps.length > 0) return evictions;
  return abandoned(view, reservation, untilMs);
}

/**
 * Pods on a node whose kubelet is stale: they may still run, and write to what their successors write to. They are taken by force only after
 * the provider's proof that the node is off or gone.
 */
function abandoned(view: MachineView, reservation: LedgerReservation, untilMs: number): Decision {
  const { machine, claim, instance, instanceID, pods = [], facts } = view;
  const unproven = (why: string): Decision =>
    end(
      reservation,
      'TransientFailure',
      `${podsLeft(pods)}, whose kubelet does not renew its Lease; they are not taken by force, since ${why}`,
    );
  if (instance.state === 'Unknown') return { steps: [], waits: { for: 'Provider', why: instance.message, untilMs } };
  if (instance.state === 'NoProvider') return unproven('no provider can prove that the node is off');
  const isOff = instance.state === 'Absent' || instance.instance.state === 'Stopped';
  if (!isOff) {
    if (facts.agentAnswers) return unproven('its agent answers, so that the node is known to be on');
    if (!view.canStop) return unproven('its provider cannot cut the power');
    if (machine.status?.repair?.cutsPower !== true)
      return { steps: [{ do: 'NoteCut', reservation, why: 'its kubelet does not renew its Lease, and its power is to be cut' }] };
    return {
      steps: [
        {
          do: 'StopInstance',
          reservation,
          providerID: instanceID,
          why: 'pods are taken by force only from a node that is proven to be off',
        },
      ],
      waits: { for: 'Provider', why: 'the power is being cut', untilMs },
    };
  }
  const waits = { for: 'Pods', why: podsLeft(pods), untilMs } as const;
  if (claim.state === 'Claimed' && !isOutOfService(claim.node)) {
    const mark = isOutOfServiceNoted(machine, claim.node) ? 'MarkOutOfService' : 'NoteOutOfService';
    return { steps: [{ do: mark, reservation, why: 'the node is proven to be off: its volumes may be attached elsewhere' }], waits };
  }
  const why = 'the node is proven to be off, so nothing there ends its pods';
  return { steps: [{ do: 'ForceDelete', reservation, pods: pods.slice(0, PODS_AT_ONCE), providerID: instanceID, why }], waits };
}

function replacing(view: MachineView, reservation: LedgerReservation): Decision {
  if (!isReplaceable(view.machine)) return end(reservation, 'PermanentFailure', 'no MachineSet owns the machine: nothing would replace it');
  return { steps: [{ do: 'DeleteMachine', reservation, why: 'its MachineSet makes another one' }] };
}

function cycling(view: MachineView, reservation: LedgerReservation, progress: OperationStatus): Decision {
  const { machine, instance, instanceID, powerCycled } = view;
  const boot = bootNow(view);
  const before = progress.bootID ?? '';
  if (boot !== undefined && before !== '' && boot !== before) return end(reservation, 'Succeeded', `the node runs in boot ${boot}`, boot);
  if (instance.state === 'Absent' || instance.state === 'NoProvider')
    return end(reservation, 'PermanentFailure', 'there is no instance whose power could be cycled');
  const untilMs = startedMs(progress) + operationTimeoutMs(machine);
  if (!(view.nowMs < untilMs)) {
    return before === ''
      ? end(reservation, 'PermanentFailure', 'in which boot the node was before is not known, so nothing proves another')
      : end(reservation, 'TransientFailure', 'the node did not come back with another boot in time');
  }
  const waits = { for: 'Boot', why: 'the node is to come back with another boot', untilMs } as const;
  if (powerCycled) return { steps: [], waits };
  return {
    steps: [
      { do: 'PowerCycle', reservation, providerID: instanceID, why: 'the agent does not renew its Lease; its provider cycles the power' },
    ],
    waits,
  };
}

/** The last boot that the agent or the kubelet reported; empty where neither did. */
const lastBoot = ({ machine, claim }: MachineView): string =>
  machine.status?.agent?.bootID ?? (claim.state === 'Claimed' ? claim.node.status?.nodeInfo?.['bootID'] : undefined) ?? '';

/** The boot it is in now, by the one that reported it before: the agent's and the kubelet's need not be comparable. undefined while that one does not answer. */
function bootNow({ machine, claim, facts, kubeletAnswers }: MachineView): string | undefined {
  const { agent } = machine.status ?? {};
  if (agent !== undefined) return facts.agentAnswers ? agent.bootID : undefined;
  return claim.state === 'Claimed' && kubeletAnswers ? claim.node.status?.nodeInfo?.['bootID'] : undefined;
}
