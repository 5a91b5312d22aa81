/** What a RemedyOperationJob asks of its machine, what may be ordered for it, and what ended it. Pure. */
import { needsDrain, needsOperation, type Disruption } from '../../../api/disruption.ts';
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine } from '../../../api/machine.ts';
import { ANNOTATIONS, API_LEVEL } from '../../../api/names.ts';
import { ACTION_TRAITS, strengthOf, type RepairOperation } from '../../../api/node-remedier/values.ts';
import { isFinished, type RemedyOperationJob } from '../../../api/remedy-operation-job.ts';
import { endOf, isControllerOperation, isUnderWay, operationState, reportedEnd } from '../../../api/machine/operation-end.ts';
import { frozenBy, frozenVerdict } from '../../../defender/freeze.ts';
import type { Request, Verdict } from '../../../defender/request.ts';
import { conditionScope, isTopology } from '../../../defender/scopes.ts';
import {
  baseScopes,
  drainTimeoutMs,
  heldBy,
  isRepairNeeded,
  isReplaceable,
  operationTimeoutMs,
  poolOf,
  refused,
  requestBase,
  type AskFacts,
  type JobsOf,
} from '../facts.ts';
import { jobRequester } from '../reservation/requester.ts';

/**
 * Whether a job may wait for a reservation, by what it shows itself: it is neither over nor to be given up. One that was not reconciled yet asks as
 * well, so that its reservation need not wait for that. Where the reconciliation ends it at once, the reservation is one whose job is finished.
 */
export function mayWaitForReservation({ spec, status }: RemedyOperationJob): boolean {
  if (spec.action === 'Human' || spec.mode === 'Shadow' || status?.cancelling !== undefined) return false;
  return status?.phase === undefined || status.phase === 'Pending' || status.phase === 'Granted';
}

/** Whether a job waits for a reservation: it has none, and is neither over nor to be given up. */
function asks(job: RemedyOperationJob, machine: Machine): boolean {
  if (!mayWaitForReservation(job)) return false;
  const { phase, operationID } = job.status ?? {};
  if (phase !== 'Granted') return true;
  // The ledger lacks its reservation, and there is no trace of it here: it was neither ordered nor cancelled.
  return operationID !== undefined && machine.spec.operation?.id !== operationID;
}

/** The job that asks for this machine: of several the one of the highest priority, then the strongest (docs/protocols.md#f6). */
export function askingJob(machine: Machine, jobsOf: JobsOf): RemedyOperationJob | undefined {
  return jobsOf(machine.metadata.uid ?? '')
    .filter((job) => asks(job, machine))
    .toSorted(
      (a, b) =>
        b.spec.priority - a.spec.priority ||
        strengthOf(b.spec.action) - strengthOf(a.spec.action) ||
        ((a.metadata.uid ?? '') < (b.metadata.uid ?? '') ? -1 : 1),
    )[0];
}

/** The job that has this reservation; undefined once it is finished or gone. Then it records the outcome of the reservation. */
export function jobOfReservation(reservation: LedgerReservation, { jobsOf }: Pick<AskFacts, 'jobsOf'>): RemedyOperationJob | undefined {
  return jobsOf(reservation.machineUID).find((job) => job.metadata.uid === reservation.requesterUID && !isFinished(job));
}

/** By what operation a job is carried out now; undefined while neither its agent nor its provider could do it. */
function operationFor(job: RemedyOperationJob, machine: Machine, facts: AskFacts): RepairOperation | undefined {
  switch (job.spec.action) {
    case 'MigratePods':
    case 'Replace':
      return job.spec.action;
    case 'CleanDisk':
    case 'RestartComponent':
      return facts.agentAnswers ? job.spec.action : undefined;
    case 'Reboot':
      return facts.agentAnswers ? 'Reboot' : facts.canPowerCycle(machine) ? 'PowerCycle' : undefined;
    case 'Human':
      return undefined;
    default:
      job.spec.action satisfies never;
      return undefined;
  }
}

