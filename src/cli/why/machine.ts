/**
 * Why a node is repaired or not. The rules are evaluated here once more, by the code that runs in the cell, over what its API server reports
 * now; for what only the controller knows, its notes on the Machine (`status.observations`) are taken, and the rest is named.
 */
import { Leases, Nodes, type Lease, type Node } from '../../api/builtin.ts';
import { canonical } from '../../api/digest.ts';
import { DisruptionLedgers, LEDGER_NAME, type LedgerReservation } from '../../api/disruption-ledger.ts';
import { Freezes, type Freeze } from '../../api/freeze.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { KUBELET_LEASES, MACHINE_CONDITIONS } from '../../api/names.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import { isFinished, RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { operationState } from '../../api/machine/operation-end.ts';
import { isPaused, releasedAt } from '../../controllers/remedy/clock-pauses.ts';
import { openRulebook } from '../../controllers/remedy/rulebook.ts';
import { frozenBy } from '../../defender/freeze.ts';
import type { Client } from '../../kube/client.ts';
import { agentLease, claimedAliveUntilMs, kubeletLease } from '../../kube/liveness.ts';
import { explain, type Explanation } from '../../rules/explain.ts';
import { observeHeartbeats } from '../../rules/heartbeats.ts';
import { appliesTo } from '../../rules/index.ts';
import { ownerUID } from '../../rules/job.ts';
import { nextRung, replacementsBefore, type LadderStep } from '../../rules/ladder.ts';
import { validationErrorText } from '../../rules/validation-error.ts';
import { runPass } from '../../rules/pass.ts';
import { PeerIndex, peerOf } from '../../rules/peers.ts';
import { takeSnapshot, type PeerFacts, type Snapshot } from '../../rules/snapshot.ts';
import { drainLines, drainActions } from './drain.ts';
import { troubleLines } from './trouble.ts';
import { ago, verdictLines } from './words.ts';

/** Everything that is asked of the cell. */
export interface MachineInput {
  nowMs: number;
  machine: Stored<Machine>;
  node: Node | undefined;
  rules: Stored<NodeRemedier>[];
  componentSets: Stored<MachineComponentSet>[];
  /** Of this machine. */
  jobs: Stored<RemedyOperationJob>[];
  /** Of all machines of its MachineSet. */
  jobsOfSet: Stored<RemedyOperationJob>[];
  reservations: LedgerReservation[];
  freezes: Freeze[];
  kubeletLease: Lease | undefined;
  agentLease: Lease | undefined;
  peers: PeerFacts;
}

export interface WhyRule {
  rule: string;
  mode: string;
  /** Absent: it does not run, or is not about this machine. */
  explanation?: Explanation;
  /** What it does next here, or why nothing. */
  next: string;
}

export interface WhyMachine {
  machine: string;
  phase: string;
  node: string;
  /** What is wrong with the machine itself. */
  trouble: string[];
  rules: WhyRule[];
  jobs: { name: string; phase: string; action: string; explanation: string }[];
  defender: string[];
  wouldChange: string[];
  notKnown: string[];
}

export async function gatherMachine(client: Client, machine: Stored<Machine>, nowMs: number): Promise<MachineInput> {
  const { namespace = '', uid } = machine.metadata;
  const nodeName = machine.status?.nodeRef?.name;
  const [node, rules, componentSets, jobs, ledger, freezes, kubelet, agent] = await Promise.all([
    nodeName === undefined ? undefined : client.find(Nodes, { name: nodeName }),
    client.listAll(NodeRemediers),
    client.listAll(MachineComponentSets),
    // All of the pool: also those of the machines that this one replaces.
    client.listAll(RemedyOperationJobs, { namespace }),
    client.find(DisruptionLedgers, { name: LEDGER_NAME }),
    client.listAll(Freezes),
    nodeName === undefined ? undefined : client.find(Leases, kubeletLease(nodeName)),
    client.find(Leases, agentLease(machine)),
  ]);
  const reservations = ledger?.status?.reservations ?? [];
  const own = jobs.items.filter((job) => job.spec.machine.uid === uid);
  const set = ownerUID(machine);
  const jobsOfSet = jobs.items.filter((job) => set !== undefined && job.spec.machineSet === set);
  const base = {
    nowMs,
    machine,
    node,
    rules: rules.items,
    componentSets: componentSets.items,
    jobs: own,
    jobsOfSet,
    reservations,
    freezes: freezes.items,
    kubeletLease: kubelet,
    agentLease: agent,
  };
  // Counting the others means listing them all: only where a rule asks for it.
  const asks = rules.items.some((rule) => appliesTo(rule, machine) && JSON.stringify(rule.spec.when).includes('"peers.'));
  return { ...base, peers: asks ? await peersOf(client, base) : {} };
}

async function peersOf(client: Client, { nowMs, machine, reservations }: Omit<MachineInput, 'peers'>): Promise<PeerFacts> {
  const [machines, nodes, leases] = await Promise.all([
    client.listAll(Machines),
    client.listAll(Nodes),
    client.listAll(Leases, { namespace: KUBELET_LEASES }),
  ]);
  const nodeOf = new Map(nodes.items.map((node) => [node.metadata.name, node]));
  const leaseOf = new Map(leases.items.map((lease) => [lease.metadata.name, lease]));
  const reserved = new Set(reservations.map(({ machineUID }) => machineUID));
  const index = new PeerIndex();
  for (const each of machines.items) {
    const name = each.status?.nodeRef?.name ?? '';
    const snapshot = snapshotOf({ nowMs, machine: each, node: nodeOf.get(name), kubeletLease: leaseOf.get(name), agentLease: undefined });
    index.set(each.metadata.uid, peerOf(snapshot, reserved.has(each.metadata.uid)));
  }
  return index.factsFor(machine.metadata.uid);
}

interface Seen extends Pick<MachineInput, 'nowMs' | 'machine' | 'node' | 'kubeletLease' | 'agentLease'> {
  peers?: PeerFacts;
  pause?: Snapshot['pause'];
}

/** As a controller would see it that has just started: heartbeats and Leases are taken by the times they carry. */
function snapshotOf({ nowMs, machine, node, kubeletLease, agentLease, peers = {}, pause }: Seen): Snapshot {
  return takeSnapshot({
    nowMs,
    machine,
    node,
    heartbeats:
      node === undefined ? undefined : observeHeartbeats(undefined, node.metadata.uid ?? '', node.status?.conditions ?? [], nowMs),
    kubeletFreshUntilMs: claimedAliveUntilMs(kubeletLease),
    agentFreshUntilMs: claimedAliveUntilMs(agentLease),
    peers,
    pause: pause ?? { paused: false, releasedAtMs: undefined },
  });
}

export async function whyMachine(input: MachineInput): Promise<WhyMachine> {
  const { machine, jobs } = input;
  const reservation = input.reservations.find(({ machineUID }) => machineUID === machine.metadata.uid);
  const holding = { machine, reservation, jobs };
  const released = releasedAt(holding);
  const pause = { paused: isPaused(holding), releasedAtMs: released === undefined ? undefined : Date.parse(released) };
  const snapshot = snapshotOf({ ...input, pause });
  const rules = await rulesOf(input, snapshot);
  const { status, spec } = machine;
  return {
    machine: `machine/${machine.metadata.namespace}/${machine.metadata.name}`,
    phase: status?.phase ?? 'Pending',
    node: status?.nodeRef?.name ?? '',
    trouble: troubleLines(input),
    rules,
    jobs: jobs
      .filter((job) => !isFinished(job))
      .map(({ metadata, spec, status }) => ({
        name: metadata.name,
        phase: status?.phase ?? 'Pending',
        action: spec.action,
        explanation: status?.explanation ?? status?.answer ?? '',
      })),
    defender: defenderLines(input, reservation),
    wouldChange: wouldChange(input, rules),
    notKnown: [
      'when the controller saw heartbeats and Leases change: here they are judged by the times they carry, by this clock',
      ...(status?.observations === undefined && rules.some(({ explanation }) => explanation?.truth === 'True')
        ? ['since when the condition has been true: no controller has noted it on the Machine yet']
        : []),
      ...(spec.paused === true ? ['anything since it was paused: no controller acts on it'] : []),
    ],
  };
}

function nextText(step: LadderStep, mode: string): string {
  const prefix = mode === 'Enforce' ? '' : 'in Shadow, so it only reports: ';
  switch (step.step) {
    case 'Act':
      return `${prefix}${step.action}, attempt ${step.attempt}: ${step.why}`;
    case 'AskHuman':
      return `${prefix}ask a human: ${step.why}`;
    case 'Wait':
      return `nothing until ${new Date(step.untilMs).toISOString()}: ${step.why}`;
    case 'Busy':
    case 'Done':
      return `nothing: ${step.why}`;
    default:
      return step satisfies never;
  }
}

async function rulesOf({ machine, rules, jobs, jobsOfSet, nowMs }: MachineInput, snapshot: Snapshot): Promise<WhyRule[]> {
  const book = openRulebook(rules);
  const names = [...book.index.rules.keys()];
  const pass = await runPass({ index: book.index, names, snapshot, observations: machine.status?.observations ?? [] });
  const outcomes = new Map(pass.outcomes.map((outcome) => [outcome.rule.name, outcome]));
  const found = rules.map((rule): WhyRule => {
    const { name } = rule.metadata;
    const mode = rule.spec.mode ?? 'Shadow';
    const errors = book.errors.get(name);
    if (errors !== undefined) return { rule: name, mode, next: `it does not run: ${errors.map(validationErrorText).join('; ')}` };
    const outcome = outcomes.get(name);
    if (outcome === undefined) return { rule: name, mode, next: 'it is not about this machine: another pool, or other labels' };
    const explanation = explain(outcome);
    if (!outcome.due) return { rule: name, mode, explanation, next: outcome.truth === 'True' ? 'it waits' : 'nothing' };
    const asking = { name, spec: rule.spec };
    const matchedSinceMs = outcome.sinceMs ?? nowMs;
    const replacements = replacementsBefore({ rule: asking, machine, jobsOfSet, matchedSinceMs });
    const step = nextRung({ rule: asking, machineUID: machine.metadata.uid, jobs, matchedSinceMs, nowMs, replacements });
    return { rule: name, mode, explanation, next: nextText(step, mode) };
  });
  const rank = ({ explanation }: WhyRule): number => ['True', 'Unknown', 'False'].indexOf(explanation?.truth ?? '') >>> 0;
  return found.sort((a, b) => rank(a) - rank(b) || (a.rule < b.rule ? -1 : 1));
}

function defenderLines(
  { nowMs, machine, reservations, jobs, freezes }: MachineInput,
  reservation: LedgerReservation | undefined,
): string[] {
  const { status, spec, metadata } = machine;
  const lines: string[] = [];
  if (reservation !== undefined)
    lines.push(
      `has reservation ${reservation.id}: ${reservation.kind} for ${reservation.requester}, since ${ago(reservation.since, nowMs)}, to begin by ${reservation.notAfter}`,
    );
  lines.push(...drainLines(machine));
  const same = jobs.some((job) => !isFinished(job) && canonical(job.status?.verdict ?? null) === canonical(status?.verdict ?? null));
  if (status?.verdict !== undefined && !same) lines.push(...verdictLines('last word', status.verdict));
  for (const job of jobs)
    if (!isFinished(job) && job.status?.verdict !== undefined) lines.push(...verdictLines(`job ${job.metadata.name}`, job.status.verdict));
  const holders = new Set(status?.verdict?.allowed === false ? (status.verdict.holders ?? []) : []);
  for (const other of reservations)
    if (other !== reservation && [...holders].some((holder) => holder.includes(other.machine) || other.machine.endsWith(`/${holder}`)))
      lines.push(`${other.machine} has reservation ${other.id}: ${other.kind} for ${other.requester}, since ${ago(other.since, nowMs)}`);
  for (const asked of ['Repair', 'Change', 'Restore'] as const) {
    const freeze = frozenBy(freezes, asked, metadata.namespace ?? '');
    if (freeze !== undefined)
      lines.push(`Freeze ${freeze.metadata.name} stops ${asked}${freeze.spec.reason === undefined ? '' : `: ${freeze.spec.reason}`}`);
  }
  if (spec.hold === true) lines.push('spec.hold is set: nothing new begins here');
  if (spec.paused === true) lines.push('spec.paused is set: no controller acts on this machine');
  if (status?.agent?.hold === true) lines.push('/etc/kubenode/hold is there: its agent changes nothing');
  const order = spec.operation;
  if (order !== undefined && order.kind !== 'Cancelled' && (reservation?.id === order.id || reservation === undefined)) {
    const found = operationState(machine);
    const end =
      found.state === 'Ended' ? `Done, ${found.outcome}` : found.state === 'UnderWay' && found.report ? 'Running' : 'not reported yet';
    if (found.state !== 'Ended' || reservation !== undefined) lines.push(`order ${order.id}: ${order.action ?? order.kind}, ${end}`);
  }
  const needed = status?.conditions?.find(({ type }) => type === MACHINE_CONDITIONS.repairNeeded);
  if (needed?.status === 'True')
    lines.push(`RepairNeeded by ${(status?.repairRules ?? []).join(', ')}: pods are not put back while this is so`);
  return lines.length === 0 ? ['no disruption is requested, held or frozen'] : lines;
}

function wouldChange({ machine, freezes }: MachineInput, rules: readonly WhyRule[]): string[] {
  const { verdict } = machine.status ?? {};
  const freeze = frozenBy(freezes, 'Repair', machine.metadata.namespace ?? '');
  const matching = rules.filter(({ explanation }) => explanation?.truth === 'True');
  return [
    ...(verdict?.allowed === false && verdict.wouldPassWhen !== undefined ? [`Defender lets it pass when ${verdict.wouldPassWhen}`] : []),
    ...drainActions(machine),
    ...(freeze === undefined ? [] : [`kubectl delete freeze ${freeze.metadata.name}`]),
    ...(machine.spec.hold === true
      ? [`kubectl patch machine ${machine.metadata.name} -n ${machine.metadata.namespace} --type merge -p '{"spec":{"hold":false}}'`]
      : []),
    ...matching.filter(({ mode }) => mode !== 'Enforce').map(({ rule }) => `${rule} acts when a commit sets its mode to Enforce`),
    ...matching.flatMap(({ rule, explanation }) =>
      explanation?.waits === 'Time' ? [`${rule} is due once its condition has been true for long enough`] : [],
    ),
  ];
}
