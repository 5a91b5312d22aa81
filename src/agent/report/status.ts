import { needsOperation } from '../../api/disruption.ts';
import type { ComponentStatus, MachineStatus, OperationStatus } from '../../api/machine.ts';
import { plainTexts } from '../../api/plain-text.ts';
import type { Condition } from '../../api/wire.ts';
import { rfc3339 } from '../../kube/clock.ts';
import { refusalOf } from '../engine/decide.ts';
import { repairBudgetMs } from '../upkeep/decide.ts';
import { stagesOf } from '../transaction/decide.ts';
import { describe } from '../upkeep/drift.ts';
import type { EngineView } from '../engine/engine.ts';
import { short } from '../errors.ts';
import type { ObservedNode } from '../engine/observed.ts';
import { pendingOf } from '../transaction/pending.ts';
import { restartingOf } from '../repair/task.ts';
import type { ComponentState, OperationRecord, JournalState } from '../records/state.ts';
import type { WantedState } from '../cell/wanted.ts';

/** With room for what is put in front of it. */
const LONGEST_HERE = 1000;

/** Exactly the fields of a Machine's status that the agent writes. */
export type AgentStatus = Required<Pick<MachineStatus, 'agent'>> & Pick<MachineStatus, 'components' | 'operation' | 'conditions'>;

export interface AgentInfo {
  version: string;
  apiLevel: number;
  bootID: string;
  os: string;
  arch: string;
}

/** Pure: what was observed, as status. */
export function report(view: EngineView, identity: AgentInfo, wanted: WantedState, nowMs: number): AgentStatus {
  // A program, a file name or a server may have put anything into it: this is the border of the node.
  return plainTexts(statusOf(view, identity, wanted, nowMs), LONGEST_HERE);
}

function statusOf(view: EngineView, identity: AgentInfo, wanted: WantedState, nowMs: number): AgentStatus {
  const { observed } = view;
  const held = observed?.holdFile === true;
  const isLeaving = observed?.state.leaving !== undefined;
  const status: AgentStatus = {
    agent: { ...identity, ...(held ? { hold: true } : {}), ...(isLeaving ? { leaving: true } : {}) },
    conditions: [readiness(view, wanted, nowMs)],
  };
  if (observed === undefined) {
    // What was reported last stays: it is not known to be otherwise.
    const { components, operation } = wanted.reported;
    return { ...status, components, ...(operation === undefined ? {} : { operation: operation as OperationStatus }) };
  }
  const names = Object.keys(observed.state.components).sort();
  status.components = names.map((name) => componentStatus(observed, wanted, name));
  const operation = operationOf(observed.state, wanted);
  if (operation !== undefined) status.operation = operationStatus(operation);
  return status;
}

function readiness(view: EngineView, wanted: WantedState, nowMs: number): Condition {
  const { observed, trouble } = view;
  let [status, reason, message]: [Condition['status'], string, string] = [
    'True',
    'Working',
    'the agent keeps this node as its Machine wants it',
  ];
  if (trouble !== undefined) [status, reason, message] = ['False', trouble.reason, `nothing is changed: ${trouble.message}`];
  else if (observed?.holdFile) [reason, message] = ['Held', 'nothing is changed while /etc/kubenode/hold is there'];
  else if (observed?.state.leaving !== undefined)
    [reason, message] = ['Leaving', 'the agent takes itself away, and changes nothing any more'];
  else if (observed?.state.cleared) [reason, message] = ['Cleared', 'what was installed was taken away'];
  const before = wanted.reported.ready;
  const since = before?.status === status ? before.lastTransitionTime : rfc3339(nowMs);
  return { type: 'AgentReady', status, reason, message: short(message), lastTransitionTime: since, observedGeneration: wanted.generation };
}

/** The one the Machine names, or the last one that was begun. */
function operationOf(state: JournalState, wanted: WantedState): OperationRecord | undefined {
  const running = state.operations.find((each) => each.outcome === undefined);
  return running ?? state.operations.find((each) => each.id === wanted.operation?.id) ?? state.operations.at(-1);
}

function operationStatus({ id, outcome, message, bootID, startedAt, finishedAt }: OperationRecord): OperationStatus {
  return {
    id,
    state: outcome === undefined ? 'Running' : 'Done',
    ...(outcome === undefined ? {} : { outcome }),
    ...(message === undefined ? {} : { message }),
    ...(bootID === undefined ? {} : { bootID }),
    startedAt: rfc3339(startedAt),
    ...(finishedAt === undefined ? {} : { finishedAt: rfc3339(finishedAt) }),
  };
}

