import type { Operation, Outcome } from '../../api/machine.ts';
import { ACTION_TRAITS } from '../../api/node-remedier/values.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { taskOf } from './task.ts';
import type { OperationRecord, Task } from '../records/state.ts';
import type { AgainAt, Finish, AgentStep } from '../engine/steps.ts';

/** From the first time it was asked for. */
export const REBOOT_WITHIN_MS = 300_000;
/** Limit of one CleanDisk, in one process. */
export const CLEAN_WITHIN_MS = 600_000;

export type Todo = { kind: 'ready' | 'finish'; step: AgentStep } | { kind: 'waiting' };

/** What an order of kind Repair leads to, that is not known yet. */
export function repairTodo(o: ObservedNode, order: Operation): Todo {
  const task = taskOf(order, o.bootID);
  if ('wrong' in task) return { kind: 'finish', step: finish(order, 'PermanentFailure', task.wrong) };
  if (task.action === 'RestartComponent') {
    const why = whyNotRestarted(o, task.component);
    if (why !== undefined) return { kind: 'finish', step: finish(order, 'PermanentFailure', why) };
    if (o.installed.get(task.component)?.manifest === undefined) return { kind: 'waiting' };
  }
  const { id, epoch, kind } = order;
  const operation = {
    id,
    epoch,
    kind,
    startedAt: o.serverMs ?? o.wallMs,
    components: [],
    class: ACTION_TRAITS[task.action].disruption,
    task,
    bootID: o.bootID,
  };
  return { kind: 'ready', step: { do: 'operate', operation } };
}

function whyNotRestarted(o: ObservedNode, name: string): string | undefined {
  const installed = o.installed.get(name);
  if (installed === undefined) return `component ${name} is not installed on this node`;
  if (installed.manifest?.units.length === 0) return `component ${name} has no units to restart`;
  return undefined;
}

/** The next step of a Repair that was begun; undefined: it waits, until a time given to `due`. It always ends. */
export function repairStep(o: ObservedNode, operation: OperationRecord, task: Task, due: AgainAt): AgentStep | undefined {
  // It does not matter what made it boot: a second boot for one order is one too many.
  if (task.action === 'Reboot' && task.fromBootID !== o.bootID) {
    return finish(operation, 'Succeeded', `this node is in boot ${o.bootID}, it was in ${task.fromBootID}`);
  }
  if (operation.acting === undefined) return setOutStep(o, operation, task, due);
  switch (task.action) {
    case 'RestartComponent':
      return restartStep(o, operation, task.component, due);
    case 'CleanDisk':
      return cleanStep(o, operation, task.belowPercent);
    case 'Reboot':
      return rebootStep(o, operation, due);
    default:
      return task satisfies never;
  }
}

/**
 * The agent has done nothing yet. It begins when the cell knows that it is under way (so that it is not done again should this disk be lost or put
 * back), and when the Machine, read live by the step before this one, still has the order.
 */
function setOutStep(o: ObservedNode, operation: OperationRecord, task: Task, due: AgainAt): AgentStep | undefined {
  const order = o.wanted?.operation;
  if (o.wanted === undefined || order === undefined) return undefined;
  const replaced = replacedBy(o, operation);
  if (replaced !== undefined) return finish(operation, 'Cancelled', replaced);
  const reported = o.wanted.reported.operation;
  const announced = reported?.id === operation.id && reported.state === 'Running';
  const notAfter = Date.parse(order.notAfter);
  if (o.reread === operation.id) {
    if (o.serverMs === undefined || !(o.serverMs < notAfter)) return finish(operation, 'Cancelled', `not begun by ${order.notAfter}`);
    if (!o.wanted.held && announced) return actStep(operation, task);
  }
  const late = o.serverMs !== undefined && !(o.serverMs < notAfter);
  if (!late && (o.wanted.held || !announced)) {
    if (o.serverMs !== undefined) due(o.nowMs + (notAfter - o.serverMs));
    return undefined;
  }
  if (o.nowMs >= o.rereadNotBeforeMs) return { do: 'reread', operation: operation.id };
  due(o.rereadNotBeforeMs);
  return undefined;
}

function actStep(operation: OperationRecord, task: Task): AgentStep {
  switch (task.action) {
    case 'RestartComponent':
      return { do: 'restartUnits', operation, component: task.component };
    case 'CleanDisk':
      return { do: 'clean', operation, belowPercent: task.belowPercent };
    case 'Reboot':
      return { do: 'reboot', operation };
    default:
      return task satisfies never;
  }
}

