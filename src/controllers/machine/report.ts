import { canonical } from '../../api/digest.ts';
import { Machines, type MachineStatus } from '../../api/machine.ts';
import { API_VERSION } from '../../api/kind.ts';
import { MANAGERS } from '../../api/names.ts';
import type { Condition } from '../../api/wire.ts';
import { applyIfChanged } from '../../kube/apply.ts';
import type { Client } from '../../kube/client.ts';
import { setConditions, type ConditionInput } from '../../kube/conditions.ts';
import type { Verdict } from '../../defender/request.ts';
import { isDeleting } from './ask.ts';
import { isNodeReady } from './availability.ts';
import { degradedBy } from './components.ts';
import type { Decision, MachineView } from './decide.ts';

/** Conditions that this controller writes; the others on the object are the agent's and the set controller's. */
const OURS = ['InfrastructureReady', 'NodeReady', 'Drained', 'Degraded', 'Ready'] as const;

export interface ReportInput {
  view: MachineView;
  decision: Decision;
  verdict: Verdict | undefined;
  /** When the last operation here ended, if this run saw it. */
  disruptedAt: string | undefined;
}

type Own = Pick<
  MachineStatus,
  'phase' | 'providerID' | 'nodeRef' | 'addresses' | 'lastDisruption' | 'verdict' | 'observedGeneration' | 'conditions'
>;

/** The part of the Machine's status that this controller owns, from what was observed. Pure. */
export function statusOf({ view, decision, verdict, disruptedAt }: ReportInput): Own {
  const { machine, claim, instance, kubeletAnswers } = view;
  const { status } = machine;
  const { generation } = machine.metadata;
  const node = claim.state === 'Claimed' ? claim.node : undefined;
  const ready = node !== undefined && isNodeReady(node, kubeletAnswers);
  const degraded = degradedBy(machine);
  const lost = claim.state === 'Lost' || (instance.state === 'Absent' && status?.providerID !== undefined);
  const providerID = view.providerID;
  const lastDisruption = disruptedAt ?? status?.lastDisruption;
  const conditions: ConditionInput[] = [
    infrastructure(view),
    nodeReady(view, ready),
    degraded.length === 0
      ? condition('Degraded', 'False', 'NotDegraded', '')
      : condition('Degraded', 'True', 'ComponentFailed', degraded.join('; ')),
    summary(view, ready, degraded, lost),
  ];
  if (view.pods !== undefined) {
    const left = view.pods.length;
    conditions.push(
      left === 0
        ? condition('Drained', 'True', 'Drained', '')
        : condition('Drained', 'False', 'Draining', decision.waits?.why ?? `${left} pods are left`),
    );
  }
  const before = (status?.conditions ?? []).filter(
    (each) => OURS.some((type) => type === each.type) && (each.type !== 'Drained' || view.pods !== undefined),
  );
  return {
    phase: phaseOf(view, ready, degraded.length > 0, lost),
    ...(providerID === undefined ? {} : { providerID }),
    ...(node === undefined
      ? status?.nodeRef === undefined
        ? {}
        : { nodeRef: status.nodeRef }
      : { nodeRef: { name: node.metadata.name, uid: node.metadata.uid } }),
    ...(instance.state === 'Present' && instance.instance.addresses.length > 0
      ? { addresses: instance.instance.addresses }
      : status?.addresses === undefined
        ? {}
        : { addresses: status.addresses }),
    ...(lastDisruption === undefined ? {} : { lastDisruption }),
    ...(verdict === undefined ? {} : { verdict }),
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    conditions: setConditions(
      before,
      conditions.map((each) => ({ ...each, ...(generation === undefined ? {} : { observedGeneration: generation }) })),
      view.nowMs,
    ),
  };
}

function condition(type: Condition['type'], status: Condition['status'], reason: string, message: string): ConditionInput {
  return { type, status, reason, message };
}

