/**
 * What to do for one machine next, and why: pure. Each step of an operation is found from the state of Machine, Node and ledger alone, so that any
 * of them can be repeated by whoever leads next (PROTOCOLS C3). What a step needs to be safe it reads again itself (`act.ts`).
 */
import type { Instance } from '../../api/provider.ts';
import type { LedgerRow } from '../../api/disruptionledger.ts';
import type { Machine } from '../../api/machine.ts';
import type { Stored } from '../../api/wire.ts';
import { DRAIN_TIMEOUT, drainTimeoutMs, hasFinalizer, isDeleting, permitted, type AskFacts } from './ask.ts';
import { isNodeReady } from './availability.ts';
import type { Claim } from './claim.ts';
import { degradedBy, drainNeeded, failedComponents, isRecorded, type WaitingComponent } from './components.ts';
import { DEGRADED, isCordonedFor, isFencedFor, ownerOf } from './cordon.ts';
import { setScope } from '../../defender/scopes.ts';

export type InstanceView =
  /** The Machine names no provider: nothing was made, nothing is unmade. */
  | { state: 'NoProvider' }
  /** Not known now; nothing is concluded from it. */
  | { state: 'Unknown'; reason: string; message: string }
  /** Proven absent. */
  | { state: 'Absent' }
  | { state: 'Present'; instance: Instance };

/** A pod that a drain takes away; `terminating` ones are waited for. */
export interface DrainedPod {
  namespace: string;
  name: string;
  uid: string;
  terminating: boolean;
}

export interface MachineView {
  nowMs: number;
  machine: Stored<Machine>;
  /** The ledger's row of this machine's UID. */
  row: LedgerRow | undefined;
  claim: Claim;
  /** As recorded, or as the provider says it now; undefined while there was no instance. */
  providerID: string | undefined;
  /** What the provider calls, or would call, the instance of this machine; empty without a provider. */
  instanceID: string;
  instance: InstanceView;
  kubeletAnswers: boolean;
  facts: AskFacts;
  /** What a drain must still take away; undefined unless `isDraining`. */
  pods: readonly DrainedPod[] | undefined;
  /** Whether labels and taints of the claimed Node differ from the Machine's. */
  nodeDrift: boolean;
}

export type Step = { why: string } & (
  | { do: 'AddFinalizer' }
  | { do: 'EnsureInstance' }
  | { do: 'SyncNode' }
  | { do: 'LiftCordon'; owner: string }
  | { do: 'MarkDegraded' }
  | { do: 'LiftDegraded' }
  | { do: 'TakeOver'; row: LedgerRow }
  | { do: 'Cordon'; row: LedgerRow }
  | { do: 'Evict'; row: LedgerRow; pod: DrainedPod }
  | { do: 'Order'; row: LedgerRow; /** Whether the node was drained: only then may what needs it be ordered. */ drained: boolean }
  | { do: 'WriteCancelled'; row: LedgerRow; reason: string }
  | { do: 'Fence'; row: LedgerRow }
  | { do: 'FreeCancelled'; row: LedgerRow }
  | { do: 'Settle'; row: LedgerRow }
  | { do: 'Release'; row: LedgerRow }
  | { do: 'DeleteInstance'; row: LedgerRow; providerID: string }
  /** Only after a DeleteInstance of the same run said `gone`, where that stands before it. */
  | { do: 'Finalize'; row: LedgerRow }
);

export interface Decision {
  steps: Step[];
  /** What is waited for where nothing is to be done; `untilMs` where the clock alone changes the answer. */
  waits?: { for: 'Defender' | 'Pods' | 'Agent' | 'SetController' | 'Provider'; why: string; untilMs?: number };
}

const drainDeadlineMs = (row: LedgerRow, machine: Machine): number => Date.parse(row.since) + drainTimeoutMs(machine);

/** Entries a row may carry out now: permitted, and within the scopes whose limits were asked. */
export function orderable(row: LedgerRow, machine: Machine, facts: AskFacts): WaitingComponent[] {
  return permitted(machine, facts).components.filter((component) => row.scopes.includes(setScope(component.setUID)));
}

const isMine = (row: LedgerRow, machine: Machine): boolean => machine.spec.operation?.id === row.id;

