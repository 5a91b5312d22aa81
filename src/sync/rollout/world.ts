import type { UnitStatus } from '../../api/cluster.ts';
import type { Rollout } from '../../api/rollout.ts';

/** What the hub sees of one unit's top-level object in a cell. */
export type LiveUnit =
  /** Not observed: the cell is away, or its cache is not synced. Says nothing. */
  | { state: 'Unknown' }
  | { state: 'Absent' }
  | {
      state: 'Present';
      /** `spec.unitDigest` of the live object. */
      unitDigest: string | undefined;
      /** The live object differs from what was applied under the recorded digest. */
      drifted: boolean;
      /** The kind's own rule holds for this digest and generation (PROTOCOLS E2). */
      evidence: boolean;
      /** Why the cell halted it, for the digest it carries now. */
      halted: string | undefined;
      ceiling: { unitDigest: string; nodes: number } | undefined;
      /** `3/4`, to read. */
      progress: string | undefined;
      /** A repair rule whose rehearsal is over well: it waits to be enforced. */
      rehearsed?: boolean;
      /** Time alone may change what is said here: look again then, ms. */
      againAt?: number | undefined;
    };

export interface ClusterView {
  name: string;
  /** Why nothing can be done there now; undefined when it can. */
  blocked: string | undefined;
  /** What the hub recorded, by unit. */
  units: ReadonlyMap<string, UnitStatus>;
  live(unit: string): LiveUnit;
  /** Why the last try at this unit failed, while the next one is not due. */
  failing(unit: string): string | undefined;
}

/** Everything that the decision about the rollouts of one fleet needs, in one plain value. */
export interface World {
  now: number;
  fleet: string;
  /** Of this fleet, by ascending sequence. */
  rollouts: readonly Rollout[];
  clusters: ReadonlyMap<string, ClusterView>;
}

export type Step =
  /** Apply the unit's objects. `proven`: the digest was verified there, so that a repair rule need not be rehearsed. */
  | {
      do: 'Apply';
      unit: string;
      cluster: string;
      digest: string;
      commit: string;
      lane: 'Forward' | 'Restore';
      proven: boolean;
      because: string;
    }
  | { do: 'Remove'; unit: string; cluster: string; commit: string; because: string }
  | { do: 'RecordEvidence'; unit: string; cluster: string; digest: string; commit: string; because: string }
  /** On every cluster that has the unit. */
  | { do: 'Revoke'; unit: string; cluster: string; digest: string; because: string }
  | { do: 'Reinstate'; unit: string; cluster: string; digest: string; because: string }
  | { do: 'Ceiling'; unit: string; cluster: string; ceiling: { unitDigest: string; nodes: number } | undefined; because: string }
  | { do: 'TryAgain'; unit: string; cluster: string; rolloutID: string; because: string };
