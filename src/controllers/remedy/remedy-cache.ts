/**
 * What the two remedy controllers see of a cell: the stores, the heartbeats and renewals that were observed, how many peers of a machine are unhealthy, and
 * the rules that run. Kept up to date event by event; nothing here is proportional to the number of machines, save where a rule changes.
 *
 * All it knows is derived from objects. The next process derives it again.
 */
import type { Node } from '../../api/builtin.ts';
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import type { Machine } from '../../api/machine.ts';
import type { Clock } from '../../api/ports.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { keyOf, type ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import { agentLease, kubeletLease, trackLiveness, type Liveness } from '../../kube/liveness.ts';
import type { StoreEvent } from '../../kube/reflector.ts';
import { observeHeartbeats, type Heartbeats } from '../../rules/heartbeats.ts';
import { PeerIndex, peerOf } from '../../rules/peers.ts';
import { takeSnapshot, type Snapshot } from '../../rules/snapshot.ts';
import { isStale } from '../../kube/stale-store.ts';
import { gatherGroupChanges, type GroupChanges } from './group-changes.ts';
import { createClockPauses, type ClockPauses } from './clock-pauses.ts';
import { createListeners, type Listeners } from './listeners.ts';
import {
  jobOfUID,
  jobsOf,
  jobsOfSet,
  machinesOfLease,
  machinesOfNode,
  machinesOfUID,
  openRemedyStores,
  type RemedyStores,
} from './remedy-stores.ts';
import { watchReservations, type Reservations } from './reservations.ts';
import { EMPTY_BOOK, openRulebook, type Rulebook } from './rulebook.ts';
import { steadyNow } from './steady-clock.ts';
import { createSuperseded, type Superseded } from './superseded.ts';

export interface RemedyCache {
  readonly stores: RemedyStores;
  /** Wall time that never jumps in this process, ms. */
  now(): number;
  rulebook(): Rulebook;
  machinesOfNode(node: string): Stored<Machine>[];
  jobsOf(machineUID: string): Stored<RemedyOperationJob>[];
  /** Jobs of the machines of the MachineSet that owns this one, also of machines that are gone; none where no set owns it. */
  jobsOfSet(machine: Machine): Stored<RemedyOperationJob>[];
  jobOfUID(uid: string): Stored<RemedyOperationJob> | undefined;
  reservationOf(machineUID: string): LedgerReservation | undefined;
  /** The reservation that a job asked for. */
  reservationAskedBy(requesterUID: string): LedgerReservation | undefined;
  /** `live`: what was just read of it, where the stores may be too old. */
  snapshot(machine: Machine, live?: { node: Node | undefined }): Snapshot;
  /** Names of the groups a machine is in, by scope. */
  groupsOf(machineUID: string): ReturnType<PeerIndex['groupsOf']>;
  /** Whether the stores are stale, so that no decision may be made from them. */
  isStale(): boolean;
  /** Calls for machines whose state changed otherwise than by an event of their Machine, Node or jobs. Returns the cancellation. */
  onMachine(listener: (key: string) => void): () => void;
  /** Calls for peer groups whose counts changed. */
  onGroups(listener: (groups: ReadonlySet<string>) => void): () => void;
  onRulebook(listener: (before: Rulebook, after: Rulebook) => void): () => void;
  /** Why something better shall replace a job that has no order yet; derived again each time the machine is reconciled. */
  supersededBy(jobUID: string): string | undefined;
  /** Notes which job of a machine is superseded (undefined: none). Wakes the job where that is new. */
  supersede(machineUID: string, verdict: { job: Stored<RemedyOperationJob>; why: string } | undefined): void;
  /** Asks for the reconciliation of a job when something other than its objects has changed. */
  wakeJob(job: Stored<RemedyOperationJob>): void;
  onJob(listener: (job: Stored<RemedyOperationJob>) => void): () => void;
  stop(): void;
}

