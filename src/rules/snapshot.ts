/** Everything that rules may know of one machine at one moment, as a plain value, and what differs between two of them. */
import type { Node } from '../api/builtin.ts';
import type { PeerScope } from '../api/facts.ts';
import { healthOf, KUBELET_CONDITIONS, type Health } from '../api/node-condition.ts';
import type { Machine } from '../api/machine.ts';
import { ANNOTATIONS } from '../api/names.ts';
import { STALE_AFTER_MS, type Heartbeats } from './heartbeats.ts';

export type ConditionStatus = 'True' | 'False' | 'Unknown';

export interface ConditionFacts {
  status: ConditionStatus;
  reason: string;
  /** The detector's own time: it distinguishes one transition from another, and never shows how long ago. */
  transition: string;
  heartbeat: string;
  health: Health;
  /** Why it is Unknown though the detector once reported otherwise. */
  doubt: string | undefined;
}

export interface NodeFacts {
  uid: string;
  name: string;
  conditions: ReadonlyMap<string, ConditionFacts>;
  labels: Readonly<Record<string, string>>;
  annotations: Readonly<Record<string, string>>;
  unschedulable: boolean;
  cordon: 'None' | 'Ours' | 'Foreign';
  taints: readonly string[];
  info: Readonly<Record<string, string>>;
}

export interface PeerCounts {
  total: number;
  unhealthy: number;
  byCondition: ReadonlyMap<string, number>;
}
/** Others in the scopes that are known. */
export type PeerFacts = Readonly<Partial<Record<PeerScope, PeerCounts>>>;

/** How operations stop clocks (docs/protocols.md#f2). */
export interface ClockPause {
  /**
   * A Change or Repair reservation exists for the machine: clocks stop and no rule is due. A reservation that a job left behind which has ended does not
   * count: only a provider can take it over, and that needs the next rung.
   */
  paused: boolean;
  /** When the last such reservation, or such a job, ended: first-seen starts again from then. */
  releasedAtMs: number | undefined;
}

export interface Snapshot {
  atMs: number;
  machine: Machine;
  node: NodeFacts | undefined;
  /** Why there is none. */
  nodeMissing: string;
  machineConditions: ReadonlyMap<string, ConditionFacts>;
  /** undefined: its Lease was never seen. */
  kubelet: 'Fresh' | 'Stale' | undefined;
  agent: 'Fresh' | 'Stale' | undefined;
  peers: PeerFacts;
  pause: ClockPause;
  /** When the next of its heartbeats goes stale if none comes, ms. */
  staleAtMs: number | undefined;
}

export interface SnapshotInput {
  nowMs: number;
  machine: Machine;
  /** The Node of its name, whosever it is. */
  node: Node | undefined;
  heartbeats: Heartbeats | undefined;
  /** Until when the last renewal of each Lease counts, ms by our clock; undefined: never seen. */
  kubeletFreshUntilMs: number | undefined;
  agentFreshUntilMs: number | undefined;
  peers: PeerFacts;
  pause: ClockPause;
}

export function takeSnapshot(input: SnapshotInput): Snapshot {
  const { nowMs, machine, node } = input;
  const stale: number[] = [];
  const lease = (untilMs: number | undefined) => {
    if (untilMs === undefined) return undefined;
    if (nowMs > untilMs) return 'Stale' as const;
    stale.push(untilMs + 1);
    return 'Fresh' as const;
  };
  const kubelet = lease(input.kubeletFreshUntilMs);
  const agent = lease(input.agentFreshUntilMs);
  const ref = machine.status?.nodeRef;
  const claimed = ref !== undefined && node?.metadata.uid === ref.uid ? node : undefined;
  const nodeFacts = claimed === undefined ? undefined : factsOfNode(claimed, input.heartbeats, kubelet, nowMs, stale);
  return {
    atMs: nowMs,
    machine,
    node: nodeFacts,
    nodeMissing: nodeFacts !== undefined ? '' : missingNode(ref, node),
    machineConditions: new Map(
      (machine.status?.conditions ?? []).map((each) => [
        each.type,
        resolve(
          { status: each.status, reason: each.reason, transition: each.lastTransitionTime, heartbeat: '' },
          healthOf(each.type, each.status),
          agent === 'Fresh' ? undefined : "the agent's Lease is not fresh",
        ),
      ]),
    ),
    kubelet,
    agent,
    peers: input.peers,
    pause: input.pause,
    staleAtMs: stale.length === 0 ? undefined : Math.min(...stale),
  };
}

