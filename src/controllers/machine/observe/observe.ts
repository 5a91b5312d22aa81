import type { DefenderPolicy } from '../../../api/defender-policy.ts';
import { LEDGER_NAME } from '../../../api/disruption-ledger.ts';
import type { Freeze } from '../../../api/freeze.ts';
import type { Machine } from '../../../api/machine.ts';
import type { Clock } from '../../../api/ports.ts';
import type { InfraProvider } from '../../../api/provider.ts';
import { isFinished } from '../../../api/remedy-operation-job.ts';
import { parseKey } from '../../../api/resource.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Client } from '../../../kube/client.ts';
import { agentLease, type Liveness } from '../../../kube/liveness.ts';
import type { ReleaseMarks } from '../../../defender/evidence.ts';
import type { Verdict } from '../../../defender/request.ts';
import { reservationOfMachine, stateOf, type LedgerState } from '../../../defender/state.ts';
import { findAsking, type Asking } from '../reservation/asking.ts';
import { keepAvailability, machinesNamed, type CellAvailability } from './cell-availability.ts';
import { cellSets, type CellSets } from './cell-sets.ts';
import type { AskFacts, JobsOf } from '../facts.ts';
import { claimOf } from './claim.ts';
import { isDraining } from '../decide.ts';
import type { MachineView, NotOnNode } from '../view.ts';
import { createInstances, type Instances } from './instances.ts';
import { requestOf } from '../../identity/provision.ts';
import { watchKubelets, type Kubelets } from './kubelets.ts';
import { mayTakePods, planNode } from '../node-sync/node-sync.ts';
import { drainedPods } from '../drain/pods.ts';
import { remade } from './remade.ts';
import { whyStale } from './stale.ts';
import type { Stores } from '../stores.ts';
import type { PassView } from '../reservation/pass.ts';

/** What only this process knows of a machine. */
export interface OwnKnowledge {
  /** By reservation ID: the verdict of Defender on a reservation without an order that it would not grant any more. */
  revokedBy: (reservationID: string) => Verdict | undefined;
  /** Operations whose power cycle the provider has taken. */
  cycled: ReadonlySet<string>;
}

export interface Observer {
  /** Everything about one machine. Asks the provider, and the server for pods where a drain is under way. */
  machine(machine: Stored<Machine>, provider: InfraProvider | undefined, own: OwnKnowledge, signal: AbortSignal): Promise<MachineView>;
  /** Jobs that are not finished. */
  jobsOf: JobsOf;
  /** Machines that may ask for something. */
  asking: Asking;
  machinesNamed: (name: string) => Stored<Machine>[];
  /** The epoch that the ledger's store shows. */
  epoch(): number;
  /** Everything about the cell, from the stores. */
  cell(askingSince: (uid: string) => number, marks: ReleaseMarks): PassView;
  stop(): void;
}

const OPEN_JOBS = 'job/open-of-machine';

export interface ObserverOptions {
  client: Client;
  stores: Stores;
  /** By name. */
  providers: ReadonlyMap<string, InfraProvider>;
  liveness: Liveness;
  clock: Clock;
  epoch: number;
}

/** What observations are made from: the stores, and what this process derives from them event by event. */
interface Sources extends ObserverOptions {
  jobsOf: JobsOf;
  asking: Asking;
  sets: () => CellSets;
  freezes: () => readonly Stored<Freeze>[];
  policies: () => readonly Stored<DefenderPolicy>[];
  kubelets: Kubelets;
  instances: Instances;
  availabilityIndex: CellAvailability;
}

export function createObserver(options: ObserverOptions): Observer {
  const { stores, liveness, clock } = options;
  // Finished jobs are kept for a month. The index leaves them out, so that a lookup does not grow with their number.
  stores.jobs.addIndex(OPEN_JOBS, (job) => (isFinished(job) ? [] : [job.spec.machine.uid]));
  const jobsOf: JobsOf = (machineUID) => stores.jobs.byIndex(OPEN_JOBS, machineUID);
  const instances = createInstances(stores.machines, clock);
  const asking = findAsking(stores);
  const sets = remade(stores.sets, cellSets);
  const kubelets = watchKubelets(stores.leases, liveness, clock);
  const sources: Sources = {
    ...options,
    jobsOf,
    asking,
    sets,
    freezes: remade(stores.freezes, (all) => all),
    policies: remade(stores.policies, (all) => all),
    kubelets,
    instances,
    availabilityIndex: keepAvailability({ stores, kubelets, sets }),
  };
  return {
    machine: (machine, provider, own, signal) => observeMachine(sources, machine, provider, own, signal),
    jobsOf,
    asking,
    machinesNamed: machinesNamed(stores.machines),
    epoch: () => ledgerOf(stores).epoch,
    cell: (askingSince, marks) => observeCell(sources, askingSince, marks),
    stop() {
      instances.stop();
      sources.availabilityIndex.stop();
      kubelets.stop();
    },
  };
}

