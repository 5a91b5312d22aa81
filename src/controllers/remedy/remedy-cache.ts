/**
 * What the two remedy controllers see of a cell: the stores, what is remembered of heartbeats and Leases, who is ill beside whom, and the
 * rules that run. Kept up to date event by event; nothing here is proportional to the number of machines, save where a rule changes.
 *
 * All it knows is derived from objects and can be derived again by whoever starts next.
 */
import { Leases, Nodes, type Lease, type Node } from '../../api/builtin.ts';
import { DisruptionLedgers, LEDGER_NAME, type DisruptionLedger, type LedgerReservation } from '../../api/disruption-ledger.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { KUBELET_LEASES } from '../../api/names.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import type { Clock } from '../../api/ports.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { keyOf, type ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import { agentLease, kubeletLease, trackLiveness } from '../../kube/liveness.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { noteRenewal } from '../../kube/renewal.ts';
import { ownerUID } from '../../rules/job.ts';
import { observeHeartbeats, type Heartbeats } from '../../rules/heartbeats.ts';
import { PeerIndex, peerOf } from '../../rules/peers.ts';
import { takeSnapshot, type Snapshot } from '../../rules/snapshot.ts';
import { isStale } from '../shared/stale-store.ts';
import { createHolds } from './hold.ts';
import { EMPTY_BOOK, openRulebook, type Rulebook } from './rulebook.ts';
import { steadyNow } from './steady-clock.ts';

export interface RemedyStores {
  machines: Reflector<Machine>;
  nodes: Reflector<Node>;
  leases: Reflector<Lease>;
  ledgers: Reflector<DisruptionLedger>;
  rules: Reflector<NodeRemedier>;
  jobs: Reflector<RemedyOperationJob>;
}

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
  /** Whether the server has not been heard for so long that what is seen must not be acted upon. */
  isStale(): boolean;
  /** Told of machines that came into or out of the cache otherwise than by an event of their Machine, Node or jobs. Returns the cancellation. */
  onMachine(listener: (key: string) => void): () => void;
  /** Told of peer groups whose counts moved. */
  onGroups(listener: (groups: ReadonlySet<string>) => void): () => void;
  onRulebook(listener: (before: Rulebook, after: Rulebook) => void): () => void;
  /** Why something better shall take the place of a job that has no order yet; derived again by whoever looks at the machine. */
  supersededBy(jobUID: string): string | undefined;
  /** Says so of one job of a machine (undefined: of none). Wakes it where that is news. */
  supersede(machineUID: string, verdict: { job: Stored<RemedyOperationJob>; why: string } | undefined): void;
  /** Calls for a look at a job of which something else than its objects has changed. */
  wakeJob(job: Stored<RemedyOperationJob>): void;
  onJob(listener: (job: Stored<RemedyOperationJob>) => void): () => void;
  stop(): void;
}

export interface RemedyCacheOptions {
  cache: Cache;
  clock: Clock;
  signal: AbortSignal;
}

/** Counts of peers are told this often at most; a look that needs them reads them as they are. */
const GATHER_MS = 100;

const BY_NODE = 'remedy/node';
const byNode = (machine: Stored<Machine>): string[] => (machine.status?.nodeRef === undefined ? [] : [machine.status.nodeRef.name]);
const BY_AGENT = 'remedy/agent';
const byAgent = (machine: Stored<Machine>): string[] => [keyOf(agentLease(machine))];
const BY_UID = 'remedy/uid';
const byUID = ({ metadata }: { metadata: { uid: string } }): string[] => [metadata.uid];
const BY_MACHINE = 'remedy/machine';
const byMachine = (job: Stored<RemedyOperationJob>): string[] => [job.spec.machine.uid];
const BY_SET = 'remedy/set';
const bySet = ({ spec }: Stored<RemedyOperationJob>): string[] => (spec.machineSet === undefined ? [] : [spec.machineSet]);

interface Reservations {
  ledger: Stored<DisruptionLedger> | undefined;
  byMachine: ReadonlyMap<string, LedgerReservation>;
  byRequester: ReadonlyMap<string, LedgerReservation>;
}

function reservationsOf(ledger: Stored<DisruptionLedger> | undefined): Reservations {
  const reservations = ledger?.status?.reservations ?? [];
  return {
    ledger,
    byMachine: new Map(reservations.map((reservation) => [reservation.machineUID, reservation])),
    byRequester: new Map(reservations.map((reservation) => [reservation.requesterUID, reservation])),
  };
}