function infrastructure({ instance, machine }: MachineView): ConditionInput {
  switch (instance.state) {
    case 'NoProvider':
      return condition('InfrastructureReady', 'Unknown', 'NoProvider', 'the machine names no provider');
    case 'Unknown':
      return condition('InfrastructureReady', 'Unknown', instance.reason, instance.message);
    case 'Absent':
      return machine.status?.providerID === undefined
        ? condition('InfrastructureReady', 'False', 'NotMade', 'the instance is not made yet')
        : condition('InfrastructureReady', 'False', 'Gone', 'the instance is gone; it is never made again under this Machine');
    case 'Present':
      return condition('InfrastructureReady', instance.instance.state === 'Running' ? 'True' : 'False', instance.instance.state, '');
  }
}

function nodeReady({ claim, kubeletAnswers }: MachineView, ready: boolean): ConditionInput {
  if (claim.state === 'None') return condition('NodeReady', 'False', 'NoNode', 'no Node has registered for this machine yet');
  if (claim.state === 'Lost') return condition('NodeReady', 'False', 'NodeLost', claim.message);
  if (claim.state === 'Foreign') return condition('NodeReady', 'False', 'ForeignNode', claim.message);
  if (ready) return condition('NodeReady', 'True', 'NodeReady', '');
  return kubeletAnswers
    ? condition('NodeReady', 'False', 'NodeNotReady', 'the Node does not say Ready=True')
    : condition('NodeReady', 'Unknown', 'KubeletSilent', "the kubelet's Lease is not renewed");
}

function summary(view: MachineView, ready: boolean, degraded: string[], lost: boolean): ConditionInput {
  if (isDeleting(view.machine)) return condition('Ready', 'False', 'Deleting', 'the machine is being deleted');
  if (lost) return condition('Ready', 'False', 'NodeLost', 'what this machine had is gone');
  if (degraded.length > 0) return condition('Ready', 'False', 'Degraded', degraded.join('; '));
  if (!view.facts.agentAnswers) return condition('Ready', 'Unknown', 'AgentSilent', "the agent's Lease is not renewed");
  return ready ? condition('Ready', 'True', 'Ready', '') : condition('Ready', 'False', 'NodeNotReady', 'its Node is not ready');
}

/** A summary of the conditions for people; nothing decides by it. */
function phaseOf(
  { machine, claim, instance }: MachineView,
  ready: boolean,
  degraded: boolean,
  lost: boolean,
): NonNullable<MachineStatus['phase']> {
  if (isDeleting(machine)) return 'Deleting';
  if (lost) return 'NodeLost';
  if (degraded) return 'Degraded';
  if (claim.state === 'Claimed' && (ready || machine.status?.phase === 'Running')) return 'Running';
  if (claim.state === 'Claimed' || machine.status?.agent !== undefined) return 'Installing';
  return instance.state === 'Present' || instance.state === 'NoProvider' ? 'Provisioning' : 'Pending';
}

/** Writes it where it differs, and only what is ours. */
export async function report(client: Client, input: ReportInput, signal: AbortSignal): Promise<void> {
  const { machine } = input.view;
  const status = statusOf(input);
  const owned = Object.fromEntries(Object.entries(status).map(([key]) => [key, machine.status?.[key as keyof Own]]));
  const ours = (machine.status?.conditions ?? []).filter((each) => OURS.some((type) => type === each.type));
  const gone = machine.status?.verdict !== undefined && status.verdict === undefined;
  if (!gone && canonical({ ...owned, conditions: sorted(ours) }) === canonical({ ...status, conditions: sorted(status.conditions ?? []) }))
    return;
  const { namespace, name, uid } = machine.metadata;
  // The UID makes an apply for a machine that is gone fail, rather than make another one.
  const desired = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), uid },
    status,
  };
  await applyIfChanged(client, Machines, desired, {
    fieldManager: MANAGERS.machine,
    subresource: 'status',
    force: true,
    stored: machine,
    signal,
  });
}

const sorted = (conditions: readonly Condition[]): Condition[] => conditions.toSorted((a, b) => (a.type < b.type ? -1 : 1));
