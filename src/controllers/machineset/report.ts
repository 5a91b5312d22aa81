import { CodedError, messageOf } from '../../api/errors.ts';
import { LABELS } from '../../api/names.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machineset.ts';
import { selectorText } from '../../api/selector.ts';
import { findCondition, isTrue, setConditions, type ConditionInput } from '../../kube/conditions.ts';
import { isAlive, type MachineSetDecision, type MachineSetView } from './decide.ts';

export type MachineSetStatus = NonNullable<MachineSet['status']>;
type Told = Omit<ConditionInput, 'type' | 'observedGeneration'>;

/** `again`: ms until a Ready machine becomes an available one. `error`: why nothing could be made. */
export function statusOf(
  view: MachineSetView,
  decision: MachineSetDecision,
  error: unknown,
): { status: MachineSetStatus; again: number | undefined } {
  const { set, machines, now } = view;
  const replicas = set.spec.replicas ?? 1;
  const alive = machines.filter(isAlive);
  const ready = alive.filter((machine) => isTrue(machine.status?.conditions, 'Ready'));
  const minReadyMs = (set.spec.minReadySeconds ?? 0) * 1000;
  const waits = ready.map((machine) => readySince(machine) + minReadyMs - now);
  const available = waits.filter((wait) => wait <= 0).length;
  const told: Record<string, Told> = {
    Available: available >= replicas ? yes('Enough') : no('TooFew', `${available} of ${replicas} machines are available`),
    Progressing: progressing(view, decision, error),
    Paused: set.spec.paused === true ? yes('Paused', 'spec.paused') : no('NotPaused'),
  };
  const generation = set.metadata.generation === undefined ? {} : { observedGeneration: set.metadata.generation };
  const inputs = Object.entries(told).map(([type, each]) => ({ type, ...each, ...generation }));
  const status = {
    replicas: alive.length,
    readyReplicas: ready.length,
    availableReplicas: available,
    selector: selectorText({ [LABELS.machineSet]: set.metadata.name }),
    ...generation,
    conditions: setConditions(set.status?.conditions, inputs, now),
  };
  const next = waits.filter((wait) => wait > 0);
  return { status, again: next.length === 0 ? undefined : next.reduce((a, b) => Math.min(a, b)) };
}

function readySince(machine: Machine): number {
  return Date.parse(findCondition(machine.status?.conditions, 'Ready')?.lastTransitionTime ?? '');
}

function progressing({ set, machines }: MachineSetView, decision: MachineSetDecision, error: unknown): Told {
  const replicas = set.spec.replicas ?? 1;
  const alive = machines.filter(isAlive);
  if (set.spec.paused === true) return no('Paused', 'spec.paused');
  if (error !== undefined) return no('CreateFailed', createFailure(set, error));
  if (alive.length > replicas) return yes('ScalingDown', `to ${replicas}`);
  if (alive.length < replicas) {
    const deleting = machines.length - alive.length;
    const isBlocked = decision.create.length === 0 && deleting > 0 && machines.length >= replicas;
    return isBlocked ? yes('WaitingForDeletion', 'machines that are being deleted keep their places') : yes('ScalingUp', `to ${replicas}`);
  }
  return no('Complete');
}

/**
 * The same words for as long as the set stays what it is and the server refuses it for the same reason: each try has another name in them, and a
 * server says many mistakes in any order. A status that changed with each try would be the reason for the next.
 */
function createFailure(set: MachineSet, error: unknown): string {
  const code = error instanceof CodedError ? error.code : 'Failed';
  const before = findCondition(set.status?.conditions, 'Progressing');
  const isSame = before?.reason === 'CreateFailed' && before.observedGeneration === set.metadata.generation;
  return isSame && before.message.startsWith(`${code}: `) ? before.message : `${code}: ${messageOf(error)}`.slice(0, 512);
}

function yes(reason: string, message = ''): Told {
  return { status: 'True', reason, message };
}

function no(reason: string, message = ''): Told {
  return { status: 'False', reason, message };
}
