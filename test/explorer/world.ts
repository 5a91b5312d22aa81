/** The small world that the explorer exhausts: plain data, never mutated. */
import type { Node } from '../../src/api/builtin.ts';
import type { DisruptionLedger } from '../../src/api/disruption-ledger.ts';
import { LEDGER_NAME } from '../../src/api/disruption-ledger.ts';
import { API_VERSION } from '../../src/api/kind.ts';
import type { ComponentEntry, ComponentStatus, Machine, Operation, OperationStatus } from '../../src/api/machine.ts';
import { FINALIZERS } from '../../src/api/names.ts';
import type { RemedyOperationJob, RemedyOperationJobStatus } from '../../src/api/remedy-operation-job.ts';
import type { Action } from '../../src/api/node-remedier/values.ts';
import type { KubeObject, Stored } from '../../src/api/wire.ts';
import type { Step } from '../../src/controllers/machine/view.ts';
import type { LedgerReservation } from '../../src/api/disruption-ledger.ts';
import type { Move } from './search.ts';

/** An object as the API server stores it; the slot of an absent one stays, with its version. Objects carry no resourceVersion, so that equal contents are equal. */
export interface Slot<T extends KubeObject> {
  version: number;
  /** What counts on, and is a condition of writes, where the node writes nothing: of a Machine its generation, of a Node the mark of our last write. */
  own?: number | undefined;
  object: Stored<T> | undefined;
}

/** What the leaders, agents and people have in common. */
export interface Cell {
  machines: readonly Slot<Machine>[];
  nodes: readonly Slot<Node>[];
  ledger: Slot<DisruptionLedger>;
  /** One slot a machine, for the last job that was made for it; empty in worlds without repairs. */
  jobs: readonly Slot<RemedyOperationJob>[];
}

/** An act that has begun: what it was decided to do, and what it has read so far. */
export interface Flight {
  /** What the work queue would not run twice at once: a machine, or the reservation pass. */
  key: number | 'cell';
  what: ({ step: Step; isStale: boolean } & Pick<World, 'time' | 'halted' | 'limit'>) | { vanished: LedgerReservation } | 'reserve';
  epoch: number;
  machine?: Slot<Machine> | undefined;
  node?: Slot<Node> | undefined;
  ledger?: Slot<DisruptionLedger> | undefined;
  reads: number;
  /** What it may write; known once it has read something. */
  writes?: 'machine' | 'node' | 'ledger' | 'effect';
  /** Only for a mutant: stores as they were before the first read. */
  gathered?: Cell;
}

export interface Mark {
  machine: number;
  uid: string;
  machineVersion: number | undefined;
  nodeVersion: number | undefined;
  nodeGoneUID: string | undefined;
  /** This leader made the release itself; others' are kept to judge it by. */
  own: boolean;
}

/** A process that may lead. `epoch` undefined: it does not think that it leads. */
export interface Leader {
  epoch: number | undefined;
  flights: readonly Flight[];
  /** Stores that have stopped following the server; absent ones are current. */
  frozen: Partial<Cell>;
  /** Releases that its stores have not passed. */
  marks: readonly Mark[];
  /** Jobs whose next status is being decided or written. */
  jobPasses: readonly JobPass[];
  /** Operations whose power cycle the provider has confirmed to this process. */
  cycled: readonly string[];
  /** It is about to begin a term in a ledger that has no epoch: what it has listed so far, and the version of that ledger. */
  beginning?: { machines: readonly Slot<Machine>[]; version: number };
}

export interface Agent {
  /** Highest epoch it has taken an order of, and the last operation it has begun or refused: on its disk. */
  epoch: number;
  last: string;
  state: 'idle' | 'begun' | 'about-to-start' | 'acting' | 'dead';
  order: Operation | undefined;
  /** What the order makes it switch to, as read just before it started. */
  version?: string;
  /** Repair: the boot in which it was begun. */
  boot?: number;
  /** On its disk, and not sent yet. */
  report?: OperationStatus;
}

