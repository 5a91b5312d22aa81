import { Machines, type DrainBudget, type MachineStatus } from '../../../api/machine.ts';
import { API_VERSION } from '../../../api/kind.ts';
import { ANNOTATIONS, MANAGERS } from '../../../api/names.ts';
import { plainText } from '../../../api/plain-text.ts';
import type { Condition } from '../../../api/wire.ts';
import type { Verdict } from '../../../defender/request.ts';
import { applyIfChanged } from '../../../kube/apply.ts';
import type { Client } from '../../../kube/client.ts';
import { setConditions, type ConditionInput } from '../../../kube/conditions.ts';
import { isNodeReady } from '../../../kube/liveness.ts';
import { owesDegraded } from '../observe/claim.ts';
import { degradedBy } from '../order/components.ts';
import { isCordonedFor } from '../cordon/cordon.ts';
import { hasLeft } from '../deletion/give-back.ts';
import { podsLeft } from '../drain/drain.ts';
import { isDeleting, isGivenBack, wasReady } from '../facts.ts';
import type { MachineView, NotOnNode } from '../view.ts';

/** Conditions that this controller writes; the others on the object are the agent's and the set controller's. */
const OURS = ['InfrastructureReady', 'NodeReady', 'Drained', 'NodeSynced', 'Degraded', 'Ready'] as const;
type Ours = (typeof OURS)[number];

export interface ReportInput {
  view: MachineView;
  /** Defender's last verdict, while the machine asks. */
  verdict: Verdict | undefined;
  /** Evictions that were refused in this run, each with what refused it. */
  refusals: readonly string[];
  /** Budgets that will never let these pods go, as they stand. */
  unending?: readonly string[];
  /** Budgets of the pods whose eviction was refused. */
  budgets?: readonly DrainBudget[];
}

type Own = Pick<
  MachineStatus,
  | 'phase'
  | 'providerID'
  | 'nodeRef'
  | 'addresses'
  | 'firstReadyAt'
  | 'lastDisruption'
  | 'underWay'
  | 'drain'
  | 'verdict'
  | 'observedGeneration'
  | 'conditions'
>;

/** What the conditions are made of, worked out once. */
interface Findings {
  ready: boolean;
  degraded: string[];
  /** What the machine had is gone, and is never made again under this Machine. */
  lost: string | undefined;
}

function findingsOf({ machine, claim, instance, kubeletAnswers }: MachineView): Findings {
  const vanished = instance.state === 'Absent' && machine.status?.providerID !== undefined && !isDeleting(machine);
  return {
    ready: claim.state === 'Claimed' && isNodeReady(claim.node, kubeletAnswers),
    degraded: degradedBy(machine),
    lost: claim.state === 'Lost' ? claim.message : vanished ? 'its instance is gone' : undefined,
  };
}

/** The part of the Machine's status that this controller owns, whole: what is left out is given up. Pure. */
export function statusOf({ view, verdict, refusals, unending = [], budgets = [] }: ReportInput): Own {
  const { machine, claim, instance } = view;
  const { status } = machine;
  const { generation } = machine.metadata;
  const findings = findingsOf(view);
  const inputs = [
    infrastructure(view),
    nodeReady(view, findings),
    degraded(findings),
    ...drained(view, refusals, unending),
    ...nodeSynced(view),
    summary(view, findings),
  ].map((each) => ({ ...each, ...(generation === undefined ? {} : { observedGeneration: generation }) }));
  const before = (status?.conditions ?? []).filter((each) => inputs.some((input) => input.type === each.type));
  // The cordon of the former Node is put on this one first: once the Machine names this one, that cordon is unknown.
  const claimed = claim.state === 'Claimed' && !owesDegraded(machine, claim.node) ? claim.node.metadata : undefined;
  const nodeRef = claimed === undefined ? status?.nodeRef : { name: claimed.name, uid: claimed.uid };
  const addresses =
    instance.state === 'Present' && instance.instance.addresses.length > 0 ? instance.instance.addresses : status?.addresses;
  const lastDisruption = disruptionBegun(view) ?? status?.lastDisruption;
  const firstReadyAt = firstReady(view, findings);
  return {
    phase: phaseOf(view, findings),
    ...(view.providerID === undefined ? {} : { providerID: view.providerID }),
    ...(nodeRef === undefined ? {} : { nodeRef }),
    ...(addresses === undefined ? {} : { addresses }),
    ...(firstReadyAt === undefined ? {} : { firstReadyAt }),
    ...(lastDisruption === undefined ? {} : { lastDisruption }),
    ...(view.reservation === undefined ? {} : { underWay: view.reservation.kind }),
    ...drainOf(view, budgets),
    ...(verdict === undefined ? {} : { verdict }),
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    conditions: setConditions(before, inputs, view.nowMs),
  };
}

