import { needsOperation, stronger } from '../../api/disruption.ts';
import type { Disruption } from '../../api/disruption.ts';
import type { Operation } from '../../api/machine.ts';
import { OUTCOMES } from '../../api/machine/values.ts';
import { finish, repairTodo } from '../repair/decide.ts';
import type { Todo } from '../repair/decide.ts';
import { REMOVE_FAILED } from '../transaction/decide.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { pendingOf } from '../transaction/pending.ts';
import { isControllers } from '../repair/task.ts';
import { componentOf } from '../records/state.ts';
import type { OperationRecord, Transaction } from '../records/state.ts';
import type { AgainAt, AgentStep } from '../engine/steps.ts';

/** The next step of an operation that was begun; there is no open transaction. It always ends: only the agent can end it. */
export function runningStep(o: ObservedNode, operation: OperationRecord): AgentStep {
  if (operation.kind === 'Delete') return deletionStep(o, operation);
  for (const name of inOrder(
    o,
    operation.components.map((each) => each.name),
  )) {
    const step = changeStep(o, operation, name);
    if (step !== undefined) return step;
  }
  const failed: string[] = [];
  const left: string[] = [];
  const newer: string[] = [];
  for (const { name, revision } of operation.components) {
    const component = componentOf(o.state, name);
    if (component?.failed !== undefined) failed.push(`${name}: ${component.failed.reason}: ${component.failed.message}`);
    else if (component?.driftFailed !== undefined && component.driftFailed === o.installed.get(name)?.receipt.generation) {
      failed.push(`${name}: a restart did not put it right`);
    } else if (component?.revision === revision && runningRevision(o, name) !== revision) left.push(name);
    else if (component !== undefined && component.revision > revision && pendingOf(o, name).kind === 'ready') newer.push(name);
  }
  if (failed.length > 0) return finish(operation, 'PermanentFailure', failed.join('; '));
  if (left.length > 0) return finish(operation, 'TransientFailure', `not ready when its turn came: ${left.join(', ')}`);
  if (newer.length > 0) return finish(operation, 'Superseded', `a newer revision asks for an order of its own: ${newer.join(', ')}`);
  return finish(operation, 'Succeeded', '');
}

function changeStep(o: ObservedNode, operation: OperationRecord, name: string): AgentStep | undefined {
  const named = operation.components.find((each) => each.name === name);
  const component = componentOf(o.state, name);
  const pending = pendingOf(o, name);
  if (named === undefined || component === undefined || pending.kind !== 'ready') return undefined;
  // docs/protocols.md#c6: an order is for the revisions that it names. A newer one may be of another class, which the cell has not judged.
  if (component.revision !== named.revision) return undefined;
  return begin(o, name, operation);
}

/** The order in the Machine, if it is not one that the journal knows. */
export function orderStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  const order = o.wanted?.operation;
  if (o.wanted === undefined || order === undefined || o.state.operations.some((each) => each.id === order.id)) return undefined;
  if (isControllers(order)) return undefined;
  const reported = o.wanted.reported.operation;
  if (reported?.id === order.id) {
    // Carried out by this machine before its disk was lost or put back.
    const outcome = OUTCOMES.find((each) => each === reported.outcome);
    if (reported.state === 'Done' && outcome !== undefined) return finish(order, outcome, reported.message ?? '');
    if (order.action === 'Reboot' && reported.bootID !== undefined && reported.bootID !== o.bootID) {
      return finish(order, 'Succeeded', `this node is in boot ${o.bootID}, it was in ${reported.bootID}; its own record was lost`);
    }
    return finish(order, 'PermanentFailure', 'this node has no record of the operation that was under way; what it did is not known');
  }
  if (order.epoch < o.state.epoch) {
    return finish(order, 'Cancelled', `its epoch ${order.epoch} is below ${o.state.epoch}, which this node has seen: the order is stale`);
  }
  if (order.kind === 'Cancelled') return finish(order, 'Cancelled', order.reason ?? '');
  const notAfter = Date.parse(order.notAfter);
  const todo = todoOf(o, order);
  if (o.reread === order.id) {
    // Read live by the step before this one: the clock is the server's, of that answer.
    if (o.serverMs !== undefined && !(o.serverMs < notAfter)) return finish(order, 'Cancelled', `not begun by ${order.notAfter}`);
    if (!o.wanted.held && todo.kind === 'ready') return todo.step;
  }
  if (todo.kind === 'finish') return todo.step;
  const late = o.serverMs !== undefined && o.serverMs >= notAfter;
  if (!late && (o.wanted.held || todo.kind === 'waiting')) {
    if (o.serverMs !== undefined) due(o.nowMs + (notAfter - o.serverMs));
    return undefined;
  }
  if (o.nowMs >= o.rereadNotBeforeMs) return { do: 'reread', operation: order.id };
  due(o.rereadNotBeforeMs);
  return undefined;
}