function wantsDrain(view: MachineView, row: LedgerRow): boolean {
  if (view.claim.state !== 'Claimed' || isMine(row, view.machine)) return false;
  if (row.kind === 'Delete')
    // What cannot be drained is not waited for: without its kubelet no pod of this node ends.
    return isNodeReady(view.claim.node, view.kubeletAnswers) && view.nowMs < drainDeadlineMs(row, view.machine);
  return drainNeeded(orderable(row, view.machine, view.facts));
}

/** Whether pods are being taken away now, so that they must be looked at. */
export function isDraining(view: MachineView): boolean {
  const { row, claim } = view;
  return row !== undefined && claim.state === 'Claimed' && isCordonedFor(claim.node, row.id) && wantsDrain(view, row);
}

export function decide(view: MachineView): Decision {
  const { machine, row } = view;
  if (!hasFinalizer(machine)) {
    if (isDeleting(machine)) return { steps: [] };
    return { steps: [{ do: 'AddFinalizer', why: 'nothing is made for a machine that could vanish unnoticed' }] };
  }
  const operation = row === undefined ? withoutRow(view) : withRow(view, row);
  return { ...operation, steps: [...housekeeping(view), ...operation.steps] };
}

function housekeeping(view: MachineView): Step[] {
  const { machine, instance, claim } = view;
  if (isDeleting(machine)) return [];
  const steps: Step[] = [];
  // Once recorded an instance is never made again: one that is gone makes its machine NodeLost.
  if (instance.state === 'Absent' && machine.status?.providerID === undefined)
    steps.push({ do: 'EnsureInstance', why: 'the machine has no instance yet' });
  if (claim.state === 'Claimed' && view.nodeDrift) steps.push({ do: 'SyncNode', why: "labels or taints differ from the machine's" });
  return steps;
}

function withoutRow(view: MachineView): Decision {
  const { machine, claim } = view;
  if (claim.state === 'Claimed') {
    const owner = ownerOf(claim.node);
    if (owner !== undefined && owner !== DEGRADED)
      return { steps: [{ do: 'LiftCordon', owner, why: `the ledger has no row ${owner} any more` }] };
    if (!isDeleting(machine)) {
      const [degraded] = degradedBy(machine);
      if (degraded !== undefined && !isCordonedFor(claim.node, DEGRADED)) return { steps: [{ do: 'MarkDegraded', why: degraded }] };
      if (owner === DEGRADED && failedComponents(machine).length === 0)
        return { steps: [{ do: 'LiftDegraded', why: 'no component is in a failure any more' }] };
    }
  }
  if (isDeleting(machine)) return { steps: [], waits: { for: 'Defender', why: 'deletion disrupts the node and needs a reservation' } };
  return { steps: [] };
}

function withRow(view: MachineView, row: LedgerRow): Decision {
  const { machine } = view;
  if (isDeleting(machine) && row.kind !== 'Delete')
    return { steps: [{ do: 'TakeOver', row, why: 'the machine is being deleted; what runs there is not waited for' }] };
  if (row.kind === 'Delete') return deleting(view, row);
  const operation = machine.spec.operation;
  if (operation === undefined || !isMine(row, machine)) return notOrdered(view, row);
  if (operation.kind === 'Cancelled') return cancelled(view, row);
  return ordered(view, row);
}

function cancelled(view: MachineView, row: LedgerRow): Decision {
  const { claim } = view;
  if (claim.state === 'Claimed' && !isFencedFor(claim.node, row.id))
    return { steps: [{ do: 'Fence', row, why: 'the operation was cancelled; a cordon for it that is still under way must lose' }] };
  return { steps: [{ do: 'FreeCancelled', row, why: 'the operation was cancelled' }] };
}

function ordered(view: MachineView, row: LedgerRow): Decision {
  const { machine, claim } = view;
  const report = machine.status?.operation;
  const order = machine.spec.operation;
  if (order === undefined || report?.id !== row.id || report.state !== 'Done')
    return {
      steps: [],
      waits: { for: 'Agent', why: `operation ${row.id} is ordered; a row is freed by the agent's report, never by the clock` },
    };
  if (claim.state === 'Claimed' && ownerOf(claim.node) === row.id)
    return { steps: [{ do: 'Settle', row, why: `the agent reports ${report.outcome ?? 'the end'} of operation ${row.id}` }] };
  if (!isRecorded(machine, order, (uid) => view.facts.sets.has(uid)))
    return { steps: [], waits: { for: 'SetController', why: 'a failed change is over when its set has answered it' } };
  return { steps: [{ do: 'Release', row, why: `operation ${row.id} ended as ${report.outcome ?? 'reported'} and is recorded` }] };
}

