import type { RemedyOperationJob } from '../../api/remedy-operation-job.ts';
import type { Stored } from '../../api/wire.ts';

/** Jobs without an order that something better shall replace, and what. Derived again each time their machine is reconciled. */
export interface Superseded {
  /** Why this job of this machine is superseded; undefined: it is not. */
  why(machineUID: string, jobUID: string): string | undefined;
  /** Replaces what is known of a machine. `verdict`: undefined where none of its jobs is superseded. True where that is new for the job. */
  note(machineUID: string, verdict: { job: Stored<RemedyOperationJob>; why: string } | undefined): boolean;
  forget(machineUID: string): void;
}

export function createSuperseded(): Superseded {
  /** By machine: at most one job of it is open before its order. */
  const known = new Map<string, { jobUID: string; why: string }>();
  return {
    why(machineUID, jobUID) {
      const verdict = known.get(machineUID);
      return verdict?.jobUID === jobUID ? verdict.why : undefined;
    },
    note(machineUID, verdict) {
      const before = known.get(machineUID);
      if (verdict === undefined) {
        known.delete(machineUID);
        return false;
      }
      const { uid } = verdict.job.metadata;
      known.set(machineUID, { jobUID: uid, why: verdict.why });
      return before?.jobUID !== uid;
    },
    forget: (machineUID) => void known.delete(machineUID),
  };
}
