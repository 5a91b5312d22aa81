/** What is read of a machine and of its cell before anything is asked for. */
import type { CountOrPercent } from '../../api/batches.ts';
import type { DefenderPolicy } from '../../api/defender-policy.ts';
import type { Freeze } from '../../api/freeze.ts';
import type { Machine } from '../../api/machine.ts';
import { ANNOTATIONS, FINALIZERS, LABELS, MACHINE_CONDITIONS } from '../../api/names.ts';
import { SSH_PROVIDER } from '../../api/ssh.ts';
import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Verdict } from '../../defender/request.ts';
import { CLUSTER_SCOPE, machineSetScope, poolScope, rackScope, zoneScope } from '../../defender/scopes.ts';

/** What is read of a MachineComponentSet. */
export interface SetFacts {
  name: string;
  /** Condition Halted is True, or spec.paused: nothing forward of it begins. */
  stopped: 'Halted' | 'Paused' | undefined;
  maxUnavailable?: CountOrPercent | undefined;
  pools?: readonly string[] | undefined;
  selector?: Record<string, string> | undefined;
}

/** The jobs of a machine, by its UID, that are not finished. */
export type JobsOf = (machineUID: string) => readonly RemedyOperationJob[];

/** What besides the Machine decides whether it may ask. */
export interface AskFacts {
  nowMs: number;
  /** Of this term. A mark of another term has no effect until the leader of this one has confirmed it. Absent: no mark has. */
  epoch?: number;
  /** By UID. */
  sets: ReadonlyMap<string, SetFacts>;
  freezes: readonly Pick<Freeze, 'metadata' | 'spec'>[];
  policies: readonly Pick<DefenderPolicy, 'metadata' | 'spec'>[];
  jobsOf: JobsOf;
  /** Whether its provider can turn it off and on. */
  canPowerCycle: (machine: Machine) => boolean;
  /** The agent's Lease is fresh. Nothing is reserved for a machine whose agent would not take the order. */
  agentAnswers: boolean;
}

const DEFAULT_DRAIN_SECONDS = 600;
const DEFAULT_OPERATION_SECONDS = 900;

export const drainTimeoutMs = (machine: Machine): number => (machine.spec.drainTimeoutSeconds ?? DEFAULT_DRAIN_SECONDS) * 1000;
export const operationTimeoutMs = (machine: Machine): number => (machine.spec.operationTimeoutSeconds ?? DEFAULT_OPERATION_SECONDS) * 1000;

export const poolOf = (machine: Machine): string => machine.metadata.namespace ?? '';
export const nameOf = (machine: Machine): string => `${poolOf(machine)}/${machine.metadata.name}`;
export const isDeleting = (machine: Machine): boolean => machine.metadata.deletionTimestamp !== undefined;
/** It is deleted and to be left as it is. A deletion that was ordered goes on as one: what it began cannot be taken back. */
export const isGivenBack = (machine: Machine): boolean =>
  isDeleting(machine) && machine.spec.deletionPolicy === 'Orphan' && machine.spec.operation?.kind !== 'Delete';
/**
 * Its agent recorded that it leaves, and then the policy was changed: no deletion can be carried out there any more (docs/protocols.md#c14). A person who confirms that
 * the machine is off needs no agent.
 */
export const hasNoAgent = (machine: Machine): boolean =>
  isDeleting(machine) &&
  machine.status?.agent?.leaving === true &&
  machine.spec.provider?.name === SSH_PROVIDER &&
  machine.spec.deletionPolicy !== 'Orphan' &&
  machine.spec.operation?.kind !== 'Delete' &&
  machine.metadata.annotations?.[ANNOTATIONS.machineIsOff] === undefined;
/** Why no deletion is to begin, or go on before its order, on a machine that is deleted. */
export function deletionEnds(machine: Machine): string | undefined {
  if (isGivenBack(machine)) return 'the machine is to be given back, which disrupts nothing';
  return hasNoAgent(machine) ? 'its agent has left, and can carry out no deletion' : undefined;
}
/** Its MachineSet wants it gone, and marked it in this term. */
export const isRetiring = (machine: Machine, { epoch }: Pick<AskFacts, 'epoch'>): boolean =>
  machine.spec.retire !== undefined && machine.spec.retire.epoch === epoch && !isDeleting(machine);

/** Its Node was Ready once. Its phase counts too: the machine may have run before `firstReadyAt` was recorded. */
export const wasReady = ({ status }: Machine): boolean => status?.firstReadyAt !== undefined || status?.phase === 'Running';

/** Its status names no instance, no Node and no agent. */
export const isUnjoined = ({ status }: Machine): boolean =>
  status?.providerID === undefined && status?.nodeRef === undefined && status?.agent === undefined;

/**
 * Proof by the Machine's own record that no provider was ever asked for its instance: the admission of its agent is recorded there first, and that record
 * is never removed.
 */
export const isNeverAskedFor = (machine: Machine): boolean => isUnjoined(machine) && machine.status?.bootstrap === undefined;

export const hasFinalizer = (machine: Machine): boolean => (machine.metadata.finalizers ?? []).includes(FINALIZERS.machine);

/** A MachineSet makes another one when it goes. */
export const isReplaceable = (machine: Machine): boolean =>
  machine.metadata.ownerReferences?.some((owner) => owner.kind === 'MachineSet' && owner.controller === true) === true;

/** An enforced rule is due here, or its repair has not helped yet: pods must not be put back. */
export const isRepairNeeded = (machine: Machine): boolean =>
  machine.status?.conditions?.some(({ type, status }) => type === MACHINE_CONDITIONS.repairNeeded && status === 'True') === true;

export const refused = (limit: string, wouldPassWhen: string): Verdict => ({ allowed: false, limit, wouldPassWhen });

/** What refuses every request: a human holds the machine, so that nothing new starts here. */
export function heldBy(machine: Machine): Verdict | undefined {
  if (machine.spec.hold === true) return refused('Machine/hold', 'spec.hold is no longer true');
  if (machine.status?.agent?.hold === true) return refused('Node/hold', '/etc/kubenode/hold on the node is removed');
  return undefined;
}

export const labelsOf = (machine: Machine): Record<string, string> => ({ ...machine.spec.labels, ...machine.metadata.labels });

/** The scopes of a machine for every kind of operation. */
export function baseScopes(machine: Machine): string[] {
  const pool = poolOf(machine);
  const { [LABELS.machineSet]: set, [LABELS.zone]: zone, [LABELS.rack]: rack } = labelsOf(machine);
  return [
    CLUSTER_SCOPE,
    poolScope(pool),
    ...(set === undefined ? [] : [machineSetScope(pool, set)]),
    ...(zone === undefined ? [] : [zoneScope(zone)]),
    ...(rack === undefined ? [] : [rackScope(rack)]),
  ];
}

/** What every request of a machine contains about it. */
export function requestBase(machine: Machine) {
  return {
    machineUID: machine.metadata.uid ?? '',
    machine: nameOf(machine),
    nodeUID: machine.status?.nodeRef?.uid,
    labels: labelsOf(machine),
    lastDisruptionMs: lastDisruptionMs(machine),
  };
}

function lastDisruptionMs(machine: Machine): number | undefined {
  const ms = Date.parse(machine.status?.lastDisruption ?? '');
  return Number.isNaN(ms) ? undefined : ms;
}
