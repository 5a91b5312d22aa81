/** How the operations of a machine stop the clocks of its rules (docs/protocols.md#f2). Pure, save for what it remembers of past observations. */
import type { LedgerReservation } from '../../api/disruption-ledger.ts';
import type { Machine } from '../../api/machine.ts';
import { isFinished, type RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { ClockPause } from '../../rules/snapshot.ts';

export interface ClockInput {
  machine: Machine;
  reservation: LedgerReservation | undefined;
  /** All of this machine. */
  jobs: readonly RemedyOperationJob[];
}

/** Whether the node may have been touched by now. */
export function isOrdered({ status }: Pick<RemedyOperationJob, 'status'>): boolean {
  return status?.orderedAt !== undefined || status?.phase === 'Running' || status?.phase === 'Verifying';
}

/**
 * A reservation stops the clocks of the machine from its first step. The reservation of a job stops them only from its order: until then a stronger rule may replace it
 * (docs/protocols.md#f6), and the clocks must show whether the fault is still there. A reservation whose job has ended does not stop them.
 */
export function isPaused({ machine, reservation, jobs }: ClockInput): boolean {
  if (reservation === undefined || reservation.kind === 'Delete') return false;
  if (reservation.kind === 'Change') return true;
  const job = jobs.find((each) => each.metadata.uid === reservation.requesterUID);
  if (job === undefined || isFinished(job)) return false;
  const order = machine.spec.operation;
  return isOrdered(job) || (order?.id === reservation.id && order.kind !== 'Cancelled');
}

/** When the last disruption that is over ended, as objects record it; a disruption under way has not. */
export function releasedAt({ machine, reservation, jobs }: ClockInput): string | undefined {
  const lastDisruption = machine.status?.lastDisruption;
  const ends = jobs.flatMap(({ status }) => (status?.operationID === undefined ? [] : (status.finishedAt ?? [])));
  const times = [...ends, ...(lastDisruption === undefined || lastDisruption === reservation?.since ? [] : [lastDisruption])];
  return times.length === 0 ? undefined : times.reduce((a, b) => (Date.parse(b) > Date.parse(a) ? b : a));
}

interface Past {
  paused: boolean;
  /** What `releasedAt` gave, and what was made of it. */
  recorded: string | undefined;
  releasedAtMs: number | undefined;
}

export interface ClockPauses {
  of(machineUID: string, input: ClockInput, nowMs: number): ClockPause;
  forget(machineUID: string): void;
}

export function createClockPauses(): ClockPauses {
  const pasts = new Map<string, Past>();
  return {
    of(machineUID, input, nowMs) {
      const past = pasts.get(machineUID);
      const paused = isPaused(input);
      const recorded = releasedAt(input);
      let releasedAtMs = past?.releasedAtMs;
      // A clock that was ahead when it wrote this must not stop ours until we have caught up.
      if (recorded !== undefined && recorded !== past?.recorded)
        releasedAtMs = Math.max(releasedAtMs ?? 0, Math.min(Date.parse(recorded), nowMs));
      if (past?.paused === true && !paused) releasedAtMs = nowMs;
      if (paused || releasedAtMs !== undefined) pasts.set(machineUID, { paused, recorded, releasedAtMs });
      return { paused, releasedAtMs };
    },
    forget: (machineUID) => void pasts.delete(machineUID),
  };
}
