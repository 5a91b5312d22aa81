/** The stores that the two remedy controllers of a cell read, and how objects in them are found. */
import { Leases, Nodes, type Lease, type Node } from '../../api/builtin.ts';
import { DisruptionLedgers, type DisruptionLedger } from '../../api/disruption-ledger.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { KUBELET_LEASES } from '../../api/names.ts';
import { NodeRemediers, type NodeRemedier } from '../../api/node-remedier.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import { keyOf, type ObjectKey } from '../../api/resource.ts';
import type { Stored } from '../../api/wire.ts';
import type { Cache } from '../../kube/cache.ts';
import { agentLease } from '../../kube/liveness.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { noteRenewal } from '../../kube/renewal.ts';
import { ownerUID } from '../../rules/job.ts';

export interface RemedyStores {
  machines: Reflector<Machine>;
  nodes: Reflector<Node>;
  leases: Reflector<Lease>;
  ledgers: Reflector<DisruptionLedger>;
  rules: Reflector<NodeRemedier>;
  jobs: Reflector<RemedyOperationJob>;
}

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

/** Resolves when every store is synced. */
export async function openRemedyStores(cache: Cache, signal: AbortSignal): Promise<RemedyStores> {
  const stores: RemedyStores = {
    machines: cache.store(Machines, { indexes: { [BY_NODE]: byNode, [BY_AGENT]: byAgent, [BY_UID]: byUID } }),
    nodes: cache.store(Nodes),
    leases: cache.store(Leases, { project: noteRenewal }),
    ledgers: cache.store(DisruptionLedgers),
    rules: cache.store(NodeRemediers),
    jobs: cache.store(RemedyOperationJobs, { indexes: { [BY_MACHINE]: byMachine, [BY_UID]: byUID, [BY_SET]: bySet } }),
  };
  await Promise.all(Object.values(stores).map((store) => store.whenSynced(signal)));
  return stores;
}

export const machinesOfNode = ({ machines }: RemedyStores, node: string): Stored<Machine>[] => machines.byIndex(BY_NODE, node);
export const machinesOfUID = ({ machines }: RemedyStores, uid: string): Stored<Machine>[] => machines.byIndex(BY_UID, uid);
/** The machines whose kubelet or agent renews this Lease. */
export const machinesOfLease = (stores: RemedyStores, lease: ObjectKey): Stored<Machine>[] =>
  lease.namespace === KUBELET_LEASES ? machinesOfNode(stores, lease.name) : stores.machines.byIndex(BY_AGENT, keyOf(lease));

export const jobsOf = ({ jobs }: RemedyStores, machineUID: string): Stored<RemedyOperationJob>[] => jobs.byIndex(BY_MACHINE, machineUID);
export const jobOfUID = ({ jobs }: RemedyStores, uid: string): Stored<RemedyOperationJob> | undefined => jobs.byIndex(BY_UID, uid)[0];
/** Jobs of the machines of the MachineSet that owns this one, also of machines that are gone; none where no set owns it. */
export function jobsOfSet({ jobs }: RemedyStores, machine: Machine): Stored<RemedyOperationJob>[] {
  const set = ownerUID(machine);
  return set === undefined ? [] : jobs.byIndex(BY_SET, set);
}
