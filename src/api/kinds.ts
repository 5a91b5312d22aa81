/** All kinds of this group. */
import type { Kind } from './kind.ts';
import { Clusters } from './cluster.ts';
import { DefenderPolicies } from './defender-policy.ts';
import { DisruptionLedgers } from './disruption-ledger.ts';
import { Fleets } from './fleet.ts';
import { Freezes } from './freeze.ts';
import { Machines } from './machine.ts';
import { MachineComponents } from './machine-component.ts';
import { MachineComponentSets } from './machine-component-set.ts';
import { MachineSets } from './machine-set.ts';
import { NodeRemediers } from './node-remedier.ts';
import { RemedyOperationJobs } from './remedy-operation-job.ts';
import { Rollouts } from './rollout.ts';

export const HUB_KINDS: Kind[] = [Fleets, Clusters, Rollouts];
export const CELL_KINDS: Kind[] = [
  Machines,
  MachineSets,
  MachineComponents,
  MachineComponentSets,
  DefenderPolicies,
  DisruptionLedgers,
  Freezes,
  NodeRemediers,
  RemedyOperationJobs,
];
export const ALL_KINDS: Kind[] = [...HUB_KINDS, ...CELL_KINDS];

export function kindNamed(kind: string): Kind | undefined {
  return ALL_KINDS.find((each) => each.kind === kind);
}
