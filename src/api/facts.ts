/**
 * The fact catalogue: everything a remedy rule may read, by dotted name. One table names for each fact its type, where it comes from, and
 * when it is not known; the check of rules, their evaluation and their explanation go by it.
 *
 * Guarantees: a fact that is not known has no value. `Unknown` as a value of a condition is what a rule can ask for by name (a stale
 * heartbeat, or a detector that reports so), and no other value ever matches it.
 */
import { COMPONENT_STATES, PHASES } from './machine/values.ts';
import { HEALTHS } from './node-condition.ts';

export type FactType = 'string' | 'number' | 'boolean' | 'list';
export type FactValue = string | number | boolean | readonly string[];

export interface FactDefinition {
  readonly id: string;
  /** `<Type>` stands for a part that the rule names. */
  readonly pattern: string;
  readonly type: FactType;
  /** All values it can have, where they are few. */
  readonly values?: readonly string[];
  /**
   * `Never`: it always has a value. `Absent`: it can be absent, which is knowledge too, so a rule may give it a default. `Unknown`: when it
   * has no value its state is not known, and no rule may conclude anything from that.
   */
  readonly missing: 'Never' | 'Absent' | 'Unknown';
  /** When it is missing, for people. */
  readonly missingWhen: string;
  readonly source: string;
  /** Parameters a rule must give. */
  readonly params?: readonly ('windowSeconds' | 'enter' | 'leave')[];
}

export const CONDITION_STATUSES = ['True', 'False', 'Unknown'] as const;
export const PEER_SCOPES = ['rack', 'zone', 'pool', 'cluster'] as const;
export type PeerScope = (typeof PEER_SCOPES)[number];
/** At most so many rises of one condition are remembered. */
export const MAX_RISES = 10;

const NO_NODE = 'the machine has not claimed its Node';
const NO_CONDITION = 'the Node has no such condition; Unknown when its heartbeat is stale';
const AGENT_STALE = "the agent's Lease is stale, or the agent has not reported it";
const NODE_INFO = 'Node.status.nodeInfo';

const fact = <const T extends FactDefinition>(definition: T): T => definition;

