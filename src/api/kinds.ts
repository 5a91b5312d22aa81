/** All kinds of this group. */
import type { Kind } from './kind.ts';
import { Clusters } from './cluster.ts';
import { DefenderPolicies } from './defenderpolicy.ts';
import { DisruptionLedgers } from './disruptionledger.ts';
import { Fleets } from './fleet.ts';
import { Freezes } from './freeze.ts';
import { Machines } from './machine.ts';
import { MachineComponents } from './machinecomponent.ts';
import { MachineComponentSets } from './machinecomponentset.ts';
import { MachineSets } from './machineset.ts';
import { NodeRemediers } from './noderemedier.ts';
import { RemedyOperationJobs } from './remedyoperationjob.ts';
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