/** Why the Machine does not order this any more, as far as is known. */
function replacedBy(o: ObservedNode, operation: OperationRecord): string | undefined {
  const order = o.wanted?.operation;
  if (order === undefined || (order.id === operation.id && order.kind === operation.kind)) return undefined;
  if (order.id === operation.id) return order.reason ?? `the order became one of kind ${order.kind}`;
  return `another order replaced it: ${order.id}`;
}

function restartStep(o: ObservedNode, operation: OperationRecord, component: string, due: AgainAt): AgentStep | undefined {
  const { probing, deadlineMs, error, notBeforeMs } = o.repairing;
  const why = whyNotRestarted(o, component);
  if (why !== undefined) return finish(operation, 'PermanentFailure', why);
  const { manifest } = o.installed.get(component) ?? {};
  if (manifest === undefined) return finish(operation, 'PermanentFailure', `the generation of ${component} is damaged`);
  const over = deadlineMs !== undefined && o.nowMs >= deadlineMs;
  if (probing === undefined) {
    if (over) return finish(operation, 'PermanentFailure', error ?? `component ${component} was not restarted in time`);
    if (o.nowMs >= notBeforeMs) return { do: 'restartUnits', operation, component };
    due(Math.min(notBeforeMs, deadlineMs ?? Infinity));
    return undefined;
  }
  const units = manifest.units.map((each) => each.name).join(', ');
  if (probing.passed) return finish(operation, 'Succeeded', `restarted ${units}; all probes pass`);
  if (!probing.hopeless && !over) {
    due(deadlineMs ?? Infinity);
    return undefined;
  }
  return finish(operation, 'PermanentFailure', `restarted ${units}: ${probing.message ?? 'the probes did not pass in time'}`);
}

function cleanStep(o: ObservedNode, operation: OperationRecord, belowPercent: number): AgentStep {
  const { cleaning, deadlineMs, percent } = o.repairing;
  const { files, bytes } = operation.acting?.freed ?? { files: 0, bytes: 0 };
  const freed = `freed ${bytes} bytes in ${files} files`;
  const replaced = replacedBy(o, operation);
  if (replaced !== undefined) return finish(operation, 'Cancelled', `${replaced}; ${freed}`);
  if (cleaning?.end === 'enough') return finish(operation, 'Succeeded', `at ${percent} %, below ${belowPercent} %; ${freed}`);
  const still = `still at ${percent} %`;
  const notes = cleaning === undefined || cleaning.notes === '' ? '' : `; ${cleaning.notes}`;
  if (cleaning?.end === 'nothing') return finish(operation, 'TransientFailure', `${still}, nothing left that may go; ${freed}${notes}`);
  if (deadlineMs !== undefined && o.nowMs >= deadlineMs) {
    return finish(operation, 'TransientFailure', `${still} after ${CLEAN_WITHIN_MS / 60_000} minutes; ${freed}${notes}`);
  }
  return { do: 'clean', operation, belowPercent };
}

/** Asked for, once or several times, which is the same within one boot. */
function rebootStep(o: ObservedNode, operation: OperationRecord, due: AgainAt): AgentStep | undefined {
  const { deadlineMs, notBeforeMs, error } = o.repairing;
  const withdraw = (outcome: Outcome, message: string): AgentStep => ({
    do: 'withdraw',
    operation,
    finish: finish(operation, outcome, message),
  });
  const replaced = replacedBy(o, operation);
  if (replaced !== undefined) return withdraw('Cancelled', replaced);
  if (deadlineMs !== undefined && o.nowMs >= deadlineMs) {
    const why = error === undefined ? '' : `: ${error}`;
    return withdraw('PermanentFailure', `this node is still in boot ${o.bootID} ${REBOOT_WITHIN_MS / 1000} s after it was to reboot${why}`);
  }
  if (deadlineMs === undefined || o.nowMs >= notBeforeMs) return { do: 'reboot', operation };
  due(Math.min(deadlineMs, notBeforeMs));
  return undefined;
}

export function finish(operation: { id: string; epoch: number; kind: string }, outcome: Outcome, message: string): Finish {
  const { id, epoch, kind } = operation;
  return { do: 'finish', id, epoch, kind, outcome, message, cleared: false, leaves: false };
}