/**
 * Recorded once. A machine that ran before this was recorded may not be Ready at this moment, and is not new for that: its phase shows that its
 * Node was Ready.
 */
function firstReady({ machine, nowMs }: MachineView, { ready }: Findings): string | undefined {
  const { status } = machine;
  if (status?.firstReadyAt !== undefined) return status.firstReadyAt;
  return ready || wasReady(machine) ? new Date(nowMs).toISOString() : undefined;
}

/** When the reservation was made that disrupts this node now. Taken from the reservation, so that each leader writes the same. */
function disruptionBegun({ reservation, machine, claim }: MachineView): string | undefined {
  if (reservation === undefined) return undefined;
  const order = machine.spec.operation;
  const ordered = order?.id === reservation.id && order.kind !== 'Cancelled';
  return ordered || (claim.state === 'Claimed' && isCordonedFor(claim.node, reservation.id)) ? reservation.since : undefined;
}

const condition = (type: Ours, status: Condition['status'], reason: string, message = ''): ConditionInput => ({
  type,
  status,
  reason,
  message,
});

function infrastructure({ instance, machine }: MachineView): ConditionInput {
  if (instance.state === 'NoProvider') return condition('InfrastructureReady', 'Unknown', 'NoProvider', 'the machine names no provider');
  if (instance.state === 'Unknown') return condition('InfrastructureReady', 'Unknown', instance.reason, instance.message);
  if (instance.state === 'Present')
    return condition('InfrastructureReady', instance.instance.state === 'Running' ? 'True' : 'False', instance.instance.state);
  return machine.status?.providerID === undefined
    ? condition('InfrastructureReady', 'False', 'NotMade', 'the instance is not made yet')
    : condition('InfrastructureReady', 'False', 'Gone', 'the instance is gone; it is never made again under this Machine');
}

function nodeReady({ claim, kubeletAnswers }: MachineView, { ready }: Findings): ConditionInput {
  if (claim.state === 'None') return condition('NodeReady', 'False', 'NoNode', 'no Node has registered for this machine yet');
  if (claim.state === 'Lost') return condition('NodeReady', 'False', 'NodeLost', claim.message);
  if (claim.state === 'Foreign') return condition('NodeReady', 'False', 'ForeignNode', claim.message);
  if (ready) return condition('NodeReady', 'True', 'NodeReady');
  return kubeletAnswers
    ? condition('NodeReady', 'False', 'NodeNotReady', 'the condition Ready of the Node is not True')
    : condition('NodeReady', 'Unknown', 'KubeletStale', "the kubelet's Lease is not renewed");
}

function degraded({ degraded: reasons }: Findings): ConditionInput {
  return reasons.length === 0
    ? condition('Degraded', 'False', 'NotDegraded')
    : condition('Degraded', 'True', 'ComponentFailed', reasons.join('; '));
}

/** Only while pods are left to be taken away. */
function drainOf({ pods = [] }: MachineView, budgets: readonly DrainBudget[]): Pick<MachineStatus, 'drain'> {
  if (pods.length === 0) return {};
  return { drain: { podsLeft: pods.length, ...(budgets.length === 0 ? {} : { budgets: [...budgets] }) } };
}

/** Only while pods are being taken away. */
function drained({ pods }: MachineView, refusals: readonly string[], unending: readonly string[]): ConditionInput[] {
  if (pods === undefined) return [];
  if (pods.length === 0) return [condition('Drained', 'True', 'Drained')];
  const left = podsLeft(pods);
  if (unending.length > 0) return [condition('Drained', 'False', 'BudgetNeverAllows', [left, ...unending.slice(0, 3)].join('; '))];
  return refusals.length === 0
    ? [condition('Drained', 'False', 'Draining', left)]
    : [condition('Drained', 'False', 'EvictionRefused', [left, ...refusals.slice(0, 3)].join('; '))];
}

