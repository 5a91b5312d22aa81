import type { UnitStatus } from '../../api/cluster.ts';
import type { Rollout } from '../../api/rollout.ts';
import type { Over, SeenHalt } from '../records.ts';

/** What the hub sees of one unit's top-level object in a cell. */
export type LiveUnit =
  /** Not observed: the cell is away, or its kind is not watched, so nothing is known. `syncs`: its store has not synced yet, and is about to. */
  | { state: 'Unknown'; syncs?: true }
  | { state: 'Absent' }
  | {
      state: 'Present';
      /** `spec.unitDigest` of the live object. */
      unitDigest: string | undefined;
      /** The live object differs from what was applied under the recorded digest. */
      drifted: boolean;
      /** The hub wrote this digest there, and neither a record nor a Rollout has it: the hub is older than what it reads (docs/protocols.md#e17). */
      unknown?: boolean;
      /** When what is there was begun, as the object has it. */
      writtenAt?: string | undefined;
      /** A user deleted what was applied and made another of its name, which bears the label of no other Fleet. */
      notOurs?: boolean;
      /** The kind's own rule is met for this digest and generation (docs/protocols.md#e2). */
      evidence: boolean;
      /** Why the cell halted it, for the digest it carries now. */
      halted: string | undefined;
      /** The cell refuses it for a reason that may pass there without another try. */
      refused?: boolean | undefined;
      /** `spec.rolloutID` of a component set: the retry that it has seen. */
      rolloutID?: string | undefined;
      ceiling: { unitDigest: string; nodes: number } | undefined;
      resourceVersion?: string | undefined;
      /** Of the object that all this is about; undefined for kinds that are not watched. */
      carrier?: Carrier | undefined;
      /** `3/4`, to read. */
      progress: string | undefined;
      /** As many machines as a MachineSet is to have; Infinity where its cell reports a number that no set can have. */
      machines?: number;
      /** As many machines as a MachineSet has, without those that go already for a number of the hub. */
      has?: number;
      /** The largest number of a MachineSet by what is on record, also as begun, and by what is there; undefined: not known, or one has none. */
      given?: number | undefined;
      /** A MachineSet has a number of the hub, for which machines are made or go. */
      numbered?: boolean;
      /** A set that is to have no machines and has some still; as a text of how many. */
      emptying?: string;
      /** Machines of a set go for this number, which the hub gave it, and the newest Rollout wants more of them. */
      losesTo?: number;
      /** A repair rule whose rehearsal is over well: it waits to be enforced. */
      rehearsed?: boolean;
      /** What a person set there that Git does not give and that stays. */
      byHand?: string;
      /** Why it could not be compared with what was applied: `drifted` has no meaning then. */
      lost?: string | undefined;
      /** Time alone may change what stands here: decide again then, ms. */
      againAt?: number | undefined;
    };

/** One state of an object's spec. */
export interface Carrier {
  uid: string;
  generation: number | undefined;
}

export interface ClusterView {
  name: string;
  /** Why nothing can be done there now; undefined when it can. */
  blocked: string | undefined;
  /** When the Cluster was made; its records are not older. */
  createdAt?: string | undefined;
  /** What the hub recorded, by unit. */
  units: ReadonlyMap<string, UnitStatus>;
  live(unit: string): LiveUnit;
  /** Why the last try at this unit failed, while the next one is not due. */
  failing(unit: string): string | undefined;
  /** Why what was changed of this unit is not put back yet: it is changed again each time. */
  contested?(unit: string): string | undefined;
}

/** Everything that the decision about the rollouts of one fleet needs, in one plain value. */
export interface World {
  now: number;
  fleet: string;
  /** Names of all Fleets that there are, to read; undefined where that is not known. */
  fleets?: ReadonlySet<string> | undefined;
  /** Clusters that the accepted commit declares; undefined where that is not known. */
  members: ReadonlySet<string> | undefined;
  /** Of this fleet and in force, by ascending sequence. */
  rollouts: readonly Rollout[];
  clusters: ReadonlyMap<string, ClusterView>;
}