function todoOf(o: ObservedNode, order: Operation): Todo {
  if (order.kind === 'Delete') {
    const record = recordOf(o, order, [], 'Drain');
    return { kind: 'ready', step: deletionStep(o, record) };
  }
  if (order.kind === 'Repair') return repairTodo(o, order);
  if (order.kind !== 'Change') return { kind: 'finish', step: finish(order, 'PermanentFailure', `this agent knows no ${order.kind}`) };
  const named = order.components ?? [];
  let strongest: Disruption = 'None';
  let waiting = false;
  const ready: string[] = [];
  for (const { name, revision } of named) {
    const component = componentOf(o.state, name);
    if (component?.revision !== revision || component.failed !== undefined) continue;
    const pending = pendingOf(o, name);
    if (pending.kind === 'preparing') waiting = true;
    if (pending.kind !== 'ready') continue;
    ready.push(name);
    strongest = stronger(strongest, pending.class);
  }
  const first = inOrder(o, ready)[0];
  if (first !== undefined) {
    const record = recordOf(
      o,
      order,
      named.map(({ name, revision }) => ({ name, revision })),
      strongest,
    );
    return { kind: 'ready', step: begin(o, first, record) };
  }
  if (waiting) return { kind: 'waiting' };
  return { kind: 'finish', step: finish(order, 'Superseded', 'nothing that it names is left to do here') };
}

/** The next component to be taken away, those first that others require last; then the end. */
function deletionStep(o: ObservedNode, operation: OperationRecord): AgentStep {
  const left = inOrder(o, [...o.installed.keys()])
    .toReversed()
    .flatMap((each) => o.installed.get(each)?.receipt ?? []);
  const failedOf = (name: string) => componentOf(o.state, name)?.failed;
  // What was tried by this deletion and failed is not tried again.
  const next = left.find(({ name }) => failedOf(name)?.reason !== REMOVE_FAILED);
  if (next === undefined) {
    const message = left.map(({ name }) => `${name}: ${failedOf(name)?.message ?? ''}`).join('; ');
    return left.length === 0
      ? { ...finish(operation, 'Succeeded', ''), cleared: true, leaves: o.state.reset === true }
      : { ...finish(operation, 'PermanentFailure', `not taken away: ${message}`), cleared: true };
  }
  const { name, generation } = next;
  const revision = componentOf(o.state, name)?.revision ?? next.revision;
  const transaction: Transaction = {
    name,
    revision,
    why: 'Delete',
    class: 'Restart',
    from: generation,
    touched: [],
    operation: operation.id,
  };
  return { do: 'begin', transaction, operation };
}

function begin(o: ObservedNode, name: string, operation: OperationRecord): AgentStep {
  const transaction = transactionOf(o, name);
  if (transaction === undefined) throw new Error(`component ${name} has nothing to begin`);
  return { do: 'begin', transaction: { ...transaction, operation: operation.id }, operation };
}

/** What is ready of a component, as a transaction. */
export function transactionOf(o: ObservedNode, name: string): Transaction | undefined {
  const pending = pendingOf(o, name);
  const component = componentOf(o.state, name);
  if (pending.kind !== 'ready' || component === undefined) return undefined;
  const from = o.installed.get(name)?.receipt.generation;
  return {
    name,
    revision: pending.why === 'Drift' ? (o.installed.get(name)?.receipt.revision ?? 0) : component.revision,
    why: pending.why,
    class: pending.class,
    ...(from === undefined ? {} : { from }),
    ...(pending.to === undefined ? {} : { to: pending.to.digest }),
    touched: [],
  };
}

/** The next component whose change disrupts too little to need an order. */
export function immediateStep(o: ObservedNode): AgentStep | undefined {
  if (o.state.held) return undefined;
  const names = Object.keys(o.state.components).filter((name) => {
    const pending = pendingOf(o, name);
    return pending.kind === 'ready' && !needsOperation(pending.class);
  });
  const first = inOrder(o, names)[0];
  const transaction = first === undefined ? undefined : transactionOf(o, first);
  return transaction === undefined ? undefined : { do: 'begin', transaction, operation: undefined };
}

function recordOf(o: ObservedNode, order: Operation, components: OperationRecord['components'], strongest: Disruption): OperationRecord {
  return { id: order.id, epoch: order.epoch, kind: order.kind, startedAt: o.serverMs ?? o.wallMs, components, class: strongest };
}

function runningRevision(o: ObservedNode, name: string): number | undefined {
  const component = componentOf(o.state, name);
  if (component?.action === 'Remove' && component.removed) return component.revision;
  return o.installed.get(name)?.receipt.revision;
}

/** Those that others require first. A circle is left in the order of names. */
export function inOrder(o: Pick<ObservedNode, 'installed' | 'prepared'>, names: string[]): string[] {
  const requires = (name: string): string[] => {
    const prepared = o.prepared.get(name);
    const manifest = prepared?.status === 'ready' ? prepared.manifest : o.installed.get(name)?.manifest;
    return manifest?.requires.map((each) => each.componentName) ?? [];
  };
  const out: string[] = [];
  const visiting = new Set<string>();
  const visit = (name: string): void => {
    if (visiting.has(name)) return;
    visiting.add(name);
    for (const each of requires(name)) visit(each);
    if (names.includes(name)) out.push(name);
  };
  for (const name of [...names].sort()) visit(name);
  return out;
}
