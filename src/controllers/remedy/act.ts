import { API_VERSION } from '../../api/kind.ts';
import { Machines, type Machine, type Observation } from '../../api/machine.ts';
import { MACHINE_CONDITIONS, MANAGERS } from '../../api/names.ts';
import { JOB_LABELS, jobLabel, RemedyOperationJobs, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';
import { hasReason } from '../../kube/api-error.ts';
import type { Client } from '../../kube/client.ts';
import { findCondition, setCondition } from '../../kube/conditions.ts';

import type { NewJob, RepairNeeded } from './decide.ts';

/** The jobs of a machine as the server has them. */
export async function listJobs(client: Client, machine: Stored<Machine>, signal: AbortSignal): Promise<Stored<RemedyOperationJob>[]> {
  const { namespace = '', name, uid } = machine.metadata;
  const labelSelector = `${JOB_LABELS.machine}=${jobLabel(name)}`;
  const { items } = await client.listAll(RemedyOperationJobs, { namespace, labelSelector, signal });
  return items.filter((job) => job.spec.machine.uid === uid);
}

/**
 * Creates a job. False: there is one of that name, made by another leader or by a write of ours whose answer was lost. Nothing owns it: it
 * outlives its Machine as the record of what was done to it.
 */
export async function createJob(client: Client, machine: Machine, { name, spec }: NewJob, signal: AbortSignal): Promise<boolean> {
  const { namespace = '' } = machine.metadata;
  const labels = { [JOB_LABELS.rule]: jobLabel(spec.rule), [JOB_LABELS.machine]: jobLabel(spec.machine.name) };
  const job: RemedyOperationJob = {
    apiVersion: API_VERSION,
    kind: 'RemedyOperationJob',
    metadata: { namespace, name, labels },
    spec,
  };
  try {
    await client.create(RemedyOperationJobs, job, { fieldManager: MANAGERS.remedy, signal });
    return true;
  } catch (error) {
    if (hasReason(error, 'AlreadyExists')) return false;
    throw error;
  }
}

/** What the remedy controller reports on a Machine. */
export interface MachineReport {
  observations: readonly Observation[];
  /** Whether they differ from what is there. */
  changed: boolean;
  repairNeeded: RepairNeeded | undefined;
}

/**
 * Applies what differs; without a request when nothing does. The UID makes an apply for a machine that is gone fail, rather than report on its
 * successor what is not true of it.
 */
export async function reportMachine(
  client: Client,
  machine: Stored<Machine>,
  { observations, changed, repairNeeded }: MachineReport,
  nowMs: number,
  signal: AbortSignal,
): Promise<void> {
  const old = findCondition(machine.status?.conditions, MACHINE_CONDITIONS.repairNeeded);
  const before = old === undefined ? [] : [old];
  const conditions = repairNeeded === undefined ? before : setCondition(before, repairNeeded.condition, nowMs);
  const rules = repairNeeded?.rules ?? [];
  if (!changed && conditions === before) return;
  const { namespace, name, uid } = machine.metadata;
  const status = {
    ...(observations.length === 0 ? {} : { observations }),
    ...(conditions.length === 0 ? {} : { conditions }),
    ...(rules.length === 0 ? {} : { repairRules: [...rules] }),
  };
  const desired = {
    apiVersion: API_VERSION,
    kind: 'Machine',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), uid },
    status,
  };
  await client.apply(Machines, desired, { fieldManager: MANAGERS.remedy, subresource: 'status', force: true, signal });
}