/** The real state of a machine, which its objects may not show. */
export interface Site {
  /** `cut`: its agent does not report, and works. `hung`: nothing on it works or reports; what its pods write to may still be written to. */
  health: 'well' | 'sick' | 'cut' | 'hung';
  boot: number;
  power: 'Running' | 'Stopped';
  /** Operations for which the provider does nothing more to the power: it has, or they were retired. */
  keys: readonly string[];
  /** Every restart and boot that was made, by operation. */
  acts: readonly string[];
  /** Pods that were asked to end, and that no process on the node ends. */
  terminating: number;
}

export const FRESH_SITE: Site = { health: 'well', boot: 1, power: 'Running', keys: [], acts: [], terminating: 0 };

/** A pass of the remedyjob controller over one job that needed more than its stores. */
export interface JobPass {
  index: number;
  /** Of the job, as the store showed it: the write is conditioned on that. */
  version: number;
  job: Stored<RemedyOperationJob>;
  /** Read first: the ledger, or the others. */
  ledger?: Slot<DisruptionLedger>;
  machine?: Slot<Machine> | undefined;
  node?: Slot<Node> | undefined;
  status?: RemedyOperationJobStatus;
}

export const FRESH_AGENT: Agent = { epoch: 0, last: '', state: 'idle', order: undefined };

/** `sickens`, `clears`, `cuts` and `hangs`: a node falls ill, recovers, or gets worse, by itself. `withdraw`: the rule is deleted. `removeJob`: by a human. */
export type RepairEvent = 'sickens' | 'clears' | 'cuts' | 'hangs' | 'powerOn' | 'withdraw' | 'removeJob';

/** How often each thing may still happen. */
export type Budget = Record<
  | 'crash'
  | 'lostReply'
  | 'freeze'
  | 'takeover'
  | 'expiry'
  | 'revert'
  | 'deletion'
  | 'cordonByHuman'
  | 'halt'
  | 'agentDeath'
  | 'recreate'
  /** A person deletes the ledger. */
  | 'forget'
  /** A person deletes the Node, and its kubelet registers again. */
  | 'reregister'
  | RepairEvent,
  number
>;

export interface World extends Cell {
  frozenTogether: boolean;
  limit: number;
  /** The highest epoch that was ever given; as the resourceVersion of the server, no ledger that is made later has less. */
  given: number;
  /** With which epoch a ledger was made after one was deleted; 0: none was. */
  reborn: number;
  /** Reservations whose cordon arrived when the ledger had forgotten them, and was made again. */
  late: readonly string[];
  /** Evictions that a deposed leader sent after its reservation was gone: nothing can stop the one that was on its way. */
  lateEvictions: number;
  leaders: readonly Leader[];
  agents: readonly Agent[];
  /** Whether the provider has an instance for the machine, by the UID it was made for. */
  instances: readonly (string | undefined)[];
  /** Pods on each node that a drain takes away. */
  pods: readonly number[];
  /** The node is unschedulable by a human's will. */
  cordonedByHuman: readonly boolean[];
  halted: boolean;
  /** 0, or 1: past the notAfter of every reservation reserved before. */
  time: 0 | 1;
  budget: Budget;
  sites: readonly Site[];
  /** The rule that makes jobs is gone. */
  withdrawn: boolean;
}

export const NO_EVENTS: Budget = {
  crash: 0,
  lostReply: 0,
  freeze: 0,
  takeover: 0,
  expiry: 0,
  revert: 0,
  deletion: 0,
  cordonByHuman: 0,
  halt: 0,
  agentDeath: 0,
  recreate: 0,
  forget: 0,
  reregister: 0,
  sickens: 0,
  clears: 0,
  cuts: 0,
  hangs: 0,
  powerOn: 0,
  withdraw: 0,
  removeJob: 0,
};

