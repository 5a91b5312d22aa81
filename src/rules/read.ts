/** The value of each fact of the catalogue, from a snapshot and the marks. */
import type { FactID, FactValue, PeerScope } from '../api/facts.ts';
import type { FactRef } from '../api/named-fact.ts';
import { own } from '../api/own.ts';
import { bandOf, timedCondition } from './index.ts';
import type { Marks } from './marks.ts';
import { NODE_INFO, type ConditionFacts, type Snapshot } from './snapshot.ts';
import type { Leaf } from './leaf.ts';

export interface Reading {
  /** undefined: it has none. */
  value: FactValue | undefined;
  /** False: no conclusion is allowed from it, but a rule may ask for the value `Unknown` by name. */
  known: boolean;
  /** Why it is not known, or a remark on it. */
  note: string;
  /** When it may be another by the mere passing of time, ms. */
  untilMs?: number | undefined;
}

interface Question {
  snapshot: Snapshot;
  marks: Marks;
  leaf: Leaf;
  /** Reference to the fact; for a hysteresis the inner fact is read with the leaf of the outer one. */
  ref: FactRef;
}

const known = (value: FactValue): Reading => ({ value, known: true, note: '' });
const unknown = (note: string, value?: FactValue): Reading => ({ value, known: false, note });

/** Takes note of the conditions that timed facts of these leaves are about; before any of them is read. */
export function notice(leaves: readonly Leaf[], snapshot: Snapshot, marks: Marks): void {
  for (const { ref } of leaves) {
    const type = timedCondition(ref);
    if (type !== undefined) marks.notice(type, snapshot.node?.conditions.get(type));
  }
}

export function readFact(leaf: Leaf, snapshot: Snapshot, marks: Marks): Reading {
  return READERS[leaf.ref.id]({ snapshot, marks, leaf, ref: leaf.ref });
}

/** The condition, or why it is not known. */
function conditionOf({ snapshot, ref }: Question): ConditionFacts | string {
  const [type = ''] = ref.subjects;
  if (snapshot.node === undefined) return snapshot.nodeMissing;
  return snapshot.node.conditions.get(type) ?? `Node ${snapshot.node.name} has no condition ${type}`;
}

function machineConditionOf({ snapshot, ref }: Question): ConditionFacts | string {
  const [type = ''] = ref.subjects;
  return snapshot.machineConditions.get(type) ?? `the Machine has no condition ${type}`;
}

function statusOf(condition: ConditionFacts | string): Reading {
  if (typeof condition === 'string') return unknown(condition);
  if (condition.status === 'Unknown') return unknown(condition.doubt ?? 'its detector does not know', 'Unknown');
  return { ...known(condition.status), note: condition.reason };
}

function reasonOf(condition: ConditionFacts | string): Reading {
  if (typeof condition === 'string') return unknown(condition);
  return condition.doubt === undefined ? known(condition.reason) : unknown(condition.doubt);
}

function ofNode(
  question: Question,
  read: (node: NonNullable<Snapshot['node']>) => FactValue | undefined,
  absent = 'it is not set',
): Reading {
  const { node } = question.snapshot;
  if (node === undefined) return unknown(question.snapshot.nodeMissing);
  return orDefault(read(node), question.leaf, absent);
}

/** A value that can be absent: its absence is known, and a rule may define the value for it. */
function orDefault(value: FactValue | undefined, { params }: Leaf, absent: string): Reading {
  if (value !== undefined) return known(value);
  const given = params['default'];
  return given === undefined ? unknown(absent) : { value: given, known: true, note: absent };
}

const nodeInfo = (fact: keyof typeof NODE_INFO) => (question: Question) =>
  ofNode(question, (node) => node.info[NODE_INFO[fact]] || undefined);

function agentDoubt({ agent }: Snapshot): string | undefined {
  return agent === 'Fresh' ? undefined : agent === 'Stale' ? "the agent's Lease is stale" : "the agent's Lease was never seen";
}

function componentOf(
  question: Question,
  read: (found: { version: string; state: string; driftRepairs?: number }) => FactValue | undefined,
): Reading {
  const [name = ''] = question.ref.subjects;
  const doubt = agentDoubt(question.snapshot);
  if (doubt !== undefined) return unknown(doubt);
  const found = question.snapshot.machine.status?.components?.find((each) => each.name === name);
  if (found === undefined) return unknown(`the agent has not reported ${name}`);
  const value = read(found);
  return value === undefined ? unknown(`no version of ${name} runs`) : known(value);
}

const wantedOf = ({ snapshot, ref }: Question) => snapshot.machine.spec.components?.find((each) => each.name === ref.subjects[0]);

function peersOf({ snapshot, ref }: Question, read: (counts: NonNullable<Snapshot['peers'][PeerScope]>) => number | undefined): Reading {
  const [scope = ''] = ref.subjects;
  const counts = snapshot.peers[scope as PeerScope];
  if (counts === undefined) return unknown(`its ${scope} is not known`);
  const value = read(counts);
  return value === undefined ? unknown(`it is alone in its ${scope}`) : known(value);
}

function heartbeat(state: 'Fresh' | 'Stale' | undefined, whose: string): Reading {
  return state === undefined ? unknown(`the Lease of the ${whose} was never seen`) : known(state);
}