export interface RemedyCacheOptions {
  cache: Cache;
  clock: Clock;
  signal: AbortSignal;
}

/** Resolves when every store is synced and every machine is counted: a rule about peers must not be evaluated before. */
export async function openRemedyCache({ cache, clock, signal }: RemedyCacheOptions): Promise<RemedyCache> {
  return cacheOf(await openRemedyStores(cache, signal), clock);
}

/** What is derived from the stores, event by event. */
interface Derived {
  readonly stores: RemedyStores;
  readonly clock: Clock;
  readonly now: () => number;
  readonly liveness: Liveness;
  /** By the name of the Node. */
  readonly heartbeats: Map<string, Heartbeats>;
  readonly pauses: ClockPauses;
  readonly peers: PeerIndex;
  readonly reservations: Reservations;
  readonly superseded: Superseded;
  readonly groupChanges: GroupChanges;
  readonly machineListeners: Listeners<[key: string]>;
  readonly rulebookListeners: Listeners<[before: Rulebook, after: Rulebook]>;
  book: Rulebook;
}

function cacheOf(stores: RemedyStores, clock: Clock): RemedyCache {
  const groupListeners = createListeners<[groups: ReadonlySet<string>]>();
  const jobListeners = createListeners<[job: Stored<RemedyOperationJob>]>();
  const derived: Derived = {
    stores,
    clock,
    now: steadyNow(clock),
    liveness: trackLiveness(stores.leases, clock),
    heartbeats: new Map(),
    pauses: createClockPauses(),
    peers: new PeerIndex(),
    reservations: watchReservations(stores.ledgers, (machineUID) => {
      for (const machine of machinesOfUID(stores, machineUID)) countAndNotify(derived, machine);
    }),
    superseded: createSuperseded(),
    groupChanges: gatherGroupChanges(clock, (groups) => groupListeners.notify(groups)),
    machineListeners: createListeners(),
    rulebookListeners: createListeners(),
    book: openRulebook(stores.rules.list(), EMPTY_BOOK),
  };
  const { now, peers, reservations, superseded, machineListeners, rulebookListeners } = derived;
  const stop = derive(derived);
  return {
    stores,
    now,
    rulebook: () => derived.book,
    machinesOfNode: (node) => machinesOfNode(stores, node),
    jobsOf: (machineUID) => jobsOf(stores, machineUID),
    jobsOfSet: (machine) => jobsOfSet(stores, machine),
    jobOfUID: (uid) => jobOfUID(stores, uid),
    reservationOf: (machineUID) => reservations.ofMachine(machineUID),
    reservationAskedBy: (requesterUID) => reservations.askedBy(requesterUID),
    snapshot: (machine, live) => snapshotOf(derived, machine, live),
    groupsOf: (machineUID) => peers.groupsOf(machineUID),
    isStale: () => [stores.machines, stores.nodes, stores.leases, stores.ledgers, stores.jobs].some(isStale),
    onMachine: (listener) => machineListeners.add(listener),
    onGroups: (listener) => groupListeners.add(listener),
    onRulebook: (listener) => rulebookListeners.add(listener),
    supersededBy(jobUID) {
      const machineUID = jobOfUID(stores, jobUID)?.spec.machine.uid;
      return machineUID === undefined ? undefined : superseded.why(machineUID, jobUID);
    },
    supersede(machineUID, verdict) {
      if (superseded.note(machineUID, verdict) && verdict !== undefined) jobListeners.notify(verdict.job);
    },
    wakeJob: (job) => jobListeners.notify(job),
    onJob: (listener) => jobListeners.add(listener),
    stop,
  };
}

