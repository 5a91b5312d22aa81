/** Taking the pods off a node. Pure. */
import type { LedgerReservation } from '../../../api/disruption-ledger.ts';
import type { Machine, Operation } from '../../../api/machine.ts';
import type { Cancellation } from '../order/cancel.ts';
import { drainTimeoutMs } from '../facts.ts';
import type { Decision, DrainedPod, MachineView, Step } from '../view.ts';

/** Evictions in one run; the others follow. A pod whose eviction is refused must not keep the next ones waiting. */
const EVICTIONS_AT_ONCE = 20;

export const drainDeadlineMs = (reservation: LedgerReservation, machine: Machine): number =>
  Date.parse(reservation.since) + drainTimeoutMs(machine);

export const podsLeft = (pods: readonly DrainedPod[]): string =>
  `${pods.length} pod${pods.length === 1 ? ' is' : 's are'} still on the node`;

/** Evicts the pods that are not terminating yet, and waits for the rest. `graceSeconds`: instead of what the pods have themselves. */
export function evicting(view: MachineView, reservation: LedgerReservation, untilMs: number, graceSeconds?: number): Decision {
  const pods = view.pods ?? [];
  const why = podsLeft(pods);
  const steps = pods
    .filter((pod) => !pod.terminating)
    .slice(0, EVICTIONS_AT_ONCE)
    .map((pod): Step => ({ do: 'Evict', reservation, pod, why, ...(graceSeconds === undefined ? {} : { graceSeconds }) }));
  return { steps, waits: { for: 'Pods', why, untilMs } };
}

/** Why a reservation is given up whose pods did not go by `deadlineMs`. */
export function drainTimeout(machine: Machine, deadlineMs: number): Cancellation {
  const left = `pods were left at ${new Date(deadlineMs).toISOString()}`;
  return { cause: 'DrainTimeout', why: [left, obstacleTo(machine)].filter(Boolean).join('; ') };
}

export const isDrainTimeout = (operation: Operation | undefined): boolean =>
  operation?.kind === 'Cancelled' && operation.cause === 'DrainTimeout';

/** What keeps the pods, as it was last found; empty where nothing is known. */
export function obstacleTo(machine: Machine): string {
  const drained = machine.status?.conditions?.find(({ type }) => type === 'Drained');
  return drained?.status === 'False' ? drained.message : '';
}
