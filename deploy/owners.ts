/**
 * Who writes what, as data: every kind and every field of `spec`. The admission policies are made from it. A field
 * that is named nowhere here is its kind's main writer's, so a new one is Git's until this table names another; Machines have no main writer.
 */
import { Clusters } from '../src/api/cluster.ts';
import { DefenderPolicies } from '../src/api/defender-policy.ts';
import { DisruptionLedgers } from '../src/api/disruption-ledger.ts';
import { Fleets } from '../src/api/fleet.ts';
import { Freezes } from '../src/api/freeze.ts';
import type { Kind } from '../src/api/kind.ts';
import { Machines } from '../src/api/machine.ts';
import { MachineComponents } from '../src/api/machine-component.ts';
import { MachineComponentSets } from '../src/api/machine-component-set.ts';
import { MachineSets } from '../src/api/machine-set.ts';
import { NodeRemediers } from '../src/api/node-remedier.ts';
import { RemedyOperationJobs } from '../src/api/remedy-operation-job.ts';
import { Rollouts } from '../src/api/rollout.ts';

/** `human` is everyone who is none of KubeNode's own: people, autoscalers, pipelines. */
export type Writer =
  | 'human'
  | 'hub'
  | 'sync'
  | 'machine'
  | 'identity'
  | 'machineSet'
  | 'machineComponentSet'
  | 'defender'
  | 'remedy'
  | 'remedyJob';

export interface Owners {
  create: Writer[];
  delete: Writer[];
  /** Labels: they choose members of sets and what sync may prune. */
  labels: Writer[];
  /** Absent: as labels. */
  finalizers?: Writer[];
  ownerReferences?: Writer[];
  /** By field of `spec`. */
  fields: Record<string, Writer[]>;
  /** What else `human` may write into an object that nothing controls: one that a person made. */
  byHand?: { create: string[]; update: string[] };
}

const all = (writer: Writer, fields: Iterable<string>): Record<string, Writer[]> =>
  Object.fromEntries([...fields].map((field) => [field, [writer]]));

/** One writer makes, labels, writes and deletes it. */
const by = (writer: Writer, kind: Kind, fields: Record<string, Writer[]> = {}): Owners => ({
  create: [writer],
  delete: [writer],
  labels: [writer],
  fields: { ...all(writer, kind.specFields), ...fields },
});

const TEMPLATE = ['labels', 'taints', 'failureDomain', 'drainTimeoutSeconds', 'operationTimeoutSeconds'];
/** Not where it is: by that its operations are counted and spread. */
const BY_HAND = TEMPLATE.filter((field) => field !== 'failureDomain');

export const CELL_OWNERS: Record<string, Owners> = {
  [Machines.plural]: {
    create: ['machineSet', 'human'],
    // The machine controller to replace one, and what its set has marked.
    delete: ['machine', 'human'],
    labels: ['machineSet'],
    finalizers: ['machine'],
    ownerReferences: ['machineSet'],
    fields: {
      ...all('machineSet', [...TEMPLATE, 'provider']),
      components: ['machineComponentSet'],
      // And an operator's release (docs/protocols.md#d5).
      operation: ['machine'],
      // And people, who may only remove it (docs/protocols.md#c8a).
      retire: ['machineSet'],
      hold: ['human'],
      paused: ['human'],
      // A machine of a set goes with its instance.
      deletionPolicy: [],
    },
    byHand: { create: [...BY_HAND, 'provider', 'deletionPolicy'], update: [...BY_HAND, 'deletionPolicy'] },
  },
  // Constructs leave out what people may write too, unless it is set.
  [MachineSets.plural]: by('sync', MachineSets, { replicas: ['human', 'sync'], paused: ['human', 'sync'] }),
  [MachineComponentSets.plural]: by('sync', MachineComponentSets, { rolloutID: ['human', 'sync'], paused: ['human', 'sync'] }),
  // A cell collects what nothing has named for 30 days (docs/protocols.md#a7).
  [MachineComponents.plural]: { ...by('sync', MachineComponents), delete: ['machineComponentSet'] },
  [DefenderPolicies.plural]: by('sync', DefenderPolicies),
  [NodeRemediers.plural]: by('sync', NodeRemediers),
  [Freezes.plural]: by('human', Freezes),
  [DisruptionLedgers.plural]: { ...by('machine', DisruptionLedgers), delete: [] },
  [RemedyOperationJobs.plural]: { ...by('remedy', RemedyOperationJobs), delete: ['remedyJob'] },
};

export const HUB_OWNERS: Record<string, Owners> = {
  [Fleets.plural]: by('human', Fleets),
  // One that no commit declares any more is left alone until a person removes it.
  [Clusters.plural]: { ...by('hub', Clusters, { paused: ['human', 'hub'] }), delete: ['human'] },
  [Rollouts.plural]: by('hub', Rollouts, { paused: ['human'], retry: ['human'] }),
};

/** Top-level fields of `Machine.status` and types of conditions that only the machine's agent writes; the rest is the cell's controllers'. */
export const AGENT_STATUS = ['agent', 'components', 'operation'];
export const AGENT_CONDITIONS = ['AgentReady'];
