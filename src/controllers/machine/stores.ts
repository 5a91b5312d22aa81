import { Leases, Nodes, type Lease, type Node } from '../../api/builtin.ts';
import { DefenderPolicies, type DefenderPolicy } from '../../api/defender-policy.ts';
import { DisruptionLedgers, type DisruptionLedger } from '../../api/disruption-ledger.ts';
import { Freezes, type Freeze } from '../../api/freeze.ts';
import { MachineComponentSets, type MachineComponentSet } from '../../api/machine-component-set.ts';
import { Machines, type Machine } from '../../api/machine.ts';
import { RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Cache } from '../../kube/cache.ts';
import type { Reflector } from '../../kube/reflector.ts';
import { noteRenewal } from '../../kube/renewal.ts';

/** The stores that the machine controller of a cell observes. */
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

export function openStores(cache: Cache): Stores {
  return {
    machines: cache.store(Machines),
    nodes: cache.store(Nodes),
    leases: cache.store(Leases, { project: noteRenewal }),
    sets: cache.store(MachineComponentSets),
    policies: cache.store(DefenderPolicies),
    freezes: cache.store(Freezes),
    ledgers: cache.store(DisruptionLedgers),
    jobs: cache.store(RemedyOperationJobs),
  };
}
