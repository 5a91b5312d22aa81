import type { Lease, Node } from '../../../api/builtin.ts';
import type { DefenderPolicy } from '../../../api/defender-policy.ts';
import { LEDGER_NAME, type DisruptionLedger, type LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Freeze } from '../../../api/freeze.ts';
import type { Machine } from '../../../api/machine.ts';
import type { MachineComponentSet } from '../../../api/machine-component-set.ts';
import type { Clock } from '../../../api/ports.ts';
import type { InfraProvider } from '../../../api/provider.ts';
import { isFinished, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import { parseKey } from '../../../api/resource.ts';
import type { Stored } from '../../../api/wire.ts';
import type { Client } from '../../../kube/client.ts';
import { agentLease, type Liveness } from '../../../kube/liveness.ts';
import type { Reflector } from '../../../kube/reflector.ts';
import type { ReleaseMarks } from '../../../defender/evidence.ts';
import type { Verdict } from '../../../defender/request.ts';
import { reservationOfMachine, stateOf } from '../../../defender/state.ts';
import { isStale } from '../../shared/stale-store.ts';
import { findAsking, type Asking } from '../reservation/asking.ts';
import { keepAvailability, machinesNamed } from './cell-availability.ts';
import { cellSets } from './cell-sets.ts';
import { isDeleting, type AskFacts, type JobsOf } from '../facts.ts';
import { claimOf } from './claim.ts';
import { isDraining, isOnItsProvider } from '../decide.ts';
import type { InstanceView, MachineView, NotOnNode } from '../view.ts';
import { instanceOf } from '../provision/instance.ts';
import { requestOf } from '../../identity/provision.ts';
import { watchKubelets } from './kubelets.ts';
import { mayTakePods, planNode } from '../node-sync/node-sync.ts';
import { drainedPods } from '../drain/pods.ts';
import { remade } from './remade.ts';
import type { CellView } from '../reservation/pass.ts';

export interface Stores {
  machines: Reflector<Machine>;
  nodes: Reflector<Node>;
  leases: Reflector<Lease>;
  sets: Reflector<MachineComponentSet>;
  policies: Reflector<DefenderPolicy>;
  freezes: Reflector<Freeze>;
  ledgers: Reflector<DisruptionLedger>;
  jobs: Reflector<RemedyOperationJob>;
}

/** How old the provider's word on a machine that runs may be; it is asked again at once about any other. */
const INSTANCE_MS = 60_000;

/** What of a machine only this process knows. */
export interface OwnKnowledge {
  /** By reservation ID: what Defender says of a reservation without an order that it would not grant any more. */
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
  cell(askingSince: (uid: string) => number, marks: ReleaseMarks): CellView;
  stop(): void;
}

const OPEN_JOBS = 'job/open-of-machine';

export function createObserver(
  client: Client,
  stores: Stores,
  providers: ReadonlyMap<string, InfraProvider>,
  liveness: Liveness,
  clock: Clock,
  epoch: number,
): Observer {
  const nowMs = (): number => clock.now();
  // Finished jobs are the record of a month: they are left out, so that asking costs nothing by their number.
  stores.jobs.addIndex(OPEN_JOBS, (job) => (isFinished(job) ? [] : [job.spec.machine.uid]));
  const jobsOf: JobsOf = (machineUID) => stores.jobs.byIndex(OPEN_JOBS, machineUID);
  const canPowerCycle = ({ spec }: Machine): boolean => providers.get(spec.provider?.name ?? '')?.reboot !== undefined;
  const instances = new Map<string, { view: InstanceView; at: number }>();
  const stopForgetting = stores.machines.subscribe((event) => {
    if (event.type === 'deleted') instances.delete(event.object.metadata.uid);
  });
  const asking = findAsking(stores);
  const sets = remade(stores.sets, cellSets);
  const freezes = remade(stores.freezes, (all) => all);
  const policies = remade(stores.policies, (all) => all);
  const kubelets = watchKubelets(stores.leases, liveness, clock);
  const availabilityIndex = keepAvailability({ stores, kubelets, sets });

  async function instanceNow(
    machine: Stored<Machine>,
    reservation: LedgerReservation | undefined,
    provider: InfraProvider | undefined,
    signal: AbortSignal,
  ): Promise<InstanceView> {
    const { uid } = machine.metadata;
    const known = instances.get(uid);
    const settled =
      !isOnItsProvider({ machine, reservation }) &&
      machine.status?.phase === 'Running' &&
      !isDeleting(machine) &&
      known?.view.state === 'Present';
    if (settled && clock.monotonic() - known.at < INSTANCE_MS) return known.view;
    const view = await instanceOf(machine, provider, signal);
    instances.set(uid, { view, at: clock.monotonic() });
    return view;
  }

  const ledgerState = () => stateOf(stores.ledgers.get({ name: LEDGER_NAME }) ?? {});
  const agentAnswers = (machine: Machine): boolean => liveness.isAlive(agentLease(machine));
  const facts = (): Omit<AskFacts, 'agentAnswers'> => ({
    nowMs: nowMs(),
    epoch,
    sets: sets().facts,
    freezes: freezes(),
    policies: policies(),
    jobsOf,
    canPowerCycle,
  });

  function staleness(marks: ReleaseMarks): string | undefined {
    for (const store of Object.values(stores)) {
      if (!store.synced) return `${store.resource.plural} are not listed yet`;
      if (!isStale(store)) continue;
      // Where a server sends no bookmarks silence proves nothing; a list does.
      if (store.state.phase === 'watching') store.relist();
      return `nothing was heard of ${store.resource.plural} for ${Math.round(store.quietMs() / 1000)} s`;
    }
    return marks.allPassed() ? undefined : 'a release is not seen in the stores yet';
  }

  return {
    async machine(machine, provider, own, signal) {
      const ledger = ledgerState();
      const reservation = reservationOfMachine(ledger, machine.metadata.uid);
      const instance = await instanceNow(machine, reservation, provider, signal);
      const providerID = machine.status?.providerID ?? (instance.state === 'Present' ? instance.instance.providerID : undefined);
      const claim = claimOf(machine, providerID, stores.nodes.get({ name: machine.metadata.name }));
      const answers = kubelets.answers(machine.metadata.name);
      const view: MachineView = {
        nowMs: nowMs(),
        machine,
        reservation,
        claim,
        providerID,
        instanceID: machine.status?.providerID ?? provider?.providerIDOf(requestOf(machine)) ?? '',
        instance,
        kubeletAnswers: answers,
        facts: { ...facts(), agentAnswers: agentAnswers(machine) },
        pods: undefined,
        nodeDrift: false,
        notOnNode: [],
        revoked: reservation === undefined ? undefined : own.revokedBy(reservation.id),
        hours: ledger.hours ?? [],
        canStop: provider?.stop !== undefined,
        powerCycled: reservation !== undefined && own.cycled.has(reservation.id),
      };
      return withPlan(isDraining(view) ? { ...view, pods: await drainedPods(client, machine.metadata.name, signal) } : view);
    },
    jobsOf,
    asking,
    machinesNamed: machinesNamed(stores.machines),
    epoch: () => ledgerState().epoch,
    cell: (askingSince, marks) => ({
      facts: facts(),
      asking: () => asking.machines(),
      machineOf(reservation) {
        const machine = stores.machines.get(parseKey(reservation.machine));
        return machine?.metadata.uid === reservation.machineUID ? machine : undefined;
      },
      availabilityIndex: () => availabilityIndex.current(),
      nodeNamed: (name) => stores.nodes.get({ name }),
      agentAnswers,
      askingSince,
      stale: staleness(marks),
    }),
    stop() {
      stopForgetting();
      availabilityIndex.stop();
      kubelets.stop();
    },
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