const disruptionOf = (action: string | undefined): Disruption => {
  if (action === 'PowerCycle') return ACTION_TRAITS.Reboot.disruption;
  return Object.entries(ACTION_TRAITS).find(([each]) => each === action)?.[1].disruption ?? 'Reboot';
};

/** A machine that nothing would replace is not drained for it: the order only serves to report that. */
const isFutile = (job: RemedyOperationJob, machine: Machine): boolean => job.spec.action === 'Replace' && !isReplaceable(machine);

export const wantsCordon = (job: RemedyOperationJob, machine: Machine): boolean =>
  needsOperation(disruptionOf(job.spec.action)) && !isFutile(job, machine);

/** Before the order; MigratePods is itself the drain. */
export const wantsDrainFirst = (job: RemedyOperationJob, machine: Machine): boolean =>
  needsDrain(disruptionOf(job.spec.action)) && job.spec.action !== 'MigratePods' && !isFutile(job, machine);

/** Why this job may not begin now, before any limit is checked. Applies to its reservation while that has no order, too (docs/protocols.md#d6). */
export function repairRefusal(job: RemedyOperationJob, machine: Machine, facts: AskFacts): Verdict | undefined {
  const held = heldBy(machine);
  if (held !== undefined) return held;
  const freeze = frozenBy(facts.freezes, 'Repair', poolOf(machine));
  if (freeze !== undefined) return frozenVerdict(freeze);
  if (ACTION_TRAITS[job.spec.action].by === 'Agent' && (machine.status?.agent?.apiLevel ?? API_LEVEL) < API_LEVEL)
    return refused('Agent/apiLevel', `the agent understands level ${API_LEVEL}`);
  return undefined;
}

/** What a Repair reservation of this job records of itself. */
export function repairRequest(job: RemedyOperationJob, machine: Machine): Omit<Request, 'since'> {
  const { action, healedWhen } = job.spec;
  return {
    ...requestBase(machine),
    kind: 'Repair',
    class: 'Repair',
    ...jobRequester(job),
    action,
    scopes: [...baseScopes(machine), conditionScope(healedWhen.condition)],
    mustBeginWithinMs: (wantsDrainFirst(job, machine) ? drainTimeoutMs(machine) : 0) + operationTimeoutMs(machine),
  };
}

export type RepairAsk =
  | { state: 'Nothing' }
  | { state: 'Refused'; verdict: Verdict }
  | { state: 'Asks'; request: Omit<Request, 'since'>; components: [] };

export function askRepair(machine: Machine, facts: AskFacts): RepairAsk {
  const job = askingJob(machine, facts.jobsOf);
  if (job === undefined) return { state: 'Nothing' };
  const refusal = repairRefusal(job, machine, facts);
  if (refusal !== undefined) return { state: 'Refused', verdict: refusal };
  if (operationFor(job, machine, facts) === undefined) {
    const or = job.spec.action === 'Reboot' ? ', or its provider can cycle its power' : '';
    return { state: 'Refused', verdict: refused('Agent/heartbeat', `the agent's Lease is renewed again${or}`) };
  }
  return { state: 'Asks', request: repairRequest(job, machine), components: [] };
}

/** What to order for a reservation, or why nothing is ordered yet. */
export function repairOrder(
  reservation: LedgerReservation,
  machine: Machine,
  facts: AskFacts,
): { action: RepairOperation; args: Record<string, unknown> | undefined } | { waitsFor: 'RemedyJob' | 'Agent'; why: string } {
  const job = jobOfReservation(reservation, facts);
  if (job === undefined) return { waitsFor: 'RemedyJob', why: 'the job is over' };
  const { phase, operationID, before, cancelling } = job.status ?? {};
  // Recovery is judged against the state of the node before the order. Without that no repair could be proven.
  if (phase !== 'Granted' || operationID !== reservation.id || before === undefined || cancelling !== undefined)
    return { waitsFor: 'RemedyJob', why: 'the job has not noted its reservation and what the node is like before the repair' };
  const refusal = repairRefusal(job, machine, facts);
  if (refusal !== undefined) return { waitsFor: 'RemedyJob', why: `${refusal.limit ?? ''} stops it` };
  const action = operationFor(job, machine, facts);
  if (action === undefined) return { waitsFor: 'Agent', why: 'an agent that does not renew its Lease gets no order' };
  return { action, args: job.spec.args };
}