export const FACTS = [
  fact({
    id: 'condition.status',
    pattern: 'condition.<Type>.status',
    type: 'string',
    values: CONDITION_STATUSES,
    missing: 'Unknown',
    missingWhen: NO_CONDITION,
    source: 'Node.status.conditions',
  }),
  fact({
    id: 'condition.reason',
    pattern: 'condition.<Type>.reason',
    type: 'string',
    missing: 'Unknown',
    missingWhen: `${NO_CONDITION}, and then it has no reason`,
    source: 'Node.status.conditions',
  }),
  fact({
    id: 'condition.health',
    pattern: 'condition.<Type>.health',
    type: 'string',
    values: HEALTHS,
    missing: 'Unknown',
    missingWhen: NO_CONDITION,
    source: "Node.status.conditions, with the condition's polarity: KernelReady is bad when False, KernelDeadlock when True",
  }),
  fact({
    id: 'condition.ageSeconds',
    pattern: 'condition.<Type>.ageSeconds',
    type: 'number',
    missing: 'Unknown',
    missingWhen: 'the condition is not unhealthy now',
    source: "since the controller first saw it unhealthy, not by the detector's own time",
  }),
  fact({
    id: 'condition.rises',
    pattern: 'condition.<Type>.rises',
    type: 'number',
    missing: 'Unknown',
    missingWhen: NO_CONDITION,
    source: `how often the controller saw it become unhealthy in the last windowSeconds, at most ${MAX_RISES}`,
    params: ['windowSeconds'],
  }),
  fact({
    id: 'node.label',
    pattern: 'node.label.<key>',
    type: 'string',
    missing: 'Absent',
    missingWhen: 'the Node has no such label',
    source: 'Node.metadata.labels',
  }),
  fact({
    id: 'node.annotation',
    pattern: 'node.annotation.<key>',
    type: 'string',
    missing: 'Absent',
    missingWhen: 'the Node has no such annotation',
    source: 'Node.metadata.annotations',
  }),
  fact({
    id: 'node.unschedulable',
    pattern: 'node.unschedulable',
    type: 'boolean',
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: 'Node.spec.unschedulable',
  }),
  fact({
    id: 'node.cordon',
    pattern: 'node.cordon',
    type: 'string',
    values: ['None', 'Ours', 'Foreign'],
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: 'Node.spec.unschedulable and our owner annotation',
  }),
  fact({
    id: 'node.taints',
    pattern: 'node.taints',
    type: 'list',
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: 'keys of Node.spec.taints',
  }),
  fact({
    id: 'node.kernel',
    pattern: 'node.kernel',
    type: 'string',
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: `${NODE_INFO}.kernelVersion`,
  }),
  fact({
    id: 'node.architecture',
    pattern: 'node.architecture',
    type: 'string',
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: `${NODE_INFO}.architecture`,
  }),
  fact({
    id: 'node.osImage',
    pattern: 'node.osImage',
    type: 'string',
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: `${NODE_INFO}.osImage`,
  }),
  fact({
    id: 'node.kubelet',
    pattern: 'node.kubelet',
    type: 'string',
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: `${NODE_INFO}.kubeletVersion`,
  }),
  fact({
    id: 'node.runtime',
    pattern: 'node.runtime',
    type: 'string',
    missing: 'Unknown',
    missingWhen: NO_NODE,
    source: `${NODE_INFO}.containerRuntimeVersion`,
  }),
  fact({
    id: 'machine.phase',
    pattern: 'machine.phase',
    type: 'string',
    values: PHASES,
    missing: 'Unknown',
    missingWhen: 'no controller has set it yet',
    source: 'Machine.status.phase',
  }),
  fact({
    id: 'machine.condition.status',
    pattern: 'machine.condition.<Type>.status',
    type: 'string',
    values: CONDITION_STATUSES,
    missing: 'Unknown',
    missingWhen: `the Machine has no such condition; Unknown when ${AGENT_STALE}`,
    source: 'Machine.status.conditions',
  }),
  fact({
    id: 'machine.condition.reason',
    pattern: 'machine.condition.<Type>.reason',
    type: 'string',
    missing: 'Unknown',
    missingWhen: `the Machine has no such condition, or ${AGENT_STALE}`,
    source: 'Machine.status.conditions',
  }),
  fact({
    id: 'machine.label',
    pattern: 'machine.label.<key>',
    type: 'string',
    missing: 'Absent',
    missingWhen: 'the Machine has no such label',
    source: 'Machine.metadata.labels',
  }),
  fact({
    id: 'machine.name',
    pattern: 'machine.name',
    type: 'string',
    missing: 'Never',
    missingWhen: 'never',
    source: 'Machine.metadata.name',
  }),
  fact({
    id: 'machine.pool',
    pattern: 'machine.pool',
    type: 'string',
    missing: 'Never',
    missingWhen: 'never',
    source: 'Machine.metadata.namespace',
  }),
  fact({
    id: 'machine.provider',
    pattern: 'machine.provider',
    type: 'string',
    missing: 'Absent',
    missingWhen: 'no provider made it',
    source: 'Machine.spec.provider.name',
  }),
  fact({
    id: 'machine.failureDomain',
    pattern: 'machine.failureDomain',
    type: 'string',
    missing: 'Absent',
    missingWhen: 'it is not set',
    source: 'Machine.spec.failureDomain',
  }),
  fact({
    id: 'component.version',
    pattern: 'component.<name>.version',
    type: 'string',
    missing: 'Unknown',
    missingWhen: `no version of it runs, or ${AGENT_STALE}`,
    source: 'Machine.status.components',
  }),
  fact({
    id: 'component.state',
    pattern: 'component.<name>.state',
    type: 'string',
    values: COMPONENT_STATES,
    missing: 'Unknown',
    missingWhen: AGENT_STALE,
    source: 'Machine.status.components',
  }),
  fact({
    id: 'component.driftRepairs',
    pattern: 'component.<name>.driftRepairs',
    type: 'number',
    missing: 'Unknown',
    missingWhen: AGENT_STALE,
    source: 'Machine.status.components',
  }),
  fact({
    id: 'component.wanted',
    pattern: 'component.<name>.wanted',
    type: 'string',
    missing: 'Absent',
    missingWhen: 'no set wants it here',
    source: 'Machine.spec.components',
  }),
  fact({
    id: 'component.upToDate',
    pattern: 'component.<name>.upToDate',
    type: 'boolean',
    missing: 'Unknown',
    missingWhen: `no set wants it here, or ${AGENT_STALE}`,
    source: 'Machine.spec.components against Machine.status.components',
  }),
  fact({
    id: 'heartbeat.kubelet',
    pattern: 'heartbeat.kubelet',
    type: 'string',
    values: ['Fresh', 'Stale'],
    missing: 'Unknown',
    missingWhen: "the kubelet's Lease was never seen",
    source: 'the Lease of the Node',
  }),
  fact({
    id: 'heartbeat.agent',
    pattern: 'heartbeat.agent',
    type: 'string',
    values: ['Fresh', 'Stale'],
    missing: 'Unknown',
    missingWhen: "the agent's Lease was never seen",
    source: "the agent's Lease",
  }),
  fact({
    id: 'peers.total',
    pattern: 'peers.<scope>.total',
    type: 'number',
    missing: 'Unknown',
    missingWhen: 'the Node has no label that names its rack or zone',
    source: 'other machines of the same rack, zone, pool or cluster',
  }),
  fact({
    id: 'peers.unhealthy',
    pattern: 'peers.<scope>.unhealthy',
    type: 'number',
    missing: 'Unknown',
    missingWhen: 'the Node has no label that names its rack or zone',
    source: 'the ones whose Node is gone, unhealthy, not responding or under repair',
  }),
  fact({
    id: 'peers.unhealthyPercent',
    pattern: 'peers.<scope>.unhealthyPercent',
    type: 'number',
    missing: 'Unknown',
    missingWhen: 'the Node has no label that names its rack or zone, or there are no others',
    source: 'share of them, from 0 to 100',
  }),
  fact({
    id: 'peers.condition',
    pattern: 'peers.<scope>.condition.<Type>',
    type: 'number',
    missing: 'Unknown',
    missingWhen: 'the Node has no label that names its rack or zone',
    source: 'the ones on which this condition is unhealthy',
  }),
  fact({
    id: 'hysteresis',
    pattern: 'hysteresis.<fact>',
    type: 'boolean',
    missing: 'Unknown',
    missingWhen: 'the number it is about is not known',
    source: 'true from when the number reached `enter` until it is at `leave` or below',
    params: ['enter', 'leave'],
  }),
] as const satisfies readonly FactDefinition[];

export type FactID = (typeof FACTS)[number]['id'];