/** Derives everything from the content of the stores, and then from their events. Returns the cancellation. */
function derive(derived: Derived): () => void {
  const { stores, liveness, groupChanges, reservations } = derived;
  liveness.onReturn((lease) => {
    for (const machine of machinesOfLease(stores, lease)) countAndNotify(derived, machine);
  });
  for (const node of stores.nodes.list()) observeNode(derived, node);
  // There are no listeners yet.
  for (const machine of stores.machines.list()) count(derived, machine);
  const cancellations = [
    stores.nodes.subscribe((event) => onNode(derived, event)),
    stores.machines.subscribe((event) => onMachine(derived, event)),
    stores.rules.subscribe(() => onRules(derived)),
  ];
  return () => {
    groupChanges.stop();
    liveness.stop();
    reservations.stop();
    for (const cancel of cancellations) cancel();
  };
}

function onNode(derived: Derived, event: StoreEvent<Node>): void {
  if (event.type === 'listed' || event.type === 'bookmark') return;
  const { heartbeats, stores, groupChanges } = derived;
  const { name, uid } = event.object.metadata;
  if (event.type !== 'deleted') observeNode(derived, event.object);
  else if (heartbeats.get(name)?.nodeUID === uid) heartbeats.delete(name);
  for (const machine of machinesOfNode(stores, name)) groupChanges.add(count(derived, machine));
}

function onMachine(derived: Derived, event: StoreEvent<Machine>): void {
  if (event.type === 'listed' || event.type === 'bookmark') return;
  const { pauses, superseded, peers, groupChanges } = derived;
  if (event.type !== 'deleted') return groupChanges.add(count(derived, event.object));
  const { uid } = event.object.metadata;
  pauses.forget(uid);
  superseded.forget(uid);
  groupChanges.add(peers.set(uid, undefined));
}

function onRules(derived: Derived): void {
  const before = derived.book;
  derived.book = openRulebook(derived.stores.rules.list(), before);
  if (derived.book !== before) derived.rulebookListeners.notify(before, derived.book);
}

function observeNode({ heartbeats, now }: Derived, node: Stored<Node>): void {
  const { name, uid } = node.metadata;
  heartbeats.set(name, observeHeartbeats(heartbeats.get(name), uid, node.status?.conditions ?? [], now()));
}

/** Counts a machine among its peers, as it is now. Returns the groups whose counts changed. */
function count(derived: Derived, machine: Stored<Machine>): ReadonlySet<string> {
  const { uid } = machine.metadata;
  return derived.peers.set(uid, peerOf(snapshotOf(derived, machine), derived.reservations.ofMachine(uid) !== undefined));
}

function countAndNotify(derived: Derived, machine: Stored<Machine>): void {
  derived.groupChanges.add(count(derived, machine));
  derived.machineListeners.notify(keyOf(machine.metadata));
}

function snapshotOf(derived: Derived, machine: Machine, live?: { node: Node | undefined }): Snapshot {
  const { stores, heartbeats, pauses, peers, reservations } = derived;
  const uid = machine.metadata.uid ?? '';
  const nodeName = machine.status?.nodeRef?.name;
  const nowMs = derived.now();
  const node = live === undefined ? (nodeName === undefined ? undefined : stores.nodes.get({ name: nodeName })) : live.node;
  return takeSnapshot({
    nowMs,
    machine,
    node,
    heartbeats: nodeName === undefined ? undefined : heartbeats.get(nodeName),
    kubeletFreshUntilMs: nodeName === undefined ? undefined : freshUntilMs(derived, kubeletLease(nodeName)),
    agentFreshUntilMs: freshUntilMs(derived, agentLease(machine)),
    peers: peers.factsFor(uid),
    pause: pauses.of(uid, { machine, reservation: reservations.ofMachine(uid), jobs: jobsOf(stores, uid) }, nowMs),
  });
}

/** Until when the holder of this Lease is presumed alive, by the clock of rules. */
function freshUntilMs({ liveness, now, clock }: Derived, lease: ObjectKey): number | undefined {
  const untilMs = liveness.presumedAliveUntilMs(lease);
  return untilMs === undefined ? undefined : now() + untilMs - clock.monotonic();
}