/**
 * Whether a leader may have asked the provider to change the power of the machine for this reservation's operation, or may be about to ask. The leader notes
 * that on the Machine first, by the order of a power cycle or by `cutsPower`.
 */
export function mayAskForPower(reservation: Pick<LedgerReservation, 'id'>, machine: Machine): boolean {
  const { operation } = machine.spec;
  const { repair } = machine.status ?? {};
  if (operation?.id !== reservation.id || repair?.id !== reservation.id || reportedEnd(machine, reservation.id) !== undefined) return false;
  return operation.action === 'PowerCycle' || repair.cutsPower === true;
}

/** Whether pods must stay away though the operation is over: the rule is still due, and the pods were taken away or the operation failed. */
export function staysCordoned(machine: Machine): boolean {
  const found = operationState(machine);
  if (found.state !== 'Ended' || found.order.kind !== 'Repair' || !isRepairNeeded(machine)) return false;
  return needsDrain(disruptionOf(found.order.action)) || found.outcome !== 'Succeeded';
}

/**
 * Whether the operation that this reservation took over from a stale agent may still go on: its order is on the Machine, and no report shows its end. Once
 * false it stays false, since only an order of this reservation replaces such an order.
 */
export function isSucceeding(reservation: Pick<LedgerReservation, 'succeeds'>, machine: Machine): boolean {
  return reservation.succeeds !== undefined && isUnderWay(machine, reservation.succeeds);
}

/** docs/protocols.md#c9: whether this reservation gets no order any more. Every order of it that may still arrive is conditioned on a Machine from before. */
export const isOrderFenced = (reservation: Pick<LedgerReservation, 'id'>, machine: Machine): boolean =>
  machine.metadata.annotations?.[ANNOTATIONS.orderFence] === reservation.id;

/**
 * docs/protocols.md#c9: the job whose repair may take over a reservation that waits for an agent. The provider carries out that repair, the agent is stale, and its
 * order can no longer begin. The same is true for a reservation that took over before, and did not succeed in its time.
 */
export function successorOf(reservation: LedgerReservation, machine: Machine, facts: AskFacts): RemedyOperationJob | undefined {
  const order = machine.spec.operation;
  if (reservation.kind === 'Delete' || order === undefined || order.kind === 'Cancelled' || isControllerOperation(order.action))
    return undefined;
  if (order.id !== reservation.id && order.id !== reservation.succeeds) return undefined;
  if (facts.agentAnswers || !(facts.nowMs > Date.parse(reservation.notAfter)) || endOf(machine) !== undefined) return undefined;
  const job = askingJob(machine, facts.jobsOf);
  if (job === undefined || job.metadata.uid === reservation.requesterUID || repairRefusal(job, machine, facts) !== undefined)
    return undefined;
  const operation = operationFor(job, machine, facts);
  return operation === 'PowerCycle' || operation === 'Replace' ? job : undefined;
}

/** What a Repair reservation of this job records of itself where it takes over this one: it is where that was. */
export function successionRequest(job: RemedyOperationJob, machine: Machine, reservation: LedgerReservation): Omit<Request, 'since'> {
  const request = repairRequest(job, machine);
  const topology = reservation.scopes.filter(isTopology);
  return { ...request, scopes: [...new Set([...request.scopes, ...topology])] };
}