const ledgerOf = (stores: Stores): LedgerState => stateOf(stores.ledgers.get({ name: LEDGER_NAME }) ?? {});

function factsOf({ clock, epoch, sets, freezes, policies, jobsOf, providers }: Sources): Omit<AskFacts, 'agentAnswers'> {
  return {
    nowMs: clock.now(),
    epoch,
    sets: sets().facts,
    freezes: freezes(),
    policies: policies(),
    jobsOf,
    canPowerCycle: ({ spec }) => providers.get(spec.provider?.name ?? '')?.reboot !== undefined,
  };
}

async function observeMachine(
  sources: Sources,
  machine: Stored<Machine>,
  provider: InfraProvider | undefined,
  own: OwnKnowledge,
  signal: AbortSignal,
): Promise<MachineView> {
  const { client, stores, kubelets, liveness, clock } = sources;
  const ledger = ledgerOf(stores);
  const reservation = reservationOfMachine(ledger, machine.metadata.uid);
  const instance = await sources.instances.of(machine, reservation, provider, signal);
  const providerID = machine.status?.providerID ?? (instance.state === 'Present' ? instance.instance.providerID : undefined);
  const claim = claimOf(machine, providerID, stores.nodes.get({ name: machine.metadata.name }));
  const kubeletAnswers = kubelets.answers(machine.metadata.name);
  const view: MachineView = {
    nowMs: clock.now(),
    machine,
    reservation,
    claim,
    providerID,
    instanceID: machine.status?.providerID ?? provider?.providerIDOf(requestOf(machine)) ?? '',
    instance,
    kubeletAnswers,
    facts: { ...factsOf(sources), agentAnswers: liveness.isAlive(agentLease(machine)) },
    pods: undefined,
    uncounted: sources.sets().uncounted(machine),
    nodeDrift: false,
    notOnNode: [],
    revoked: reservation === undefined ? undefined : own.revokedBy(reservation.id),
    hours: ledger.hours ?? [],
    canStop: provider?.stop !== undefined,
    powerCycled: reservation !== undefined && own.cycled.has(reservation.id),
  };
  return withPlan(isDraining(view) ? { ...view, pods: await drainedPods(client, machine.metadata.name, signal) } : view);
}

function observeCell(sources: Sources, askingSince: (uid: string) => number, marks: ReleaseMarks): PassView {
  const { stores, asking, availabilityIndex, liveness } = sources;
  return {
    facts: factsOf(sources),
    asking: () => asking.machines(),
    machineOf(reservation) {
      const machine = stores.machines.get(parseKey(reservation.machine));
      return machine?.metadata.uid === reservation.machineUID ? machine : undefined;
    },
    availabilityIndex: () => availabilityIndex.current(),
    nodeNamed: (name) => stores.nodes.get({ name }),
    agentAnswers: (machine) => liveness.isAlive(agentLease(machine)),
    askingSince,
    stale: whyStale(stores, marks),
  };
}

/** What is to be written to its Node, and what is kept from it. */
function withPlan(view: MachineView): MachineView {
  const { machine, claim, reservation, pods, kubeletAnswers } = view;
  if (claim.state !== 'Claimed') return view;
  const { record, node, foreign, withheld } = planNode(machine, claim.node, {
    kubeletAnswers,
    mayTakePods: mayTakePods(machine, claim.node, reservation, pods),
  });
  const notOnNode: NotOnNode[] = [
    ...foreign.map((message) => ({ reason: 'SetByAnother' as const, message })),
    ...withheld.map((message) => ({ reason: 'TaintWithheld' as const, message })),
  ];
  return { ...view, nodeDrift: record !== undefined || node !== undefined, notOnNode };
}