function missingNode(ref: { name: string; uid: string } | undefined, node: Node | undefined): string {
  if (ref === undefined) return 'the machine has claimed no Node';
  if (node === undefined) return `Node ${ref.name} is gone`;
  return `Node ${ref.name} is another one now (UID ${node.metadata.uid}): it was replaced under the same name`;
}

function resolve(read: Omit<ConditionFacts, 'health' | 'doubt'>, health: Health, doubt: string | undefined): ConditionFacts {
  return doubt === undefined ? { ...read, health, doubt } : { ...read, status: 'Unknown', health: 'Unknown', doubt };
}

function factsOfNode(
  node: Node,
  heartbeats: Heartbeats | undefined,
  kubelet: Snapshot['kubelet'],
  nowMs: number,
  stale: number[],
): NodeFacts {
  const uid = node.metadata.uid ?? '';
  const known = heartbeats?.nodeUID === uid ? heartbeats.byType : undefined;
  const annotations = node.metadata.annotations ?? {};
  const unschedulable = node.spec?.unschedulable === true;
  return {
    uid,
    name: node.metadata.name,
    conditions: new Map(
      (node.status?.conditions ?? []).map((each) => {
        const doubt = doubtOf(each.type, each.lastHeartbeatTime);
        const read = {
          status: each.status,
          reason: each.reason ?? '',
          transition: each.lastTransitionTime ?? '',
          heartbeat: each.lastHeartbeatTime ?? '',
        };
        return [each.type, resolve(read, healthOf(each.type, each.status), doubt)];
      }),
    ),
    labels: node.metadata.labels ?? {},
    annotations,
    unschedulable,
    cordon: !unschedulable ? 'None' : annotations[ANNOTATIONS.cordonOwner] === undefined ? 'Foreign' : 'Ours',
    taints: (node.spec?.taints ?? []).map((taint) => taint.key),
    info: node.status?.nodeInfo ?? {},
  };

  function doubtOf(type: string, claimed: string | undefined): string | undefined {
    if (claimed === undefined) return 'it has no heartbeat';
    if (kubelet === 'Stale' && KUBELET_CONDITIONS.has(type)) return "the kubelet's Lease is stale";
    const heartbeat = known?.get(type);
    if (heartbeat === undefined || heartbeat.aliveMs === Number.NEGATIVE_INFINITY)
      return `its heartbeat ${claimed} proves nothing until it changes`;
    const untilMs = heartbeat.aliveMs + STALE_AFTER_MS;
    if (nowMs > untilMs) return `its heartbeat is ${Math.floor((nowMs - heartbeat.aliveMs) / 1000)} s old`;
    stale.push(untilMs + 1);
    return undefined;
  }
}

/**
 * What rules read (`FactRef.reads`) and what is another than before. Heartbeats are not among it, as long as they come. `undefined`: everything.
 */
export function changes(before: Snapshot | undefined, after: Snapshot): ReadonlySet<string> | undefined {
  if (before === undefined || before.node?.uid !== after.node?.uid || before.machine.metadata.uid !== after.machine.metadata.uid)
    return undefined;
  // Clocks start again when an operation ends, also the clocks of rules whose facts have not changed.
  if (before.pause.paused !== after.pause.paused || before.pause.releasedAtMs !== after.pause.releasedAtMs) return undefined;
  const changed = new Set<string>();
  if (before.machine !== after.machine || before.agent !== after.agent) changedMachine(before, after, changed);
  changedConditions(before.machineConditions, after.machineConditions, 'machine.condition', changed);
  if (before.node !== undefined && after.node !== undefined) changedNode(before.node, after.node, changed);
  if (before.kubelet !== after.kubelet) changed.add('heartbeat.kubelet');
  if (before.agent !== after.agent) changed.add('heartbeat.agent');
  for (const scope of new Set([...Object.keys(before.peers), ...Object.keys(after.peers)]) as Set<PeerScope>)
    if (!samePeers(before.peers[scope], after.peers[scope])) changed.add(`peers.${scope}`);
  return changed;
}