const READERS: Readonly<Record<FactID, (question: Question) => Reading>> = {
  'condition.status': (question) => statusOf(conditionOf(question)),
  'condition.reason': (question) => reasonOf(conditionOf(question)),
  'condition.health': (question) => {
    const condition = conditionOf(question);
    if (typeof condition === 'string') return unknown(condition);
    if (condition.health === 'Unknown') return unknown(condition.doubt ?? 'its detector does not know', 'Unknown');
    return { ...known(condition.health), note: `${condition.status}, ${condition.reason}` };
  },
  'condition.ageSeconds': (question) => {
    const { marks, snapshot, leaf, ref } = question;
    const sinceMs = marks.badSinceMs(ref.subjects[0] ?? '');
    const condition = conditionOf(question);
    if (typeof condition === 'string') return unknown(condition);
    if (sinceMs === undefined) return unknown('it is not unhealthy');
    const reading = known(Math.floor((snapshot.atMs - sinceMs) / 1000));
    // The number it is compared with, and the next one, are where an answer can change.
    const borders = [leaf.value, leaf.params['enter'], leaf.params['leave']].flat().map(Number);
    const next = borders.flatMap((each) => [each, each + 1]).map((each) => sinceMs + each * 1000);
    const untilMs = Math.min(...next.filter((each) => each > snapshot.atMs));
    return Number.isFinite(untilMs) ? { ...reading, untilMs } : reading;
  },
  'condition.rises': (question) => {
    const { marks, leaf, ref } = question;
    const condition = conditionOf(question);
    if (typeof condition === 'string') return unknown(condition);
    if (condition.status === 'Unknown') return unknown(condition.doubt ?? 'its detector does not know');
    const windowMs = Number(leaf.params['windowSeconds']) * 1000;
    const rises = marks.rises(ref.subjects[0] ?? '', windowMs);
    const [oldest] = rises;
    return { ...known(rises.length), untilMs: oldest === undefined ? undefined : oldest + windowMs + 1 };
  },
  'node.label': (question) => ofNode(question, (node) => own(node.labels, question.ref.subjects[0] ?? ''), 'it has no such label'),
  'node.annotation': (question) =>
    ofNode(question, (node) => own(node.annotations, question.ref.subjects[0] ?? ''), 'it has no such annotation'),
  'node.unschedulable': (question) => ofNode(question, (node) => node.unschedulable),
  'node.cordon': (question) => ofNode(question, (node) => node.cordon),
  'node.taints': (question) => ofNode(question, (node) => node.taints),
  'node.kernel': nodeInfo('kernel'),
  'node.architecture': nodeInfo('architecture'),
  'node.osImage': nodeInfo('osImage'),
  'node.kubelet': nodeInfo('kubelet'),
  'node.runtime': nodeInfo('runtime'),
  'machine.phase': ({ snapshot }) => {
    const phase = snapshot.machine.status?.phase;
    return phase === undefined ? unknown('it has no phase yet') : known(phase);
  },
  'machine.condition.status': (question) => statusOf(machineConditionOf(question)),
  'machine.condition.reason': (question) => reasonOf(machineConditionOf(question)),
  'machine.label': ({ snapshot, ref, leaf }) =>
    orDefault(own(snapshot.machine.metadata.labels, ref.subjects[0] ?? ''), leaf, 'it has no such label'),
  'machine.name': ({ snapshot }) => known(snapshot.machine.metadata.name),
  'machine.pool': ({ snapshot }) => known(snapshot.machine.metadata.namespace ?? ''),
  'machine.provider': ({ snapshot, leaf }) => orDefault(snapshot.machine.spec.provider?.name, leaf, 'no provider made it'),
  'machine.failureDomain': ({ snapshot, leaf }) => orDefault(snapshot.machine.spec.failureDomain, leaf, 'it is not set'),
  'component.version': (question) => componentOf(question, (found) => found.version || undefined),
  'component.state': (question) => componentOf(question, (found) => found.state),
  'component.driftRepairs': (question) => componentOf(question, (found) => found.driftRepairs ?? 0),
  'component.wanted': (question) => {
    const wanted = wantedOf(question);
    return orDefault(wanted?.action === 'Install' ? wanted.version : undefined, question.leaf, 'no set wants it here');
  },
  'component.upToDate': (question) => {
    const wanted = wantedOf(question);
    if (wanted === undefined) return unknown('no set wants it here');
    return componentOf(question, (found) => (wanted.action === 'Remove' ? found.version === '' : found.version === wanted.version));
  },
  'heartbeat.kubelet': ({ snapshot }) => heartbeat(snapshot.kubelet, 'kubelet'),
  'heartbeat.agent': ({ snapshot }) => heartbeat(snapshot.agent, 'agent'),
  'peers.total': (question) => peersOf(question, ({ total }) => total),
  'peers.unhealthy': (question) => peersOf(question, ({ unhealthy }) => unhealthy),
  'peers.unhealthyPercent': (question) =>
    peersOf(question, ({ total, unhealthy }) => (total === 0 ? undefined : Math.floor((unhealthy * 100) / total))),
  'peers.condition': (question) => peersOf(question, ({ byCondition }) => byCondition.get(question.ref.subjects[1] ?? '') ?? 0),
  hysteresis: (question) => {
    const { leaf, marks, ref } = question;
    if (ref.inner === undefined) return unknown('it is about nothing');
    const inner = READERS[ref.inner.id]({ ...question, ref: ref.inner });
    if (typeof inner.value !== 'number') return unknown(inner.note);
    const high = marks.band(bandOf(leaf), inner.value, Number(leaf.params['enter']), Number(leaf.params['leave']));
    return { ...known(high), note: `${ref.inner.name} is ${inner.value}`, untilMs: inner.untilMs };
  },
};