export const SET_UID = 'set';
export const POOL = 'pool';
/** An order of time 0 is over at time 1. */
export const TIMES = [Date.UTC(2026, 10, 20), Date.UTC(2026, 10, 21)] as const;

export const replaced = <T>(list: readonly T[], index: number, value: T): T[] => list.map((each, at) => (at === index ? value : each));

/** What one step makes of a world. */
export type Successor = Move<World>;

export type Identities = (world: World) => () => string;

export const withLeader = (world: World, index: number, leader: Leader): World => ({
  ...world,
  leaders: replaced(world.leaders, index, leader),
});

export const machineName = (index: number): string => `m${index}`;

/** A rule that is due on the first machines, and what is tried against it. */
export interface RepairPlan {
  ladder: readonly Action[];
  /** How the first machines are ill; one a machine. `well`: not yet. */
  ill: readonly Site['health'][];
  /** What makes a node well that is not by itself; what powers it on at least makes it report again. */
  helps: readonly ('RestartComponent' | 'Reboot' | 'PowerCycle')[];
  /** An earlier repair has left its cordon as Degraded. */
  degraded?: boolean;
  /** A MachineSet makes another machine where one goes. */
  replaceable?: boolean;
  /** The provider can neither stop nor cycle. */
  powerless?: boolean;
}

export interface Scenario {
  machines: number;
  leaders: number;
  /** Acts that one leader may have under way at once. */
  flights: number;
  budget: Partial<Budget>;
  /** Machines on which the new version fails its probes, and whether what ran before can run again. */
  fails?: 'restored' | 'not-restored';
  /** Whether the version that ran before was ever verified. */
  verified?: boolean;
  needs?: 'Restart' | 'Drain';
  /** On each node, for a drain; default 1. */
  pods?: number;
  /** Machines that are given the new version; default all. */
  changed?: number;
  /** A leader's stores stop and go on together, not each for itself: fewer states, where that is enough. */
  frozenTogether?: boolean;
  /** Of cluster and set; default 1. */
  limit?: number;
  repair?: RepairPlan;
  /** Both machines have announced, and the agent of the first is acting on its order: a shorter way to what comes after. */
  acting?: boolean;
}

export function entry(version: string, revision: number, setRevision: number): ComponentEntry {
  return {
    name: 'kubelet',
    action: 'Install',
    version,
    setUID: SET_UID,
    setRevision,
    joinedRevision: 1,
    revision,
    attempt: 1,
  };
}

export function component(version: string, content: string, revision: number): ComponentStatus {
  return { name: 'kubelet', version, content, revision, running: revision, state: 'Healthy' };
}

export function machineObject(
  index: number,
  generation: number,
  status: NonNullable<Machine['status']>,
  entries: ComponentEntry[],
): Stored<Machine> {
  return {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: {
      name: machineName(index),
      namespace: POOL,
      uid: `${machineName(index)}-${generation}`,
      resourceVersion: '',
      creationTimestamp: '2026-11-19T00:00:00Z',
      finalizers: [FINALIZERS.machine],
    },
    spec: { components: entries },
    status,
  };
}

export function nodeObject(index: number, generation: number): Stored<Node> {
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: machineName(index),
      uid: `n${index}-${generation}`,
      resourceVersion: '',
      creationTimestamp: '2026-11-19T00:00:00Z',
    },
    spec: { providerID: `p://${machineName(index)}-${generation}` },
    status: { conditions: [{ type: 'Ready', status: 'True' }] },
  };
}

export const BARE_LEDGER: Stored<DisruptionLedger> = {
  apiVersion: API_VERSION,
  kind: 'DisruptionLedger',
  metadata: { name: LEDGER_NAME, uid: 'ledger', resourceVersion: '', creationTimestamp: '2026-11-19T00:00:00Z' },
  spec: {},
};

export function ledgerObject(epoch: number): Stored<DisruptionLedger> {
  return { ...BARE_LEDGER, status: { epoch, reservations: [] } };
}
