import { CodedError, messageOf } from '../../api/errors.ts';
import { LABELS } from '../../api/names.ts';
import type { Machine } from '../../api/machine.ts';
import type { MachineSet } from '../../api/machine-set.ts';
import { selectorText } from '../../api/selector.ts';
import { findCondition, isTrue, removeCondition, setConditions, type ConditionInput } from '../../kube/conditions.ts';
import { failedMachines, hasTooManyFailed, isAlive, readyDeadlineMs, wantedOf, type MachineSetView } from './decide.ts';
import type { Obstacle } from './obstacle.ts';
import { blockedOf, isMarked, keptBy, type Blocked } from './retire.ts';

export type MachineSetStatus = NonNullable<MachineSet['status']>;
type Reported = Omit<ConditionInput, 'type' | 'observedGeneration'>;

/**
 * `again`: ms until a Ready machine becomes an available one, or one that is being made has failed. `error`: why nothing could be made. `unwritten`: why a
 * machine could not be brought in line with the template.
 */
export function statusOf(
  view: MachineSetView,
  error: unknown,
  unwritten?: unknown,
): { status: MachineSetStatus; again: number | undefined } {
  const { set, machines, now } = view;
  const replicas = wantedOf(view);
  const alive = machines.filter(isAlive);
  const ready = alive.filter((machine) => isTrue(machine.status?.conditions, 'Ready'));
  const minReadyMs = (set.spec.minReadySeconds ?? 0) * 1000;
  const waits = ready.map((machine) => readySince(machine) + minReadyMs - now);
  const available = waits.filter((wait) => wait <= 0).length;
  const blocked = blockedOf(view);
  const kept = keptBy(view);
  const reported: Record<string, Reported> = {
    Available: available >= replicas ? yes('Enough') : no('TooFew', `${available} of ${replicas} machines are available`),
    Progressing: progressing(view, error),
    ScaleDownBlocked: scaleDownBlocked(kept, blocked),
    ComponentsLeft: view.left === undefined ? no('NoneLeft') : yes('NoSet', view.left),
    Paused: set.spec.paused === true ? yes('Paused', 'spec.paused') : no('NotPaused'),
    ...(unwritten === undefined ? {} : { WriteFailed: writeFailed(set, unwritten) }),
  };
  const generation = set.metadata.generation === undefined ? {} : { observedGeneration: set.metadata.generation };
  const inputs = Object.entries(reported).map(([type, each]) => ({ type, ...each, ...generation }));
  const before = unwritten === undefined ? removeCondition(set.status?.conditions, 'WriteFailed') : set.status?.conditions;
  const status = {
    replicas: alive.length,
    readyReplicas: ready.length,
    availableReplicas: available,
    retiringReplicas: alive.filter(isMarked).length,
    deletingReplicas: machines.length - alive.length,
    ...(set.spec.replicas === undefined ? { keptReplicas: replicas } : {}),
    ...(view.making === undefined || view.making.length === 0 ? {} : { making: [...view.making] }),
    ...(error === undefined || set.spec.paused === true ? {} : { createFailure: codeOf(error) }),
    selector: selectorText({ [LABELS.machineSet]: set.metadata.name }),
    ...generation,
    conditions: setConditions(before, inputs, now),
  };
  // Past the deadline, and not at it, a machine has failed.
  const failing = machines.map((machine) => readyDeadlineMs(view, machine) + 1);
  const next = [...waits, ...failing].filter((wait) => wait > 0).reduce((a, b) => Math.min(a, b), Infinity);
  return { status, again: Number.isFinite(next) ? next : undefined };
}

function scaleDownBlocked(kept: string | undefined, blocked: Blocked): Reported {
  if (kept !== undefined) return yes('NotByCommit', kept);
  return blocked.count > 0 ? yes('MachinesStay', blockedText(blocked)) : no('NotBlocked');
}