function componentStatus(o: ObservedNode, wanted: WantedState, name: string): ComponentStatus {
  // The caller takes the name from these keys.
  const component = o.state.components[name] as ComponentState;
  const receipt = o.installed.get(name)?.receipt;
  const health = o.health.get(name);
  const refused = refusalOf(wanted, o.state, name);
  const bootID = receipt === undefined ? undefined : (health?.bootID ?? carriedBootID(wanted, name, receipt.content));
  const done = component.action === 'Remove' && component.removed;
  return {
    name,
    version: receipt?.version ?? '',
    content: receipt?.content ?? '',
    revision: component.revision,
    running: receipt?.revision ?? (done ? component.revision : 0),
    ...stateOf(o, component),
    ...(receipt?.previous === undefined ? {} : { previous: receipt.previous.version }),
    ...(component.failed === undefined ? {} : { failed: { ...component.failed, reason: short(component.failed.reason, 256) } }),
    ...(refused === undefined ? {} : { refused }),
    ...(bootID === undefined ? {} : { bootID }),
    ...(receipt === undefined ? {} : { switchedAt: rfc3339(receipt.switchedAt) }),
    ...(health?.state === 'Healthy' && health.since !== undefined ? { healthySince: rfc3339(health.since) } : {}),
    ...(component.driftRepairs === 0 ? {} : { driftRepairs: component.driftRepairs }),
  };
}

/** The boot in which its probes last passed, as an earlier process of the agent reported. */
function carriedBootID(wanted: WantedState, name: string, content: string): string | undefined {
  const reported = wanted.reported.components.find((each) => each.name === name);
  return reported?.content === content ? reported.bootID : undefined;
}

type StatePart = Pick<ComponentStatus, 'state' | 'needs' | 'needsFor' | 'message'>;

function stateOf(o: ObservedNode, component: ComponentState): StatePart {
  const { name } = component;
  const tx = o.state.transaction;
  if (tx?.name === name) {
    if (tx.back !== undefined) return withMessage('Restoring', tx.back.message);
    if (tx.to === undefined) return withMessage('Removing', o.progress.error?.message);
    const stage = stagesOf(o, tx).find((each) => !o.progress.done.has(each));
    return stage === 'probe' || stage === undefined
      ? withMessage('Probing', o.progress.probing?.view.message)
      : withMessage('Switching', o.progress.error?.message);
  }
  if (restartingOf(o.state) === name) return withMessage('Probing', o.repairing.probing?.message);
  const health = o.health.get(name);
  if (component.removed || (o.state.cleared && !o.installed.has(name))) return { state: 'Removed' };
  if (component.failed !== undefined && !component.failed.restored && health?.state !== 'Healthy') return { state: 'Failed' };
  const pending = pendingOf(o, name);
  const prepared = o.prepared.get(name);
  switch (pending.kind) {
    case 'preparing':
      return withMessage('Fetching', prepared !== undefined && 'message' in prepared ? prepared.message : undefined);
    case 'blocked':
      return withMessage('Waiting', pending.message);
    case 'ready':
      return needsOperation(pending.class)
        ? { ...withMessage('Waiting', driftMessage(o, name)), needs: pending.class, needsFor: pending.why }
        : withMessage('Waiting', o.state.held ? 'the Machine is held' : undefined);
    case 'nothing':
    case 'advance':
    case 'absent':
    case 'refuse':
      break;
    default:
      pending satisfies never;
  }
  if (!o.installed.has(name))
    return { state: component.action === 'Remove' ? 'Removing' : component.failed === undefined ? 'Fetching' : 'Failed' };
  if (health?.state === 'Unhealthy') return withMessage('Unhealthy', health.message ?? driftMessage(o, name));
  return withMessage(health?.state === 'Healthy' ? 'Healthy' : 'Probing', driftMessage(o, name) ?? rebuildMessage(o, name));
}

function driftMessage(o: ObservedNode, name: string): string | undefined {
  const findings = o.drift.get(name)?.findings ?? [];
  if (findings.length === 0) return undefined;
  const spent = findings.some((each) => each.repair) && repairBudgetMs(o, name) > 0;
  return `drift${spent ? ' (repaired too often within the hour)' : ''}: ${findings.map(describe).join('; ')}`;
}

function rebuildMessage(o: ObservedNode, name: string): string | undefined {
  const rebuilt = o.rebuilt.get(name);
  if (rebuilt === undefined || rebuilt.status === 'ready') return undefined;
  return `its generation is damaged and is built again${rebuilt.message === undefined ? '' : `: ${rebuilt.message}`}`;
}

function withMessage(state: ComponentStatus['state'], message: string | undefined): StatePart {
  return message === undefined || message === '' ? { state } : { state, message: short(message) };
}
