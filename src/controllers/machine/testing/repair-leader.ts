/** What a process that leads does in a world of repairs: the real decisions and guarded writes, over stores that may be old, one API call at a time. */
import type { Node } from '../../../api/builtin.ts';
import type { DisruptionLedger, LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import { isFinished, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import type { Stored } from '../../../api/wire.ts';
import type { GuardedWrite, Seen, Target } from '../../../defender/guarded-write.ts';
import type { Verdict } from '../../../defender/request.ts';
import { stateOf } from '../../../defender/state.ts';
import { actOf } from '../steps.ts';
import { claimOf } from '../observe/claim.ts';
import { decide, isDraining } from '../decide.ts';
import type { AskFacts } from '../facts.ts';
import type { Effect } from '../guards.ts';
import { freeVanished } from '../reservation/steps.ts';
import { closedNow, decidePass, isUnordered, reservationWrite, type PassView } from '../reservation/pass.ts';
import type { DrainedPod, MachineView } from '../view.ts';
import { cellOf } from './cell-of.ts';

export const NAMES = ['a', 'b', 'c'];

/** What is in the API, each kind a store of each leader. */
export interface Objects {
  machines: readonly Stored<Machine>[];
  nodes: readonly Stored<Node>[];
  ledger: Stored<DisruptionLedger>;
  jobs: readonly RemedyOperationJob[];
  /** A DefenderPolicy's limit of the cluster, and whether there is a Freeze. */
  rules: { limit: number; frozen: boolean };
}
export const STORES = ['machines', 'nodes', 'ledger', 'jobs', 'rules'] as const;

/** What is no object: how a node is, and what its provider knows. */
export interface Site {
  /** The agent does not renew its Lease. */
  agentStale: boolean;
  /** Nor is the kubelet, and nothing on the node ends a pod. */
  hung: boolean;
  power: 'Running' | 'Stopped';
  pods: readonly DrainedPod[];
  /** Operations for which the provider does nothing more to its power. */
  spent: Set<string>;
}

/** What a decision was made by. */
export interface Decided {
  nowMs: number;
  stores: Objects;
  hung: readonly boolean[];
  agentStale: readonly boolean[];
  /** How many pods there were to drain. */
  pods: readonly number[];
  /** Its stores lacked what a release of its own was based on: nothing is granted by them, and nothing taken back. */
  stale: boolean;
}

export interface Flight {
  act: GuardedWrite<Effect>;
  decided: Decided;
  machine: number;
  seen: Seen;
  reads: number;
  /** What is written is taken from a store, not read. */
  known: boolean;
}

export interface Leader {
  epoch: number | undefined;
  /** Each kind as it was when its store last caught up. */
  stores: Objects;
  flight: Flight | undefined;
  marks: (() => boolean)[];
  /** Its next write takes effect, and it gets no answer. */
  losesReply: 'dies' | 'lives' | undefined;
}

export const down = (stores: Objects): Leader => ({ epoch: undefined, stores, flight: undefined, marks: [], losesReply: undefined });

export interface Surroundings {
  nowMs: number;
  sites: readonly Site[];
  newID: () => string;
}

const isStale = ({ marks }: Leader): boolean => !marks.every((passed) => passed());

function factsOf({ stores }: Leader, index: number, { nowMs, sites }: Surroundings): AskFacts {
  return {
    nowMs,
    sets: new Map(),
    freezes: stores.rules.frozen ? [{ metadata: { name: 'all' }, spec: {} }] : [],
    jobsOf: (uid) => stores.jobs.filter((each) => each.spec.machine.uid === uid && !isFinished(each)),
    policies: [{ metadata: { name: 'cell' }, spec: { limits: [{ name: 'all', scope: 'Cluster', maxUnavailable: stores.rules.limit }] } }],
    canPowerCycle: () => true,
    agentAnswers: sites[index]?.agentStale !== true,
  };
}

function cellView(leader: Leader, around: Surroundings): PassView {
  const { stores } = leader;
  const siteOf = (name: string) => around.sites[NAMES.indexOf(name)];
  return cellOf({
    facts: factsOf(leader, 0, around),
    machines: stores.machines,
    nodeNamed: (name) => stores.nodes[NAMES.indexOf(name)],
    kubeletAnswers: (name) => siteOf(name)?.hung !== true,
    agentAnswers: ({ metadata }) => siteOf(metadata.name)?.agentStale !== true,
    askingSince: () => 0,
    stale: isStale(leader) ? 'a release is not seen' : undefined,
  });
}

/** As src/controllers/machine/reservation/pass-loop.ts has it. */
function revokedBy(leader: Leader, reservation: LedgerReservation, machine: Stored<Machine>, around: Surroundings): Verdict | undefined {
  if (!isUnordered(reservation, machine)) return undefined;
  const cell = cellView(leader, around);
  const judged = decidePass(cell, stateOf(leader.stores.ledger), () => '-').revoked();
  return judged?.get(reservation.id) ?? closedNow(reservation, machine, cell.nodeNamed(machine.metadata.name), cell);
}

function viewOf(leader: Leader, index: number, around: Surroundings): MachineView | undefined {
  const { stores } = leader;
  const machine = stores.machines[index];
  const site = around.sites[index];
  if (machine === undefined || site === undefined) return undefined;
  const providerID = machine.status?.providerID ?? '';
  const reservation = stateOf(stores.ledger).reservations.find((each) => each.machineUID === machine.metadata.uid);
  const view: MachineView = {
    nowMs: around.nowMs,
    machine,
    reservation,
    claim: claimOf(machine, providerID, stores.nodes[index]),
    providerID,
    instanceID: providerID,
    instance: { state: 'Present', instance: { providerID, state: site.power, addresses: [] } },
    kubeletAnswers: !site.hung,
    facts: factsOf(leader, index, around),
    pods: undefined,
    uncounted: [],
    nodeDrift: false,
    notOnNode: [],
    revoked: reservation === undefined ? undefined : revokedBy(leader, reservation, machine, around),
    hours: stateOf(stores.ledger).hours ?? [],
    canStop: true,
    powerCycled: false,
  };
  return isDraining(view) ? { ...view, pods: site.pods } : view;
}

function actFor(leader: Leader, pick: number, around: Surroundings): Pick<Flight, 'act' | 'machine'> | undefined {
  const { epoch, stores } = leader;
  if (epoch === undefined) return undefined;
  const index = pick % NAMES.length;
  const name = NAMES[index] ?? '';
  if (pick >= 2 * NAMES.length) {
    const uids = stores.machines.map(({ metadata }) => metadata.uid);
    const lost = stateOf(stores.ledger).reservations.find((reservation) => !uids.includes(reservation.machineUID));
    if (lost !== undefined) return { act: freeVanished(lost, epoch), machine: index };
    return { act: reservationWrite(epoch, () => cellView(leader, around), around.newID), machine: index };
  }
  const view = viewOf(leader, index, around);
  if (view === undefined) return undefined;
  // One after the other, as they are carried out: what the provider has retired is not retired again.
  const [step] = decide(view).steps.filter(
    (each) => each.do !== 'RetirePower' || around.sites[index]?.spent.has(each.reservation.id) !== true,
  );
  if (step === undefined) return undefined;
  const act = actOf(step, { epoch, machine: { namespace: 'web', name }, node: name, facts: view.facts, newID: around.newID });
  return act === undefined ? undefined : { act, machine: index };
}

/** `known`: what it writes it takes from its store. */
export function begin(leader: Leader, pick: number, known: boolean, around: Surroundings): void {
  const found = actFor(leader, pick, around);
  const hung = around.sites.map((site) => site.hung);
  const agentStale = around.sites.map((site) => site.agentStale);
  const pods = around.sites.map((site) => site.pods.length);
  const decided = { nowMs: around.nowMs, stores: leader.stores, hung, agentStale, pods, stale: isStale(leader) };
  if (found !== undefined) leader.flight = { ...found, decided, seen: {}, reads: 0, known };
}

/** What a read of this kind gives. */
function seenOf({ machines, nodes, ledger }: Objects, target: Target, index: number): Seen {
  return target === 'machine' ? { machine: machines[index] } : target === 'node' ? { node: nodes[index] } : { ledger };
}

/** The next read of an act that is under way; false when there is none left, and it is to be judged. */
export function readNext(leader: Leader, flight: Flight, truth: Objects): boolean {
  const target = flight.act.reads[flight.reads];
  if (target === undefined) return false;
  const isKnown = flight.known && target === flight.act.writes && stateOf(leader.stores.ledger).epoch >= (leader.epoch ?? 0);
  const seen = { ...flight.seen, ...seenOf(isKnown ? leader.stores : truth, target, flight.machine) };
  leader.flight = { ...flight, seen, reads: flight.reads + 1 };
  return true;
}