/** Resolves when every store is synced and everybody is counted: a rule about peers must not be asked before. */
export async function openRemedyCache({ cache, clock, signal }: RemedyCacheOptions): Promise<RemedyCache> {
  const stores: RemedyStores = {
    machines: cache.store(Machines, { indexes: { [BY_NODE]: byNode, [BY_AGENT]: byAgent, [BY_UID]: byUID } }),
    nodes: cache.store(Nodes),
    leases: cache.store(Leases, { project: noteRenewal }),
    ledgers: cache.store(DisruptionLedgers),
    rules: cache.store(NodeRemediers),
    jobs: cache.store(RemedyOperationJobs, { indexes: { [BY_MACHINE]: byMachine, [BY_UID]: byUID, [BY_SET]: bySet } }),
  };
  await Promise.all(Object.values(stores).map((store) => store.whenSynced(signal)));
  return seeing(stores, clock);
}

function seeing(stores: RemedyStores, clock: Clock): RemedyCache {
  const now = steadyNow(clock);
  const heartbeats = new Map<string, Heartbeats>();
  const holds = createHolds();
  const peers = new PeerIndex();
  const listeners = {
    machine: new Set<(key: string) => void>(),
    groups: new Set<(groups: ReadonlySet<string>) => void>(),
    rulebook: new Set<(before: Rulebook, after: Rulebook) => void>(),
    job: new Set<(job: Stored<RemedyOperationJob>) => void>(),
  };
  /** By machine: at most one job of it is open before its order. */
  const superseded = new Map<string, { jobUID: string; why: string }>();
  let reservations = reservationsOf(stores.ledgers.get({ name: LEDGER_NAME }));
  let book = openRulebook(stores.rules.list(), EMPTY_BOOK);

  const listen = <T>(set: Set<T>, listener: T) => (set.add(listener), () => void set.delete(listener));
  const moved = (machine: Stored<Machine>): void => {
    count(machine);
    for (const listener of listeners.machine) listener(keyOf(machine.metadata));
  };

  const liveness = trackLiveness(stores.leases, clock);
  /** By the clock of rules. */
  const presumedAliveUntilMs = (key: ObjectKey): number | undefined => {
    const untilMs = liveness.presumedAliveUntilMs(key);
    return untilMs === undefined ? undefined : now() + untilMs - clock.monotonic();
  };
  liveness.onReturn((key) => {
    const machines =
      key.namespace === KUBELET_LEASES ? stores.machines.byIndex(BY_NODE, key.name) : stores.machines.byIndex(BY_AGENT, keyOf(key));
    for (const machine of machines) moved(machine);
  });

  function heard(node: Stored<Node>): void {
    const { name, uid } = node.metadata;
    heartbeats.set(name, observeHeartbeats(heartbeats.get(name), uid, node.status?.conditions ?? [], now()));
  }

  function snapshot(machine: Machine, live?: { node: Node | undefined }): Snapshot {
    const uid = machine.metadata.uid ?? '';
    const nodeName = machine.status?.nodeRef?.name;
    const nowMs = now();
    const node = live === undefined ? (nodeName === undefined ? undefined : stores.nodes.get({ name: nodeName })) : live.node;
    return takeSnapshot({
      nowMs,
      machine,
      node,
      heartbeats: nodeName === undefined ? undefined : heartbeats.get(nodeName),
      kubeletFreshUntilMs: nodeName === undefined ? undefined : presumedAliveUntilMs(kubeletLease(nodeName)),
      agentFreshUntilMs: presumedAliveUntilMs(agentLease(machine)),
      peers: peers.factsFor(uid),
      hold: holds.of(uid, { machine, reservation: reservations.byMachine.get(uid), jobs: stores.jobs.byIndex(BY_MACHINE, uid) }, nowMs),
    });
  }

  const setPeer = (machine: Stored<Machine>): ReadonlySet<string> =>
    peers.set(machine.metadata.uid, peerOf(snapshot(machine), reservations.byMachine.has(machine.metadata.uid)));
  const count = (machine: Stored<Machine>): void => tell(setPeer(machine));

  /** Gathered for a while: where a whole zone falls ill, each of its machines moves the counts for all the others. */
  const movedGroups = new Set<string>();
  let cancelTelling: (() => void) | undefined;
  function tell(groups: ReadonlySet<string>): void {
    for (const group of groups) movedGroups.add(group);
    if (movedGroups.size === 0 || cancelTelling !== undefined) return;
    cancelTelling = clock.setTimer(GATHER_MS, () => {
      cancelTelling = undefined;
      const told = new Set(movedGroups);
      movedGroups.clear();
      for (const listener of listeners.groups) listener(told);
    });
  }

  function wakeJob(job: Stored<RemedyOperationJob>): void {
    for (const listener of listeners.job) listener(job);
  }

  for (const node of stores.nodes.list()) heard(node);
  // Nobody listens yet.
  for (const machine of stores.machines.list()) setPeer(machine);

  const cancellations = [
    stores.nodes.subscribe((event) => {
      if (event.type === 'listed' || event.type === 'bookmark') return;
      const { name, uid } = event.object.metadata;
      if (event.type !== 'deleted') heard(event.object);
      else if (heartbeats.get(name)?.nodeUID === uid) heartbeats.delete(name);
      for (const machine of stores.machines.byIndex(BY_NODE, name)) count(machine);
    }),
    stores.machines.subscribe((event) => {
      if (event.type === 'listed' || event.type === 'bookmark') return;
      if (event.type !== 'deleted') return count(event.object);
      holds.forget(event.object.metadata.uid);
      superseded.delete(event.object.metadata.uid);
      tell(peers.set(event.object.metadata.uid, undefined));
    }),
    stores.ledgers.subscribe((event) => {
      if (event.type === 'listed' || event.type === 'bookmark' || event.object.metadata.name !== LEDGER_NAME) return;
      const before = reservations;
      reservations = reservationsOf(event.type === 'deleted' ? undefined : event.object);
      for (const [uid, reservation] of [...before.byMachine, ...reservations.byMachine])
        if (before.byMachine.get(uid)?.id !== reservations.byMachine.get(uid)?.id)
          for (const machine of stores.machines.byIndex(BY_UID, reservation.machineUID)) moved(machine);
    }),
    stores.rules.subscribe(() => {
      const before = book;
      book = openRulebook(stores.rules.list(), before);
      if (book !== before) for (const listener of listeners.rulebook) listener(before, book);
    }),
  ];

  return {
    stores,
    now,
    rulebook: () => book,
    machinesOfNode: (node) => stores.machines.byIndex(BY_NODE, node),
    jobsOf: (machineUID) => stores.jobs.byIndex(BY_MACHINE, machineUID),
    jobsOfSet(machine) {
      const set = ownerUID(machine);
      return set === undefined ? [] : stores.jobs.byIndex(BY_SET, set);
    },
    jobOfUID: (uid) => stores.jobs.byIndex(BY_UID, uid)[0],
    reservationOf: (machineUID) => reservations.byMachine.get(machineUID),
    reservationAskedBy: (requesterUID) => reservations.byRequester.get(requesterUID),
    snapshot,
    groupsOf: (machineUID) => peers.groupsOf(machineUID),
    isStale: () => [stores.machines, stores.nodes, stores.leases, stores.ledgers, stores.jobs].some(isStale),
    onMachine: (listener) => listen(listeners.machine, listener),
    onGroups: (listener) => listen(listeners.groups, listener),
    onRulebook: (listener) => listen(listeners.rulebook, listener),
    supersededBy: (jobUID) => {
      const machineUID = stores.jobs.byIndex(BY_UID, jobUID)[0]?.spec.machine.uid;
      const verdict = machineUID === undefined ? undefined : superseded.get(machineUID);
      return verdict?.jobUID === jobUID ? verdict.why : undefined;
    },
    supersede(machineUID, verdict) {
      const before = superseded.get(machineUID);
      if (verdict === undefined) superseded.delete(machineUID);
      else superseded.set(machineUID, { jobUID: verdict.job.metadata.uid, why: verdict.why });
      if (verdict !== undefined && before?.jobUID !== verdict.job.metadata.uid) wakeJob(verdict.job);
    },
    wakeJob,
    onJob: (listener) => listen(listeners.job, listener),
    stop() {
      cancelTelling?.();
      liveness.stop();
      for (const cancel of cancellations) cancel();
    },
  };
}