/** What a write of a field was decided from: the record, and the object as it was. */
interface Seen {
  over: Over;
  resourceVersion: string | undefined;
}

interface On {
  unit: string;
  cluster: string;
  because: string;
}

export type Step =
  /** Apply the unit's objects. `asked`: a retry of the digest from before it came here, which has nothing to do here. `proven`: the digest was verified there, so that a repair rule need not be rehearsed. */
  | ({
      do: 'Apply';
      digest: string;
      commit: string;
      lane: 'Forward' | 'Restore';
      proven: boolean;
      over: Over;
      asked: string | undefined;
      revoked: boolean;
      /** The object is in the cell already, so it does not come there with this. */
      found: boolean;
      /** A MachineSet that has more machines stays as it is. */
      atMost?: number | undefined;
      /** As `LiveUnit` has it. */
      given?: number | undefined;
      /** When what is there was begun: what is begun now is later. */
      writtenAt?: string | undefined;
    } & On)
  /** `lane`: Restore where it takes back what was just added. */
  | ({
      do: 'Remove';
      commit: string;
      lane: 'Forward' | 'Restore';
      over: Over;
      atMost?: number | undefined;
      given?: number | undefined;
      writtenAt?: string | undefined;
    } & On)
  /** `appliedAt`: of the record, when the evidence was seen. `carrier`: what it was seen on, which must be there still. */
  | ({ do: 'RecordEvidence'; digest: string; commit: string; appliedAt: string | undefined; carrier: Carrier | undefined } & On)
  /** The soak of what is there, or of a removal (`REMOVAL`), begins again: since when is not known. */
  | ({ do: 'SoakAgain'; digest: string } & On)
  /** What came or went here is complete everywhere, and has soaked. `since`: of its record. */
  | ({ do: 'Settle'; since: string } & On)
  /** On every cluster that has the unit. Ends `retry` there. */
  | ({ do: 'Revoke'; digest: string; retry: string | undefined } & On)
  /** Other clusters go back from this digest; this one has it verified and wants it. */
  | ({ do: 'Uphold'; digest: string } & On)
  | ({ do: 'Reinstate'; digest: string; retry: string } & On)
  /** `over`: the retry that was carried out here before. `lifts`: also the halt. */
  | ({ do: 'RecordRetry'; retry: string; over: string | undefined; lifts: boolean } & On)
  /** A halt that was not recorded yet. */
  | ({ do: 'RecordHalt'; digest: string; halt: SeenHalt } & On)
  /** A halt is over that a cluster recorded which the fleet does not declare any more. */
  | ({ do: 'Lift'; digest: string; since: string } & On)
  | ({ do: 'Ceiling'; ceiling: { unitDigest: string; nodes: number } | undefined; seen: Seen } & On)
  | ({ do: 'TryAgain'; rolloutID: string; seen: Seen } & On)
  /** Takes the number out of a set whose machines go, or are made, for it. `digest`: what is wanted of it (`REMOVAL`: nothing), and may have begun meanwhile. */
  | ({ do: 'KeepMachines'; digest: string; seen: Seen } & On);

export function writesIntoCell({ do: what }: Step): boolean {
  return what === 'Apply' || what === 'Remove' || what === 'Ceiling' || what === 'TryAgain' || what === 'KeepMachines';
}

/** What asks its cell, or writes there. All else is recorded on the hub alone. */
export function needsCell(step: Step): boolean {
  return writesIntoCell(step) || step.do === 'RecordEvidence';
}

/** Whether it is decided on what the hub's API server has, since stores may be late: what writes into a cell, and what ends a retry or a halt (docs/protocols.md#e14). */
export function needsCurrent(step: Step): boolean {
  return writesIntoCell(step) || step.do === 'Lift' || step.do === 'RecordRetry';
}