function readySince(machine: Machine): number {
  return Date.parse(findCondition(machine.status?.conditions, 'Ready')?.lastTransitionTime ?? '');
}

function progressing(view: MachineSetView, error: unknown): Reported {
  const { set, machines } = view;
  const replicas = wantedOf(view);
  const alive = machines.filter(isAlive);
  if (set.spec.paused === true) return no('Paused', 'spec.paused');
  if (error !== undefined) return no('CreateFailed', createFailure(set, error));
  if (alive.length > replicas) {
    const kept = keptBy(view);
    if (kept !== undefined) return no('ScaleDownBlocked', kept);
    const blocked = blockedOf(view);
    if (blocked.count === blocked.surplus) return no('ScaleDownBlocked', blockedText(blocked));
    return yes('ScalingDown', `to ${replicas}; ${alive.filter(isMarked).length} machines are marked to go`);
  }
  if (hasTooManyFailed(view)) return no('TooManyFailed', failures(view));
  if (alive.length < replicas) {
    const isFull = machines.length >= replicas;
    return isFull ? yes('WaitingForDeletion', 'machines that are being deleted keep their slots') : yes('ScalingUp', `to ${replicas}`);
  }
  if (failedMachines(view).length > 0) return no('MachinesFailed', failures(view));
  if (set.spec.replicas === undefined)
    return no('ReplicasLeftOut', `keeps ${replicas} machines until spec.replicas is set: kubectl scale, or spec.replicas in fleet/`);
  return no('Complete');
}

function failures(view: MachineSetView): string {
  const after = hasTooManyFailed(view) ? 'no more are made until they are deleted or spec.maxFailed allows it' : 'see the Machines';
  return `${someOf(failedMachines(view).map(({ metadata }) => metadata.name))} never were Ready; ${after}`;
}

const OBSTACLES: readonly [Obstacle, (wanted: number) => string][] = [
  ['Held', () => 'held or paused'],
  ['Refused', () => 'not drained in time'],
  ['Spared', (wanted) => `a person took their mark for ${wanted} back`],
];

function blockedText({ surplus, count, wanted, machines }: Blocked): string {
  const groups = OBSTACLES.flatMap(([obstacle, why]) => {
    const names = machines.filter((each) => each.obstacle === obstacle).map(({ name }) => name);
    return names.length === 0 ? [] : [`${why(wanted)}: ${someOf(names)}`];
  });
  return `${count} of ${surplus} machines too many cannot go now: ${groups.join('; ')}`;
}

function someOf(names: readonly string[]): string {
  return `${names.toSorted().slice(0, 5).join(', ')}${names.length > 5 ? `, … (${names.length})` : ''}`;
}

/**
 * The same words for as long as the set stays what it is and the server refuses it for the same reason: a server reports
 * many errors in any order, and of any of the names. A status that changed with each try would cause the next one.
 */
function createFailure(set: MachineSet, error: unknown): string {
  const code = codeOf(error);
  const before = findCondition(set.status?.conditions, 'Progressing');
  const isSame = set.status?.createFailure === code && before?.observedGeneration === set.metadata.generation;
  return before !== undefined && isSame ? before.message : `${code}: ${messageOf(error)}`.slice(0, 512);
}

/** Only while it is so. The same words, for the same reason. */
function writeFailed(set: MachineSet, error: unknown): Reported {
  const code = codeOf(error);
  const before = findCondition(set.status?.conditions, 'WriteFailed');
  const isSame = before?.reason === code && before.observedGeneration === set.metadata.generation;
  return yes(code, isSame ? before.message : `a machine cannot have what the template gives: ${messageOf(error)}`.slice(0, 512));
}

function codeOf(error: unknown): string {
  return error instanceof CodedError ? error.code : 'Failed';
}

function yes(reason: string, message = ''): Reported {
  return { status: 'True', reason, message };
}

function no(reason: string, message = ''): Reported {
  return { status: 'False', reason, message };
}
