import { contentOf } from '../../api/machine/values.ts';
import { announceStep, leaveStep } from '../leave/decide.ts';
import { immediateStep, orderStep, runningStep } from '../operation/decide.ts';
import { repairStep } from '../repair/decide.ts';
import { transactionStep } from '../transaction/decide.ts';
import { upkeepStep } from '../upkeep/decide.ts';
import type { ObservedNode } from './observed.ts';
import { pendingOf } from '../transaction/pending.ts';
import { isControllers } from '../repair/task.ts';
import { componentOf, runningOperation } from '../records/state.ts';
import type { AcceptedEntry } from '../records/state.ts';
import type { AgainAt, AgentStep } from './steps.ts';
import type { WantedState } from '../cell/wanted.ts';

/** The longest wait when nothing is due, so that the agent notices a clock that jumped. */
const LONGEST_WAIT_MS = 600_000;

/** The file of a hold does not wake the agent when a person removes it. */
const HOLD_RECHECK_MS = 5_000;

/** What to do next. Pure: the same observation leads to the same step. */
export function decide(o: ObservedNode): AgentStep {
  let untilMs = o.nowMs + LONGEST_WAIT_MS;
  const due: AgainAt = (ms) => {
    if (Number.isFinite(ms)) untilMs = Math.min(untilMs, Math.max(ms, o.nowMs + 1));
  };
  if (o.holdFile) return { do: 'wait', untilMs: o.nowMs + HOLD_RECHECK_MS, why: 'held by /etc/kubenode/hold' };
  if (o.foreign) return { do: 'startOver' };
  return (
    leaveStep(o) ??
    noteStep(o) ??
    acceptStep(o) ??
    openStep(o, due) ??
    upkeepStep(o, due) ??
    openRepairStep(o, due) ??
    prepareStep(o, due) ??
    nextStep(o, due) ??
    announceStep(o, due) ?? { do: 'wait', untilMs, why: 'nothing to do' }
  );
}

/** What of the Machine must outlive this process, besides its entries. */
function noteStep({ wanted, state }: ObservedNode): AgentStep | undefined {
  if (wanted === undefined) return undefined;
  const reset = wanted.deleting && wanted.deletionPolicy === 'Reset';
  const note = { held: wanted.held || wanted.deleting, verified: wanted.verified, reset };
  const { operation } = wanted;
  // The agent keeps only the fence of an operation that the cell carries out itself.
  const raised = operation !== undefined && isControllers(operation) && operation.epoch > state.epoch;
  const same = JSON.stringify(note) === JSON.stringify({ held: state.held, verified: state.verified, reset: state.reset === true });
  return same && !raised ? undefined : { do: 'note', ...note, ...(raised ? { epoch: operation.epoch } : {}) };
}

function acceptStep({ wanted, state, installed }: ObservedNode): AgentStep | undefined {
  // The journal was lost, what it was about was not.
  for (const { receipt } of installed.values()) {
    if (componentOf(state, receipt.name) !== undefined) continue;
    const { name, version, values, labels, revision, content } = receipt;
    return { do: 'accept', accepted: { name, action: 'Install', version, values, labels, revision, content } };
  }
  if (wanted === undefined || state.cleared) return undefined;
  if (!wanted.deleting) {
    for (const entry of wanted.components) {
      const known = componentOf(state, entry.name);
      if (known !== undefined && entry.revision <= known.revision) continue;
      const { name, action, version, values = {}, revision } = entry;
      const accepted: AcceptedEntry = { name, action, version, values, labels: wanted.labels, revision, content: contentOf(entry) };
      return { do: 'accept', accepted };
    }
  }
  for (const name of Object.keys(state.components)) {
    if (wanted.components.some((entry) => entry.name === name)) continue;
    if (!installed.has(name) && state.transaction?.name !== name) return { do: 'forget', name };
  }
  return undefined;
}

/** An entry that is not accepted (docs/protocols.md#a3), and why. */
export function refusalOf(
  wanted: WantedState,
  state: ObservedNode['state'],
  name: string,
): { revision: number; reason: string } | undefined {
  const entry = wanted.components.find((each) => each.name === name);
  const known = componentOf(state, name);
  if (entry === undefined || known === undefined) return undefined;
  if (entry.revision < known.revision) return { revision: entry.revision, reason: 'RevisionWentBack' };
  if (entry.revision === known.revision && contentOf(entry) !== known.content)
    return { revision: entry.revision, reason: 'ContentChanged' };
  return undefined;
}

function openStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  const tx = o.state.transaction;
  if (tx !== undefined) return transactionStep(o, tx, due);
  const operation = runningOperation(o.state);
  if (operation === undefined) return undefined;
  if (operation.task === undefined) return runningStep(o, operation);
  // What was read live is good for this very step only; else upkeep of the node goes first.
  return o.reread === operation.id ? repairStep(o, operation, operation.task, due) : undefined;
}

/** The step of a Repair that takes time: units are started and drift is repaired meanwhile. */
function openRepairStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  const operation = o.state.transaction === undefined ? runningOperation(o.state) : undefined;
  return operation?.task === undefined ? undefined : repairStep(o, operation, operation.task, due);
}

function prepareStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  for (const component of Object.values(o.state.components)) {
    const { name, revision } = component;
    const pending = pendingOf(o, name);
    // What is being switched to is there.
    if (pending.kind !== 'preparing' || (o.state.transaction?.name === name && o.state.transaction.revision === revision)) continue;
    const prepared = o.prepared.get(name);
    if (prepared?.revision !== revision) return { do: 'prepare', name, rebuild: false };
    if (prepared.status !== 'retry') continue;
    if (o.nowMs >= prepared.atMs) return { do: 'prepare', name, rebuild: false };
    due(prepared.atMs);
  }
  return undefined;
}

/** What begins something new. While a transaction is open nothing does. */
function nextStep(o: ObservedNode, due: AgainAt): AgentStep | undefined {
  if (o.state.transaction !== undefined) return undefined;
  for (const { name, revision } of Object.values(o.state.components)) {
    const pending = pendingOf(o, name);
    if (pending.kind === 'advance') return { do: 'advance', name };
    if (pending.kind === 'absent') return { do: 'removed', name };
    if (pending.kind === 'refuse') {
      const restored = o.installed.has(name) && o.health.get(name)?.state === 'Healthy';
      return { do: 'refuse', name, failed: { revision, reason: pending.reason, message: pending.message, restored } };
    }
  }
  // One operation a node, and what needs none waits for it too.
  if (runningOperation(o.state) !== undefined) return undefined;
  const step = orderStep(o, due) ?? immediateStep(o);
  if (step !== undefined) return step;
  const preparing = [...o.prepared.values(), ...o.rebuilt.values()].some((each) => each.status === 'working');
  return o.sweep && !preparing ? { do: 'sweep' } : undefined;
}