function notOrdered(view: MachineView, row: LedgerRow): Decision {
  const { machine, claim, nowMs } = view;
  const { refusal } = permitted(machine, view.facts);
  const components = orderable(row, machine, view.facts);
  const cancel = (reason: string): Decision => ({ steps: [{ do: 'WriteCancelled', row, reason, why: reason }] });
  if (row.kind === 'Change' && components.length === 0)
    return cancel(refusal === undefined ? 'RequestGone: nothing waits any more' : `Refused: ${refusal.limit ?? ''} stops it`);
  if (nowMs > Date.parse(row.notAfter)) return cancel(`Expired: it had not begun by ${row.notAfter}`);
  if (claim.state === 'Claimed' && !isCordonedFor(claim.node, row.id))
    return { steps: [{ do: 'Cordon', row, why: `operation ${row.id} is reserved` }] };
  const drain = drainNeeded(components);
  if (drain && claim.state === 'Claimed' && (view.pods === undefined || view.pods.length > 0)) {
    const deadline = drainDeadlineMs(row, machine);
    if (nowMs < deadline) return evicting(view, row, deadline);
    // A node that cannot end its pods is no better off for waiting; one that could and did not is protected by somebody's budget.
    if (isNodeReady(claim.node, view.kubeletAnswers))
      return cancel(`${DRAIN_TIMEOUT}: pods were left at ${new Date(deadline).toISOString()}`);
  }
  if (!view.facts.agentAnswers)
    return {
      steps: [],
      waits: { for: 'Agent', why: 'no order is given to an agent that is silent', untilMs: Date.parse(row.notAfter) },
    };
  return { steps: [{ do: 'Order', row, drained: drain, why: `${components.map((each) => each.name).join(', ')} may switch` }] };
}

/** Asked for in one run; the others follow. A pod whose eviction is refused must not keep the next ones waiting. */
const EVICTIONS_AT_ONCE = 20;

function evicting(view: MachineView, row: LedgerRow, untilMs: number): Decision {
  const pods = view.pods ?? [];
  const why = `${pods.length} pod${pods.length === 1 ? ' is' : 's are'} still on the node`;
  const steps = pods
    .filter((pod) => !pod.terminating)
    .slice(0, EVICTIONS_AT_ONCE)
    .map((pod): Step => ({ do: 'Evict', row, pod, why }));
  return { steps, waits: { for: 'Pods', why, untilMs } };
}

function deleting(view: MachineView, row: LedgerRow): Decision {
  const { machine, claim, instance, nowMs } = view;
  if (instance.state === 'Unknown') return { steps: [], waits: { for: 'Provider', why: instance.message } };
  const finalize: Step = { do: 'Finalize', row, why: 'the provider proves that there is no instance' };
  if (instance.state === 'NoProvider') return { steps: [finalize] };
  const remove: Decision = {
    steps: [{ do: 'DeleteInstance', row, providerID: view.instanceID, why: 'nothing is left to do on the node' }],
    waits: { for: 'Provider', why: 'the instance is being deleted' },
  };
  // Asked to delete also where there is none: a leader that was deposed may be about to make it, and a provider that has deleted never makes again.
  if (instance.state === 'Absent')
    return { steps: [...remove.steps, finalize], waits: { for: 'Provider', why: 'its absence is to be proven' } };
  const notAfter = Date.parse(row.notAfter);
  const answers = view.facts.agentAnswers && machine.status?.agent !== undefined && nowMs <= notAfter;
  if (isMine(row, machine)) {
    const report = machine.status?.operation;
    if (machine.spec.operation?.kind === 'Cancelled' || (report?.id === row.id && report.state === 'Done') || !answers) return remove;
    return { steps: [], waits: { for: 'Agent', why: 'the agent cleans up', untilMs: notAfter } };
  }
  if (claim.state === 'Claimed' && !isCordonedFor(claim.node, row.id))
    return { steps: [{ do: 'Cordon', row, why: 'the machine is being deleted' }] };
  if (wantsDrain(view, row) && (view.pods === undefined || view.pods.length > 0)) return evicting(view, row, drainDeadlineMs(row, machine));
  return answers ? { steps: [{ do: 'Order', row, drained: true, why: 'the agent can clean up' }] } : remove;
}