/** Only while the Node has not what the Machine wants there. */
function nodeSynced({ notOnNode }: MachineView): ConditionInput[] {
  const [first] = NOT_ON_NODE.filter((reason) => notOnNode.some((each) => each.reason === reason));
  if (first === undefined) return [];
  const messages = NOT_ON_NODE.flatMap((reason) => {
    const found = notOnNode.filter((each) => each.reason === reason).map(({ message }) => message);
    if (found.length === 0) return [];
    const more = found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : '';
    return `${NOT_ON_NODE_WORDS[reason]}: ${found.slice(0, MAX_NAMED).join(', ')}${more}`;
  });
  return [condition('NodeSynced', 'False', first, plainText(messages.join('; ')))];
}

const MAX_NAMED = 5;
const NOT_ON_NODE = ['NodeRefused', 'SetByAnother', 'TaintWithheld'] as const satisfies readonly NotOnNode['reason'][];
const NOT_ON_NODE_WORDS: Record<NotOnNode['reason'], string> = {
  NodeRefused: 'the API server refuses the Node',
  SetByAnother: 'set otherwise by another client, and left so',
  TaintWithheld: 'would take pods off the node, so it is put there only when the node is drained for an operation',
};

function givingBackText({ machine, reservation, uncounted }: MachineView): string {
  if (reservation !== undefined) return `the machine is given back once operation ${reservation.id} is over`;
  if (machine.spec.hold === true) return 'the machine is given back once spec.hold is no longer true';
  if (!hasLeft(machine))
    return `the machine is given back once its agent has left; where none will answer: uninstall it there, then annotate the Machine with ${ANNOTATIONS.agentIsGone}`;
  return uncounted.length > 0
    ? `the machine is given back once its set has recorded the failure of ${uncounted.join(', ')}`
    : 'its agent has left, and its Node is given back';
}

function summary(view: MachineView, { ready, degraded: reasons, lost }: Findings): ConditionInput {
  const { machine, instance, facts } = view;
  if (isGivenBack(machine)) return condition('Ready', 'False', 'GivingBack', givingBackText(view));
  if (isDeleting(machine)) return condition('Ready', 'False', 'Deleting', 'the machine is being deleted');
  if (lost !== undefined) return condition('Ready', 'False', 'NodeLost', lost);
  if (reasons.length > 0) return condition('Ready', 'False', 'Degraded', reasons.join('; '));
  if (instance.state === 'Present' && instance.instance.state !== 'Running')
    return condition('Ready', 'False', 'InstanceNotRunning', `its instance is ${instance.instance.state}`);
  if (!facts.agentAnswers) return condition('Ready', 'Unknown', 'AgentStale', "the agent's Lease is not renewed");
  return ready ? condition('Ready', 'True', 'Ready') : condition('Ready', 'False', 'NodeNotReady', 'its Node is not ready');
}

/** A summary of the conditions for people; nothing decides by it. A node that once ran is Running until something else is found. */
function phaseOf(
  { machine, claim, instance }: MachineView,
  { ready, degraded: reasons, lost }: Findings,
): NonNullable<MachineStatus['phase']> {
  const { status } = machine;
  if (isDeleting(machine)) return 'Deleting';
  if (lost !== undefined) return 'NodeLost';
  if (reasons.length > 0) return 'Degraded';
  if (claim.state === 'Claimed' && (ready || wasReady(machine))) return 'Running';
  if (claim.state === 'Claimed' || status?.agent !== undefined) return 'Installing';
  return instance.state === 'Present' || instance.state === 'NoProvider' ? 'Provisioning' : 'Pending';
}

/** Writes it where it differs, and only what is ours. */
export async function report(client: Client, input: ReportInput, signal: AbortSignal): Promise<boolean> {
  const { machine } = input.view;
  const { namespace, name, uid } = machine.metadata;
  // The UID makes an apply for a machine that is gone fail, rather than report on its successor what is not true of it.
  const metadata = { name, ...(namespace === undefined ? {} : { namespace }), uid };
  const desired = { apiVersion: API_VERSION, kind: 'Machine', metadata, status: statusOf(input) };
  const options = { fieldManager: MANAGERS.machine, subresource: 'status', force: true, stored: machine, signal };
  return (await applyIfChanged(client, Machines, desired, options)).changed;
}