function changedConditions(
  before: ReadonlyMap<string, ConditionFacts>,
  after: ReadonlyMap<string, ConditionFacts>,
  prefix: string,
  changed: Set<string>,
): void {
  for (const [type, now] of after) {
    const old = before.get(type);
    if (old === undefined || old.status !== now.status || old.reason !== now.reason || old.transition !== now.transition)
      changed.add(`${prefix}.${type}`);
  }
  for (const type of before.keys()) if (!after.has(type)) changed.add(`${prefix}.${type}`);
}

function changedStrings(
  before: Readonly<Record<string, string>> | undefined,
  after: Readonly<Record<string, string>> | undefined,
  prefix: string,
  changed: Set<string>,
): void {
  if (before === after) return;
  for (const key of Object.keys({ ...before, ...after })) if (before?.[key] !== after?.[key]) changed.add(`${prefix}.${key}`);
}

function changedNode(before: NodeFacts, after: NodeFacts, changed: Set<string>): void {
  changedConditions(before.conditions, after.conditions, 'condition', changed);
  changedStrings(before.labels, after.labels, 'node.label', changed);
  changedStrings(before.annotations, after.annotations, 'node.annotation', changed);
  if (before.unschedulable !== after.unschedulable) changed.add('node.unschedulable');
  if (before.cordon !== after.cordon) changed.add('node.cordon');
  if (before.taints.join(' ') !== after.taints.join(' ')) changed.add('node.taints');
  for (const [fact, field] of Object.entries(NODE_INFO)) if (before.info[field] !== after.info[field]) changed.add(`node.${fact}`);
}

/** Facts under `node.` and the fields of nodeInfo they come from. */
export const NODE_INFO = {
  kernel: 'kernelVersion',
  architecture: 'architecture',
  osImage: 'osImage',
  kubelet: 'kubeletVersion',
  runtime: 'containerRuntimeVersion',
} as const;

function changedMachine(before: Snapshot, after: Snapshot, changed: Set<string>): void {
  const [a, b] = [before.machine, after.machine];
  if (a.status?.phase !== b.status?.phase) changed.add('machine.phase');
  if (a.spec.provider?.name !== b.spec.provider?.name) changed.add('machine.provider');
  if (a.spec.failureDomain !== b.spec.failureDomain) changed.add('machine.failureDomain');
  changedStrings(a.metadata.labels, b.metadata.labels, 'machine.label', changed);
  if (a.spec.components === b.spec.components && a.status?.components === b.status?.components && before.agent === after.agent) return;
  const names = [a, b].flatMap((each) => [...(each.spec.components ?? []), ...(each.status?.components ?? [])]).map(({ name }) => name);
  for (const name of new Set(names)) {
    const [old, now] = [a, b].map((each) => {
      const wanted = each.spec.components?.find((entry) => entry.name === name);
      const found = each.status?.components?.find((entry) => entry.name === name);
      return `${wanted?.action} ${wanted?.version} ${found?.version} ${found?.state} ${found?.driftRepairs}`;
    });
    if (old !== now || before.agent !== after.agent) changed.add(`component.${name}`);
  }
}

function samePeers(a: PeerCounts | undefined, b: PeerCounts | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined || a.total !== b.total || a.unhealthy !== b.unhealthy) return false;
  if (a.byCondition.size !== b.byCondition.size) return false;
  return [...a.byCondition].every(([type, count]) => b.byCondition.get(type) === count);
}
